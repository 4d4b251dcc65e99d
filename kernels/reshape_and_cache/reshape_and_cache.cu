// SPDX-License-Identifier: Apache-2.0
// One block per new token: any type and layout element by element, or 16 bytes at a time.
#include <cstdint>

#include "kernels/reshape_and_cache/reshape_and_cache.h"
#include "kernels/simt/cuda.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

constexpr int kThreads = 128;

/// Element offset of a row in the cache.
__device__ inline std::int64_t row_in(const CacheSide& side, SlotId slot, std::int32_t head) {
  return side.layout.row_of_slot(slot, head);
}

/// The slot of a token; below 0: nothing is written.
__device__ inline SlotId slot_of_token(const ReshapeAndCacheParams& p, std::int64_t token) {
  return p.slot_mapping[token];
}

__device__ inline bool is_written(SlotId slot) { return slot >= 0; }

__device__ inline void write_elements(const ReshapeAndCacheParams& p, const CacheSide& side,
                                      std::int64_t token, SlotId slot) {
  const std::int32_t size = p.num_heads * side.head_size;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < size; i += kThreads) {
    const std::int64_t from = token * side.token_stride + i;
    const std::int32_t head = i / side.head_size;
    const std::int64_t to = row_in(side, slot, head) + i % side.head_size;
    const std::int32_t bytes = bytes_of(p.type);
    if (p.cache_type != p.type) {
      store_element(side.cache, to, p.cache_type,
                    load_element(side.rows, from, p.type) / side.scale);
    } else if (bytes == 4) {
      static_cast<std::uint32_t*>(side.cache)[to] =
          static_cast<const std::uint32_t*>(side.rows)[from];
    } else {
      static_cast<std::uint16_t*>(side.cache)[to] =
          static_cast<const std::uint16_t*>(side.rows)[from];
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    reshape_and_cache_kernel(const ReshapeAndCacheParams p) {
  const std::int64_t token = blockIdx.x;
  const SlotId slot = slot_of_token(p, token);
  if (!is_written(slot)) return;
  write_elements(p, key_side(p), token, slot);
  write_elements(p, value_side(p), token, slot);
}

/// Moves the bits unchanged: one move in, one out.
struct MoveBits {
  static constexpr int kMovesIn = 1;
  __device__ static Bytes16 convert(const Bytes16 (&in)[1], float) { return in[0]; }
};

/// 16 elements of 16 bits into 16 of fp8.
template <class From, class To>
struct Quantise {
  static constexpr int kMovesIn = 2;
  __device__ static Bytes16 convert(const Bytes16 (&in)[2], float scale) {
    Bytes16 out;
    for (int word = 0; word < 4; ++word) {
      std::uint32_t bytes = 0;
      for (int i = 0; i < 4; ++i) {
        const int element = 4 * word + i;
        const std::uint32_t pair = in[element / 8].words[element % 8 / 2];
        const From from{static_cast<std::uint16_t>(pair >> (16 * (element % 2)))};
        bytes |= std::uint32_t{from_float<To>(to_float(from) / scale).bits} << (8 * i);
      }
      out.words[word] = bytes;
    }
    return out;
  }
};

/// The share of one thread in one side: 16 bytes of the cache.
template <class How>
struct Chunk {
  Bytes16 in[How::kMovesIn];

  __device__ void load(const CacheSide& side, std::int64_t row_bytes, std::int32_t index) {
    const auto* from = static_cast<const char*>(side.rows) + row_bytes;
    for (int i = 0; i < How::kMovesIn; ++i) {
      in[i] = load16(from + (std::int64_t{index} * How::kMovesIn + i) * 16);
    }
  }
  __device__ void store(const CacheSide& side, std::int64_t row, std::int32_t bytes,
                        std::int32_t offset) const {
    store16(static_cast<char*>(side.cache) + row * bytes + offset, How::convert(in, side.scale));
  }
};

template <class How>
__global__ void __launch_bounds__(kThreads)
    reshape_and_cache_vector_kernel(const ReshapeAndCacheParams p) {
  const std::int64_t token = blockIdx.x;
  const SlotId slot = slot_of_token(p, token);
  if (!is_written(slot)) return;
  const std::int32_t in_bytes = bytes_of(p.type), bytes = bytes_of(p.cache_type);
  const CacheSide key = key_side(p);
  const CacheSide value = value_side(p);
  const std::int32_t of_key = key.head_size * bytes / 16;  // chunks of a head
  const std::int32_t of_value = value.head_size * bytes / 16;
  const std::int32_t most = p.num_heads * (of_key > of_value ? of_key : of_value);
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < most; i += kThreads) {
    const bool has_key = i < p.num_heads * of_key, has_value = i < p.num_heads * of_value;
    Chunk<How> k, v;  // both on their way before either is written
    if (has_key) k.load(key, token * key.token_stride * in_bytes, i);
    if (has_value) v.load(value, token * value.token_stride * in_bytes, i);
    if (has_key) k.store(key, row_in(key, slot, i / of_key), bytes, i % of_key * 16);
    if (has_value) v.store(value, row_in(value, slot, i / of_value), bytes, i % of_value * 16);
  }
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }
bool aligned(std::int64_t elements, ElementType type) {
  return elements * bytes_of(type) % 16 == 0;
}

Refusal refuse_vector(const ReshapeAndCacheParams& p) {
  for (const CacheSide& side : {key_side(p), value_side(p)}) {
    if (!aligned(side.head_size, p.cache_type)) {
      return {"head_size: a row of the cache is no multiple of 16 bytes"};
    }
    if (!aligned(side.rows)) return {"key, value: not aligned to 16 bytes"};
    if (!aligned(side.cache)) {
      return {"key_cache, value_cache: not aligned to 16 bytes"};
    }
    const CacheLayout& layout = side.layout;
    if (!aligned(side.token_stride, p.type) || !aligned(layout.block_stride, p.cache_type) ||
        !aligned(layout.token_stride, p.cache_type) || !aligned(layout.head_stride, p.cache_type)) {
      return {"strides: no multiples of 16 bytes"};
    }
  }
  return {};
}

Refusal refuse_launch(const ReshapeAndCacheParams& p) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (p.num_tokens > 0x7FFFFFFF) return {"num_tokens: a CUDA grid has no room for 2^31"};
  return {};
}

