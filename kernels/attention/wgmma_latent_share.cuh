// SPDX-License-Identifier: Apache-2.0
// Which tiles of a batch's latents a block of the Hopper kernel has, found on the device.
//
// Model:   A tile is 64 tokens of a sequence; a pad has one, of no tokens. Where it balances, every
//          sequence is cut by itself, into equal pieces of at most `length` tiles, and a block has
//          one piece: to end a piece and begin another takes as long as kLatentEndTiles. Else all
//          tiles stand behind each other and are cut into equal runs, which go over the ends of
//          sequences. A sequence has at most num_splits pieces either way; with one split a run has
//          the sequences that begin in it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/simt/hopper.h"

namespace kvproof::kernels {

constexpr int kLatentTokens = 64;   // of a tile
constexpr int kLatentEndTiles = 4;  // about 10 us of 3 us a tile

/// A number that all lanes of the warp have, in a register that they share (REDUX leaves it there):
/// what is computed of it costs each warp once, and descriptors want such registers.
/// @tparam T of 32 bits, an integer
template <class T>
__device__ inline T same_in_warp(T value) {
#if defined(__CUDACC__)
  return __reduce_max_sync(0xFFFFFFFFu, value);
#else
  return KVPROOF_SHUFFLE(value, 0);
#endif
}

__device__ inline std::int32_t sum_of_warp(std::int32_t value) {
#if defined(__CUDACC__)
  return __reduce_add_sync(0xFFFFFFFFu, value);
#else
  for (int step = 16; step > 0; step /= 2) value += KVPROOF_SHUFFLE_XOR(value, step);
  return value;
#endif
}
__device__ inline std::int32_t most_of_warp(std::int32_t value) {
#if defined(__CUDACC__)
  return __reduce_max_sync(0xFFFFFFFFu, value);
#else
  for (int step = 16; step > 0; step /= 2) {
    value = std::max(value, KVPROOF_SHUFFLE_XOR(value, step));
  }
  return value;
#endif
}

KVPROOF_HOST_DEVICE constexpr std::int32_t latent_tiles(std::int32_t length) {
  return length <= 0 ? 1 : (length - 1) / kLatentTokens + 1;
}
KVPROOF_HOST_DEVICE constexpr std::int32_t ceil_of(std::int32_t a, std::int32_t b) {
  return (a + b - 1) / b;
}

/// `total` tiles in `count` parts whose lengths differ by one at most.
struct EqualParts {
  std::int32_t total = 0, count = 1;

