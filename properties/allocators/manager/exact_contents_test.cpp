// SPDX-License-Identifier: Apache-2.0
// Exact contents: two contents under one key are told apart by their tokens.
#include "optimized/manager/exact_contents.h"

#include <gtest/gtest.h>

#include <array>

#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

/// Two requests of 8 tokens that differ in one, under keys that are all alike: the worst of hashes.
/// The two blocks of the first are published.
class Collision {
 public:
  Collision(std::size_t different, std::uint32_t lookahead) : contents(16, 4, lookahead) {
    std::vector<TokenId> tokens = properties::counted_tokens(8);
    one = requests_.open({.tokens = tokens});
    tokens[different] = 99;
    two = requests_.open({.tokens = tokens});
    for (const RequestId id : {one, two}) requests_[id].hashes = keys_.data();
    GroupTable& table = *requests_.tables(one);
    TailCopy copy;
    groups_[0].allocate(table, properties::demand_for(8), pool_, copy);
    const std::uint32_t hashed = lookahead == 0 ? 8 : 4;
    requests_[one].num_hashes = hashed / 4;
    contents.note_complete(requests_, one, table, hashed, pool_);
    groups_[0].publish(table, groups_[0].content_of(requests_[one]), hashed, pool_);
  }

  BlockId find(RequestId id, std::uint32_t position, BlockId before) {
    return contents.find(pool_.index(), keys_[position],
                         contents.expected(requests_, id, position, before));
  }
  BlockId block(std::size_t position) { return requests_.tables(one)->blocks[position]; }

  ExactContents contents;
  RequestId one;
  RequestId two;

 private:
  CacheConfig config_ = properties::small_config();
  std::vector<LayerGroup<Key128>> groups_ = make_groups<Key128>(config_);
  RequestTable<WeakDigest> requests_{config_, groups_, 2, 0};
  BlockPool<Key128> pool_{config_.num_blocks, {}};
  std::array<Key128, 2> keys_{};
};

TEST(ExactContents, ACollisionIsNoHit) {
  Collision c(5, 0);
  EXPECT_EQ(c.find(c.one, 0, kNullBlock), c.block(0));
  EXPECT_EQ(c.find(c.two, 0, kNullBlock), c.block(0)) << "the first four tokens are the same";
  EXPECT_EQ(c.find(c.one, 1, c.block(0)), c.block(1));
  EXPECT_EQ(c.find(c.two, 1, c.block(0)), kNoBlock) << "one token differs";
  EXPECT_EQ(c.find(c.one, 1, kNullBlock), kNoBlock) << "the block before it is another";
  EXPECT_GT(c.contents.bytes(), 0U);
}

TEST(ExactContents, TokensBehindABlockThatItsKeyCoversAreCompared) {
  for (const auto& [different, lookahead] : {std::pair{4U, 1U}, {6U, 3U}}) {
    Collision covered(different, lookahead);
    EXPECT_EQ(covered.find(covered.one, 0, kNullBlock), covered.block(0));
    EXPECT_EQ(covered.find(covered.two, 0, kNullBlock), kNoBlock) << "token " << different;
    Collision beyond(different + 1, lookahead);
    EXPECT_EQ(beyond.find(beyond.two, 0, kNullBlock), beyond.block(0));
  }
}

}  // namespace
}  // namespace kvproof::optimized
