// SPDX-License-Identifier: Apache-2.0
// The prefill kernel for Hopper: K and V on their way into the stages.
//
// Model:   Boxes: one warp starts a tensor copy for every box of tokens; a box that no row sees is
//          asked for outside of the tensor and becomes zeros. Rows: where blocks are no multiple of
//          8 tokens, or the cache is e4m3, four warps copy row by row, and what they write is
//          fenced before the stage counts as filled: a step later, when it has landed.
//          Both fill K of a step, then V of the step after it: the order in which they are read.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention/wgmma_rows.cuh"

namespace kvproof::kernels {

template <Side kSide>
using SideConstant = std::integral_constant<Side, kSide>;

/// Loads what a tile reads, in order.
template <class Tile, class Loader>
__device__ inline void load_steps(const RowTile& tile, Loader& loader) {
  const TokenRange steps = tile.steps<Tile::kTokens>();
  if (steps.end == 0) return;
  for (std::int32_t step = steps.end - 1; step >= steps.begin - 1; --step) {
    if (step >= steps.begin) loader.load(tile, SideConstant<Side::keys>{}, step, steps);
    if (step < steps.end - 1) loader.load(tile, SideConstant<Side::values>{}, step + 1, steps);
  }
}

/// Overwrites rows of V that the copy of a box brought, and that no token of the sequence is in:
/// their weights are 0, but 0 times NaN is not.
template <class Tile>
__device__ inline void clear_rows(unsigned char* stage, std::int32_t begin, std::int32_t end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int32_t i = begin * Tile::kChunks + lane; i < end * Tile::kChunks; i += 32) {
    store16(stage + Tile::at(i / Tile::kChunks, i % Tile::kChunks), Bytes16{});
  }
}

/// Where a lane's box lies: the block, -1 if no row sees any of the box, and the token in it.
struct BoxPlace {
  std::int32_t page = -1, token = 0;
};

/// One warp's copies of boxes. Entries are asked for a step ahead, and once for K and V.
template <class Tile>
struct BoxLoader {
  const WgmmaCall& call;
  const WgmmaMemory<Tile>& memory;
  const TensorMap& keys;
  const TensorMap& values;
  StageTurn key_turn, value_turn;
  std::uint32_t clearings = 0;
  BoxPlace ahead, newest, before;  // of the steps of K: the next, the last two

  __device__ BoxPlace place(const RowTile& tile, std::int32_t step) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int32_t tokens = call.boxes[0].tokens;
    const std::int32_t position = step * Tile::kTokens + lane * tokens;
    const bool seen = position < tile.visible.end && position + tokens > tile.visible.begin;
    if (lane * tokens >= Tile::kTokens || !seen) return {};
    const PagedKv& kv = call.params.kv;
    if (kv.block_tables == nullptr) return {tile.seq, position};
    return {static_cast<std::int32_t>(kv.block_of(tile.seq, position)),
            position % kv.key_layout.block_size};
  }

  template <Side kSide>
  __device__ void load(const RowTile& tile, SideConstant<kSide>, std::int32_t step,
                       const TokenRange& steps) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const PageBoxes& boxes = call.boxes[static_cast<int>(kSide)];
    const std::int32_t first = step * Tile::kTokens;
    const bool mine = lane * boxes.tokens < Tile::kTokens;
    if (kSide == Side::keys) {
      before = newest;
      newest = step == steps.end - 1 ? place(tile, step) : ahead;
    }
    const BoxPlace from = kSide == Side::keys || step == steps.begin ? newest : before;
    const std::int32_t at[5] = {0, boxes.token * from.token, boxes.head * tile.kv_head,
                                boxes.group * (from.token / 8) + boxes.plane * tile.kv_head,
                                from.page};
    // What no token of the sequence is in, of the boxes that some row sees.
    const std::int32_t end =
        ((tile.visible.end + boxes.tokens - 1) & -boxes.tokens) - first;  // a power of two
    const std::int32_t begin = (tile.visible.begin & -boxes.tokens) - first;
    const std::int32_t seen_begin = tile.seen.begin - first, seen_end = tile.seen.end - first;
    const bool stale = kSide == Side::values && ((seen_end < end && seen_end < Tile::kTokens) ||
                                                 (begin < seen_begin && seen_begin > 0));
    StageTurn& turn = kSide == Side::keys ? key_turn : value_turn;
    const int stage = turn.stage();
    const SharedAddress full = memory.full(kSide, stage), landed = stale ? memory.landed() : full;
    barrier_wait(memory.empty(kSide, stage), turn.parity() ^ 1);
    if (lane == 0) barrier_expect(landed, Tile::kStageBytes);
    KVPROOF_WARP_BARRIER();  // the bytes are expected
    const int to = memory.stage_at(kSide, stage);
    if (mine) {
      tensor_load(memory.address +
                      static_cast<SharedAddress>(to + lane * boxes.tokens / 8 * Tile::kGroupBytes),
                  kSide == Side::keys ? keys : values, at, landed);
    }
    if (stale) {
      barrier_wait(landed, static_cast<int>(clearings++ & 1));
      clear_rows<Tile>(memory.base + to, seen_end, end < Tile::kTokens ? end : Tile::kTokens);
      clear_rows<Tile>(memory.base + to, begin < 0 ? 0 : begin,
                       seen_begin < Tile::kTokens ? seen_begin : Tile::kTokens);
      fence_async();
      KVPROOF_WARP_BARRIER();  // every lane's zeros are fenced
      if (lane == 0) barrier_arrive(full);
    }
    if (kSide == Side::keys && step > steps.begin) ahead = place(tile, step - 1);
    ++turn.count;
  }
};

