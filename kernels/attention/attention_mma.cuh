// SPDX-License-Identifier: Apache-2.0
// The tuned attention kernel: 16-bit and e4m3 caches of head size 64, 128 or 256 on the warp matrix
// unit, K and V streamed through shared memory by asynchronous copies.
//
// Model:   A block serves 8, 16 or 64 rows of one sequence and KV head, a row being a query token
//          and a head of the group. Few rows (decode): every warp has all of them and its own
//          tokens of each stage, and the warps' sums are merged at the end (mma_few_rows.cuh). Many
//          rows (prefill): every warp has its own 16 and reads all tokens of the stage. Softmax is
//          kept in powers of two.
// Source:  Milakov and Gimelshein (arXiv:1805.02867); Dao, FlashAttention-2 (arXiv:2307.08691);
//          Ye et al., FlashInfer (arXiv:2501.01005), sec. 3.2, for rows of tokens and heads.
#pragma once

#include <cmath>

#include "kernels/attention/mma_few_rows.cuh"
#include "kernels/attention/mma_merge.cuh"

namespace kvproof::kernels {

/// -infinity where a row does not see the token.
template <int kParts>
__device__ inline void mask_scores(float (&scores)[kParts][4], const LaneRows& rows,
                                   std::int32_t first_token) {
  const std::int32_t token = first_token + static_cast<std::int32_t>(threadIdx.x) % 4 * 2;
  KVPROOF_UNROLL
  for (int n = 0; n < kParts; ++n) {
    KVPROOF_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::int32_t position = token + 8 * n + i % 2;
      const bool seen = position >= rows.begin[i / 2] && position < rows.end[i / 2];
      if (!seen) scores[n][i] = -INFINITY;
    }
  }
}

/// Scores -> weights; the earlier sums are rescaled to the new maximum.
template <class Tile, int kParts>
__device__ inline void soften_scores(float (&scores)[kParts][4], MmaState<Tile>& state,
                                     const LaneRows& rows) {
  float rescale[2];
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    float highest = -INFINITY;
    KVPROOF_UNROLL
    for (int n = 0; n < kParts; ++n) {
      highest = fmaxf(highest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    }
    highest = fmaxf(highest, KVPROOF_SHUFFLE_XOR(highest, 1));
    highest = fmaxf(highest, KVPROOF_SHUFFLE_XOR(highest, 2));
    highest = fmaxf(state.highest[r], highest * rows.scale[r]);
    const float base = highest == -INFINITY ? 0 : highest;  // 0: the row has seen no token yet
    rescale[r] = exp2_flushed(state.highest[r] - base);
    state.highest[r] = highest;
    state.sum[r] *= rescale[r];
    KVPROOF_UNROLL
    for (int n = 0; n < kParts; ++n) {
      KVPROOF_UNROLL
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        scores[n][i] = exp2_flushed(fmaf(scores[n][i], rows.scale[r], -base));
        state.sum[r] += scores[n][i];
      }
    }
  }
  KVPROOF_UNROLL
  for (auto& part : state.out) {
    KVPROOF_UNROLL
    for (int i = 0; i < 4; ++i) part[i] *= rescale[i / 2];
  }
}

/// Adds kCount tokens from row `first` of a stage, the first of them at position `token`.
template <class Tile, bool kSoftCap, int kCount, class Query>
__device__ inline void attend_tokens(MmaState<Tile>& state, const Query& query,
                                     const LaneRows& rows, const unsigned char* stage, int first,
                                     std::int32_t token) {
  const int part = static_cast<int>(threadIdx.x) / 32 / kMmaGroups;
  float scores[kCount / 8][4] = {};
  KVPROOF_UNROLL
  for (int n = 0; n < kCount / 16; ++n) {
    multiply_keys<Tile>(scores[2 * n], scores[2 * n + 1], query, stage, first + 16 * n);
  }
  if constexpr (kSoftCap) {
    KVPROOF_UNROLL
    for (auto& of : scores) {
      KVPROOF_UNROLL
      for (int i = 0; i < 4; ++i) of[i] = tanhf(of[i] * rows.inner[i / 2]);
    }
  }
  const bool all_seen = token >= rows.all_begin && token + kCount <= rows.all_end;
  if (!all_seen) mask_scores(scores, rows, token);
  soften_scores(scores, state, rows);
  KVPROOF_UNROLL
  for (int n = 0; n < kCount / 16; ++n) {
    using Element = typename Tile::Element;
    const std::uint32_t weights[4] = {
        pack_two<Element>(scores[2 * n][0], scores[2 * n][1]),
        pack_two<Element>(scores[2 * n][2], scores[2 * n][3]),
        pack_two<Element>(scores[2 * n + 1][0], scores[2 * n + 1][1]),
        pack_two<Element>(scores[2 * n + 1][2], scores[2 * n + 1][3])};
    multiply_values<Tile>(state.out, weights, stage + Tile::kValueAt, first + 16 * n, part);
  }
}

