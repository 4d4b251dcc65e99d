// SPDX-License-Identifier: Apache-2.0
// Tiles of K and V rows in shared memory: how they get there, and what the matrix unit takes out.
//
// Model:   A row's 16-byte chunks are permuted by the row's number, so that the eight rows of a
//          matrix tile lie in different banks. A warp copies its own rows of each stage; the block
//          table entries of the next stage are read a stage ahead.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention/attention.h"
#include "kernels/simt/cuda.h"
#include "kernels/simt/warp_matrix.h"

namespace kvproof::kernels {

constexpr int kMmaGroups = 4;  // warps of a block that differ in rows, or in tokens
constexpr int kMmaStages = 3;

/// Sizes of one instantiation. @tparam Cache Bf16, Fp16 or Fp8E4M3
template <class Cache, int kHead>
struct MmaTile {
  static constexpr bool kFp8 = sizeof(Cache) == 1;
  using Element = std::conditional_t<kFp8, Fp16, Cache>;  // what is multiplied; e4m3 fits exactly
  static constexpr int kHeadSize = kHead;
  static constexpr int kValueSize = kHead;
  static constexpr int kWarps = kMmaGroups;
  static constexpr int kWarpValues = kHead;  // output columns of a warp
  static constexpr int kRowBytes = kHead * static_cast<int>(sizeof(Cache));
  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kWarpRows = kRowBytes >= 256 ? 16 : 32;  // [tokens] a warp copies per stage
  static constexpr int kRowLanes = kChunks;                     // that copy a row together
  static constexpr int kTokens = kWarps * kWarpRows;            // [tokens] per stage
  static constexpr int kValueAt = kTokens * kRowBytes;          // [bytes] V of a stage, behind K
  static constexpr int kStageBytes = 2 * kValueAt;

  /// [bytes] from the start of K or V of a stage
  __device__ static int at(int row, int chunk) {
    if constexpr (kChunks >= 8) {
      return row * kRowBytes + (chunk & ~7) * 16 + ((chunk ^ row) & 7) * 16;
    }
    return row * kRowBytes + (chunk ^ ((row >> 1) & 3)) * 16;  // two rows per 128 bytes
  }
};

/// The same where a value is the first 512 of a key's 576 elements: copied once. A warp has half of
/// the output's columns: all of them would not fit its registers.
template <class Cache>
struct MmaLatentTile {
  static constexpr bool kFp8 = false;
  using Element = Cache;
  static constexpr int kHeadSize = 576, kValueSize = 512;
  static constexpr int kWarps = 2 * kMmaGroups;
  static constexpr int kWarpValues = kValueSize / 2;
  static constexpr int kRowBytes = 2 * kHeadSize;
  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kWarpRows = 4;
  static constexpr int kRowLanes = 8;
  static constexpr int kTokens = kWarps * kWarpRows;
  static constexpr int kValueAt = 0;
  static constexpr int kStageBytes = kTokens * kRowBytes;

  __device__ static int at(int row, int chunk) {
    return row * kRowBytes + (chunk & ~7) * 16 + ((chunk ^ row) & 7) * 16;
  }
};

/// [bytes] of a chunk `ahead` of the one at `start`, in the same row. A lane computes `start` once:
/// what follows costs it one XOR with a constant at most.
/// @pre `start` is of chunk 0 or 1 and `ahead` even, or of 0 to 3 and a multiple of 4
__device__ inline int chunk_ahead(int start, int ahead) {
  return (start ^ (ahead & 7) * 16) + (ahead & ~7) * 16;
}

/// Copies a warp's share of the stages. Rows outside the range are zeros, and nothing is read.
template <class Tile>
struct MmaLoader {
  const PagedKv& kv;  // block_tables null: one buffer per sequence
  unsigned char* stages;
  std::int32_t seq;
  std::int32_t kv_head;
  TokenRange range;
  std::int64_t block = 0;  // of this lane's row of the next stage

  __device__ std::int32_t position(std::int32_t step, int row) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return range.begin + step * Tile::kTokens + warp * Tile::kWarpRows + row;
  }
  __device__ void look_up(std::int32_t step) {
    const std::int32_t mine = position(step, static_cast<int>(threadIdx.x) % 32 % Tile::kWarpRows);
    block = seq;
    if (kv.block_tables == nullptr) return;
    block = mine < range.end ? kv.block_of(seq, mine) : 0;
  }
  /// Starts the copies of step `step` and closes their group. @pre look_up(step) was the last
  __device__ void start(std::int32_t step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const std::int32_t mine = position(step, lane % Tile::kWarpRows);
    std::int64_t key_row = 0, value_row = 0;
    if (mine < range.end) {
      const std::int32_t token =
          kv.block_tables != nullptr ? mine % kv.key_layout.block_size : mine;
      key_row = kv.key_layout.row(block, token, kv_head);
      value_row = kv.value_layout.row(block, token, kv_head);
    }
    look_up(step + 1);
    constexpr bool kWhole = Tile::kRowLanes == Tile::kChunks;  // each lane has one chunk of a row
    constexpr auto kBytes = static_cast<std::int64_t>(Tile::kRowBytes / Tile::kHeadSize);
    unsigned char* const to = stages + step % kMmaStages * Tile::kStageBytes;
    const auto* const key = static_cast<const unsigned char*>(kv.key);
    const auto* const value = static_cast<const unsigned char*>(kv.value);
    KVPROOF_UNROLL
    for (int n = 0; n < Tile::kWarpRows * Tile::kChunks / 32; ++n) {
      const int done = 32 * n / Tile::kRowLanes;  // rows, or pieces of the same rows
      const int row = (kWhole ? done : 0) + lane / Tile::kRowLanes;
      const int chunk = (kWhole ? 0 : n * Tile::kRowLanes) + lane % Tile::kRowLanes;
      const bool valid = position(step, row) < range.end;
      const int at = Tile::at(warp * Tile::kWarpRows + row, chunk);
      const std::int64_t from_key = KVPROOF_SHUFFLE(key_row, row);
      copy_async16(to + at, key + from_key * kBytes + chunk * 16, valid);
      if constexpr (Tile::kValueAt > 0) {
        const std::int64_t from_value = KVPROOF_SHUFFLE(value_row, row);
        copy_async16(to + Tile::kValueAt + at, value + from_value * kBytes + chunk * 16, valid);
      }
    }
    copy_async_commit();
  }
};

