// SPDX-License-Identifier: Apache-2.0
// Few query rows of the tuned attention kernel: the product has tokens as rows and heads as
// columns, 8 at a time, so that a ratio of 4 leaves half of a matrix empty and not three quarters.
//
// Model:   S^T = K Q^T and O^T = V^T P^T. Every warp has all of the block's rows and its own tokens
//          of each stage. Lane l has, of a group of 8 rows, rows 2(l%4) and +1; of 16 tokens,
//          tokens l / 4 and l / 4 + 8, and of 16 columns of V the same. P^T is S^T's registers,
//          transposed in the warp. The maximum is shared between lanes only when one of them found
//          a higher.
#pragma once

#include "kernels/attention/mma_output.cuh"

namespace kvproof::kernels {

/// Running softmax of a lane's rows of each group; its part of the sums.
template <class Tile, int kGroups>
struct FewState {
  static constexpr int kParts = Tile::kHeadSize / 16;
  float out[kGroups][kParts][4] = {};
  float highest[kGroups][2];  // [log2] the same in all lanes that have the row
  float sum[kGroups][2] = {};

  __device__ FewState() {
    KVPROOF_UNROLL
    for (auto& group : highest) group[0] = group[1] = -INFINITY;
  }
};

/// What a lane knows of its rows of each group.
template <int kGroups>
struct FewRows {
  LaneRows groups[kGroups];
  std::int32_t all_begin = 0, all_end = 0x7FFFFFFF;  // what every row sees
};

template <class Tile, int kGroups>
__device__ inline FewRows<kGroups> few_rows(const AttentionParams<PagedKv>& p,
                                            const BlockRows& rows, const float* factors) {
  FewRows<kGroups> out;
  KVPROOF_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const int first = 8 * g + static_cast<int>(threadIdx.x) % 4 * 2;
    const LaneRows mine = lane_rows<Tile>(p, rows, factors, first, 1);
    if (mine.all_begin > out.all_begin) out.all_begin = mine.all_begin;
    if (mine.all_end < out.all_end) out.all_end = mine.all_end;
    out.groups[g] = mine;
  }
  return out;
}

/// The query of each group as the second matrix of a product: in registers, or read again and again
/// where these are short.
template <class Tile, int kGroups>
struct FewQuery {
  static constexpr bool kStays = Tile::kHeadSize > 128;
  static constexpr int kParts = Tile::kHeadSize / 32;  // of 32 columns
  struct Part {
    std::uint32_t words[4];
  };
  const unsigned char* shared;
  int start;  // of this lane's row of the first group
  Part parts[kStays ? 1 : kGroups][kStays ? 1 : kParts];

  __device__ explicit FewQuery(const unsigned char* from) : shared(from) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    start = query_at<Tile>(lane % 8, lane / 8);
    if constexpr (!kStays) {
      KVPROOF_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        KVPROOF_UNROLL
        for (int n = 0; n < kParts; ++n) parts[g][n] = load(g, n);
      }
    }
  }
  __device__ Part load(int group, int n) const {
    Part out;
    load_tiles(out.words, shared + chunk_ahead(start, 4 * n) + group * 16 * Tile::kHeadSize);
    return out;
  }
  __device__ Part part(int group, int n) const {
    if constexpr (kStays) return load(group, n);
    return parts[group][n];
  }
};

/// scores += key . query^T for 16 tokens from row `first`.
template <class Tile, int kGroups>
__device__ inline void multiply_few_keys(float (&scores)[kGroups][4],
                                         const FewQuery<Tile, kGroups>& query,
                                         const unsigned char* keys, int first) {
  using Element = typename Tile::Element;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int start = Tile::at(first + lane % 16, lane / 16);
  constexpr int kSteps = Tile::kFp8 ? 2 : 1;  // of 16 elements, in two chunks of K
  KVPROOF_UNROLL
  for (int n = 0; n < Tile::kHeadSize / 32; ++n) {  // 32 elements
    std::uint32_t words[2][4];
    KVPROOF_UNROLL
    for (int i = 0; i < 2 / kSteps; ++i) {
      load_tiles(words[i], keys + chunk_ahead(start, 4 / kSteps * n + 2 * i));
    }
    typename FewQuery<Tile, kGroups>::Part parts[kGroups];
    KVPROOF_UNROLL
    for (int g = 0; g < kGroups; ++g) parts[g] = query.part(g, n);
    KVPROOF_UNROLL
    for (int i = 0; i < 2; ++i) {
      std::uint32_t a[4];
      KVPROOF_UNROLL
      for (int w = 0; w < 4; ++w) {  // of e4m3, a chunk is a step; lower bytes come first
        a[w] = Tile::kFp8 ? widen_two(words[0][2 * i + w % 2] >> (w / 2 * 16)) : words[i][w];
      }
      KVPROOF_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        const std::uint32_t b[2] = {parts[g].words[2 * i], parts[g].words[2 * i + 1]};
        multiply_add<Element>(scores[g], a, b);
      }
    }
  }
}

