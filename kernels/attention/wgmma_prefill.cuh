// SPDX-License-Identifier: Apache-2.0
// The prefill kernel for Hopper: 16-bit and e4m3 caches of head size 64, 128 or 256, products by
// wgmma, K and V by tensor copies.
//
// Model:   As many blocks as there are multiprocessors, each with tiles of 128 rows one after
//          another. The first warpgroup loads; each of the two others multiplies 64 rows. Tokens
//          are taken in steps of 128 (64 at head size 256), from the last to the first. The scores
//          of a step are issued before the values of the one behind it; the softmax of those scores
//          runs while the values are multiplied. A step is masked only where a row of the tile does
//          not see one of its tokens.
// Source:  Shah et al., FlashAttention-3 (arXiv:2407.08608), sec. 3.2, for the order; Ye et al.,
//          FlashInfer (arXiv:2501.01005), sec. 3.2, for rows of tokens and heads.
#pragma once

#include "kernels/attention/wgmma_load.cuh"
#include "kernels/attention/wgmma_softmax.cuh"

namespace kvproof::kernels {

/// scores = query . keys^T
template <class Tile>
__device__ inline void issue_scores(float (&scores)[Tile::kTokens / 2], SharedAddress query,
                                    SharedAddress keys) {
  const MatrixDescriptor a = matrix_at(Tile::kQueryLayout, query);
  const MatrixDescriptor b = matrix_at(Tile::kKeyLayout, keys);
  KVPROOF_UNROLL
  for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
    warpgroup_multiply<typename Tile::Element, Major::k>(
        scores, a.behind(static_cast<std::uint32_t>(i / 4 * 64 * 128 + i % 4 * 32)),
        b.behind(static_cast<std::uint32_t>(i / 4 * kPieceBytes + i % 4 * 32)), i > 0);
  }
}

/// out += weights . values
template <class Tile>
__device__ inline void issue_outputs(float (&out)[Tile::kHeadSize / 2],
                                     const std::uint32_t (&weights)[Tile::kTokens / 16][4],
                                     SharedAddress values) {
  const MatrixDescriptor b = matrix_at(Tile::kValueLayout, values);
  KVPROOF_UNROLL
  for (int i = 0; i < Tile::kTokens / 16; ++i) {
    warpgroup_multiply<typename Tile::Element, Major::mn>(
        out, weights[i], b.behind(static_cast<std::uint32_t>(i * 2 * Tile::kGroupBytes)), true);
  }
}

/// What a warpgroup that multiplies knows of the stages of K, or of V.
template <class Tile, Side kSide>
struct StageReader {
  const WgmmaMemory<Tile>& memory;
  StageTurn turn;

  /// Waits until the next stage is filled.
  __device__ SharedAddress wait() const {
    barrier_wait(memory.full(kSide, turn.stage()), turn.parity());
    return memory.address + static_cast<SharedAddress>(memory.stage_at(kSide, turn.stage()));
  }
  /// The warp has read it.
  __device__ void release() {
    if (threadIdx.x % 32 == 0) barrier_arrive(memory.empty(kSide, turn.stage()));
    ++turn.count;
  }
};
template <class Tile>
struct StageReaders {
  StageReader<Tile, Side::keys> keys;
  StageReader<Tile, Side::values> values;
};