/// scores += query . key^T for 16 tokens from row `first`. e4m3: a 16-bit matrix element is two of
/// K's, and the query's elements were stored in the order that this hands them out.
template <class Tile, class Query>
__device__ inline void multiply_keys(float (&low)[4], float (&high)[4], const Query& query,
                                     const unsigned char* keys, int first) {
  using Element = typename Tile::Element;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = first + lane / 16 * 8 + lane % 8;
  const int start = Tile::at(row, lane / 8 % 2);
  constexpr int kPairs = Tile::kChunks / 2, kAtOnce = kPairs > 16 ? 4 : kPairs;
  KVPROOF_ROLLED
  for (int done = 0; done < kPairs; done += kAtOnce) {  // a loop only where 4 pairs are 128 bytes
    KVPROOF_UNROLL
    for (int pair = 0; pair < kAtOnce; ++pair) {
      std::uint32_t words[4];
      load_tiles(words, keys + chunk_ahead(start, 2 * pair) + 32 * done);
      if constexpr (Tile::kFp8) {
        KVPROOF_UNROLL
        for (int half = 0; half < 2; ++half) {
          const auto a = query.part(2 * done, 2 * pair + half);
          const std::uint32_t b_low[2] = {widen_two(words[half]), widen_two(words[half] >> 16)};
          const std::uint32_t b_high[2] = {widen_two(words[2 + half]),
                                           widen_two(words[2 + half] >> 16)};
          multiply_add<Element>(low, a.words, b_low);
          multiply_add<Element>(high, a.words, b_high);
        }
      } else {
        const auto a = query.part(done, pair);
        const std::uint32_t b_low[2] = {words[0], words[1]}, b_high[2] = {words[2], words[3]};
        multiply_add<Element>(low, a.words, b_low);
        multiply_add<Element>(high, a.words, b_high);
      }
    }
  }
}

/// The e4m3 elements of bytes kFirst, 0 or 1, and kFirst + 2 of `word`.
template <int kFirst>
__device__ inline std::uint32_t widen_every_other(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return widen_two(__byte_perm(word, 0, 0x4420 + 0x11 * kFirst));  // one instruction
#else
  const std::uint32_t shifted = word >> (8 * kFirst);
  return widen_two((shifted & 0xFFu) | (shifted >> 8 & 0xFF00u));
#endif
}

/// out += weights . value for 16 tokens from row `first`, the columns of part `part` of the warps.
template <class Tile>
__device__ inline void multiply_values(float (&out)[Tile::kWarpValues / 8][4],
                                       const std::uint32_t (&weights)[4],
                                       const unsigned char* values, int first, int part) {
  using Element = typename Tile::Element;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kPairs = Tile::kWarpValues * Tile::kRowBytes / Tile::kHeadSize / 32;
  const int row = first + lane % 16;
  const int start = Tile::at(row, lane / 16) + 32 * part * kPairs;  // a part is whole 128 bytes
  KVPROOF_UNROLL
  for (int pair = 0; pair < kPairs; ++pair) {
    std::uint32_t words[4];
    load_tiles_transposed(words, values + chunk_ahead(start, 2 * pair));
    KVPROOF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t early = words[2 * half], late = words[2 * half + 1];
      if constexpr (Tile::kFp8) {
        const std::uint32_t even[2] = {widen_every_other<0>(early), widen_every_other<0>(late)};
        const std::uint32_t odd[2] = {widen_every_other<1>(early), widen_every_other<1>(late)};
        multiply_add<Element>(out[4 * pair + 2 * half], weights, even);
        multiply_add<Element>(out[4 * pair + 2 * half + 1], weights, odd);
      } else {
        const std::uint32_t b[2] = {early, late};
        multiply_add<Element>(out[2 * pair + half], weights, b);
      }
    }
  }
}

/// The column, of the warp's, that element `i` of this lane's `out[n]` belongs to.
template <class Tile>
__device__ inline int column_of(int n, int i) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
  return Tile::kFp8 ? n / 2 * 16 + column * 2 + n % 2 : n * 8 + column;
}

}  // namespace kvproof::kernels
