// SPDX-License-Identifier: Apache-2.0
// Merges the splits of an attention kernel: what every split saw, weighted by its sum.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/simt/cuda.h"
#include "kernels/typed.h"

namespace kvproof::kernels {

constexpr int kMergeThreads = 128;

/// Where the log-sum-exp of a query head goes.
template <class Kv>
__device__ inline std::int64_t lse_at(const AttentionParams<Kv>& p, std::int32_t token,
                                      std::int32_t head) {
  return token * p.lse_token_stride + head * p.lse_head_stride;
}

/// One block per (query token, head): the splits' outputs, weighted by their sums. A split that saw
/// nothing has a log-sum-exp of -infinity; its output was never written and is not read.
template <class Kv>
__global__ void __launch_bounds__(kMergeThreads) merge_splits_kernel(const AttentionParams<Kv> p) {
  const AttentionShape& s = p.shape;
  const auto token = static_cast<std::int32_t>(blockIdx.x);
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int64_t first = (std::int64_t{token} * s.num_heads + head) * p.num_splits;
  float highest = -INFINITY;
  for (int split = 0; split < p.num_splits; ++split) {
    highest = fmaxf(highest, p.split_lse[first + split]);
  }
  float sum = 0;
  for (int split = 0; split < p.num_splits; ++split) {
    const float lse = p.split_lse[first + split];
    if (lse != -INFINITY) sum += expf(lse - highest);
  }
  const bool is_some = sum > 0;
  for (int i = static_cast<int>(threadIdx.x); i < s.value_head_size; i += kMergeThreads) {
    float value = 0;
    for (int split = 0; split < p.num_splits; ++split) {
      const float lse = p.split_lse[first + split];
      if (lse == -INFINITY) continue;
      value += expf(lse - highest) * p.split_output[(first + split) * s.value_head_size + i];
    }
    const std::int64_t at = token * p.output_token_stride + head * p.output_head_stride;
    store_element(p.output, at + i, s.type, is_some ? value / sum : 0);
  }
  if (threadIdx.x == 0 && p.log_sum_exp != nullptr) {
    p.log_sum_exp[lse_at(p, token, head)] = sum > 0 ? highest + logf(sum) : -INFINITY;
  }
}

}  // namespace kvproof::kernels
