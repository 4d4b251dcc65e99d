// SPDX-License-Identifier: Apache-2.0
// The keys of prefixes that end inside of blocks, of which a block may have several.
#include "optimized/pool/tail_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "optimized/pool/block_pool.h"

namespace kvproof::optimized {
namespace {

constexpr std::uint32_t kTailBlocks = 12;
constexpr std::uint32_t kTailKeys = 5;  // per block
constexpr std::uint32_t kSharedTails = kTailBlocks * (kTailKeys - 1);

Key128 tail_key(std::uint64_t n) { return {{n * 0x9e3779b97f4a7c15U, n}}; }

/// The same, in maps and lists.
struct TailModel {
  std::map<BlockId, std::vector<std::uint64_t>> keys;    // of a block, in order
  std::map<std::uint64_t, std::vector<BlockId>> blocks;  // of a key, oldest first
  std::size_t further = 0;                               // keys that are not the first of a block

  [[nodiscard]] bool carries(BlockId block, std::uint64_t key) {
    return std::ranges::count(keys[block], key) > 0;
  }
  void insert(BlockId block, std::uint64_t key) {
    further += keys[block].empty() ? 0 : 1;
    keys[block].push_back(key);
    blocks[key].push_back(block);
  }
  std::vector<std::uint64_t> erase(BlockId block) {
    const std::vector<std::uint64_t> gone = std::exchange(keys[block], {});
    for (const std::uint64_t key : gone) std::erase(blocks[key], block);
    further -= gone.empty() ? 0 : gone.size() - 1;
    return gone;
  }
};

void expect_same(const TailKeys<Key128>& tails, TailModel& model) {
  for (BlockId block = 0; block < kTailBlocks; ++block) {
    BlockId entry = model.keys[block].empty() ? kNoBlock : block;
    for (const std::uint64_t key : model.keys[block]) {
      ASSERT_NE(entry, kNoBlock);
      ASSERT_EQ(tails.key(entry), tail_key(key));
      ASSERT_EQ(tails.prefix_tokens(entry), key);
      ASSERT_EQ(tails.block_of(entry), block);
      entry = tails.next(entry);
    }
    ASSERT_EQ(entry, kNoBlock) << "block " << block << " has more keys than it should";
  }
  std::uint32_t num_keys = 0;
  for (const auto& [key, blocks] : model.blocks) {
    ASSERT_EQ(tails.find(tail_key(key)), blocks.empty() ? kNoBlock : blocks.front());
    num_keys += blocks.empty() ? 0 : 1;
  }
  ASSERT_EQ(tails.index().num_keys(), num_keys);
}

TEST(TailKeys, AgreeWithMapsOfListsUntilTheSharedEntriesAreTaken) {
  TailKeys<Key128> tails(kTailBlocks, kTailKeys);
  TailModel model;
  std::mt19937_64 random(1);
  int refusals = 0;
  int moved_several = 0;
  for (int round = 0; round < 20'000; ++round) {
    const BlockId block(random() % kTailBlocks);
    const BlockId other(random() % kTailBlocks);
    const std::uint64_t key = random() % 40;
    const auto what = random() % (round % 1000 < 500 ? 100 : 12);
    ASSERT_EQ(tails.carries(block, tail_key(key)), model.carries(block, key));
    ASSERT_EQ(tails.carries(block, static_cast<std::uint32_t>(key)), model.carries(block, key));
    if (what == 0 && !model.keys[block].empty()) {
      tails.erase(block);
      model.erase(block);
    } else if (what == 1 && !model.keys[block].empty() && model.keys[other].empty()) {
      moved_several += model.keys[block].size() > 2 ? 1 : 0;
      tails.move(block, other);
      for (const std::uint64_t moved : model.erase(block)) model.insert(other, moved);
    } else if (what > 1 && !model.carries(block, key)) {
      const bool room = model.keys[block].empty() || model.further < kSharedTails;
      ASSERT_EQ(tails.insert(block, tail_key(key), static_cast<std::uint32_t>(key)), room);
      if (room) model.insert(block, key);
      refusals += room ? 0 : 1;
    }
    if (round % 5000 == 4999) {
      tails.clear();
      model = {};
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(tails, model)) << "after operation " << round;
  }
  EXPECT_GT(refusals, 100);
  EXPECT_GT(moved_several, 20);
}

/// A pool whose keys belong to group 1, with what it announces.
struct TailPool {
  BlockPool<Key128> pool{kTailBlocks, {.event_records = 1000, .tail_keys = kTailKeys}};

