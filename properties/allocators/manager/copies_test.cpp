// SPDX-License-Identifier: Apache-2.0
// Copy-on-write over one table: which blocks are copied, and what the list says of it.
#include "optimized/manager/copies.h"

#include <gtest/gtest.h>

#include <array>

#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

struct CopiesTest : testing::Test {
  CacheConfig config = properties::small_config();
  BlockPool<Key128> pool{config.num_blocks, {}};
  LayerGroup<Key128> group{config, 0};
  std::array<BlockId, 8> blocks{};
  GroupTable table{};
  Copies copies;
  Demand next = properties::demand_for(7, 6);

  void SetUp() override {
    table.blocks = blocks.data();
    table.capacity = 8;
    TailCopy none;
    group.allocate(table, properties::demand_for(6), pool, none);
    pool.touch(table.table());  // a fork
  }
};

TEST_F(CopiesTest, OnlyWhatIsWrittenIsCopied) {
  const BlockId shared = blocks[1];
  EXPECT_TRUE(copies.shares(group, table, pool));
  EXPECT_EQ(copies.needed(group, table, next, pool), 1U);
  EXPECT_EQ(copies.make(group, table, next, pool), 1U);
  EXPECT_NE(blocks[1], shared);
  EXPECT_EQ(pool.record(shared).ref_cnt, 1U) << "the relative keeps it";
  EXPECT_EQ(pool.record(blocks[0]).ref_cnt, 2U) << "it is read, not written";
  const auto taken = copies.take();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].from, shared);
  EXPECT_EQ(taken[0].to, blocks[1]);
  EXPECT_TRUE(copies.take().empty());
}

TEST_F(CopiesTest, WhatIsPublishedIsNotWrittenAgain) {
  group.set_published(table, 2);
  EXPECT_FALSE(copies.shares(group, table, pool));
  EXPECT_EQ(copies.needed(group, table, next, pool), 0U);
}

TEST_F(CopiesTest, AKeyOfARelativeGoesBeforeTheBlockIsWritten) {
  std::array<Key128, 2> units{Key128{{1, 1}}, Key128{{2, 2}}};
  HotRequest<Key128> request{};
  request.hashes = units.data();
  request.num_hashes = 2;
  pool.publish(blocks[1], {{9, 9}}, 0, 8);
  const auto holds = [](std::uint32_t) { return true; };
  forget_relatives(group, table, request, next, pool, holds);
  EXPECT_FALSE(pool.hashed(blocks[1]));
  pool.publish(blocks[1], group.key(units.data(), 1), 0, 8);
  forget_relatives(group, table, request, next, pool, holds);
  EXPECT_TRUE(pool.hashed(blocks[1])) << "its own key";
  forget_relatives(group, table, request, next, pool, [](std::uint32_t) { return false; });
  EXPECT_FALSE(pool.hashed(blocks[1])) << "its own key by a collision";
}

}  // namespace
}  // namespace kvproof::optimized