  [[nodiscard]] KVPROOF_HOST_DEVICE std::int32_t begin(std::int32_t part) const {
    const std::int32_t longer = total % count;
    return part * (total / count) + (part < longer ? part : longer);
  }
  /// The part that a tile is in.
  [[nodiscard]] KVPROOF_HOST_DEVICE std::int32_t of(std::int32_t tile) const {
    const std::int32_t least = total / count, longer = total % count;
    const std::int32_t in_longer = longer * (least + 1);
    return tile < in_longer ? tile / (least + 1) : longer + (tile - in_longer) / least;
  }
};

/// How the batch is cut, and where the share of a block begins.
struct LatentCut {
  std::int32_t length = 0;  // [tiles] of a sequence's pieces at most; 0: runs
  EqualParts runs;          // of all tiles
  std::int32_t seq = 0;     // the first sequence of the share
  std::int32_t before = 0;  // pieces (runs: tiles) before that sequence
};

/// The pieces of all sequences, if none is longer than this. By a warp.
__device__ inline std::int32_t count_pieces(const AttentionParams<PagedKv>& p,
                                            std::int32_t length) {
  std::int32_t mine = 0;
  for (std::int32_t s = static_cast<std::int32_t>(threadIdx.x) % 32; s < p.num_seqs; s += 32) {
    mine += ceil_of(latent_tiles(p.seq_lens[s]), length);
  }
  return sum_of_warp(mine);
}

/// Cuts the batch for so many places. By a warp.
__device__ inline LatentCut cut_latents(const AttentionParams<PagedKv>& p, std::int32_t places) {
  std::int32_t total = 0, longest = 1;
  for (std::int32_t s = static_cast<std::int32_t>(threadIdx.x) % 32; s < p.num_seqs; s += 32) {
    const std::int32_t tiles = latent_tiles(p.seq_lens[s]);
    total += tiles;
    longest = tiles > longest ? tiles : longest;
  }
  total = sum_of_warp(total);
  longest = most_of_warp(longest);
  // A run of n tiles or more meets at most (longest - 1) / n + 1 others, rounded up, in a sequence.
  const std::int32_t others = p.num_splits - 1;
  const std::int32_t least_run = others == 0 || longest == 1 ? 1 : ceil_of(longest - 1, others);
  const std::int32_t most_runs = total / least_run;
  LatentCut cut;
  cut.runs = {total, most_runs < places ? most_runs : places};
  const std::int32_t for_places = ceil_of(total, places);
  const std::int32_t for_splits = ceil_of(longest, p.num_splits);
  std::int32_t low = for_places > for_splits ? for_places : for_splits;
  std::int32_t high = ceil_of(total, cut.runs.count) + kLatentEndTiles;
  if (others == 0 || high > longest) high = longest;
  if (low > high || count_pieces(p, high) > places) return cut;
  for (std::int32_t length = low; low < high; length = low + (high - low) / 2) {
    if (count_pieces(p, length) <= places) {
      high = length;
    } else {
      low = length + 1;
    }
  }
  cut.length = high;
  return cut;
}

/// Finds the first sequence of a block's share. By a warp.
__device__ inline void find_share(const AttentionParams<PagedKv>& p, std::int32_t piece,
                                  LatentCut& cut) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int32_t from = cut.length > 0 ? piece : cut.runs.begin(piece);
  const bool whole = cut.length == 0 && p.num_splits == 1;
  std::int32_t before = 0;
  for (cut.seq = 0; cut.seq < p.num_seqs; cut.seq += 32) {
    const std::int32_t s = cut.seq + lane;
    std::int32_t mine = s < p.num_seqs ? latent_tiles(p.seq_lens[s]) : 0;
    if (cut.length > 0) mine = ceil_of(mine, cut.length);
    std::int32_t up_to = mine;
    for (int step = 1; step < 32; step *= 2) {
      const std::int32_t other = KVPROOF_SHUFFLE(up_to, lane < step ? lane : lane - step);
      if (lane >= step) up_to += other;
    }
    const bool is_before = whole ? before + up_to - mine < from : before + up_to <= from;
    const std::int32_t first = sum_of_warp(is_before ? 1 : 0);
    if (first < 32) {
      cut.seq += first;
      cut.before = before + KVPROOF_SHUFFLE(up_to - mine, first);
      return;
    }
    before += KVPROOF_SHUFFLE(up_to, 31);
  }
}

/// The share of a block, segment by segment: tiles that are behind each other in one sequence.
struct LatentShare {
  LatentCut cut;
  std::int32_t piece = 0, at = 0, to = 0;  // runs: [tiles] of all
  std::int32_t seq = 0, before = 0;        // see LatentCut
  std::int32_t length = 0;                 // [tokens] of the sequence
  std::int32_t begin = 0, end = 0;         // [tiles] of the segment, in its sequence
  std::int32_t slot = 0, pieces = 1;       // of the segment, among the sequence's

  __device__ LatentShare(const LatentCut& of, std::int32_t number) : cut(of), piece(number) {
    cut.length = same_in_warp(cut.length);
    cut.runs = {same_in_warp(cut.runs.total), same_in_warp(cut.runs.count)};
    seq = same_in_warp(cut.seq);
    before = same_in_warp(cut.before);
    if (cut.length > 0) return;
    const bool is_there = piece < cut.runs.count;
    at = is_there ? cut.runs.begin(piece) : 0;
    to = is_there ? cut.runs.begin(piece + 1) : 0;
  }
  /// Whether there is a segment.
  __device__ bool next(const AttentionParams<PagedKv>& p) {
    if (seq >= p.num_seqs) return false;
    const bool whole = p.num_splits == 1;
    if (cut.length == 0 && (whole ? before : at) >= to) return false;
    length = same_in_warp(p.seq_lens[seq]);
    const std::int32_t tiles = latent_tiles(length);
    if (cut.length > 0) {
      const EqualParts parts{tiles, ceil_of(tiles, cut.length)};
      pieces = parts.count;
      slot = piece - before;
      begin = parts.begin(slot);
      end = parts.begin(slot + 1);
    } else if (whole) {
      end = tiles;
    } else {
      const std::int32_t first = cut.runs.of(before);
      pieces = cut.runs.of(before + tiles - 1) - first + 1;
      slot = piece - first;
      begin = at - before;
      end = tiles < to - before ? tiles : to - before;
    }
    return true;
  }
  __device__ void advance(const AttentionParams<PagedKv>& p) {
    if (cut.length > 0) {
      seq = p.num_seqs;
      return;
    }
    const std::int32_t tiles = latent_tiles(length);
    at = before + end;
    if (end < tiles) return;
    before += tiles;
    ++seq;
  }
};

}  // namespace kvproof::kernels