/// Every step of a tile that has some. @param query where the warpgroup's rows lie
template <class Tile, bool kCapped>
__device__ inline void attend_steps(const RowTile& tile, StageReaders<Tile>& read, SoftRows& rows,
                                    float (&out)[Tile::kHeadSize / 2], SharedAddress query) {
  using Element = typename Tile::Element;
  const TokenRange steps = tile.steps<Tile::kTokens>();
  float scores[Tile::kTokens / 2], rescale[2];
  std::uint32_t weights[Tile::kTokens / 16][4];
  const auto soften = [&](std::int32_t step) {
    const std::int32_t token = step * Tile::kTokens;
    // Two branches: ptxas moves no weights from them behind the wait for the values' product.
    if (token < tile.common.begin || token + Tile::kTokens > tile.common.end) {
      soften_rows<kCapped, true>(scores, rows, rescale, token);
    } else {
      soften_rows<kCapped, false>(scores, rows, rescale, token);
    }
  };
  const SharedAddress last_keys = read.keys.wait();
  matrix_hold(scores);
  matrix_fence();
  issue_scores<Tile>(scores, query, last_keys);
  matrix_commit();
  matrix_wait<0>();
  matrix_hold(scores);
  read.keys.release();
  soften(steps.end - 1);
  pack_row<Element, Tile::kTokens>(weights, scores);
  for (std::int32_t step = steps.end - 2; step >= steps.begin; --step) {
    const SharedAddress keys = read.keys.wait();
    matrix_hold(scores);
    matrix_hold(out);
    matrix_fence();
    issue_scores<Tile>(scores, query, keys);
    matrix_commit();
    const SharedAddress values = read.values.wait();
    matrix_fence();
    issue_outputs<Tile>(out, weights, values);
    matrix_commit();
    matrix_wait<1>();  // the scores are there
    matrix_hold(scores);
    read.keys.release();
    soften(step);
    matrix_wait<0>();
    matrix_hold(out);
    read.values.release();
    rescale_rows(out, rescale);
    pack_row<Element, Tile::kTokens>(weights, scores);
  }
  const SharedAddress first_values = read.values.wait();
  matrix_hold(out);
  matrix_fence();
  issue_outputs<Tile>(out, weights, first_values);
  matrix_commit();
  matrix_wait<0>();
  matrix_hold(out);
  read.values.release();
}

/// The first of a thread's two rows.
__device__ inline int first_row() {
  const WarpRows rows = warp_rows();
  return rows.first + rows.lane / 4;
}

/// @param query the token of the warp's row `lane % 16`
template <bool kCapped>
__device__ inline SoftRows soft_rows(const AttentionShape& s, const RowTile& tile,
                                     const float* factors, std::int32_t query) {
  constexpr float kLog2E = 1.4426950408889634F;
  const int row = first_row();
  SoftRows out;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int mine = row + 8 * r;
    TokenRange visible =
        visible_to(KVPROOF_SHUFFLE(query, mine % 16), tile.num_queries, tile.seq_len, s.window);
    if (mine >= tile.count) visible = {};
    out.begin[r] = visible.begin;
    out.end[r] = visible.end;
    out.factor[r] = (kCapped ? s.soft_cap : factors[mine]) * kLog2E;
    out.in_cap[r] = kCapped ? factors[mine] / s.soft_cap : 0;
  }
  return out;
}

/// Ends the sums: outputs are scaled and, with splits, written; so is the log-sum-exp.
template <int kCount>
__device__ inline void end_rows(const AttentionParams<PagedKv>& p, const RowTile& tile,
                                SoftRows& rows, float (&out)[kCount]) {
  const int row = first_row();
  float factor[2], lse[2];
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += KVPROOF_SHUFFLE_XOR(rows.sum[r], 1);
    rows.sum[r] += KVPROOF_SHUFFLE_XOR(rows.sum[r], 2);
    const RowEnd end = row_end(rows.highest[r] * rows.factor[r], rows.sum[r], p.shape.value_scale);
    factor[r] = end.factor;
    lse[r] = end.lse;
  }
  rescale_rows(out, factor);
  const std::int64_t splits = p.num_splits;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int mine = row + 8 * r;
    if (mine >= tile.count) continue;
    if (splits == 1) {
      if (p.log_sum_exp == nullptr || threadIdx.x % 4 != 0) continue;
      p.log_sum_exp[tile.offset(mine, p.lse_token_stride, p.lse_head_stride)] = lse[r];
      continue;
    }
    const std::int64_t part = tile.offset(mine, p.shape.num_heads * splits, splits) + tile.split;
    if (threadIdx.x % 4 == 0) p.split_lse[part] = lse[r];
    float* const to = p.split_output + part * (2 * kCount) + threadIdx.x % 4 * 2;
    KVPROOF_UNROLL
    for (int i = 0; i < kCount / 2; ++i) to[i / 2 * 8 + i % 2] = out[i / 2 * 4 + 2 * r + i % 2];
  }
}

