// SPDX-License-Identifier: Apache-2.0
// The longest cached prefix: where a lookup stops.
#include "optimized/manager/prefix_search.h"

#include <gtest/gtest.h>

#include <array>

#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

/// A pool that holds chosen positions of one chain of keys in every group.
struct Chain {
  explicit Chain(const CacheConfig& config)
      : pool(config.num_blocks, {}), groups(make_groups<Key128>(config)), search(config) {
    for (std::uint64_t i = 0; i < units.size(); ++i) units[i] = {{~i << 40U, i}};
    tables.resize(groups.size());
    hits.resize(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) tables[g].hit = hits[g].data();
  }

  void publish(GroupId group, std::uint32_t position) {
    pool.publish(pool.take_one(), groups[group].key(units.data(), position), group, 0);
  }
  std::uint32_t find(std::uint32_t max_tokens) {
    return search.find(pool, units.data(), 8, max_tokens, tables.data()).hit;
  }

  std::array<Key128, 8> units{};
  BlockPool<Key128> pool;
  std::vector<LayerGroup<Key128>> groups;
  PrefixSearch<Key128> search;
  std::vector<GroupTable> tables;
  std::vector<std::array<BlockId, 16>> hits;
};

TEST(PrefixSearch, TheFirstGapEndsThePrefix) {
  Chain chain(properties::small_config());
  for (const std::uint32_t position : {0U, 1U, 3U}) chain.publish(0, position);
  EXPECT_EQ(chain.find(20), 8U);
  EXPECT_EQ(chain.tables[0].hit_length, 2U);
  EXPECT_EQ(chain.find(7), 4U) << "a hit within the tokens that are asked for";

  std::array<BlockId, 4> noted{};
  const auto gap_at_two = [](std::uint32_t i) { return i == 2 ? kNoBlock : BlockId(i + 1); };
  EXPECT_EQ(leading_hits(4, noted.data(), gap_at_two), 2U);
  EXPECT_EQ(noted, (std::array<BlockId, 4>{1, 2, 0, 0}));
}

TEST(PrefixSearch, AllGroupsMustHaveWhatTheyStillRead) {
  const GroupConfig full{.block_size = 4};
  const GroupConfig window{.kind = LayerKind::sliding_window, .block_size = 4, .window = 5};
  Chain chain(properties::small_config({full, window}));
  for (const std::uint32_t position : {0U, 1U, 2U}) chain.publish(0, position);
  EXPECT_EQ(chain.find(20), 0U) << "the window has nothing";
  chain.publish(1, 1);
  EXPECT_EQ(chain.find(20), 8U) << "the window reads one block before token 8";
  EXPECT_EQ(chain.tables[1].hit[0], kNullBlock);
}

}  // namespace
}  // namespace kvproof::optimized
