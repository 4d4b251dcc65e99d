// SPDX-License-Identifier: Apache-2.0
// The CPU's side of python_calls.h, and the ceilings that stand beside it, as C functions.
#include <array>
#include <span>

#include "bench/kernels/ceilings.h"
#include "bench/kernels/device/python_calls.h"

namespace kvproof::bench {
namespace {

using kernels::attention_cpu_avx2;
using kernels::attention_cpu_avx512_bf16;
using kernels::attention_cpu_portable;
using kernels::PagedKv;

struct Way {
  const char* name;
  kernels::Refusal (*attend)(const kernels::AttentionParams<PagedKv>&, const kernels::Context&);
  MultiplyKernel products;
};
constexpr Way kWays[] = {
    {"avx512_bf16", &attention_cpu_avx512_bf16<PagedKv>, MultiplyKernel::avx512_bf16},
    {"avx2", &attention_cpu_avx2<PagedKv>, MultiplyKernel::avx2},
    {"portable", &attention_cpu_portable<PagedKv>, MultiplyKernel::plain}};

/// The best one that this processor runs.
const Way& way() {
  static const Way& best = []() -> const Way& {
    kernels::AttentionParams<PagedKv> nothing;
    nothing.shape.num_heads = nothing.shape.num_kv_heads = 1;
    nothing.shape.head_size = nothing.shape.value_head_size = 128;
    for (const Way& each : kWays) {
      if (!each.attend(nothing, {})) return each;
    }
    return kWays[std::size(kWays) - 1];
  }();
  return best;
}

}  // namespace

kernels::Refusal attend(const kernels::AttentionParams<PagedKv>& params, const char*, int threads) {
  return way().attend(params, {.num_threads = threads});
}

kernels::Refusal write(const kernels::ReshapeAndCacheParams& params, int threads) {
  return kernels::reshape_and_cache_stream(params, {.num_threads = threads});
}

}  // namespace kvproof::bench

extern "C" {

const char* kvproof_instructions() { return kvproof::bench::way().name; }

/// Reads K and V, two streams if side_by_side, by the `kernel`th of kReadKernels.
/// @param bytes of each @return their exclusive or
std::uint64_t kvproof_read(const void* key, const void* value, std::int64_t bytes,
                           std::int32_t side_by_side, std::int32_t kernel, std::int32_t threads) {
  using namespace kvproof::bench;
  const auto span = [bytes](const void* at) {
    return std::span(static_cast<const std::byte*>(at), static_cast<std::size_t>(bytes));
  };
  const std::array parts{span(key), span(value)};
  return read_all(parts, side_by_side != 0, kReadKernels[kernel], threads);
}

/// As many multiply-adds of one value, in registers.
void kvproof_multiply(std::int64_t count, std::int32_t threads) {
  using namespace kvproof::bench;
  multiply_all(way().products, static_cast<std::uint64_t>(count), threads);
}

}  // extern "C"