/// out += value^T . weights^T for 16 tokens from row `first`.
template <class Tile, int kGroups>
__device__ inline void multiply_few_values(FewState<Tile, kGroups>& state,
                                           const std::uint32_t (&weights)[kGroups][2],
                                           const unsigned char* values, int first) {
  using Element = typename Tile::Element;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int token = first + lane / 16 * 8 + lane % 8;
  const int start = Tile::at(token, lane / 8 % 2);
  KVPROOF_UNROLL
  for (int pair = 0; pair < Tile::kChunks / 2; ++pair) {
    std::uint32_t words[4];
    load_tiles_transposed(words, values + chunk_ahead(start, 2 * pair));
    if constexpr (Tile::kFp8) {
      KVPROOF_UNROLL
      for (int i = 0; i < 2; ++i) {
        const std::uint32_t early = words[i], late = words[2 + i];
        const std::uint32_t a[4] = {widen_every_other<0>(early), widen_every_other<1>(early),
                                    widen_every_other<0>(late), widen_every_other<1>(late)};
        KVPROOF_UNROLL
        for (int g = 0; g < kGroups; ++g) {
          multiply_add<Element>(state.out[g][2 * pair + i], a, weights[g]);
        }
      }
    } else {
      KVPROOF_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        multiply_add<Element>(state.out[g][pair], words, weights[g]);
      }
    }
  }
}

/// Products -> scores; -infinity where a row does not see the token.
template <int kParts, int kGroups>
__device__ inline void limit_few_scores(float (&scores)[kParts][kGroups][4],
                                        const FewRows<kGroups>& rows, bool is_capped,
                                        std::int32_t token) {
  const auto for_each = [&](const auto& change) {
    KVPROOF_UNROLL
    for (int n = 0; n < kParts; ++n) {
      KVPROOF_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        KVPROOF_UNROLL
        for (int i = 0; i < 4; ++i) change(scores[n][g][i], 16 * n + i / 2 * 8, g, i % 2);
      }
    }
  };
  if (is_capped) {
    for_each(
        [&](float& score, int, int g, int r) { score = tanhf(score * rows.groups[g].inner[r]); });
  }
  if (token >= rows.all_begin && token + 16 * kParts <= rows.all_end) return;
  const std::int32_t first = token + static_cast<std::int32_t>(threadIdx.x) % 32 / 4;
  for_each([&](float& score, int behind, int g, int r) {
    const LaneRows& mine = rows.groups[g];
    const bool seen = first + behind >= mine.begin[r] && first + behind < mine.end[r];
    if (!seen) score = -INFINITY;
  });
}

/// Brings what was summed to the highest score that any lane found.
template <class Tile, int kGroups>
__device__ inline void raise_few(FewState<Tile, kGroups>& state, float (&highest)[kGroups][2]) {
  KVPROOF_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    float rescale[2];
    KVPROOF_UNROLL
    for (int r = 0; r < 2; ++r) {
      float most = fmaxf(state.highest[g][r], highest[g][r]);
      KVPROOF_UNROLL
      for (int step = 4; step < 32; step *= 2) most = fmaxf(most, KVPROOF_SHUFFLE_XOR(most, step));
      rescale[r] = most == -INFINITY ? 1 : exp2_flushed(state.highest[g][r] - most);
      state.highest[g][r] = most;
      state.sum[g][r] *= rescale[r];
    }
    KVPROOF_UNROLL
    for (auto& part : state.out[g]) {
      KVPROOF_UNROLL
      for (int i = 0; i < 4; ++i) part[i] *= rescale[i % 2];
    }
  }
}

