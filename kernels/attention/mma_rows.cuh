// SPDX-License-Identifier: Apache-2.0
// The rows that a block of the tuned attention kernel serves: which they are, their query on its
// way in, their sums on the way out.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention/mma_tile.cuh"
#include "kernels/typed.h"

namespace kvproof::kernels {

/// Row r of the block is head r % ratio of the group, of query token r / ratio, counted from
/// `first` of the sequence's rows.
struct BlockRows {
  std::int32_t seq = 0;
  std::int32_t first_token = 0;  // of the sequence, in the batch
  std::int32_t first_head = 0;   // of the group
  std::int32_t ratio = 1;
  std::int64_t first = 0;
  std::int32_t count = 0;
  TokenRange visible;  // to any of them

  __device__ std::int32_t token(int row) const {
    return first_token + static_cast<std::int32_t>((first + row) / ratio);
  }
  __device__ std::int32_t head(int row) const {
    return first_head + static_cast<std::int32_t>((first + row) % ratio);
  }
};

/// The first block of sequence `seq`: every sequence has room for its rows, and at most one more.
KVPROOF_HOST_DEVICE inline std::int64_t first_block_of(const std::int32_t* starts, std::int32_t seq,
                                                       std::int32_t ratio, int rows) {
  return std::int64_t{starts[seq]} * ratio / rows + seq;
}

template <int kRows>
__device__ inline BlockRows rows_of(const AttentionParams<PagedKv>& p, std::int64_t block,
                                    std::int32_t kv_head) {
  BlockRows out;
  out.ratio = p.shape.num_heads / p.shape.num_kv_heads;
  out.first_head = kv_head * out.ratio;
  std::int64_t num_rows = out.ratio;  // of the sequence
  if (p.query_starts == nullptr) {
    const std::int64_t blocks = (num_rows + kRows - 1) / kRows;
    out.seq = out.first_token = static_cast<std::int32_t>(block / blocks);
    out.first = block % blocks * kRows;
  } else {
    std::int32_t low = 0, high = p.num_seqs;
    while (high - low > 1) {
      const std::int32_t middle = low + (high - low) / 2;
      (first_block_of(p.query_starts, middle, out.ratio, kRows) <= block ? low : high) = middle;
    }
    out.seq = low;
    out.first_token = p.query_starts[low];
    out.first = (block - first_block_of(p.query_starts, low, out.ratio, kRows)) * kRows;
    num_rows = std::int64_t{p.query_starts[low + 1] - out.first_token} * out.ratio;
  }
  const std::int64_t left = num_rows - out.first;
  out.count = static_cast<std::int32_t>(left < 0 ? 0 : left < kRows ? left : kRows);
  if (out.count == 0) return out;
  out.visible.begin = visible_of(p, out.seq, out.token(0)).begin;
  out.visible.end = visible_of(p, out.seq, out.token(out.count - 1)).end;
  return out;
}

/// How a block lays out its dynamic shared memory. The sums come where the stages were.
template <class Tile, int kRows>
struct MmaMemory {
  static constexpr int kQueryRowBytes = 2 * Tile::kHeadSize;
  static constexpr int kStagesBytes = kMmaStages * Tile::kStageBytes;
  // A query that is kept in registers needs its place only until the last stage is filled.
  static constexpr bool kQueryStays = Tile::kHeadSize > 128;
  static constexpr int kQueryAt = kQueryStays ? kStagesBytes : kStagesBytes - Tile::kStageBytes;
  static constexpr int kFactorsAt = kStagesBytes + (kQueryStays ? kRows * kQueryRowBytes : 0);
  static constexpr int kSumsAt = kFactorsAt + 4 * kRows;
  static constexpr int kBytes = kSumsAt + 8 * 16 * kMmaGroups + 8 * kRows;
  static_assert(kQueryStays || kRows * kQueryRowBytes <= Tile::kStageBytes);
  static_assert(4 * 16 * kMmaGroups * Tile::kValueSize <= kFactorsAt);

  unsigned char* base;

