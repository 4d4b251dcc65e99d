// SPDX-License-Identifier: Apache-2.0
// One block per row of the output: any type and layout element by element, or 16 bytes at a time.
#include <cstdint>

#include "kernels/gather_cache/gather_cache.h"
#include "kernels/simt/cuda.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

constexpr int kThreads = 128;

/// Where a token lies in the cache.
struct Place {
  std::int64_t block;
  std::int32_t token;
};

__device__ inline Place place_of(const GatherCacheParams& p, std::int64_t row) {
  const std::int32_t seq = sequence_of_row(p, row);
  const std::int64_t first = p.first_positions == nullptr ? 0 : p.first_positions[seq];
  const std::int64_t position = first + row - p.starts[seq];
  const std::int32_t size = p.layout.block_size;
  const std::int32_t* entry = p.block_tables + seq * p.table_stride + position / size;
  return {*entry, static_cast<std::int32_t>(position % size)};
}

/// Element offset of a head's row in the cache.
__device__ inline std::int64_t row_in(const GatherCacheParams& p, Place place, std::int32_t head) {
  return p.layout.row(place.block, place.token, head);
}

__device__ inline void gather_element(const GatherCacheParams& p, std::int64_t from,
                                      std::int64_t to) {
  const std::int32_t bytes = bytes_of(p.type);
  if (p.cache_type != p.type) {
    store_element(p.out, to, p.type, load_element(p.cache, from, p.cache_type) * p.scale);
  } else if (bytes == 4) {
    static_cast<std::uint32_t*>(p.out)[to] = static_cast<const std::uint32_t*>(p.cache)[from];
  } else if (bytes == 2) {
    static_cast<std::uint16_t*>(p.out)[to] = static_cast<const std::uint16_t*>(p.cache)[from];
  } else {
    static_cast<std::uint8_t*>(p.out)[to] = static_cast<const std::uint8_t*>(p.cache)[from];
  }
}

/// Whether the row's block was given back, and its zeros are written.
__device__ inline bool wrote_zeros(const GatherCacheParams& p, Place place, std::int64_t row) {
  if (place.block >= 0) return false;
  const std::int64_t bytes = std::int64_t{p.num_heads} * p.head_size * bytes_of(p.type);
  auto* to = static_cast<char*>(p.out) + row * bytes;
  for (std::int64_t i = threadIdx.x; i < bytes; i += kThreads) to[i] = 0;
  return true;
}

__global__ void __launch_bounds__(kThreads) gather_cache_kernel(const GatherCacheParams p) {
  const std::int64_t row = blockIdx.x;
  const Place place = place_of(p, row);
  if (wrote_zeros(p, place, row)) return;
  const std::int32_t size = p.num_heads * p.head_size;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < size; i += kThreads) {
    gather_element(p, row_in(p, place, i / p.head_size) + i % p.head_size, row * size + i);
  }
}

/// Moves the bits unchanged: one move in, one out.
struct MoveBits {
  static constexpr int kMovesOut = 1;
  __device__ static void convert(const Bytes16& in, float, Bytes16 (&out)[1]) { out[0] = in; }
};

/// 16 elements of fp8 into 16 of 16 bits.
template <class From, class To>
struct Dequantise {
  static constexpr int kMovesOut = 2;
  __device__ static void convert(const Bytes16& in, float scale, Bytes16 (&out)[2]) {
    for (int word = 0; word < 8; ++word) {
      std::uint32_t pair = 0;
      for (int i = 0; i < 2; ++i) {
        const int element = 2 * word + i;
        const From from{static_cast<std::uint8_t>(in.words[element / 4] >> (8 * (element % 4)))};
        pair |= std::uint32_t{from_float<To>(to_float(from) * scale).bits} << (16 * i);
      }
      out[word / 4].words[word % 4] = pair;
    }
  }
};

template <class How>
__global__ void __launch_bounds__(kThreads) gather_cache_vector_kernel(const GatherCacheParams p) {
  const std::int64_t row = blockIdx.x;
  const Place place = place_of(p, row);
  if (wrote_zeros(p, place, row)) return;
  const std::int32_t bytes = bytes_of(p.cache_type);
  const std::int32_t of_head = p.head_size * bytes / 16;  // chunks of the cache
  const std::int32_t size = p.num_heads * of_head;
  auto* to = static_cast<char*>(p.out) + row * p.num_heads * p.head_size * bytes_of(p.type);
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < size; i += kThreads) {
    const std::int64_t from = row_in(p, place, i / of_head) * bytes + i % of_head * 16;
    const Bytes16 in = load16(static_cast<const char*>(p.cache) + from);
    Bytes16 out[How::kMovesOut];
    How::convert(in, p.scale, out);
    for (int part = 0; part < How::kMovesOut; ++part) {
      store16(to + (std::int64_t{i} * How::kMovesOut + part) * 16, out[part]);
    }
  }
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }
bool aligned(std::int64_t elements, ElementType type) {
  return elements * bytes_of(type) % 16 == 0;
}

Refusal refuse_vector(const GatherCacheParams& p) {
  if (!aligned(p.head_size, p.cache_type)) {
    return {"head_size: a row of the cache is no multiple of 16 bytes"};
  }
  if (!aligned(p.cache) || !aligned(p.out)) return {"cache, out: not aligned to 16 bytes"};
  if (!aligned(p.layout.block_stride, p.cache_type) ||
      !aligned(p.layout.token_stride, p.cache_type) ||
      !aligned(p.layout.head_stride, p.cache_type)) {
    return {"strides: no multiples of 16 bytes"};
  }
  return {};
}

Refusal refuse_launch(const GatherCacheParams& p) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (p.num_tokens > 0x7FFFFFFF) return {"num_tokens: a CUDA grid has no room for 2^31"};
  return {};
}

Dim3 grid_of(const GatherCacheParams& p) { return Dim3{static_cast<unsigned>(p.num_tokens), 1, 1}; }

template <class How>
Refusal launch_vector(const GatherCacheParams& p, const Context& context) {
  KVPROOF_LAUNCH(gather_cache_vector_kernel<How>, grid_of(p), (Dim3{kThreads, 1, 1}), 0, context,
                 p);
  return {};
}

template <class From>
Refusal launch_dequantise(const GatherCacheParams& p, const Context& context) {
  if (p.type == ElementType::bf16) return launch_vector<Dequantise<From, Bf16>>(p, context);
  return launch_vector<Dequantise<From, Fp16>>(p, context);
}

}  // namespace

Refusal gather_cache_cuda(const GatherCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse_launch(p)) return refusal;
  if (p.num_tokens == 0) return {};
  KVPROOF_LAUNCH(gather_cache_kernel, grid_of(p), (Dim3{kThreads, 1, 1}), 0, context, p);
  return {};
}

Refusal gather_cache_vector(const GatherCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse_launch(p)) return refusal;
  if (p.num_tokens == 0) return {};
  if (p.cache_type != p.type && p.type == ElementType::fp32) {
    return {"type: fp8 is widened to fp32 by the general kernel"};
  }
  if (const Refusal refusal = refuse_vector(p)) return refusal;
  if (p.cache_type == p.type) return launch_vector<MoveBits>(p, context);
  if (p.cache_type == ElementType::fp8_e4m3) return launch_dequantise<Fp8E4M3>(p, context);
  return launch_dequantise<Fp8E5M2>(p, context);
}

}  // namespace kvproof::kernels