/// Calls attend(stage, token) for every step of the range, when its rows are there.
/// @pre the first kMmaStages - 1 steps were started
template <bool kManyRows, class Tile, class Attend>
__device__ inline void attend_range(MmaLoader<Tile>& loader, const Attend& attend) {
  const std::int32_t length = loader.range.end - loader.range.begin;
  for (std::int32_t step = 0; step * Tile::kTokens < length; ++step) {
    copy_async_wait<kMmaStages - 2>();
    // The rows of this step are there, and no thread reads the stage that is overwritten next.
    if constexpr (kManyRows) {
      KVPROOF_BARRIER();
    } else {
      KVPROOF_WARP_BARRIER();
    }
    loader.start(step + kMmaStages - 1);
    const unsigned char* const stage = loader.stages + step % kMmaStages * Tile::kStageBytes;
    attend(stage, loader.range.begin + step * Tile::kTokens);
  }
  copy_async_wait<0>();  // steps past the end still write zeros into memory that is used again
}

/// The block's many rows: each warp has 16 of them, and all tokens. @pre the query is there
template <class Tile, bool kSoftCap, int kRows>
__device__ inline void attend_many_rows(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                        const MmaMemory<Tile, kRows>& memory,
                                        MmaLoader<Tile>& loader, const BlockRows& kept) {
  const int first_row = static_cast<int>(threadIdx.x) / 32 % kMmaGroups * 16;
  const MmaQuery<Tile> query{memory.query(), first_row};
  const int lane_row = first_row + static_cast<int>(threadIdx.x % 32 / 4);
  const LaneRows mine = lane_rows<Tile>(p, rows, memory.factors(), lane_row, 8);
  KVPROOF_BARRIER();  // the last stage overwrites it
  MmaState<Tile> state;
  attend_range<true>(loader, [&](const unsigned char* stage, std::int32_t token) {
    constexpr int kAtOnce = Tile::kHeadSize > 128 ? 32 : 64;
    for (int first = 0; first < Tile::kTokens; first += kAtOnce) {
      attend_tokens<Tile, kSoftCap, kAtOnce>(state, query, mine, stage, first, token + first);
    }
  });
  KVPROOF_BARRIER();  // the sums overwrite the stages
  write_rows<Tile, true>(p, kept, state, memory);
}

/// The block's few rows: each warp has all of them, and its own tokens. @pre the query is there
template <class Tile, int kGroups, int kRows>
__device__ inline void attend_few_rows(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                       const MmaMemory<Tile, kRows>& memory,
                                       MmaLoader<Tile>& loader, const BlockRows& kept) {
  const FewQuery<Tile, kGroups> query{memory.query()};
  const auto mine = few_rows<Tile, kGroups>(p, rows, memory.factors());
  const bool is_capped = p.shape.soft_cap > 0;
  KVPROOF_BARRIER();  // the last stage overwrites it
  FewState<Tile, kGroups> state;
  const int first = static_cast<int>(threadIdx.x) / 32 * Tile::kWarpRows;
  attend_range<false>(loader, [&](const unsigned char* stage, std::int32_t token) {
    attend_few(state, query, mine, is_capped, stage, first, token + first);
  });
  KVPROOF_BARRIER();  // the sums overwrite the stages
  write_rows<Tile, false>(p, kept, state, memory);
}

/// One block per (8, 16 or 64 rows, KV head; split). @tparam kSoftCap of many rows only
template <class Tile, int kRows, bool kSoftCap>
__global__ void __launch_bounds__(32 * Tile::kWarps, 8 / Tile::kWarps)
    attention_mma_kernel(const AttentionParams<PagedKv> p) {
  constexpr int kStored = kRows < 16 ? 16 : kRows;  // query rows in shared memory
  KVPROOF_DYNAMIC_SHARED(unsigned char, shared);
  KVPROOF_SHARED(BlockRows, kept, 1);  // for the end: the loop needs the registers
  const MmaMemory<Tile, kStored> memory{shared};
  const auto heads = static_cast<unsigned>(p.shape.num_kv_heads);
  const auto kv_head = static_cast<std::int32_t>(blockIdx.x % heads);
  const BlockRows rows = rows_of<kRows>(p, static_cast<std::int32_t>(blockIdx.x / heads), kv_head);
  const TokenRange range =
      split_of(rows.visible, static_cast<std::int32_t>(blockIdx.y), p.num_splits, Tile::kTokens);
  MmaQueryRows<Tile, kStored> query_rows{p, rows, memory};
  query_rows.start();
  MmaLoader<Tile> loader{p.kv, memory.stages(), rows.seq, kv_head, range};
  loader.look_up(0);
  for (int step = 0; step < kMmaStages - 1; ++step) loader.start(step);
  query_rows.template finish<kMmaStages - 1>();
  if (threadIdx.x == 0) kept[0] = rows;
  KVPROOF_BARRIER();  // the query is there
  if constexpr (kRows > 16) {
    attend_many_rows<Tile, kSoftCap>(p, rows, memory, loader, kept[0]);
  } else {
    attend_few_rows<Tile, kRows / 8>(p, rows, memory, loader, kept[0]);
  }
  if (p.num_splits == 1 || p.split_arrivals == nullptr) return;
  if (!is_last_split(p.split_arrivals + blockIdx.x, p.num_splits)) return;
  merge_rows<Tile>(p, kept[0], memory.outputs());
}

}  // namespace kvproof::kernels