  __device__ unsigned char* stages() const { return base; }
  __device__ unsigned char* query() const { return base + kQueryAt; }
  __device__ float* factors() const { return reinterpret_cast<float*>(base + kFactorsAt); }
  /// shape [kMmaGroups][16][kValueSize]; over the query, too
  __device__ float* outputs() const { return reinterpret_cast<float*>(base); }
  /// shape [kMmaGroups][16][2]: the highest score and the sum of each group's rows
  __device__ float* sums() const { return reinterpret_cast<float*>(base + kSumsAt); }
  /// shape [kRows][2]: what a row's output is multiplied by, and its log-sum-exp
  __device__ float* ends() const { return sums() + 2 * 16 * kMmaGroups; }
};

/// [bytes] of 8 elements `chunk` of a query row
template <class Tile>
__device__ inline int query_at(int row, int chunk) {
  return row * 2 * Tile::kHeadSize + (chunk & ~7) * 16 + ((chunk ^ row) & 7) * 16;
}

/// The query rows as the matrix unit wants them, zeros for rows there are none of. Beside e4m3 they
/// become fp16 and are first scaled by a power of two, since a bf16 may be out of fp16's range.
template <class Tile, int kRows>
__device__ inline void store_query(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                   const MmaMemory<Tile, kRows>& memory) {
  using Element = typename Tile::Element;
  constexpr int kEach = Tile::kHeadSize / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = warp; row < kRows; row += Tile::kWarps) {
    float mine[kEach] = {};
    const std::int64_t from = row < rows.count ? rows.token(row) * p.query_token_stride +
                                                     rows.head(row) * p.query_head_stride
                                               : 0;
    KVPROOF_UNROLL
    for (int e = 0; e < kEach; ++e) {
      if (row < rows.count) mine[e] = load_element(p.query, from + lane + 32 * e, p.shape.type);
    }
    float down = 1, up = 1;
    if constexpr (Tile::kFp8) {
      float most = 0;
      for (const float x : mine) most = fmaxf(most, fabsf(x));
      for (int step = 16; step > 0; step /= 2) most = fmaxf(most, KVPROOF_SHUFFLE_XOR(most, step));
      const std::uint32_t found = as_bits<std::uint32_t>(most) >> 23;
      const std::uint32_t exponent = found < 1 ? 127 : found > 253 ? 253 : found;
      up = as_bits<float>(exponent << 23);
      down = as_bits<float>((254 - exponent) << 23);
    }
    KVPROOF_UNROLL
    for (int e = 0; e < kEach; ++e) {
      int i = lane + 32 * e;
      if constexpr (Tile::kFp8) i = i / 16 * 16 + i / 2 % 2 * 8 + i % 16 / 4 * 2 + i % 2;
      unsigned char* const to = memory.query() + query_at<Tile>(row, i / 8) + i % 8 * 2;
      *reinterpret_cast<Element*>(to) = from_float<Element>(mine[e] * down);
    }
    if (lane == 0) memory.factors()[row] = up * p.shape.scale * p.shape.key_scale;
  }
}

/// A warp's 16 query rows: in registers, or read again and again where these are short.
template <class Tile>
struct MmaQuery {
  struct Part {
    std::uint32_t words[4];
  };
  static constexpr bool kStays = Tile::kHeadSize > 128;
  const unsigned char* shared;
  int start;  // of this lane's row
  Part parts[kStays ? 1 : Tile::kHeadSize / 16];

  __device__ MmaQuery(const unsigned char* from, int first_row) : shared(from) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    start = query_at<Tile>(first_row + lane % 16, lane / 16);
    if constexpr (!kStays) {
      KVPROOF_UNROLL
      for (int n = 0; n < Tile::kHeadSize / 16; ++n) parts[n] = load(0, n);
    }
  }
  __device__ Part load(int done, int n) const {
    Part out;
    load_tiles(out.words, shared + chunk_ahead(start, 2 * n) + 32 * done);
    return out;
  }
  /// Columns [16 (done + n), 16 (done + n) + 16). @param done a multiple of 4
  __device__ Part part(int done, int n) const {
    if constexpr (kStays) return load(done, n);
    return parts[done + n];
  }
};

/// What a lane knows of its rows l / 4 and l / 4 + 8 of the warp's.
struct LaneRows {
  std::int32_t begin[2], end[2];  // what they see; nothing, of a row there is none of
  float factor[2];                // of the scores
};

__device__ inline LaneRows lane_rows(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                     const float* factors, int first_row) {
  LaneRows out;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * r;
    TokenRange visible;
    if (row < rows.count) visible = visible_of(p, rows.seq, rows.token(row));
    out.begin[r] = visible.begin;
    out.end[r] = visible.end;
    out.factor[r] = factors[row];
  }
  return out;
}

}  // namespace kvproof::kernels
