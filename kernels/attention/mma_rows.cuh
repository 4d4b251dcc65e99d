// SPDX-License-Identifier: Apache-2.0
// The rows that a block of the tuned attention kernel serves: which they are, their query on its
// way in, their sums on the way out.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention/mma_tile.cuh"
#include "kernels/typed.h"

namespace kvproof::kernels {

/// Row r of a sequence is head r % ratio of the group, of its query token r / ratio. A block has
/// `count` rows that follow each other.
struct BlockRows {
  std::int32_t seq = 0;
  std::int32_t first_token = 0;  // of row 0, in the batch
  std::int32_t first_head = 0;   // of the group
  std::uint32_t skipped = 0;     // heads of the group before that of row 0
  std::uint32_t ratio = 1;
  std::int32_t count = 0;
  TokenRange visible;  // to any of them

  __device__ std::int32_t token(int row) const {
    return first_token + static_cast<std::int32_t>((skipped + static_cast<unsigned>(row)) / ratio);
  }
  __device__ std::int32_t head(int row) const {
    return first_head + static_cast<std::int32_t>((skipped + static_cast<unsigned>(row)) % ratio);
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
  const std::int32_t ratio = p.shape.num_heads / p.shape.num_kv_heads;
  out.ratio = static_cast<std::uint32_t>(ratio);
  out.first_head = kv_head * ratio;
  std::int64_t num_rows = ratio, first = 0;  // of the sequence; the block's first of them
  if (p.query_starts == nullptr) {
    const std::int64_t blocks = (num_rows + kRows - 1) / kRows;
    out.seq = out.first_token = static_cast<std::int32_t>(block / blocks);
    first = block % blocks * kRows;
  } else {
    std::int32_t low = 0, high = p.num_seqs;
    while (high - low > 1) {
      const std::int32_t middle = low + (high - low) / 2;
      (first_block_of(p.query_starts, middle, ratio, kRows) <= block ? low : high) = middle;
    }
    out.seq = low;
    out.first_token = p.query_starts[low];
    first = (block - first_block_of(p.query_starts, low, ratio, kRows)) * kRows;
    num_rows = std::int64_t{p.query_starts[low + 1] - out.first_token} * ratio;
  }
  const std::int64_t left = num_rows - first;
  out.count = static_cast<std::int32_t>(left < 0 ? 0 : left < kRows ? left : kRows);
  out.first_token += static_cast<std::int32_t>(first / ratio);
  out.skipped = static_cast<std::uint32_t>(first % ratio);
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

  /// Whether the splits' weights fit where the outputs were.
  static bool has_room_for_weights(std::int64_t num_splits) {
    return num_splits * kRows * 4 <= kFactorsAt;
  }
  __device__ unsigned char* stages() const { return base; }
  __device__ unsigned char* query() const { return base + kQueryAt; }
  /// shape [kRows], beside e4m3: of the scores of each row
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

/// Whether rows of 16-bit elements all begin at multiples of 16 bytes.
__device__ inline bool rows_are_aligned(const void* base, std::int64_t token_stride,
                                        std::int64_t head_stride) {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(base));
  return (address | (token_stride | head_stride) * 2) % 16 == 0;
}

/// Where elements [8 chunk, 8 chunk + 8) of a query row lie. @pre row < rows.count
__device__ inline const std::uint16_t* query_from(const AttentionParams<PagedKv>& p,
                                                  const BlockRows& rows, int row, int chunk) {
  return static_cast<const std::uint16_t*>(p.query) + rows.token(row) * p.query_token_stride +
         rows.head(row) * p.query_head_stride + 8 * chunk;
}

/// Two elements of `type`, fp16 or bf16, as floats.
__device__ inline void widen_query(std::uint32_t pair, ElementType type, float (&out)[2]) {
  KVPROOF_UNROLL
  for (int i = 0; i < 2; ++i) {
    const auto bits = static_cast<std::uint16_t>(pair >> (16 * i));
    out[i] = type == ElementType::bf16 ? to_float(Bf16{bits}) : to_float(Fp16{bits});
  }
}

/// A chunk of a query row beside e4m3: fp16 in the order in which multiply_keys hands out K, first
/// scaled by a power of two, since a bf16 may be out of fp16's range. @return what it was scaled by
template <class Tile>
__device__ inline float narrow_query(Bytes16& words, ElementType type) {
  float values[4][2], most = 0;
  KVPROOF_UNROLL
  for (int i = 0; i < 4; ++i) {
    widen_query(words.words[i], type, values[i]);
    most = fmaxf(most, fmaxf(fabsf(values[i][0]), fabsf(values[i][1])));
  }
  KVPROOF_UNROLL
  for (int step = Tile::kHeadSize / 16; step > 0; step /= 2) {  // the row's lanes
    most = fmaxf(most, KVPROOF_SHUFFLE_XOR(most, step));
  }
  const std::uint32_t found = as_bits<std::uint32_t>(most) >> 23;
  const std::uint32_t exponent = found < 1 ? 127 : found > 253 ? 253 : found;
  const auto down = as_bits<float>((254 - exponent) << 23);
  KVPROOF_UNROLL
  for (int i = 0; i < 4; ++i) {
    words.words[i] = pack_two<Fp16>(values[i][0] * down, values[i][1] * down);
  }
  return as_bits<float>(exponent << 23);
}

/// The query rows of a block on their way to shared memory, where the matrix unit wants them; zeros
/// for rows there are none of. Rows that are aligned move 16 bytes at a time, all at once: copied
/// as they are, or beside e4m3 through registers.
template <class Tile, int kRows>
struct MmaQueryRows {
  static constexpr int kChunks = Tile::kHeadSize / 8;
  static constexpr int kThreads = 32 * Tile::kWarps;
  static constexpr int kEach = kRows * kChunks / kThreads;
  static_assert(kRows * kChunks % kThreads == 0);
  const AttentionParams<PagedKv>& p;
  const BlockRows& rows;
  const MmaMemory<Tile, kRows>& memory;
  bool aligned = rows_are_aligned(p.query, p.query_token_stride, p.query_head_stride);
  Bytes16 parts[Tile::kFp8 ? kEach : 1] = {};

