// SPDX-License-Identifier: Apache-2.0
// One layer group over one table: need, growth, publication, recycling.
#include "optimized/manager/layer_group.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "optimized/manager/requests.h"
#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

using properties::demand_for;
using properties::small_config;

struct OneTable {
  explicit OneTable(const CacheConfig& config)
      : pool(config.num_blocks, {.order = config.profile.caching_on,
                                 .new_states = config.groups.front().kind == LayerKind::mamba}),
        group(config, 0) {
    table.blocks = blocks.data();
    table.hit = hits.data();
    table.capacity = 16;
    group.set_published(table, kNever);
    group.set_kept_from(table, 0);
    for (std::uint64_t i = 0; i < units.size(); ++i) units[i] = {{~i, i}};
  }

  std::uint32_t grow_to(std::uint64_t tokens) {
    const Demand demand = demand_for(tokens);
    EXPECT_GE(group.need(table, {}, demand, pool), 0);
    return group.allocate(table, demand, pool, copy);
  }

  std::array<BlockId, 16> blocks{}, hits{};
  std::array<Key128, 16> units{};
  BlockPool<Key128> pool;
  LayerGroup<Key128> group;
  GroupTable table{};
  TailCopy copy;

  [[nodiscard]] Content<Key128> content() const { return {units.data(), 16}; }
};

TEST(LayerGroup, TakesWhatItSaysItNeeds) {
  OneTable one(small_config());
  EXPECT_EQ(one.group.need(one.table, {}, demand_for(9), one.pool), 3);
  EXPECT_EQ(one.grow_to(9), 3U);
  EXPECT_EQ(one.table.length, 3U);
  EXPECT_EQ(one.pool.num_free(), 12U);
  EXPECT_EQ(one.grow_to(12), 0U);
}

TEST(LayerGroup, PublishesCompleteBlocksOnce) {
  OneTable one(small_config());
  one.grow_to(9);
  one.group.publish(one.table, one.content(), 9, one.pool);
  EXPECT_EQ(one.table.progress(), 2U);
  EXPECT_EQ(one.pool.index().find(one.group.key(one.units.data(), 1)), one.blocks[1]);
  EXPECT_FALSE(one.pool.hashed(one.blocks[2]));
  one.group.publish(one.table, one.content(), 11, one.pool);
  EXPECT_EQ(one.pool.num_keys(), 2U);
}

TEST(LayerGroup, AWindowGivesBackWhatItDoesNotRead) {
  OneTable one(small_config({{.kind = LayerKind::sliding_window, .block_size = 4, .window = 5}}));
  one.grow_to(16);
  one.group.recycle(one.table, 12, 0, one.pool);
  EXPECT_EQ(one.blocks[0], kNullBlock);
  EXPECT_EQ(one.blocks[1], kNullBlock);
  EXPECT_NE(one.blocks[2], kNullBlock) << "tokens 8 to 11 are read by token 12";
  EXPECT_EQ(one.pool.num_free(), 13U);
}

TEST(LayerGroup, AStateThatMovesLosesItsKey) {
  OneTable one(small_config({{.kind = LayerKind::mamba,
                              .block_size = 4,
                              .mode = MambaMode::align,
                              .speculative_blocks = 1}}));
  one.grow_to(4);
  one.group.publish(one.table, one.content(), 8, one.pool);
  const BlockId drafts = one.blocks[1];
  EXPECT_TRUE(one.pool.hashed(drafts));
  one.grow_to(12);
  EXPECT_EQ(one.blocks[1], kNullBlock);
  EXPECT_EQ(one.blocks[2], drafts);
  EXPECT_FALSE(one.pool.hashed(drafts));
}

TEST(LayerGroup, ABlockThatIsDueIsAnnouncedWithItsTokens) {
  OneTable one(small_config());
  BlockPool<Key128> announcing(16, {.event_records = 16});
  const Demand demand = demand_for(8);
  one.group.allocate(one.table, demand, announcing, one.copy);
  one.group.publish(one.table, one.content(), 4, announcing);
  HotRequest<Key128> request{};
  request.hashes = one.units.data();
  request.num_hashes = 16;
  one.group.publish_due(one.table, request, 8, announcing);
  EXPECT_EQ(announcing.events().take(),
            (std::vector<Event>{event::Stored{0, 0, 4, {{one.blocks[0], 4}}},
                                event::Stored{0, 4, 8, {{one.blocks[1], 8}}}}));
  EXPECT_EQ(one.table.progress(), 2U);
}

TEST(LayerGroup, ReleasesTheDeepestBlockFirst) {
  OneTable one(small_config());
  one.grow_to(16);
  one.group.publish(one.table, one.content(), 16, one.pool);
  const auto held = one.blocks;
  one.group.release(one.table, one.pool);
  EXPECT_EQ(one.table.length, 0U);
  EXPECT_TRUE(one.pool.all_free());
  const BlockId last = one.pool.record(one.pool.queue().sentinel()).prev;
  EXPECT_EQ(last, held[0]) << "the first block of the prompt is the last to be lost";
}

/// Hands out whatever came first.
struct FirstFreed final : VictimPolicy {
  void freed(BlockId block, std::uint64_t) override { order.push_back(block); }
  void revived(BlockId block) override { std::erase(order, block); }
  BlockId victim() override {
    const BlockId first = order.front();
    order.erase(order.begin());
    return first;
  }
  [[nodiscard]] bool deepest_first() const override { return false; }

  std::vector<BlockId> order;
};

TEST(LayerGroup, ReleasesTheFirstBlockFirstWhereThePolicyWantsIt) {
  FirstFreed policy;
  OneTable one(small_config());
  BlockPool<Key128> pool(16, {.victims = &policy});
  one.group.allocate(one.table, demand_for(12), pool, one.copy);
  const std::vector<BlockId> held(one.blocks.begin(), one.blocks.begin() + 3);
  one.group.release(one.table, pool);
  ASSERT_EQ(policy.order.size(), 15U);
  EXPECT_EQ(std::vector<BlockId>(policy.order.end() - 3, policy.order.end()), held);
}

}  // namespace
}  // namespace kvproof::optimized