/// Scores -> weights.
template <class Tile, int kParts, int kGroups>
__device__ inline void soften_few_scores(float (&scores)[kParts][kGroups][4],
                                         FewState<Tile, kGroups>& state,
                                         const FewRows<kGroups>& rows) {
  float highest[kGroups][2];
  bool is_higher = false;
  KVPROOF_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    KVPROOF_UNROLL
    for (int r = 0; r < 2; ++r) {
      float most = -INFINITY;
      KVPROOF_UNROLL
      for (int n = 0; n < kParts; ++n) {
        most = fmaxf(most, fmaxf(scores[n][g][r], scores[n][g][2 + r]));
      }
      highest[g][r] = most * rows.groups[g].scale[r];
      is_higher = is_higher || highest[g][r] > state.highest[g][r];
    }
  }
  if (KVPROOF_BALLOT(is_higher) != 0) raise_few(state, highest);
  KVPROOF_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    KVPROOF_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float found = state.highest[g][i % 2];
      const float base = found == -INFINITY ? 0 : found;  // 0: the row has seen no token yet
      KVPROOF_UNROLL
      for (int n = 0; n < kParts; ++n) {
        float& score = scores[n][g][i];
        score = exp2_flushed(fmaf(score, rows.groups[g].scale[i % 2], -base));
        state.sum[g][i % 2] += score;
      }
    }
  }
}

/// Adds the warp's tokens of a stage, the first of them at position `token`.
template <class Tile, int kGroups>
__device__ inline void attend_few(FewState<Tile, kGroups>& state,
                                  const FewQuery<Tile, kGroups>& query,
                                  const FewRows<kGroups>& rows, bool is_capped,
                                  const unsigned char* stage, int first, std::int32_t token) {
  using Element = typename Tile::Element;
  constexpr int kParts = Tile::kWarpRows / 16;
  float scores[kParts][kGroups][4] = {};
  KVPROOF_UNROLL
  for (int n = 0; n < kParts; ++n) {
    multiply_few_keys<Tile, kGroups>(scores[n], query, stage, first + 16 * n);
  }
  limit_few_scores(scores, rows, is_capped, token);
  soften_few_scores<Tile>(scores, state, rows);
  KVPROOF_UNROLL
  for (int n = 0; n < kParts; ++n) {
    std::uint32_t weights[kGroups][2];
    KVPROOF_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const float(&of)[4] = scores[n][g];
      weights[g][0] = transpose_tile(pack_two<Element>(of[0], of[1]));
      weights[g][1] = transpose_tile(pack_two<Element>(of[2], of[3]));
    }
    multiply_few_values(state, weights, stage + Tile::kValueAt, first + 16 * n);
  }
}

/// The warp's maxima and sums, where the other warps see them.
template <class Tile, int kGroups>
__device__ inline void store_sums(FewState<Tile, kGroups>& state, float* sums) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  KVPROOF_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    KVPROOF_UNROLL
    for (int r = 0; r < 2; ++r) {
      float& sum = state.sum[g][r];
      for (int step = 4; step < 32; step *= 2) sum += KVPROOF_SHUFFLE_XOR(sum, step);
      if (lane >= 4) continue;
      float* const mine = sums + 2 * (warp * 16 + 8 * g + 2 * lane + r);
      mine[0] = state.highest[g][r];
      mine[1] = sum;
    }
  }
}

/// The warp's outputs, brought to the highest maximum of all warps.
template <class Tile, int kGroups>
__device__ inline void store_outputs(const FewState<Tile, kGroups>& state, const float* sums,
                                     float* outputs) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  KVPROOF_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    KVPROOF_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = 8 * g + lane % 4 * 2 + r;
      float highest = -INFINITY;
      for (int w = 0; w < kMmaGroups; ++w) highest = fmaxf(highest, sums[2 * (w * 16 + row)]);
      const float factor = highest == -INFINITY ? 0 : exp2_flushed(state.highest[g][r] - highest);
      float* const to = outputs + (warp * 16 + row) * Tile::kValueSize;
      KVPROOF_UNROLL
      for (int n = 0; n < Tile::kValueSize / 16; ++n) {
        KVPROOF_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int column = Tile::kFp8 ? lane / 4 * 2 + half : lane / 4 + 8 * half;
          to[16 * n + column] = state.out[g][n][2 * half + r] * factor;
        }
      }
    }
  }
}

}  // namespace kvproof::kernels