  /// Starts the copies and closes their group.
  __device__ void start() {
    KVPROOF_UNROLL
    for (int n = 0; n < kEach && aligned; ++n) {
      const int row = row_of(n), chunk = chunk_of(n);
      const bool valid = row < rows.count;
      const std::uint16_t* const from = query_from(p, rows, row, chunk);
      if constexpr (!Tile::kFp8) {
        copy_async16(memory.query() + query_at<Tile>(row, chunk), from, valid);
      } else if (valid) {
        parts[n] = load16(from);
      }
    }
    copy_async_commit();
  }
  /// @tparam kNewest groups of copies that were closed since start
  template <int kNewest>
  __device__ void finish() {
    copy_async_wait<kNewest>();
    if (!aligned) {
      KVPROOF_ROLLED
      for (int n = 0; n < kEach; ++n) store(n, gather(n));
    } else if constexpr (Tile::kFp8) {
      KVPROOF_UNROLL
      for (int n = 0; n < kEach; ++n) store(n, parts[n]);
    } else if (factor() < 0) {
      KVPROOF_ROLLED
      for (int n = 0; n < kEach; ++n) {
        store(n, load16(memory.query() + query_at<Tile>(row_of(n), chunk_of(n))));
      }
    }
  }

 private:
  __device__ float factor() const { return p.shape.scale * p.shape.key_scale; }
  __device__ static int row_of(int n) {
    return (static_cast<int>(threadIdx.x) + n * kThreads) / kChunks;
  }
  __device__ static int chunk_of(int n) {
    return (static_cast<int>(threadIdx.x) + n * kThreads) % kChunks;
  }
  __device__ Bytes16 gather(int n) const {
    Bytes16 out{};
    if (row_of(n) >= rows.count) return out;
    const std::uint16_t* const from = query_from(p, rows, row_of(n), chunk_of(n));
    KVPROOF_UNROLL
    for (int i = 0; i < 8; ++i) out.words[i / 2] |= std::uint32_t{from[i]} << (16 * (i % 2));
    return out;
  }
  __device__ void store(int n, Bytes16 part) const {
    const int row = row_of(n), chunk = chunk_of(n);
    if (factor() < 0) {  // the query takes the sign, so that the highest product weighs most
      KVPROOF_UNROLL
      for (std::uint32_t& word : part.words) word ^= 0x80008000u;
    }
    if constexpr (Tile::kFp8) {
      const float up = narrow_query<Tile>(part, p.shape.type);
      KVPROOF_UNROLL
      for (int i = 0; i < 4; ++i) {
        unsigned char* const to = memory.query() + query_at<Tile>(row, (chunk & ~1) + i % 2);
        *reinterpret_cast<std::uint32_t*>(to + chunk % 2 * 8 + i / 2 * 4) = part.words[i];
      }
      if (chunk == 0) memory.factors()[row] = up * fabsf(factor());
    } else {
      store16(memory.query() + query_at<Tile>(row, chunk), part);
    }
  }
};

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

/// What a lane knows of two of its warp's rows.
struct LaneRows {
  std::int32_t begin[2], end[2];  // what they see; everything, a row there is none of
  std::int32_t all_begin;         // what every row of the warp sees
  std::int32_t all_end;
  float scale[2];  // [log2] of the scores that softmax gets, above 0
  float inner[2];  // of the products, where a soft cap makes such scores of them
};

/// @param first the first of the lane's rows, `step` before the second
template <class Tile>
__device__ inline LaneRows lane_rows(const AttentionParams<PagedKv>& p, const BlockRows& rows,
                                     const float* factors, int first, int step) {
  constexpr float kLog2E = 1.4426950408889634F, kLeast = 0x1p-126F;
  const float cap = p.shape.soft_cap;
  LaneRows out;
  out.all_begin = 0;
  out.all_end = 0x7FFFFFFF;
  KVPROOF_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = first + r * step;
    TokenRange visible{0, 0x7FFFFFFF};
    if (row < rows.count) visible = visible_of(p, rows.seq, rows.token(row));
    out.begin[r] = visible.begin;
    out.end[r] = visible.end;
    if (visible.begin > out.all_begin) out.all_begin = visible.begin;
    if (visible.end < out.all_end) out.all_end = visible.end;
    const float factor =
        Tile::kFp8 ? factors[row] : fabsf(p.shape.scale * p.shape.key_scale);  // without: of all
    out.inner[r] = factor / cap;
    out.scale[r] = fmaxf((cap > 0 ? cap : factor) * kLog2E, kLeast);
  }
  KVPROOF_UNROLL
  for (int mask = 1; mask < 32; mask *= 2) {
    const std::int32_t begin = KVPROOF_SHUFFLE_XOR(out.all_begin, mask);
    const std::int32_t end = KVPROOF_SHUFFLE_XOR(out.all_end, mask);
    if (begin > out.all_begin) out.all_begin = begin;
    if (end < out.all_end) out.all_end = end;
  }
  return out;
}

}  // namespace kvproof::kernels