  void publish(BlockId block, std::uint32_t tokens) {
    pool.publish_tail(block, tail_key(tokens), 1, {tokens - 1, tokens});
  }
  static Event stored(BlockId block, std::uint32_t tokens) {
    return event::Stored{1, tokens - 1, tokens, {{block, tokens}}};
  }
  static Event removed(BlockId block, std::uint32_t tokens) {
    return event::Removed{1, block, tokens};
  }
  std::vector<Event> events() { return pool.events().take(); }
};

TEST(TailKeys, ALongerPrefixTakesThePlaceOfShorterOnesAndAShorterOneComesBehind) {
  TailPool on;
  on.publish(2, 5);
  on.publish(2, 7);
  on.publish(2, 6);
  on.publish(2, 5);
  on.publish(2, 6);                                  // it has that already
  on.pool.publish_tail(2, tail_key(66), 1, {5, 6});  // a relative's
  EXPECT_EQ(on.events(), (std::vector<Event>{TailPool::stored(2, 5), TailPool::removed(2, 5),
                                             TailPool::stored(2, 7), TailPool::stored(2, 6),
                                             TailPool::stored(2, 5)}));
  on.publish(2, 8);
  EXPECT_EQ(on.events(), (std::vector<Event>{TailPool::removed(2, 7), TailPool::removed(2, 6),
                                             TailPool::removed(2, 5), TailPool::stored(2, 8)}));
  EXPECT_EQ(on.pool.num_keys(), 1U);
}

TEST(TailKeys, ABlockLosesItsOwnKeyFirstAndThenTheOthersInTheirOrder) {
  TailPool on;
  on.pool.events().stored(1, {0, 8});
  on.pool.publish(2, tail_key(8), 1, 8);
  on.publish(2, 5);
  on.publish(2, 7);
  on.publish(3, 5);
  on.pool.move_keys(2, 4);
  on.events();
  EXPECT_EQ(on.pool.find_tail(tail_key(5)), 3U) << "what moves comes behind what was there";
  EXPECT_EQ(on.pool.find_tail(tail_key(7)), 4U);
  EXPECT_FALSE(on.pool.hashed(2));
  EXPECT_TRUE(on.pool.has_tail(4, tail_key(5)) && on.pool.has_tail(4, tail_key(7)));
  on.pool.forget(4);
  EXPECT_EQ(on.events(), (std::vector<Event>{TailPool::removed(4, 8), TailPool::removed(4, 5),
                                             TailPool::removed(4, 7)}));
  EXPECT_EQ(on.pool.find_tail(tail_key(7)), kNoBlock);
  EXPECT_EQ(on.pool.num_keys(), 1U);
}

TEST(TailKeys, AKeyThatFindsNoEntryIsNeitherKeptNorAnnounced) {
  TailPool on;
  const std::uint32_t most = 1 + kSharedTails;
  for (std::uint32_t i = 0; i < most; ++i) on.publish(2, 1000 - i);
  EXPECT_EQ(on.events().size(), most);
  on.publish(2, 500);
  EXPECT_TRUE(on.events().empty());
  EXPECT_EQ(on.pool.find_tail(tail_key(500)), kNoBlock);
  on.publish(3, 500);  // the first of its block
  EXPECT_EQ(on.pool.find_tail(tail_key(500)), 3U);
  on.publish(3, 499);
  EXPECT_FALSE(on.pool.has_tail(3, tail_key(499)));
  on.pool.forget(2);
  on.publish(3, 499);
  EXPECT_EQ(on.pool.find_tail(tail_key(499)), 3U);
  EXPECT_EQ(on.pool.num_keys(), 2U);
}

}  // namespace
}  // namespace kvproof::optimized
