// SPDX-License-Identifier: Apache-2.0
// The host tier: a request's blocks leave, wait, and come back.
#include "optimized/manager/host_tier.h"

#include <gtest/gtest.h>

#include <array>

#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

struct HostTierTest : testing::Test {
  static CacheConfig config_with(std::uint32_t host_blocks) {
    CacheConfig out = properties::small_config();
    out.num_host_blocks = host_blocks;
    return out;
  }

  CacheConfig config = config_with(4);
  BlockPool<Key128> device{config.num_blocks, {}};
  std::vector<LayerGroup<Key128>> groups = make_groups<Key128>(config);
  HostTier<Key128> tier{config, FreeOrder::append, groups};
  std::array<BlockId, 8> blocks{}, hits{};
  std::array<Key128, 8> units{Key128{{1, 1}}, Key128{{2, 2}}};
  GroupTable table{};
  Copies copies;

  void SetUp() override {
    table.blocks = blocks.data();
    table.hit = hits.data();
    table.capacity = 8;
    groups[0].set_kept_from(table, 0);
    TailCopy none;
    groups[0].allocate(table, properties::demand_for(7), device, none);
    groups[0].publish(table, {.units = units.data(), .num_units = 8}, 7, device);
  }
};

TEST_F(HostTierTest, BothSidesHoldUntilTheTransferIsSettled) {
  ASSERT_TRUE(tier.leave(0, &table, device, copies));
  EXPECT_EQ(copies.take().size(), 2U);
  EXPECT_EQ(device.num_free(), 13U);
  EXPECT_EQ(tier.pool().num_free(), 1U);
  tier.settle_there(0, &table, device);
  EXPECT_TRUE(device.all_free());
  EXPECT_EQ(tier.table(0, 0).size(), 2U);
  EXPECT_EQ(tier.pool().num_keys(), 1U) << "what was published is findable there";

  ASSERT_TRUE(tier.come_back(0, &table, device, copies));
  EXPECT_EQ(copies.take().size(), 1U) << "the device still has one block under its key";
  tier.settle_here(0, &table, device);
  EXPECT_EQ(table.length, 2U);
  EXPECT_EQ(table.published, 1U);
  EXPECT_FALSE(tier.holds(0));
  EXPECT_TRUE(tier.pool().all_free());
}

TEST_F(HostTierTest, AFailedTransferLeavesTheHostAsItWas) {
  ASSERT_TRUE(tier.leave(3, &table, device, copies));
  tier.release(3);
  EXPECT_TRUE(tier.pool().all_free());
  EXPECT_EQ(table.length, 2U);
  EXPECT_EQ(device.num_free(), 13U);
}

TEST_F(HostTierTest, RefusesWhatDoesNotFitAndChangesNothing) {
  HostTier<Key128> small(config_with(2), FreeOrder::append, groups);
  EXPECT_FALSE(small.leave(0, &table, device, copies));
  EXPECT_TRUE(small.pool().all_free());
  EXPECT_TRUE(copies.take().empty());
  EXPECT_FALSE(small.holds(0));
  EXPECT_FALSE(HostTier<Key128>(config_with(0), FreeOrder::append, groups).exists());
}

}  // namespace
}  // namespace kvproof::optimized