Dim3 grid_of(const ReshapeAndCacheParams& p) {
  return Dim3{static_cast<unsigned>(p.num_tokens), 1, 1};
}

template <class How>
Refusal launch_vector(const ReshapeAndCacheParams& p, const Context& context) {
  KVPROOF_LAUNCH(reshape_and_cache_vector_kernel<How>, grid_of(p), (Dim3{kThreads, 1, 1}), 0,
                 context, p);
  return {};
}

template <class From>
Refusal launch_quantise(const ReshapeAndCacheParams& p, const Context& context) {
  if (p.cache_type == ElementType::fp8_e4m3) {
    return launch_vector<Quantise<From, Fp8E4M3>>(p, context);
  }
  return launch_vector<Quantise<From, Fp8E5M2>>(p, context);
}

}  // namespace

Refusal reshape_and_cache_cuda(const ReshapeAndCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse_launch(p)) return refusal;
  if (p.num_tokens == 0) return {};
  KVPROOF_LAUNCH(reshape_and_cache_kernel, grid_of(p), (Dim3{kThreads, 1, 1}), 0, context, p);
  return {};
}

Refusal reshape_and_cache_vector(const ReshapeAndCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse_launch(p)) return refusal;
  if (p.num_tokens == 0) return {};
  if (p.cache_type != p.type && p.type == ElementType::fp32) {
    return {"type: fp32 is quantised by the general kernel"};
  }
  if (const Refusal refusal = refuse_vector(p)) return refusal;
  if (p.cache_type == p.type) return launch_vector<MoveBits>(p, context);
  if (p.type == ElementType::bf16) return launch_quantise<Bf16>(p, context);
  return launch_quantise<Fp16>(p, context);
}

}  // namespace kvproof::kernels