/// Four warps' copies of rows; each warp has a quarter of a stage's.
template <class Tile>
struct RowLoader {
  static constexpr int kWarpRows = Tile::kTokens / 4;
  static constexpr int kCopies = kWarpRows * Tile::kCacheChunks / 32;  // of a lane

  const WgmmaCall& call;
  const WgmmaMemory<Tile>& memory;
  StageTurn key_turn, value_turn;
  std::int32_t block = 0, block_before = 0;  // of this lane's row, at the last two steps of K
  std::uint32_t started = 0;                 // loads
  // Of the load that was started last:
  Side side = Side::keys;
  int stage = 0, parity = 0;

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int chunk() { return static_cast<int>(threadIdx.x) % Tile::kCacheChunks; }
  /// A row of the warp's
  __device__ static int row_of(int copy) {
    return copy * 32 / Tile::kCacheChunks + static_cast<int>(threadIdx.x) % 32 / Tile::kCacheChunks;
  }
  /// Where e4m3 lands before it is widened; each lane widens what it copied.
  __device__ unsigned char* landing(std::uint32_t load, int copy) const {
    return memory.landing(static_cast<int>(load % 2)) +
           (copy * 128 + static_cast<int>(threadIdx.x)) * 16;
  }

  /// Starts the copies of this lane.
  template <Side kSide>
  __device__ void copy_rows(const RowTile& tile, std::int32_t step, const TokenRange& steps,
                            unsigned char* to) {
    const AttentionParams<PagedKv>& p = call.params;
    const std::int32_t first = step * Tile::kTokens + warp() * kWarpRows;
    const std::int32_t mine = first + static_cast<int>(threadIdx.x) % 32 % kWarpRows;
    const auto visible = [&](std::int32_t position) {
      return position >= tile.visible.begin && position < tile.visible.end;
    };
    const bool paged = p.kv.block_tables != nullptr;
    if (kSide == Side::keys) {
      block_before = block;
      block = tile.seq;
      if (paged && visible(mine)) {
        block = static_cast<std::int32_t>(p.kv.block_of(tile.seq, mine));
      }
    }
    const bool newest = kSide == Side::keys || step == steps.begin;
    const CacheLayout& layout = kSide == Side::keys ? p.kv.key_layout : p.kv.value_layout;
    const std::int32_t token = paged ? mine % layout.block_size : mine;
    const std::int64_t offset =
        visible(mine) ? layout.row(newest ? block : block_before, token, tile.kv_head) : 0;
    const auto* const from =
        static_cast<const unsigned char*>(kSide == Side::keys ? p.kv.key : p.kv.value);
    KVPROOF_ROLLED
    for (int done = 0; done < kCopies; done += 4) {
      KVPROOF_UNROLL
      for (int copy = done; copy < done + 4; ++copy) {
        const int row = row_of(copy);
        const std::int64_t at = KVPROOF_SHUFFLE(offset, row) * Tile::kCacheBytes + 16 * chunk();
        copy_async16(
            Tile::kFp8 ? landing(started, copy) : to + Tile::at(warp() * kWarpRows + row, chunk()),
            from + at, visible(first + row));
      }
    }
    copy_async_commit();
  }

  __device__ void widen_rows(unsigned char* to) const {
    KVPROOF_UNROLL
    for (int copy = 0; copy < kCopies; ++copy) {
      const Bytes16 narrow = load16(landing(started - 1, copy));
      KVPROOF_UNROLL
      for (int half = 0; half < 2; ++half) {
        Bytes16 wide;
        KVPROOF_UNROLL
        for (int i = 0; i < 4; ++i) {
          wide.words[i] = widen_two(narrow.words[2 * half + i / 2] >> (i % 2 * 16) & 0xFFFFu);
        }
        store16(to + Tile::at(warp() * kWarpRows + row_of(copy), 2 * chunk() + half), wide);
      }
    }
  }

  /// What was started last has landed: its stage is filled.
  __device__ void finish() const {
    if constexpr (Tile::kFp8) {
      barrier_wait(memory.empty(side, stage), parity ^ 1);
      widen_rows(memory.base + memory.stage_at(side, stage));
    }
    fence_async();
    barrier_arrive(memory.full(side, stage));
  }

  template <Side kSide>
  __device__ void load(const RowTile& tile, SideConstant<kSide>, std::int32_t step,
                       const TokenRange& steps) {
    StageTurn& turn = kSide == Side::keys ? key_turn : value_turn;
    if constexpr (!Tile::kFp8) barrier_wait(memory.empty(kSide, turn.stage()), turn.parity() ^ 1);
    copy_rows<kSide>(tile, step, steps, memory.base + memory.stage_at(kSide, turn.stage()));
    if (started > 0) {
      copy_async_wait<1>();
      finish();
    }
    ++started;
    side = kSide;
    stage = turn.stage();
    parity = turn.parity();
    ++turn.count;
  }
  __device__ void end() const {
    if (started == 0) return;
    copy_async_wait<0>();
    finish();
  }
};

}  // namespace kvproof::kernels
