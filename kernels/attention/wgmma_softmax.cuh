// SPDX-License-Identifier: Apache-2.0
// The prefill kernel for Hopper: scores in a thread's registers become weights.
//
// Model:   A thread has two rows, every fourth pair of columns. Their maxima are those of raw
//          scores, which are multiplied once, in the exponent: weight = 2^(score * factor - highest
//          * factor). Its part of a row's sum is added to the other three threads' at the end.
// Source:  Milakov and Gimelshein (arXiv:1805.02867); Dao, FlashAttention-2 (arXiv:2307.08691).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/simt/hopper.h"

namespace kvproof::kernels {

/// A thread's two rows.
struct SoftRows {
  std::int32_t begin[2], end[2];  // what they see; nothing, of a row there is none of
  float factor[2];                // of the scores, > 0; with a soft cap, of their tanh [log2]
  float in_cap[2];                // of the scores in the tanh
  float highest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
};

/// Scores that a row does not see become -infinity. @param token of the first column
template <int kCount>
__device__ inline void mask_scores(float (&scores)[kCount], const SoftRows& rows,
                                   std::int32_t token) {
  token += static_cast<std::int32_t>(threadIdx.x) % 4 * 2;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const std::int32_t begin = rows.begin[r] - token, end = rows.end[r] - token;
    KVPROOF_UNROLL
    for (int i = 0; i < kCount / 2; ++i) {
      const std::int32_t column = i / 2 * 8 + i % 2;
      float& score = scores[i / 2 * 4 + 2 * r + i % 2];
      score = column >= begin && column < end ? score : -INFINITY;
    }
  }
}

/// Scores -> weights. @return in `rescale` what earlier sums are multiplied by
template <bool kCapped, bool kMasked, int kCount>
__device__ inline void soften_rows(float (&scores)[kCount], SoftRows& rows, float (&rescale)[2],
                                   std::int32_t token) {
  if constexpr (kCapped) {
    KVPROOF_UNROLL
    for (int i = 0; i < kCount; ++i) scores[i] = tanhf(scores[i] * rows.in_cap[i / 2 % 2]);
  }
  if constexpr (kMasked) mask_scores(scores, rows, token);
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    float highest = rows.highest[r];
    KVPROOF_UNROLL
    for (int i = 0; i < kCount / 4; ++i) {
      highest = fmaxf(highest, fmaxf(scores[4 * i + 2 * r], scores[4 * i + 2 * r + 1]));
    }
    highest = fmaxf(highest, KVPROOF_SHUFFLE_XOR(highest, 1));
    highest = fmaxf(highest, KVPROOF_SHUFFLE_XOR(highest, 2));
    // The row has seen no token yet: any base gives weights of 0.
    const float base = kMasked && highest == -INFINITY ? 0 : highest * rows.factor[r];
    rescale[r] = exp2_flushed(fmaf(rows.highest[r], rows.factor[r], -base));
    rows.highest[r] = highest;
    float sums[2] = {rows.sum[r] * rescale[r], 0};
    KVPROOF_UNROLL
    for (int i = 0; i < kCount / 2; ++i) {
      float& score = scores[i / 2 * 4 + 2 * r + i % 2];
      score = exp2_flushed(fmaf(score, rows.factor[r], -base));
      sums[i % 2] += score;
    }
    rows.sum[r] = sums[0] + sums[1];
  }
}

template <int kCount>
__device__ inline void rescale_rows(float (&out)[kCount], const float (&by)[2]) {
  KVPROOF_UNROLL
  for (int i = 0; i < kCount; ++i) out[i] *= by[i / 2 % 2];
}

}  // namespace kvproof::kernels
