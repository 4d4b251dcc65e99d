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
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
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

/// The warp's outputs. @param sums not needed: no other warp has its rows
template <class Tile>
__device__ inline void store_outputs(const MmaState<Tile>& state, const float* /*sums*/,
                                     float* outputs) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int group = warp % kMmaGroups, first_column = warp / kMmaGroups * Tile::kWarpValues;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    float* const to = outputs + (group * 16 + lane / 4 + 8 * r) * Tile::kValueSize + first_column;
    KVPROOF_UNROLL
    for (int n = 0; n < Tile::kWarpValues / 8; ++n) {
      KVPROOF_UNROLL
      for (int i = 0; i < 2; ++i) to[column_of<Tile>(n, i)] = state.out[n][2 * r + i];
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

/// Elements [column, column + 8) of a row's output, brought to its end; over all warps that share
/// the row.
template <class Tile, bool kManyRows>
__device__ inline void sum_columns(const float* outputs, int row, int column, float factor,
                                   float (&out)[8]) {
  KVPROOF_UNROLL
  for (int w = 0; w < (kManyRows ? 1 : kMmaGroups); ++w) {
    KVPROOF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int at = (w * 16 + row) * Tile::kValueSize + column + 4 * half;
      const Bytes16 four = load16(outputs + at);
      KVPROOF_UNROLL
      for (int i = 0; i < 4; ++i) {
        const auto value = as_bits<float>(four.words[i]);
        out[4 * half + i] = w == 0 ? value : out[4 * half + i] + value;
      }
    }
  }
  KVPROOF_UNROLL
  for (float& value : out) value *= factor;
}

/// Rounds eight elements to the output's type and writes them from element `at`.
template <class Tile>
__device__ inline void write_output(const AttentionParams<PagedKv>& p, std::int64_t at,
                                    const float (&values)[8], bool aligned) {
  Bytes16 out;
  KVPROOF_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float low = values[2 * i], high = values[2 * i + 1];
    if constexpr (!Tile::kFp8) {
      out.words[i] = pack_two<typename Tile::Element>(low, high);
    } else {
      out.words[i] =
          p.shape.type == ElementType::bf16 ? pack_two<Bf16>(low, high) : pack_two<Fp16>(low, high);
    }
  }
  auto* const to = static_cast<std::uint16_t*>(p.output) + at;
  if (aligned) return store16(to, out);
  KVPROOF_UNROLL
  for (int i = 0; i < 8; ++i)
    to[i] = static_cast<std::uint16_t>(out.words[i / 2] >> (16 * (i % 2)));
}

/// The same of a split, which stays fp32.
__device__ inline void write_split(float* to, const float (&values)[8], bool aligned) {
  KVPROOF_UNROLL
  for (int half = 0; half < 2; ++half) {
    Bytes16 four;
    KVPROOF_UNROLL
    for (int i = 0; i < 4; ++i) four.words[i] = as_bits<std::uint32_t>(values[4 * half + i]);
    if (aligned) {
      store16(to + 4 * half, four);
      continue;
    }
    KVPROOF_UNROLL
    for (int i = 0; i < 4; ++i) to[4 * half + i] = values[4 * half + i];
  }
}

/// Which lanes write a row: 8 elements each, again and again where a row has more.
template <class Tile>
struct MmaRowLanes {
  static constexpr int kColumns = Tile::kValueSize < 256 ? Tile::kValueSize : 256;
  static constexpr int kLanes = kColumns / 8;
  static constexpr int kRowsAtOnce = 32 * Tile::kWarps / kLanes;
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % kLanes * 8; }
};

/// @pre every warp has left the stages
template <class Tile, bool kManyRows, class State, int kRows>
__device__ inline void write_rows(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                  State& state, const MmaMemory<Tile, kRows>& memory) {
  using Lanes = MmaRowLanes<Tile>;
  store_sums(state, memory.sums());
  KVPROOF_BARRIER();  // every warp's sums are there
  store_outputs(state, memory.sums(), memory.outputs());
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kRows) {
    end_row<kManyRows>(memory.sums(), thread, p.shape.value_scale, memory.ends() + 2 * thread);
  }
  KVPROOF_BARRIER();  // every warp's outputs are there
  const bool split = p.num_splits > 1;
  const bool aligned =
      split ? rows_are_aligned(p.split_output, 0, 0)
            : rows_are_aligned(p.output, p.output_token_stride, p.output_head_stride);
  KVPROOF_ROLLED
  for (int row = Lanes::row(); row < rows.count; row += Lanes::kRowsAtOnce) {
    const std::int64_t token = rows.token(row), head = rows.head(row);
    const std::int64_t part =
        (token * p.shape.num_heads + head) * p.num_splits + static_cast<std::int64_t>(blockIdx.y);
    const std::int64_t to = token * p.output_token_stride + head * p.output_head_stride;
    const float* const end = memory.ends() + 2 * row;
    KVPROOF_UNROLL
    for (int done = 0; done < Tile::kValueSize; done += Lanes::kColumns) {
      const int column = done + Lanes::column();
      float values[8];
      sum_columns<Tile, kManyRows>(memory.outputs(), row, column, end[0], values);
      if (split) {
        write_split(p.split_output + part * Tile::kValueSize + column, values, aligned);
      } else {
        write_output<Tile>(p, to + column, values, aligned);
      }
    }
    if (Lanes::column() != 0) continue;
    if (split) {
      p.split_lse[part] = end[1];
    } else if (p.log_sum_exp != nullptr) {
      p.log_sum_exp[token * p.lse_token_stride + head * p.lse_head_stride] = end[1];
    }
  }
}

}  // namespace kvproof::kernels
