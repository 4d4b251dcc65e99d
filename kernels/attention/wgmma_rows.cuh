// SPDX-License-Identifier: Apache-2.0
// The prefill kernel for Hopper: which rows a tile has, and which tiles a block has; the query on
// its way in, the output on its way out.
//
// Model:   Rows are (query token, head of the group), as in mma_rows.cuh. Tiles are taken from the
//          batch's last to its first, heads of K and V beside each other: those that see the most
//          come first. Blocks take them in turn, in every second round from the other end.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention/mma_rows.cuh"
#include "kernels/attention/wgmma_tile.cuh"

namespace kvproof::kernels {

/// How one tensor copy finds tokens of a block: as many of them, a multiple of 8, lie behind each
/// other. What a token of the block and a head add to the coordinates:
struct PageBoxes {
  std::int32_t tokens = 0;  // of a box
  std::int32_t token = 0;   // second coordinate, for each token
  std::int32_t head = 0;    // third, for each head
  std::int32_t group = 0;   // fourth, for each 8 tokens
  std::int32_t plane = 0;   // fourth, for each head
};

/// What the kernel is launched with, beside the maps of K and V.
struct WgmmaCall {
  AttentionParams<PagedKv> params;
  bool boxed = false;           // there are maps; else rows are copied one by one
  PageBoxes boxes[2];           // of K and V
  std::uint32_t num_tiles = 0;  // of all KV heads and splits; some are empty
};

/// Up to kWgmmaRows rows of a sequence and KV head.
struct RowTile {
  std::int32_t seq = 0, kv_head = 0, ratio = 1;
  std::int32_t first_token = 0;  // of the sequence, in the batch
  std::int32_t num_queries = 0, seq_len = 0;
  std::int32_t first = 0, count = 0;  // of the sequence's rows
  std::int32_t split = 0, num_splits = 1;
  TokenRange visible;  // to any of the rows
  TokenRange common;   // to all of them
  TokenRange seen;     // to any query token of the sequence

  __device__ std::int32_t query_of(int row) const { return (first + row) / ratio; }
  __device__ std::int64_t offset(int row, std::int64_t token_stride,
                                 std::int64_t head_stride) const {
    const std::int32_t query = query_of(row);
    return (first_token + query) * token_stride +
           (kv_head * ratio + first + row - query * ratio) * head_stride;
  }
  /// The split's steps of kTokens tokens: the first, and the one behind the last; 0 and 0 if none.
  template <int kTokens>
  __device__ TokenRange steps() const {
    if (visible.end <= visible.begin) return {0, 0};
    const std::int32_t least = visible.begin / kTokens, end = (visible.end - 1) / kTokens + 1;
    const std::int32_t each = (end - least + num_splits - 1) / num_splits;
    const std::int32_t begin = least + each * split;
    if (begin >= end) return {0, 0};
    return {begin, begin + each < end ? begin + each : end};
  }
};
static_assert(sizeof(RowTile) <= 64);  // see WgmmaMemory

/// Tile `number` of WgmmaCall::num_tiles. Every sequence has room for its rows, and at most one
/// tile more, so the sequence is found without a sum over those before it.
__device__ inline RowTile row_tile(const WgmmaCall& call, std::uint32_t number) {
  const AttentionParams<PagedKv>& p = call.params;
  const auto heads = static_cast<std::uint32_t>(p.shape.num_kv_heads);
  const auto splits = static_cast<std::uint32_t>(p.num_splits);
  const auto block = static_cast<std::int32_t>((call.num_tiles - 1 - number) / (heads * splits));
  RowTile out;
  out.kv_head = static_cast<std::int32_t>(number % heads);
  out.split = static_cast<std::int32_t>(number / heads % splits);
  out.num_splits = p.num_splits;
  out.ratio = p.shape.num_heads / p.shape.num_kv_heads;
  std::int32_t low = 0, high = p.num_seqs;
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    const std::int32_t begin = p.query_starts[middle] * out.ratio / kWgmmaRows + middle;
    (begin <= block ? low : high) = middle;
  }
  out.seq = low;
  out.first_token = p.query_starts[low];
  out.num_queries = p.query_starts[low + 1] - out.first_token;
  out.first = (block - out.first_token * out.ratio / kWgmmaRows - low) * kWgmmaRows;
  const std::int32_t left = out.num_queries * out.ratio - out.first;
  out.count = left < 0 ? 0 : left < kWgmmaRows ? left : kWgmmaRows;
  if (out.count == 0) return out;
  out.seq_len = p.seq_lens[low];
  const auto seen_by = [&](std::int32_t query) {
    return visible_to(query, out.num_queries, out.seq_len, p.shape.window);
  };
  const TokenRange first = seen_by(out.query_of(0)), last = seen_by(out.query_of(out.count - 1));
  out.visible = {first.begin, last.end};
  out.common = {last.begin, first.end};
  out.seen = {seen_by(0).begin, out.seq_len};
  return out;
}

