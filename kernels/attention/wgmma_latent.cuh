// SPDX-License-Identifier: Apache-2.0
// The latent attention kernel for Hopper: 64 query heads over rows of 512 and 64 elements, loaded
// by tensor copies and multiplied by warpgroups.
//
// Model:   One warp loads (wgmma_latent_memory.cuh). Warpgroup A multiplies the query by a tile,
//          turns the scores into weights, and sums the values of columns 0 to 255; warpgroup B sums
//          those of columns 256 to 511, with A's weights from shared memory. The values are the
//          bytes of the keys, read with the other major. A starts the scores of a tile behind its
//          sums of the tile before, so that the next tile has that long to arrive; if it has not
//          arrived, A finishes those sums first and frees their part. A matrix_fence follows every
//          wait for a barrier between products, without which ptxas lets no two of them overlap.
// Source:  Shah et al., FlashAttention-3 (arXiv:2407.08608); FlashInfer (arXiv:2501.01005) and
//          FlashMLA for warpgroups that have halves of the output's columns.
#pragma once

#include "kernels/attention/wgmma_latent_rows.cuh"

namespace kvproof::kernels {

// Named barriers of the block.
constexpr int kWeightsWritten = 1;  // A to B: weights and factors
constexpr int kWeightsRead = 2;     // B to A
constexpr int kTailCleared = 3;     // A alone

template <int kCount>
__device__ __forceinline__ void clear_sums(float (&sums)[kCount]) {
  KVPROOF_UNROLL
  for (int i = 0; i < kCount; ++i) sums[i] = 0;
}

/// One arrival of the warp.
__device__ inline void free_part(SharedAddress empty) {
  if (threadIdx.x % 32 == 0) barrier_arrive(empty);
}

/// The rows of a tile from `seen` on become zeros: zero times a stale NaN is none. By A.
__device__ inline void clear_tail(const LatentMemory& memory, int stage, std::int32_t seen) {
  const int first = (seen > 0 ? seen : 0) * 8;
  for (int part = 0; part < 2; ++part) {
    unsigned char* const to = memory.base + LatentMemory::stage_at(stage) + latent_part_at(part);
    const int chunks = static_cast<int>(latent_part_chunks(part));
    for (int n = first + static_cast<int>(threadIdx.x) % 128; n < kLatentTokens * 8; n += 128) {
      const int row = n / 8, in_group = row / 8 * chunks * 1024 + row % 8 * 128 + n % 8 * 16;
      for (int chunk = 0; chunk < chunks; ++chunk) store16(to + in_group + chunk * 1024, {});
    }
  }
  fence_async();
  named_sync(kTailCleared, 128);
}

/// Starts the scores' share of a part. @param query, rows of the whole query and of the part
template <class T, int kPart>
__device__ __forceinline__ void multiply_query(float (&scores)[32], MatrixDescriptor query,
                                               MatrixDescriptor rows) {
  constexpr std::uint32_t kChunkBytes = 64 * 128;  // of the query
  matrix_fence();
  KVPROOF_UNROLL
  for (std::uint32_t chunk = 0; chunk < latent_part_chunks(kPart); ++chunk) {
    KVPROOF_UNROLL
    for (std::uint32_t k = 0; k < 4; ++k) {
      warpgroup_multiply<T, Major::k>(scores,
                                      query.behind((4 * kPart + chunk) * kChunkBytes + k * 32),
                                      rows.behind(chunk * 1024 + k * 32), kPart + chunk + k > 0);
    }
  }
}

/// The rows of a part of a stage, as B of the scores' product.
template <int kPart>
__device__ __forceinline__ MatrixDescriptor keys_at(SharedAddress stage) {
  const auto layout = matrix_layout(16, latent_part_chunks(kPart) * 1024, Swizzle::bytes128);
  return matrix_at(layout, stage + latent_part_at(kPart));
}
/// The values of tokens 16 k and on of a part, 256 columns, as B of the sums' product.
template <int kPart>
__device__ __forceinline__ MatrixDescriptor values_at(SharedAddress stage, std::uint32_t k) {
  const auto layout = matrix_layout(1024, latent_part_chunks(kPart) * 1024, Swizzle::bytes128);
  return matrix_at(layout, stage + latent_part_at(kPart))
      .behind(k * 2 * latent_part_chunks(kPart) * 1024);
}

/// Gives B the weights of a tile, and what its sums are to be multiplied by before.
__device__ __forceinline__ void hand_over(const LatentMemory& memory,
                                          const std::uint32_t (&weights)[4][4],
                                          const float (&factor)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane % 16;
  named_sync(kWeightsRead, 256);
  KVPROOF_UNROLL
  for (int k = 0; k < 4; ++k) {
    const int chunk = (2 * k + lane / 16) ^ (row & 7);
    store_tiles(memory.base + LatentMemory::kWeightsAt + row * 128 + chunk * 16, weights[k]);
  }
  if (lane % 4 < 2)
    memory.factors()[latent_row() + lane % 4 * 8] = lane % 4 == 0 ? factor[0] : factor[1];
  fence_async();
  named_arrive(kWeightsWritten, 256);
}

/// Warpgroup A's state of a segment.
struct LatentLeft {
  float out[128];
  float scores[32];             // of a tile, and then its weights
  std::uint32_t weights[4][4];  // of the product that may still run
  LatentRow row;
};

/// One tile by A. @param open whether `out` may still be summed to, and its part is not free
template <class T>
__device__ __forceinline__ void attend_left(const LatentMemory& memory, LatentLeft& left, int count,
                                            std::int32_t seen, bool open, bool last,
                                            float to_log2) {
  const int stage = count % kLatentStages, parity = count / kLatentStages % 2;
  const SharedAddress freed = memory.empty(stage ^ 1, 0);
  float(&scores)[32] = left.scores;
  // A warp's instructions of the matrix unit are aligned: it decides as one.
  if (open && KVPROOF_BALLOT(barrier_ended(memory.full(stage, 0), parity)) != 0xFFFFFFFFu) {
    matrix_wait<0>();
    matrix_hold(left.out);
    free_part(freed);
    open = false;
  }
  barrier_wait(memory.full(stage, 0), parity);
  if (seen < kLatentTokens) {
    barrier_wait(memory.full(stage, 1), parity);
    clear_tail(memory, stage, seen);
  }
  const SharedAddress at = same_in_warp(memory.at + LatentMemory::stage_at(stage));
  const MatrixDescriptor query =
      matrix_at(matrix_layout(16, 1024, Swizzle::bytes128), same_in_warp(memory.query()));
  matrix_hold(scores);
  multiply_query<T, 0>(scores, query, keys_at<0>(at));
  barrier_wait(memory.full(stage, 1), parity);
  multiply_query<T, 1>(scores, query, keys_at<1>(at));
  matrix_commit();
  if (open) {
    matrix_wait<1>();
    free_part(freed);
  }
  matrix_wait<0>();
  matrix_hold(scores);
  matrix_hold(left.out);
  if (last) free_part(memory.query_empty());
  if (seen < kLatentTokens) hide_tail(scores, seen);
  float factor[2];
  soften_latent(scores, left.row, factor, to_log2);
  std::uint32_t(&weights)[4][4] = left.weights;
  KVPROOF_UNROLL
  for (int i = 0; i < 16; ++i)
    weights[i / 4][i % 4] = pack_two<T>(scores[2 * i], scores[2 * i + 1]);
  hand_over(memory, weights, factor);
  if (KVPROOF_BALLOT(factor[0] != 1.0F || factor[1] != 1.0F) != 0) rescale_rows(left.out, factor);
  matrix_hold(left.out);
  matrix_fence();
  KVPROOF_UNROLL
  for (std::uint32_t k = 0; k < 4; ++k) {
    warpgroup_multiply<T, Major::mn>(left.out, weights[k], values_at<0>(at, k), true);
  }
  matrix_commit();
  add_weights(scores, left.row, factor);
}

/// What a segment's sums are multiplied by, and the log-sum-exp of its rows.
__device__ __forceinline__ void end_latents(LatentRow& row, float to_log2, float (&factor)[2],
                                            float (&lse)[2]) {
  constexpr float kLn2 = 0.6931471805599453F;
  KVPROOF_UNROLL
  for (int h = 0; h < 2; ++h) {
    row.sum[h] += KVPROOF_SHUFFLE_XOR(row.sum[h], 1);
    row.sum[h] += KVPROOF_SHUFFLE_XOR(row.sum[h], 2);
    const bool is_some = row.sum[h] > 0;
    factor[h] = is_some ? 1.0F / row.sum[h] : 0.0F;
    lse[h] = is_some ? row.highest[h] * to_log2 * kLn2 + logf(row.sum[h]) : -INFINITY;
  }
}

/// All segments of the block's share by A.
template <class T>
__device__ __forceinline__ void run_left(const AttentionParams<PagedKv>& p,
                                         const LatentMemory& memory, LatentShare share,
                                         std::int32_t head_tile) {
  constexpr float kLog2E = 1.4426950408889634F;
  const float to_log2 = p.shape.scale * kLog2E;
  const bool tells = threadIdx.x % 4 == 0;
  int count = 0, segments = 0;
  for (; share.next(p); share.advance(p), ++segments) {
    LatentLeft left;
    clear_sums(left.out);
    clear_sums(left.scores);
    barrier_wait(memory.query_full(), segments % 2);
    for (std::int32_t tile = share.begin; tile < share.end; ++tile, ++count) {
      attend_left<T>(memory, left, count, share.length - tile * kLatentTokens, tile > share.begin,
                     tile == share.end - 1, to_log2);
    }
    matrix_wait<0>();
    matrix_hold(left.out);
    free_part(memory.empty((count - 1) % kLatentStages, 0));
    float factor[2], lse[2];
    end_latents(left.row, to_log2, factor, lse);
    named_sync(kWeightsRead, 256);
    KVPROOF_UNROLL
    for (int h = 0; h < 2; ++h) {
      if (tells) memory.factors()[latent_row() + 8 * h] = factor[h];
    }
    named_arrive(kWeightsWritten, 256);
    rescale_rows(left.out, factor);
    write_latents<T>(p, share, head_tile, 0, left.out, lse);
  }
  named_sync(kWeightsRead, 256);  // B's last arrival
}

/// All segments by B.
template <class T>
__device__ __forceinline__ void run_right(const AttentionParams<PagedKv>& p,
                                          const LatentMemory& memory, LatentShare share,
                                          std::int32_t head_tile) {
  const auto weights = matrix_at(matrix_layout(16, 1024, Swizzle::bytes128), memory.weights());
  int count = 0;
  named_arrive(kWeightsRead, 256);
  for (; share.next(p); share.advance(p)) {
    float out[128];
    clear_sums(out);
    const auto factors = [&](float(&factor)[2]) {
      named_sync(kWeightsWritten, 256);
      factor[0] = memory.factors()[latent_row()];
      factor[1] = memory.factors()[latent_row() + 8];
    };
    float factor[2];
    for (std::int32_t tile = share.begin; tile < share.end; ++tile, ++count) {
      const int stage = count % kLatentStages;
      const SharedAddress at = same_in_warp(memory.at + LatentMemory::stage_at(stage));
      barrier_wait(memory.full(stage, 1), count / kLatentStages % 2);
      factors(factor);
      if (KVPROOF_BALLOT(factor[0] != 1.0F || factor[1] != 1.0F) != 0) rescale_rows(out, factor);
      matrix_hold(out);
      matrix_fence();
      KVPROOF_UNROLL
      for (std::uint32_t k = 0; k < 4; ++k) {
        warpgroup_multiply<T, Major::mn>(out, weights.behind(k * 32), values_at<1>(at, k), true);
      }
      matrix_commit();
      matrix_wait<0>();
      matrix_hold(out);
      named_arrive(kWeightsRead, 256);
      free_part(memory.empty(stage, 1));
    }
    factors(factor);
    named_arrive(kWeightsRead, 256);
    rescale_rows(out, factor);
    write_latents<T>(p, share, head_tile, 1, out, {0, 0});
  }
}

/// One block per (piece or run, 64 query heads). @tparam T Bf16 or Fp16
template <class T>
__global__ void __launch_bounds__(kLatentThreads, 1)
    latent_wgmma_kernel(const KVPROOF_GRID_CONSTANT LatentMaps maps,
                        const AttentionParams<PagedKv> p) {
#if KVPROOF_HAS_HOPPER
  KVPROOF_DYNAMIC_SHARED(unsigned char, shared);
  const LatentMemory memory(shared);
  const std::int32_t head_tiles = ceil_of(p.shape.num_heads, kLatentRows);
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t piece = block / head_tiles, head_tile = block % head_tiles;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      tensor_prefetch(maps.query);
      tensor_prefetch(maps.parts[0]);
      tensor_prefetch(maps.parts[1]);
    }
    LatentCut cut = cut_latents(p, static_cast<std::int32_t>(gridDim.x) / head_tiles);
    find_share(p, piece, cut);
    if (threadIdx.x == 0) {
      init_latent_barriers(memory);
      *memory.cut() = cut;
    }
  }
  KVPROOF_BARRIER();
  const LatentShare share(*memory.cut(), piece);
  if (threadIdx.x < 128) {
    registers_down<24>();
    if (threadIdx.x < 32) load_latents(maps, p, memory, share, head_tile);
  } else if (threadIdx.x < 256) {
    registers_up<240>();
    run_left<T>(p, memory, share, head_tile);
  } else {
    registers_up<240>();
    run_right<T>(p, memory, share, head_tile);
  }
#elif defined(__CUDACC__)
  __trap();
#endif
}

}  // namespace kvproof::kernels
