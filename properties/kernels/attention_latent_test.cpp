// SPDX-License-Identifier: Apache-2.0
// How the latent kernel for Hopper cuts a batch: every tile is in one segment of one block, no
// sequence has more pieces than splits, and no block has much more than its share.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/attention/wgmma_latent_share.cuh"
#include "properties/kernels/memory.h"

namespace kvproof::properties {
namespace {

struct Segment {
  std::int32_t block, seq, begin, end, slot, pieces;
};

/// The segments of all blocks, as a warp of each finds them.
std::vector<Segment> segments_of(const std::vector<std::int32_t>& lens, std::int32_t num_splits,
                                 std::int32_t places) {
  kernels::AttentionParams<kernels::PagedKv> p;
  p.num_seqs = static_cast<std::int32_t>(lens.size());
  p.seq_lens = lens.data();
  p.num_splits = num_splits;
  std::vector<Segment> out;
  simt::launch({static_cast<unsigned>(places), 1, 1}, {32, 1, 1}, 0, [&] {
    const auto block = static_cast<std::int32_t>(blockIdx.x);
    kernels::LatentCut cut = kernels::cut_latents(p, places);
    kernels::find_share(p, block, cut);
    kernels::LatentShare share(cut, block);
    for (; share.next(p); share.advance(p)) {
      if (threadIdx.x != 0) continue;
      out.push_back({block, share.seq, share.begin, share.end, share.slot, share.pieces});
    }
  });
  std::ranges::sort(out, {}, [](const Segment& s) { return std::pair(s.seq, s.begin); });
  return out;
}

/// Requires the segments of every sequence to be its pieces, in order.
void expect_whole(const std::vector<Segment>& segments, const std::vector<std::int32_t>& lens,
                  std::int32_t num_splits) {
  std::size_t at = 0;
  for (std::int32_t seq = 0; seq < static_cast<std::int32_t>(lens.size()); ++seq) {
    std::int32_t tile = 0, slot = 0, pieces = 1;
    for (; at < segments.size() && segments[at].seq == seq; ++at, ++slot) {
      EXPECT_EQ(segments[at].begin, tile);
      EXPECT_EQ(segments[at].slot, slot);
      EXPECT_LT(tile, segments[at].end);
      tile = segments[at].end;
      pieces = segments[at].pieces;
      EXPECT_LE(pieces, num_splits);
    }
    EXPECT_EQ(tile, kernels::latent_tiles(lens[static_cast<std::size_t>(seq)])) << "of " << seq;
    EXPECT_EQ(slot, pieces) << "of " << seq;
  }
  EXPECT_EQ(at, segments.size());
}

/// The most tiles that a block has, where every segment but its first costs as many as an end.
std::int32_t longest_of(const std::vector<Segment>& segments, std::int32_t places) {
  std::vector<std::int32_t> tiles(static_cast<std::size_t>(places), -kernels::kLatentEndTiles);
  for (const Segment& s : segments) {
    tiles[static_cast<std::size_t>(s.block)] += s.end - s.begin + kernels::kLatentEndTiles;
  }
  return *std::ranges::max_element(tiles);
}

TEST(LatentShares, AreEveryTileOnceAndNoMorePiecesThanSplits) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const std::int32_t most = random.of({1, 200, 5000}), batch = random.between(1, 70);
    const std::int32_t places = random.of({1, 2, 3, 33, 66, 132}), splits = random.between(1, 9);
    std::vector<std::int32_t> lens;
    for (std::int32_t s = 0; s < batch; ++s) {
      lens.push_back(random.one_in(8) ? 0 : random.between(0, most));
    }
    const std::vector<Segment> segments = segments_of(lens, splits, places);
    expect_whole(segments, lens, splits);
    ASSERT_FALSE(::testing::Test::HasFailure())
        << "batch " << batch << " of up to " << most << ", " << splits << " splits, " << places;
  }
}

TEST(LatentShares, AreEven) {
  struct Batch {
    std::int32_t num_seqs, tokens, splits, places, most_tiles;
  };
  for (const auto& [num_seqs, tokens, splits, places, most_tiles] :
       {Batch{32, 4096, 4, 132, 16}, Batch{32, 4096, 2, 66, 32}, Batch{1, 131072, 132, 132, 16},
        Batch{32, 4096, 8, 132, 16},   // pieces of their own: runs of 15.5 would end twice
        Batch{100, 4096, 3, 132, 58},  // runs of 48.5: two ends
        Batch{140, 4096, 3, 132, 76},  // runs of 67.9: with whole sequences 128
        Batch{100, 4096, 1, 132, 64}, Batch{264, 4096, 1, 132, 132}}) {
    const std::vector<std::int32_t> lens(static_cast<std::size_t>(num_seqs), tokens);
    const std::vector<Segment> segments = segments_of(lens, splits, places);
    expect_whole(segments, lens, splits);
    EXPECT_LE(longest_of(segments, places), most_tiles) << num_seqs << " of " << tokens;
  }
}

}  // namespace
}  // namespace kvproof::properties
