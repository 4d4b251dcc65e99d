// SPDX-License-Identifier: Apache-2.0
// From the sums of the tuned attention kernel's warps to the output of a block's rows.
#pragma once

#include "kernels/attention/mma_rows.cuh"

namespace kvproof::kernels {

/// Running softmax of a lane's rows l / 4 and l / 4 + 8; its part of the sums.
template <class Tile>
struct MmaState {
  float out[Tile::kWarpValues / 8][4] = {};   // of its columns
  float highest[2] = {-INFINITY, -INFINITY};  // [log2]
  float sum[2] = {0, 0};
};

/// The warp's maxima and sums, where the other warps see them. Warps that differ only in columns
/// have the same.
template <class Tile>
__device__ inline void store_sums(MmaState<Tile>& state, float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    state.sum[r] += KVPROOF_SHUFFLE_XOR(state.sum[r], 1);
    state.sum[r] += KVPROOF_SHUFFLE_XOR(state.sum[r], 2);
    if (lane % 4 != 0 || warp >= kMmaGroups) continue;
    float* const mine = sums + 2 * (warp * 16 + lane / 4 + 8 * r);
    mine[0] = state.highest[r];
    mine[1] = state.sum[r];
  }
}

/// The warp's outputs, brought to the highest maximum of those that share its rows.
template <class Tile, bool kManyRows>
__device__ inline void store_outputs(const MmaState<Tile>& state, const float* sums,
                                     float* outputs) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = warp % kMmaGroups, first_column = warp / kMmaGroups * Tile::kWarpValues;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
    float factor = 1;
    if constexpr (!kManyRows) {
      float highest = -INFINITY;
      for (int w = 0; w < kMmaGroups; ++w) highest = fmaxf(highest, sums[2 * (w * 16 + row)]);
      factor = highest == -INFINITY ? 0 : exp2f(state.highest[r] - highest);
    }
    KVPROOF_UNROLL
    for (int n = 0; n < Tile::kWarpValues / 8; ++n) {
      KVPROOF_UNROLL
      for (int i = 0; i < 2; ++i) {
        outputs[(group * 16 + row) * Tile::kValueSize + first_column + column_of<Tile>(n, i)] =
            state.out[n][2 * r + i] * factor;
      }
    }
  }
}

/// What a row's output is multiplied by, and its log-sum-exp: written to `end`.
template <bool kManyRows>
__device__ inline void end_row(const float* sums, int row, float value_scale, float* end) {
  constexpr float kLn2 = 0.6931471805599453F;
  float highest = sums[2 * row], sum = sums[2 * row + 1];
  if constexpr (!kManyRows) {
    for (int w = 1; w < kMmaGroups; ++w) highest = fmaxf(highest, sums[2 * (w * 16 + row)]);
    sum = 0;
    for (int w = 0; w < kMmaGroups && highest != -INFINITY; ++w) {
      const float* const of_warp = sums + 2 * (w * 16 + row);
      sum += of_warp[1] * exp2f(of_warp[0] - highest);
    }
  }
  end[0] = sum == 0 ? 0 : value_scale / sum;
  end[1] = sum == 0 ? -INFINITY : highest * kLn2 + logf(sum);
}

/// @pre every warp has left the stages
template <class Tile, bool kManyRows, int kRows>
__device__ inline void write_rows(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                  MmaState<Tile>& state, const MmaMemory<Tile, kRows>& memory) {
  store_sums(state, memory.sums());
  KVPROOF_BARRIER();  // every warp's sums are there
  store_outputs<Tile, kManyRows>(state, memory.sums(), memory.outputs());
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kRows) {
    end_row<kManyRows>(memory.sums(), thread, p.shape.value_scale, memory.ends() + 2 * thread);
  }
  KVPROOF_BARRIER();  // every warp's outputs are there
  constexpr int kSize = Tile::kValueSize;
  const auto split = static_cast<std::int64_t>(blockIdx.y);
  for (int i = thread; i < rows.count * kSize; i += 32 * Tile::kWarps) {
    const int row = i / kSize, column = i % kSize;
    float value = memory.outputs()[i];
    if constexpr (!kManyRows) {
      for (int w = 1; w < kMmaGroups; ++w) value += memory.outputs()[w * 16 * kSize + i];
    }
    value *= memory.ends()[2 * row];
    const std::int64_t token = rows.token(row), head = rows.head(row);
    const std::int64_t part = (token * p.shape.num_heads + head) * p.num_splits + split;
    if (p.num_splits > 1) {
      p.split_output[part * kSize + column] = value;
      if (column == 0) p.split_lse[part] = memory.ends()[2 * row + 1];
    } else {
      store_element(p.output, token * p.output_token_stride + head * p.output_head_stride + column,
                    p.shape.type, value);
      if (column == 0 && p.log_sum_exp != nullptr) {
        p.log_sum_exp[token * p.lse_token_stride + head * p.lse_head_stride] =
            memory.ends()[2 * row + 1];
      }
    }
  }
}

}  // namespace kvproof::kernels
