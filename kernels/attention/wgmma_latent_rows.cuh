// SPDX-License-Identifier: Apache-2.0
// Scores of the Hopper latent kernel become weights, and its sums an output.
//
// Model:   The maximum that a row's weights are relative to follows the true one only when that has
//          grown by a factor of more than 2^8: weights up to 256 are as exact, and the sums are
//          hardly ever rescaled. A row's sum is kept per lane until the end.
// Source:  Milakov and Gimelshein (arXiv:1805.02867).
#pragma once

#include <cmath>

#include "kernels/attention/merge_splits.cuh"
#include "kernels/attention/wgmma_latent_memory.cuh"
#include "kernels/attention/wgmma_softmax.cuh"

namespace kvproof::kernels {

/// Rows l / 4 and l / 4 + 8 of the warp's 16, by lane l.
struct LatentRow {
  float highest[2] = {-INFINITY, -INFINITY};  // of the scores, not scaled; of all lanes
  float sum[2] = {0, 0};                      // of the weights; of this lane
};

/// The lane's first row of the block's 64.
__device__ inline int latent_row() {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  return thread / 32 * 16 + thread % 32 / 4;
}

/// Scores at `seen` and beyond are no tokens' of the sequence.
__device__ __forceinline__ void hide_tail(float (&scores)[32], std::int32_t seen) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
  KVPROOF_UNROLL
  for (int i = 0; i < 32; ++i) {
    if (i / 4 * 8 + first + i % 2 >= seen) scores[i] = -INFINITY;
  }
}

/// Scores -> weights, powers of two. @param factor what the earlier sums must be multiplied by
__device__ __forceinline__ void soften_latent(float (&scores)[32], LatentRow& row,
                                              float (&factor)[2], float to_log2) {
  float highest[2], base[2];
  KVPROOF_UNROLL
  for (int h = 0; h < 2; ++h) {
    float most[4];
    KVPROOF_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int a = 4 * i + 2 * h;
      most[i] = fmaxf(fmaxf(scores[a], scores[a + 1]), fmaxf(scores[a + 16], scores[a + 17]));
    }
    highest[h] = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
  }
  KVPROOF_UNROLL
  for (int step = 1; step < 4; step *= 2) {
    const float other[2] = {KVPROOF_SHUFFLE_XOR(highest[0], step),
                            KVPROOF_SHUFFLE_XOR(highest[1], step)};
    highest[0] = fmaxf(highest[0], other[0]);
    highest[1] = fmaxf(highest[1], other[1]);
  }
  KVPROOF_UNROLL
  for (int h = 0; h < 2; ++h) {
    // Not at first, and not where no token was seen yet: both are -infinity.
    if ((highest[h] - row.highest[h]) * to_log2 <= 8.0F) highest[h] = row.highest[h];
    base[h] = highest[h] == -INFINITY ? 0.0F : highest[h] * to_log2;
    factor[h] =
        highest[h] == row.highest[h] ? 1.0F : exp2_flushed(fmaf(row.highest[h], to_log2, -base[h]));
    row.highest[h] = highest[h];
  }
  KVPROOF_UNROLL
  for (int i = 0; i < 32; ++i) {
    scores[i] = exp2_flushed(fmaf(scores[i], to_log2, -base[i / 2 % 2]));
  }
}

__device__ __forceinline__ void add_weights(const float (&weights)[32], LatentRow& row,
                                            const float (&factor)[2]) {
  KVPROOF_UNROLL
  for (int h = 0; h < 2; ++h) {
    float sum[4] = {row.sum[h] * factor[h], 0, 0, 0};
    KVPROOF_UNROLL
    for (int j = 0; j < 8; ++j) sum[j % 4] += weights[4 * j + 2 * h] + weights[4 * j + 2 * h + 1];
    row.sum[h] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
}

/// Where an accumulator's columns lie in scratch memory: of each 16, lane l % 4 has 2 (l % 4), +1,
/// +8 and +9, which lie behind each other.
KVPROOF_HOST_DEVICE constexpr int latent_scratch_column(int at) {
  return at / 16 * 16 + at % 16 / 4 * 2 + at % 4 / 2 * 8 + at % 2;
}

/// The end of a segment: `out`, the lane's part of 256 columns from column 256 * half, becomes the
/// output, or waits in scratch memory for the merge. @param lse natural
template <class T>
__device__ __forceinline__ void write_latents(const AttentionParams<PagedKv>& p,
                                              const LatentShare& share, std::int32_t head_tile,
                                              int half, const float (&out)[128],
                                              const float (&lse)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 4;
  const bool tells_lse = half == 0 && lane == 0;
  KVPROOF_UNROLL
  for (int h = 0; h < 2; ++h) {
    const std::int32_t head = head_tile * kLatentRows + latent_row() + 8 * h;
    if (head >= p.shape.num_heads) continue;
    if (p.num_splits == 1) {
      T* const to = static_cast<T*>(p.output) + share.seq * p.output_token_stride +
                    head * p.output_head_stride + half * 256 + lane * 2;
      KVPROOF_UNROLL
      for (int j = 0; j < 32; ++j) {
        const std::uint32_t both = pack_two<T>(out[4 * j + 2 * h], out[4 * j + 2 * h + 1]);
        *reinterpret_cast<std::uint32_t*>(to + 8 * j) = both;
      }
      if (tells_lse && p.log_sum_exp != nullptr) p.log_sum_exp[lse_at(p, share.seq, head)] = lse[h];
      continue;
    }
    const std::int64_t first = (std::int64_t{share.seq} * p.shape.num_heads + head) * p.num_splits;
    float* const to = p.split_output + (first + share.slot) * 512 + half * 256 + lane * 4;
    KVPROOF_UNROLL
    for (int j = 0; j < 16; ++j) {
      const float* const mine = out + 8 * j + 2 * h;
      store16(to + 16 * j, {as_bits<std::uint32_t>(mine[0]), as_bits<std::uint32_t>(mine[1]),
                            as_bits<std::uint32_t>(mine[4]), as_bits<std::uint32_t>(mine[5])});
    }
    if (!tells_lse) continue;
    p.split_lse[first + share.slot] = lse[h];
    if (share.slot != share.pieces - 1) continue;
    for (int slot = share.pieces; slot < p.num_splits; ++slot)
      p.split_lse[first + slot] = -INFINITY;
  }
}

}  // namespace kvproof::kernels