/// Calls f(tile) for each tile of this block that has rows.
template <class F>
__device__ inline void for_each_tile(const WgmmaCall& call, const F& f) {
  for (std::uint32_t round = 0;; ++round) {
    const std::uint32_t place = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    const std::uint32_t number = round * gridDim.x + place;
    if (number >= call.num_tiles) return;
    const RowTile tile = row_tile(call, number);
    if (tile.count > 0) f(tile);
  }
}

/// A chunk of a query row becomes fp16, the row first scaled by a power of two, since a bf16 may be
/// out of fp16's range. @return what undoes it
template <int kLanes>
__device__ inline float narrow_query(Bytes16& chunk, ElementType type) {
  float x[8], most = 0;
  KVPROOF_UNROLL
  for (int i = 0; i < 8; ++i) {
    const auto bits = static_cast<std::uint16_t>(chunk.words[i / 2] >> (i % 2 * 16));
    x[i] = type == ElementType::bf16 ? to_float(Bf16{bits}) : to_float(Fp16{bits});
    most = fmaxf(most, fabsf(x[i]));
  }
  KVPROOF_UNROLL
  for (int step = kLanes / 2; step > 0; step /= 2) {
    most = fmaxf(most, KVPROOF_SHUFFLE_XOR(most, step));
  }
  const std::uint32_t found = as_bits<std::uint32_t>(most) >> 23;
  const std::uint32_t exponent = found < 1 ? 127 : found > 253 ? 253 : found;
  const float down = as_bits<float>((254 - exponent) << 23);
  KVPROOF_UNROLL
  for (int i = 0; i < 4; ++i) {
    chunk.words[i] = pack_two<Fp16>(x[2 * i] * down, x[2 * i + 1] * down);
  }
  return as_bits<float>(exponent << 23);
}

/// A lane of a warp that multiplies, and the first of the warp's 16 rows of a tile. Asked for each
/// time anew: addresses that depend on it are not kept in registers from one use to the next.
struct WarpRows {
  int lane, first;
};
__device__ inline WarpRows warp_rows() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return {KVPROOF_SHUFFLE(lane, lane),
          KVPROOF_SHUFFLE(static_cast<int>(threadIdx.x) / 32 * 16 - 64, lane)};
}

