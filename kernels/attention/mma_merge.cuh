// SPDX-License-Identifier: Apache-2.0
// The merge of splits in the kernel that computes them: the block whose split of some rows is done
// last merges all of these rows' splits, while they lie in L2.
//
// Model:   Every block writes its split, fences, and counts itself at the counter of its rows. Who
//          finds all others counted fences too, so that it sees what they wrote, and sets the
//          counter back to zero for the next launch.
// Source:  CUDA C++ Programming Guide, memory fence functions, the example of a sum.
#pragma once

#include "kernels/attention/merge_splits.cuh"
#include "kernels/attention/mma_output.cuh"

namespace kvproof::kernels {

/// Counts this block's split as written. @return whether it is the last of `num_splits`; then the
/// block sees the others'. All threads of the block call it.
__device__ inline bool is_last_split(std::uint32_t* arrivals, std::int32_t num_splits) {
  KVPROOF_SHARED(std::uint32_t, others, 1);
  const auto all = static_cast<std::uint32_t>(num_splits);
  thread_fence();     // this thread's part of the split comes before the count
  KVPROOF_BARRIER();  // every thread's part does
  if (threadIdx.x == 0) {
    others[0] = atomic_add(arrivals, 1u);
    if (others[0] == all - 1) atomic_add(arrivals, 0u - all);
  }
  KVPROOF_BARRIER();  // the count is known
  const bool is_last = others[0] == all - 1;
  if (is_last) {
    thread_fence();  // what the others wrote is seen behind their counts
  }
  return is_last;
}

/// What each split of a block's rows weighs: to `weights`, shape [rows.count, num_splits]. Writes
/// the rows' log-sum-exp.
template <class Tile>
__device__ inline void weigh_splits(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                    float* weights) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  KVPROOF_ROLLED
  for (int row = warp; row < rows.count; row += Tile::kWarps) {
    const std::int32_t token = rows.token(row), head = rows.head(row);
    const float* const lse =
        p.split_lse + (std::int64_t{token} * p.shape.num_heads + head) * p.num_splits;
    float* const mine = weights + row * p.num_splits;
    float highest = -INFINITY, sum = 0;
    for (int s = lane; s < p.num_splits; s += 32) highest = fmaxf(highest, lse[s]);
    for (int step = 16; step > 0; step /= 2) {
      highest = fmaxf(highest, KVPROOF_SHUFFLE_XOR(highest, step));
    }
    for (int s = lane; s < p.num_splits; s += 32) {
      mine[s] = lse[s] == -INFINITY ? 0 : expf(lse[s] - highest);
      sum += mine[s];
    }
    for (int step = 16; step > 0; step /= 2) sum += KVPROOF_SHUFFLE_XOR(sum, step);
    for (int s = lane; s < p.num_splits; s += 32) mine[s] = sum > 0 ? mine[s] / sum : 0;
    if (lane == 0 && p.log_sum_exp != nullptr) {
      p.log_sum_exp[lse_at(p, token, head)] = sum > 0 ? highest + logf(sum) : -INFINITY;
    }
  }
}

/// Merges the splits of a block's rows. @param weights room for rows.count * num_splits
/// @pre is_last_split; split_output is aligned to 16 bytes
template <class Tile>
__device__ inline void merge_rows(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                  float* weights) {
  using Lanes = MmaRowLanes<Tile>;
  weigh_splits<Tile>(p, rows, weights);
  KVPROOF_BARRIER();  // the weights are there
  const bool aligned = rows_are_aligned(p.output, p.output_token_stride, p.output_head_stride);
  KVPROOF_ROLLED
  for (int row = Lanes::row(); row < rows.count; row += Lanes::kRowsAtOnce) {
    const std::int64_t token = rows.token(row), head = rows.head(row);
    const std::int64_t to = token * p.output_token_stride + head * p.output_head_stride;
    const float* const from = p.split_output + (token * p.shape.num_heads + head) * p.num_splits *
                                                   std::int64_t{Tile::kValueSize};
    KVPROOF_ROLLED
    for (int column = Lanes::column(); column < Tile::kValueSize; column += Lanes::kColumns) {
      float values[8] = {};
      KVPROOF_UNROLL_BY(4)
      for (int s = 0; s < p.num_splits; ++s) {
        const float weight = weights[row * p.num_splits + s];
        const Bytes16 low = load16(from + std::int64_t{s} * Tile::kValueSize + column);
        const Bytes16 high = load16(from + std::int64_t{s} * Tile::kValueSize + column + 4);
        if (weight == 0) continue;  // what saw nothing may be no number
        KVPROOF_UNROLL
        for (int i = 0; i < 4; ++i) {
          values[i] += weight * as_bits<float>(low.words[i]);
          values[4 + i] += weight * as_bits<float>(high.words[i]);
        }
      }
      write_output<Tile>(p, to + column, values, aligned);
    }
  }
}

}  // namespace kvproof::kernels
