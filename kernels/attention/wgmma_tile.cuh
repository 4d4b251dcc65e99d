// SPDX-License-Identifier: Apache-2.0
// The prefill kernel for Hopper: sizes of a tile, and where it lies in shared memory.
//
// Model:   Rows of 16-bit elements lie in pieces of 128 bytes, eight rows of a piece behind each
//          other: 1,024 bytes in which 16-byte chunks are permuted by the row's number. K and V
//          have all pieces of 8 tokens together, so that one copy brings a whole block of the
//          cache; the query has all rows of a piece together.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention/attention.h"
#include "kernels/simt/hopper.h"

namespace kvproof::kernels {

constexpr int kWgmmaRows = 128;  // of a tile; each of two warpgroups multiplies 64
constexpr int kWgmmaThreads = 384;
constexpr int kWgmmaStages = 2;  // of K, and of V
constexpr int kPieceBytes = 1024;

/// Sizes of one instantiation. @tparam Cache Bf16, Fp16 or Fp8E4M3
template <class Cache, int kHead>
struct WgmmaTile {
  static constexpr bool kFp8 = sizeof(Cache) == 1;
  using Element = std::conditional_t<kFp8, Fp16, Cache>;  // what is multiplied; e4m3 fits exactly
  static constexpr int kHeadSize = kHead;
  static constexpr int kTokens = kHead > 128 ? 64 : 128;  // of a stage
  static constexpr int kChunks = kHead / 8;               // of a row of Elements
  static constexpr int kCacheBytes = static_cast<int>(sizeof(Cache));
  static constexpr int kCacheChunks = kHead * kCacheBytes / 16;  // of a row of the cache
  static constexpr int kGroupBytes = kHead / 64 * kPieceBytes;   // 8 tokens of K or V
  static constexpr int kStageBytes = kTokens * kHead * 2;
  static constexpr int kQueryBytes = kWgmmaRows * kHead;            // of one warpgroup
  static constexpr int kLandingBytes = kFp8 ? kTokens * kHead : 0;  // rows that are to be widened
  // Registers of a thread: together no more than the block starts with.
  static constexpr int kLoaderRegisters = kFp8 ? 72 : 40;
  static constexpr int kMatrixRegisters = kFp8 ? 216 : 232;

  static constexpr MatrixDescriptor kQueryLayout =
      matrix_layout(16, kPieceBytes, Swizzle::bytes128);
  static constexpr MatrixDescriptor kKeyLayout = matrix_layout(16, kGroupBytes, Swizzle::bytes128);
  static constexpr MatrixDescriptor kValueLayout =
      matrix_layout(kPieceBytes, kGroupBytes, Swizzle::bytes128);

  /// [bytes] of chunk `chunk` from the start of K or V
  __device__ static int at(int row, int chunk) {
    return row / 8 * kGroupBytes + chunk / 8 * kPieceBytes + row % 8 * 128 +
           ((chunk ^ row) & 7) * 16;
  }
  /// [bytes] from the start of a warpgroup's query
  __device__ static int query_at(int row, int chunk) {
    return chunk / 8 * (64 * 128) + row * 128 + ((chunk ^ row) & 7) * 16;
  }
};

enum class Side : std::uint8_t { keys, values };

/// How a block lays out its dynamic shared memory.
template <class Tile>
struct WgmmaMemory {
  static constexpr int kStagesAt = 2 * Tile::kQueryBytes;
  static constexpr int kLandingAt = kStagesAt + 2 * kWgmmaStages * Tile::kStageBytes;
  static constexpr int kFactorsAt = kLandingAt + 2 * Tile::kLandingBytes;
  static constexpr int kBarriersAt = kFactorsAt + 4 * kWgmmaRows;
  static constexpr int kRowTilesAt = (kBarriersAt + 8 * (4 * kWgmmaStages + 1) + 15) / 16 * 16;
  static constexpr int kBytes = kRowTilesAt + 8 * 64 + 1024;

  unsigned char* base;  // a multiple of 1,024
  SharedAddress address;

  __device__ explicit WgmmaMemory(unsigned char* shared)
      : base(shared + (1024 - shared_address(shared) % 1024) % 1024),
        address(shared_address(base)) {}

  __device__ static int stage_at(Side side, int stage) {
    return kStagesAt + (static_cast<int>(side) * kWgmmaStages + stage) * Tile::kStageBytes;
  }
  __device__ static int query_at(int group) { return group * Tile::kQueryBytes; }
  __device__ unsigned char* landing(int half) const {
    return base + kLandingAt + half * Tile::kLandingBytes;
  }
  /// What the scores of each row are multiplied by
  __device__ float* factors() const { return reinterpret_cast<float*>(base + kFactorsAt); }

  /// Where a warp that multiplies keeps its RowTile
  __device__ void* tile() const { return base + kRowTilesAt + 64 * (threadIdx.x / 32 - 4); }
  // Barriers: a stage has been filled; it has been read; rows that are to become zeros have landed.
  __device__ SharedAddress full(Side side, int stage) const {
    return address + kBarriersAt + 8 * (static_cast<int>(side) * kWgmmaStages + stage);
  }
  __device__ SharedAddress empty(Side side, int stage) const {
    return full(side, stage) + 8 * 2 * kWgmmaStages;
  }
  __device__ SharedAddress landed() const { return address + kBarriersAt + 8 * 4 * kWgmmaStages; }

  /// @param fillers arrivals that fill a stage
  __device__ void init_barriers(int fillers) const {
    for (int stage = 0; stage < kWgmmaStages; ++stage) {
      for (const Side side : {Side::keys, Side::values}) {
        barrier_init(full(side, stage), fillers);
        barrier_init(empty(side, stage), 8);  // warps
      }
    }
    barrier_init(landed(), 1);
    fence_barrier_init();
  }
};

/// Counts the uses of a ring of stages.
struct StageTurn {
  std::uint32_t count = 0;
  [[nodiscard]] __device__ int stage() const { return static_cast<int>(count % kWgmmaStages); }
  /// Of the phase in which the stage is filled
  [[nodiscard]] __device__ int parity() const { return static_cast<int>(count / kWgmmaStages & 1); }
};

}  // namespace kvproof::kernels