/// A warp brings its 16 rows of the query, zeros for rows there are none of. A lane finds out where
/// one row lies, which takes a division, and tells the others.
/// @return the token of row `lane % 16`
template <class Tile>
__device__ inline std::int32_t load_query(const AttentionParams<PagedKv>& p, const RowTile& tile,
                                          const WgmmaMemory<Tile>& memory) {
  constexpr int kAtOnce = 32 / Tile::kChunks;             // rows
  constexpr int kLoads = kAtOnce > 1 ? 16 / kAtOnce : 8;  // in flight, of a lane
  const WarpRows rows = warp_rows();
  const int chunk = rows.lane % Tile::kChunks, own = rows.first + rows.lane % 16;
  const std::int64_t offset = tile.offset(own, p.query_token_stride, p.query_head_stride);
  unsigned char* const query = memory.base + memory.query_at(rows.first / 64);
  KVPROOF_ROLLED
  for (int row = rows.first + rows.lane / Tile::kChunks; row < rows.first + 16;
       row += kLoads * kAtOnce) {
    Bytes16 words[kLoads] = {};
    KVPROOF_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const int mine = row + i * kAtOnce;
      const std::int64_t from = KVPROOF_SHUFFLE(offset, mine % 16);
      if (mine >= tile.count) continue;
      words[i] = load16(static_cast<const std::uint16_t*>(p.query) + from + 8 * chunk);
    }
    KVPROOF_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const int mine = row + i * kAtOnce;
      float factor = p.shape.scale;
      if constexpr (Tile::kFp8) {
        factor *= narrow_query<Tile::kChunks>(words[i], p.shape.type) * p.shape.key_scale;
      }
      store16(query + Tile::query_at(mine % 64, chunk), words[i]);
      if (chunk == 0) memory.factors()[mine] = factor;
    }
  }
  return tile.query_of(own);
}

/// The log-sum-exp and what the sums of a row are multiplied by.
struct RowEnd {
  float factor, lse;
};
/// @param highest [log2] of the row @param sum of the row's weights
__device__ inline RowEnd row_end(float highest, float sum, float value_scale) {
  constexpr float kLn2 = 0.6931471805599453F;
  if (sum == 0) return {0, -INFINITY};
  return {value_scale / sum, highest * kLn2 + logf(sum)};
}

template <class Element, int kCount>
__device__ inline void pack_row(std::uint32_t (&out)[kCount / 16][4],
                                const float (&values)[kCount / 2]) {
  KVPROOF_UNROLL
  for (int i = 0; i < kCount / 4; ++i) {
    out[i / 4][i % 4] = pack_two<Element>(values[2 * i], values[2 * i + 1]);
  }
}

/// A warp writes its 16 rows, by way of the place where its query was.
/// @pre no warp of the group reads the query
template <class Tile>
__device__ inline void store_output(const AttentionParams<PagedKv>& p, const RowTile& tile,
                                    const float (&out)[Tile::kHeadSize / 2],
                                    const WgmmaMemory<Tile>& memory) {
  constexpr int kSteps = Tile::kHeadSize / 16, kAtOnce = 32 / Tile::kChunks;
  const WarpRows rows = warp_rows();
  unsigned char* const query = memory.base + memory.query_at(rows.first / 64);
  std::uint32_t words[kSteps][4];
  if (p.shape.type == ElementType::bf16) {
    pack_row<Bf16, Tile::kHeadSize>(words, out);
  } else {
    pack_row<Fp16, Tile::kHeadSize>(words, out);
  }
  KVPROOF_UNROLL
  for (int i = 0; i < kSteps; ++i) {
    store_tiles(query + Tile::query_at(rows.first % 64 + rows.lane % 16, 2 * i + rows.lane / 16),
                words[i]);
  }
  KVPROOF_WARP_BARRIER();
  const int chunk = rows.lane % Tile::kChunks;
  const std::int64_t offset =
      tile.offset(rows.first + rows.lane % 16, p.output_token_stride, p.output_head_stride);
  KVPROOF_ROLLED
  for (int row = rows.first + rows.lane / Tile::kChunks; row < rows.first + 16;
       row += 4 * kAtOnce) {
    KVPROOF_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int mine = row + i * kAtOnce;
      const std::int64_t to = KVPROOF_SHUFFLE(offset, mine % 16);
      if (mine >= tile.count) continue;
      store16(static_cast<std::uint16_t*>(p.output) + to + 8 * chunk,
              load16(query + Tile::query_at(mine % 64, chunk)));
    }
  }
  KVPROOF_WARP_BARRIER();  // the next query comes there
}

}  // namespace kvproof::kernels
