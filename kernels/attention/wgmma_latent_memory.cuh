// SPDX-License-Identifier: Apache-2.0
// Latents in the shared memory of the Hopper kernel: where they lie, and how they get there.
//
// Model:   A row of 576 elements is nine chunks of 128 bytes. A tile of 64 rows is two parts that
//          have barriers of their own: chunks 0 to 3, whose 256 columns are the values of one
//          warpgroup, and 4 to 8, with those of the other and the rotary ones. A part lies as
//          [8 groups of 8 rows][its chunks][8 rows][128 bytes], each chunk of a group permuted with
//          a period of 1,024 bytes: a box of the map brings a page, or 64 tokens of a longer one.
#pragma once

#include "kernels/attention/wgmma_latent_share.cuh"

namespace kvproof::kernels {

constexpr int kLatentRows = 64;  // query heads of a block
constexpr int kLatentStages = 2;
constexpr int kLatentThreads = 384;  // a warpgroup that loads, two that multiply

KVPROOF_HOST_DEVICE constexpr std::uint32_t latent_part_chunks(std::int32_t part) {
  return part == 0 ? 4 : 5;
}
/// [bytes] from the beginning of a stage
KVPROOF_HOST_DEVICE constexpr std::uint32_t latent_part_at(std::int32_t part) {
  return part == 0 ? 0 : latent_part_chunks(0) * kLatentTokens * 128;
}
KVPROOF_HOST_DEVICE constexpr int latent_part_bytes(std::int32_t part) {
  return static_cast<int>(latent_part_chunks(part)) * kLatentTokens * 128;
}

/// How a block lays out its dynamic shared memory, from a multiple of 1,024.
struct LatentMemory {
  static constexpr int kTileBytes = kLatentTokens * 576 * 2;  // of a stage, and of the query
  static constexpr int kWeightsAt = kTileBytes * (1 + kLatentStages);
  static constexpr int kBarriersAt = kWeightsAt + kLatentRows * kLatentTokens * 2;
  static constexpr int kFactorsAt = kBarriersAt + 128;
  static constexpr int kCutAt = kFactorsAt + 4 * kLatentRows;
  static constexpr int kBytes = kCutAt + 64 + 1024;  // the launch's memory is aligned to less
  static_assert(kBytes <= 227 << 10);

  unsigned char* base;
  SharedAddress at;

  __device__ explicit LatentMemory(unsigned char* shared) {
    const SharedAddress up = -shared_address(shared) & 1023;
    base = shared + up;
    at = shared_address(shared) + up;
  }
  [[nodiscard]] __device__ SharedAddress query() const { return at; }
  [[nodiscard]] __device__ static constexpr std::uint32_t stage_at(int stage) {
    return kTileBytes * (1 + static_cast<std::uint32_t>(stage));
  }
  /// The weights of both warpgroups: [64 rows][64 tokens], 16 bits.
  [[nodiscard]] __device__ SharedAddress weights() const { return at + kWeightsAt; }
  [[nodiscard]] __device__ SharedAddress query_full() const { return at + kBarriersAt; }
  [[nodiscard]] __device__ SharedAddress query_empty() const { return at + kBarriersAt + 8; }
  [[nodiscard]] __device__ SharedAddress full(int stage, int part) const {
    return at + kBarriersAt + 16 + 8 * static_cast<SharedAddress>(2 * stage + part);
  }
  [[nodiscard]] __device__ SharedAddress empty(int stage, int part) const {
    return full(kLatentStages + stage, part);
  }
  /// What a row's sums are multiplied by.
  [[nodiscard]] __device__ float* factors() const {
    return reinterpret_cast<float*>(base + kFactorsAt);
  }
  [[nodiscard]] __device__ LatentCut* cut() const {
    return reinterpret_cast<LatentCut*>(base + kCutAt);
  }
};
static_assert(sizeof(LatentCut) <= 64);

/// By one thread, before the block's barrier.
__device__ inline void init_latent_barriers(const LatentMemory& memory) {
  barrier_init(memory.query_full(), 1);
  barrier_init(memory.query_empty(), 4);  // the warps of a warpgroup
  for (int stage = 0; stage < kLatentStages; ++stage) {
    for (int part = 0; part < 2; ++part) {
      barrier_init(memory.full(stage, part), 1);
      barrier_init(memory.empty(stage, part), 4);
    }
  }
  fence_barrier_init();
}

/// The tokens that a box brings: as many as a page has, if that divides a tile, else as many as
/// divide both.
KVPROOF_HOST_DEVICE constexpr std::int32_t latent_box(std::int32_t block_size) {
  const std::int32_t even = block_size & -block_size;
  return even < kLatentTokens ? even : kLatentTokens;
}

/// What is loaded: 64 heads of the query, and of a page each part.
struct LatentMaps {
  TensorMap query;
  TensorMap parts[2];
};

/// Loads what the block's share needs. By one warp.
__device__ inline void load_latents(const LatentMaps& maps, const AttentionParams<PagedKv>& p,
                                    const LatentMemory& memory, LatentShare share,
                                    std::int32_t head_tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int32_t block_size = p.kv.key_layout.block_size, box = latent_box(block_size);
  const std::int32_t token = lane * box;  // of the tile: a lane has a box
  const bool has_box = token < kLatentTokens;
  int count = 0, segments = 0;
  for (; share.next(p); share.advance(p), ++segments) {
    // Beyond the end there is no page -1: zeros.
    const auto page_of = [&](std::int32_t tile) {
      const std::int32_t position = tile * kLatentTokens + token;
      return has_box && position < share.length
                 ? static_cast<std::int32_t>(p.kv.block_of(share.seq, position))
                 : -1;
    };
    std::int32_t next = page_of(share.begin);
    for (std::int32_t tile = share.begin; tile < share.end; ++tile, ++count) {
      const std::int32_t page = next, stage = count % kLatentStages;
      if (tile + 1 < share.end) next = page_of(tile + 1);
      const std::int32_t group = (tile * kLatentTokens + token) % block_size / 8;
      KVPROOF_UNROLL
      for (int part = 0; part < 2; ++part) {
        barrier_wait(memory.empty(stage, part), (count / kLatentStages + 1) % 2);
        if (lane == 0) barrier_expect(memory.full(stage, part), latent_part_bytes(part));
        KVPROOF_WARP_BARRIER();
        if (!has_box) continue;
        tensor_load(memory.at + LatentMemory::stage_at(stage) + latent_part_at(part) +
                        static_cast<std::uint32_t>(token) * latent_part_chunks(part) * 128,
                    maps.parts[part], {0, 0, 4 * part, group, page}, memory.full(stage, part));
      }
      if (tile > share.begin) continue;
      barrier_wait(memory.query_empty(), (segments + 1) % 2);
      if (lane == 0) {
        barrier_expect(memory.query_full(), LatentMemory::kTileBytes);
        tensor_load(memory.query(), maps.query, {0, head_tile * kLatentRows, 0, share.seq},
                    memory.query_full());
      }
    }
  }
}

}  // namespace kvproof::kernels
