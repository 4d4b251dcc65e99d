// SPDX-License-Identifier: Apache-2.0
// Exact contents: two contents under one key are told apart by their tokens.
#include "optimized/manager/exact_contents.h"

#include <gtest/gtest.h>

#include <array>

#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

TEST(ExactContents, ACollisionIsNoHit) {
  const CacheConfig config = properties::small_config();
  const std::vector<LayerGroup<Key128>> groups = make_groups<Key128>(config);
  RequestTable<WeakDigest> requests(config, groups, 2, 0);
  BlockPool<Key128> pool(config.num_blocks, {});
  ExactContents contents(config.num_blocks, 4);
  std::vector<TokenId> tokens = properties::counted_tokens(8);
  const RequestId one = requests.open({.tokens = tokens});
  tokens[5] = 99;
  const RequestId two = requests.open({.tokens = tokens});
  std::array<Key128, 2> keys{};  // all alike: the worst of hashes
  for (const RequestId id : {one, two}) requests[id].hashes = keys.data();

  GroupTable& table = *requests.tables(one);
  groups[0].allocate(table, {.slots = 8, .main = 8}, pool);
  contents.note_complete(requests[one], requests.extra(one), table, 8, pool);
  groups[0].publish(table, keys.data(), 8, pool);

  const auto find = [&](RequestId id, std::uint32_t position, BlockId before) {
    return contents.find(pool.index(), keys[position],
                         contents.expected(requests[id], requests.extra(id), position, before));
  };
  EXPECT_EQ(find(one, 0, kNullBlock), table.blocks[0]);
  EXPECT_EQ(find(two, 0, kNullBlock), table.blocks[0]) << "the first four tokens are the same";
  EXPECT_EQ(find(one, 1, table.blocks[0]), table.blocks[1]);
  EXPECT_EQ(find(two, 1, table.blocks[0]), kNoBlock) << "one token differs";
  EXPECT_EQ(find(one, 1, kNullBlock), kNoBlock) << "the block before it is another";
  EXPECT_GT(contents.bytes(), 0U);
}

}  // namespace
}  // namespace kvproof::optimized
