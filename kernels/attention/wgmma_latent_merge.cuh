// SPDX-License-Identifier: Apache-2.0
// Merges the pieces of the latent kernel for Hopper: merge_splits.cuh for rows of 512 values, with
// the loads of four pieces on their way at once.
#pragma once

#include <cmath>

#include "kernels/attention/wgmma_latent_rows.cuh"

namespace kvproof::kernels {

__device__ inline float most_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, KVPROOF_SHUFFLE_XOR(value, step));
  return value;
}
__device__ inline float sum_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value += KVPROOF_SHUFFLE_XOR(value, step);
  return value;
}

/// Adds four values of each of four pieces; those of weight zero are not read.
/// @param weight of piece `lane` @param pieces the first one's values
__device__ __forceinline__ void add_pieces(float (&sums)[4], float weight, int first,
                                           const float* pieces) {
  float weights[4];
  Bytes16 values[4];
  KVPROOF_UNROLL
  for (int n = 0; n < 4; ++n) weights[n] = KVPROOF_SHUFFLE(weight, first + n);
  KVPROOF_UNROLL
  for (int n = 0; n < 4; ++n) {
    values[n] = weights[n] == 0 ? Bytes16{} : load16(pieces + (first + n) * 512);
  }
  KVPROOF_UNROLL
  for (int i = 0; i < 16; ++i) {
    sums[i % 4] += weights[i / 4] * as_bits<float>(values[i / 4].words[i % 4]);
  }
}

/// One block per (query token, head); a thread has four values, a warp all weights.
/// @tparam T of the output
template <class T>
__global__ void __launch_bounds__(kMergeThreads)
    merge_latents_kernel(const AttentionParams<PagedKv> p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto token = static_cast<std::int32_t>(blockIdx.x);
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int64_t row = (std::int64_t{token} * p.shape.num_heads + head) * p.num_splits;
  const float* const lses = p.split_lse + row;
  const float* const pieces = p.split_output + row * 512 + 4 * static_cast<int>(threadIdx.x);
  float highest = -INFINITY;
  for (int n = lane; n < p.num_splits; n += 32) highest = fmaxf(highest, lses[n]);
  highest = most_of_warp(highest);
  float sum = 0, sums[4] = {};
  for (int first = 0; first < p.num_splits; first += 32) {
    const float lse = first + lane < p.num_splits ? lses[first + lane] : -INFINITY;
    const float weight = lse == -INFINITY ? 0.0F : expf(lse - highest);
    sum += weight;
    const int count = p.num_splits - first < 32 ? p.num_splits - first : 32;
    for (int n = 0; n < count; n += 4) {
      add_pieces(sums, weight, n, pieces + std::int64_t{first} * 512);
    }
  }
  sum = sum_of_warp(sum);
  const float factor = sum == 0 ? 0.0F : 1.0F / sum;
  T* const to = static_cast<T*>(p.output) + token * p.output_token_stride +
                head * p.output_head_stride +
                latent_scratch_column(4 * static_cast<int>(threadIdx.x));
  const auto store = [&](T* at, float low, float high) {
    *reinterpret_cast<std::uint32_t*>(at) = pack_two<T>(low * factor, high * factor);
  };
  store(to, sums[0], sums[1]);
  store(to + 8, sums[2], sums[3]);
  if (threadIdx.x == 0 && p.log_sum_exp != nullptr) {
    p.log_sum_exp[lse_at(p, token, head)] = sum == 0 ? -INFINITY : highest + logf(sum);
  }
}

}  // namespace kvproof::kernels