/// What a warpgroup that multiplies does.
template <class Tile, bool kCapped>
__device__ inline void multiply_tiles(const WgmmaCall& call, const WgmmaMemory<Tile>& memory) {
  const AttentionParams<PagedKv>& p = call.params;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const auto query = memory.address + static_cast<SharedAddress>(memory.query_at(group));
  StageReaders<Tile> read{{memory, {}}, {memory, {}}};
  for_each_tile(call, [&](const RowTile& tile) {
    const TokenRange steps = tile.steps<Tile::kTokens>();
    if (KVPROOF_BALLOT(group * 64 >= tile.count) != 0) {  // all rows are the other's
      KVPROOF_ROLLED
      for (std::int32_t step = steps.begin; step < steps.end; ++step) {
        read.keys.wait();
        KVPROOF_WARP_BARRIER();  // every lane has seen the phase, before the next can end
        read.keys.release();
        read.values.wait();
        KVPROOF_WARP_BARRIER();
        read.values.release();
      }
      return;
    }
    auto* const kept = static_cast<RowTile*>(memory.tile());
    if (threadIdx.x % 32 == 0) *kept = tile;
    const std::int32_t asked = load_query(p, tile, memory);
    fence_async();
    named_sync(1 + group, 128);  // every warp's query is fenced
    SoftRows rows = soft_rows<kCapped>(p.shape, tile, memory.factors(), asked);
    float out[Tile::kHeadSize / 2];
    KVPROOF_UNROLL
    for (float& x : out) x = 0;
    if (steps.end > steps.begin) attend_steps<Tile, kCapped>(tile, read, rows, out, query);
    const RowTile again = *kept;  // until here its registers are needed for sums
    end_rows(p, again, rows, out);
    named_sync(1 + group, 128);  // no product reads the query any more
    if (p.num_splits == 1) store_output(p, again, out, memory);
  });
}

/// What the warpgroup that loads does.
template <class Tile>
__device__ inline void load_tiles_of(const WgmmaCall& call, const WgmmaMemory<Tile>& memory,
                                     const TensorMap& keys, const TensorMap& values) {
  if (call.boxed) {
    if constexpr (!Tile::kFp8) {
      if (threadIdx.x >= 32) return;
      BoxLoader<Tile> loader{call, memory, keys, values, {}, {}, 0, {}, {}, {}};
      for_each_tile(call, [&](const RowTile& tile) { load_steps<Tile>(tile, loader); });
    }
    return;
  }
  RowLoader<Tile> loader{call, memory, {}, {}};
  for_each_tile(call, [&](const RowTile& tile) { load_steps<Tile>(tile, loader); });
  loader.end();
}

template <class Cache, int kHead, bool kCapped>
__global__ void __launch_bounds__(kWgmmaThreads, 1)
    attention_wgmma_kernel(const KVPROOF_GRID_CONSTANT TensorMap keys,
                           const KVPROOF_GRID_CONSTANT TensorMap values,
                           const KVPROOF_GRID_CONSTANT WgmmaCall call) {
#if KVPROOF_HAS_HOPPER
  using Tile = WgmmaTile<Cache, kHead>;
  KVPROOF_DYNAMIC_SHARED(unsigned char, shared);
  const WgmmaMemory<Tile> memory(shared);
  if (threadIdx.x == 0) memory.init_barriers(call.boxed ? 1 : 128);
  KVPROOF_BARRIER();  // the barriers are there
  if (threadIdx.x < 128) {
    registers_down<Tile::kLoaderRegisters>();
    load_tiles_of<Tile>(call, memory, keys, values);
  } else {
    registers_up<Tile::kMatrixRegisters>();
    multiply_tiles<Tile, kCapped>(call, memory);
  }
#else
  __trap();
#endif
}

}  // namespace kvproof::kernels
