// SPDX-License-Identifier: Apache-2.0
// Facts about the pool and its queue: orders at both ends, reset, shortage, broken calls, keys,
// events.
#include <array>

#include "optimized/pool/block_pool.h"
#include "properties/facts/facts.h"
#include "reference/block_pool.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

using Pool = optimized::BlockPool<optimized::Key128>;

optimized::Key128 key(std::uint64_t n) { return {{n * 0x9e3779b97f4a7c15U, n}}; }

// The ids of the facts start at 0; ours have the null block there.
BlockId ours(BlockId id) { return BlockId(id + 1); }
BlockId of_the_facts(BlockId id) { return BlockId(id - 1); }

/// Both pools side by side.
class BothPools {
 public:
  BothPools(std::uint32_t num_blocks, FreeOrder order)
      : naive_(num_blocks + 1, order), fast_(num_blocks + 1, {.order = order}) {}

  Blocks take(std::uint32_t n) {
    Blocks out = naive_.take(n), fast(n);
    fast_.take(fast);
    EXPECT_EQ(out, fast);
    for (const BlockId block : fast) EXPECT_FALSE(fast_.queue().contains(block)) << "still linked";
    for (BlockId& block : out) block = of_the_facts(block);
    return out;
  }
  void release(Blocks blocks) {
    for (BlockId& block : blocks) block = ours(block);
    naive_.release(blocks);
    fast_.release(blocks);
  }
  void touch(BlockId block) {
    naive_.touch({ours(block)});
    fast_.touch(std::array{ours(block)});
  }
  Blocks queue() {
    Blocks out(naive_.queue().begin(), naive_.queue().end());
    BlockId at = fast_.queue().head();
    for (BlockId& block : out) {
      EXPECT_EQ(block, at);
      block = of_the_facts(block);
      at = fast_.record(at).next;
    }
    EXPECT_EQ(at, fast_.queue().sentinel());
    EXPECT_EQ(out.size(), fast_.num_free());
    fast_.audit();
    return out;
  }

 private:
  reference::BlockPool naive_;
  Pool fast_;
};

FACT(09, WithoutAPrefixCacheBlocksAreReusedAndRunOut) {
  Driver m(way, pool(5, {full(4)}, false));
  EXPECT_EQ(m.admit("r0", range(0, 10)).taken->at(0).size(), 3U);
  m.finish("r0");
  EXPECT_EQ(m.admit("r1", range(0, 16)).taken->at(0).size(), 4U);
  EXPECT_FALSE(m.admit("r2", range(0, 4)).taken);
}

FACT(10, WithoutAPrefixCacheTheLastFreedIsFirstSince024) {
  for (const bool tagged : {false, true}) {
    CacheConfig config = pool(9, {full(4)}, false);
    Profile profile = *way.profile;
    if (tagged) kNewerPolicies[0].apply(profile);
    ASSERT_EQ(kNewerPolicies[0].name, "nocache_lifo");
    const Way own{way.subject, &profile};
    const bool newer = tagged || !way.is_old();
    Driver m(own, config);
    EXPECT_EQ(m.admit("r0", range(0, 12)).taken, (Tables{{1, 2, 3}}));
    EXPECT_EQ(m.admit("r1", range(0, 8)).taken, (Tables{{4, 5}}));
    m.finish("r0");
    EXPECT_EQ(m.queue(), newer ? (Blocks{3, 2, 1, 6, 7, 8}) : (Blocks{6, 7, 8, 3, 2, 1}));
    m.finish("r1");
    EXPECT_EQ(m.queue(),
              newer ? (Blocks{5, 4, 3, 2, 1, 6, 7, 8}) : (Blocks{6, 7, 8, 3, 2, 1, 5, 4}));
  }
}

FACT(17, ResetNeedsAllBlocksToBeFree) {
  Driver m(way, pool(11, {full(16)}));
  m.admit("r0", range(0, 48));
  EXPECT_FALSE(m.reset());
  EXPECT_EQ(m.num_keys(), 3U);
  m.finish("r0");
  EXPECT_TRUE(m.reset());
  EXPECT_EQ(m.num_keys(), 0U);
  EXPECT_EQ(m.hashed(), Blocks{});
}

FACT(18, ResetLeavesTheQueueAsHistoryMadeIt) {
  Driver m(way, pool(4, {full(4)}));
  for (const Blocks& history : {Blocks{3, 2, 1}, Blocks{1, 2, 3}}) {
    m.admit("r", range(0, 12));
    m.finish("r");
    EXPECT_EQ(m.queue(), history);
    EXPECT_TRUE(m.reset());
    EXPECT_EQ(m.queue(), history);
  }
}

FACT(20, ThreeUsableBlocksAreNotFour) {
  Driver m(way, pool(4, {full(4)}));
  const Snapshot before = m.state();
  EXPECT_EQ(m.apply(op::Take{4}).result, Result(Refused{}));
  EXPECT_EQ(m.state(), before);
  const Result rejected = m.apply(op::Evict{{4}}).result;
  ASSERT_TRUE(is_undone(rejected));
  EXPECT_EQ(std::get<Rejected>(rejected).breach, Breach::block_out_of_range);
}

// The original ignores it; here the caller is told.
FACT(21, FreeingAnUnknownRequestFreesNothing) {
  Driver m(way, pool(10, {full(4)}));
  EXPECT_TRUE(is_undone(m.apply(op::Free{"nobody"}).result));
  EXPECT_EQ(m.num_free(), 9U);
}

FACT(22, NothingToAllocateIsAnError) {
  Driver m(way, pool(10, {full(4)}));
  m.arrive("r0", range(0, 4));
  const Result result = m.apply(op::Allocate{"r0", {}}).result;
  ASSERT_TRUE(is_undone(result));
  EXPECT_EQ(std::get<Rejected>(result).breach, Breach::nothing_to_allocate);
  EXPECT_EQ(m.num_free(), 9U);
}

// ---- the queue, the key map ----

TEST(Facts, Fact_23_TheQueueUnlinksItsHeadAndItsMiddle) {
  std::array<optimized::BlockRecord<optimized::Key128>, 6> records;
  optimized::FreeQueue queue(records.data(), 5);
  for (BlockId id = 0; id < 5; ++id) queue.push_back(id);
  EXPECT_EQ(queue.head(), 0U);
  queue.remove(0);
  queue.remove(2);
  EXPECT_EQ(records[1].next, 3U);
  EXPECT_EQ(records[3].prev, 1U);
  queue.push_back(2);
  EXPECT_EQ(records[4].next, 2U);
  for (const BlockId id : Blocks{1, 3, 4, 2}) {
    EXPECT_EQ(queue.head(), id);
    queue.remove(id);
    EXPECT_FALSE(queue.contains(id));
  }
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_EQ(queue.head(), queue.sentinel()) << "no free blocks";
}

FACT(23, ThePoolOfThatQueueDoesTheSame) {
  BothPools both(5, FreeOrder::append);
  EXPECT_EQ(both.take(1), Blocks{0});
  both.touch(2);
  EXPECT_EQ(both.queue(), (Blocks{1, 3, 4}));
  both.release({2});
  EXPECT_EQ(both.queue(), (Blocks{1, 3, 4, 2}));
  EXPECT_EQ(both.take(4), (Blocks{1, 3, 4, 2}));
  EXPECT_EQ(both.queue(), Blocks{});
  Driver m(way, pool(2, {full(4)}));
  m.apply(op::Take{1});
  EXPECT_EQ(m.apply(op::Take{1}).result, Result(Refused{}));
}

// That a broken tail is noticed is audit()'s; nobody can break it from outside.
TEST(Facts, Fact_24_AppendedBlocksKeepTheirOrder) {
  BothPools both(6, FreeOrder::append);
  both.take(6);
  both.release({});
  EXPECT_EQ(both.queue(), Blocks{});
  both.release({0});
  both.release({4, 5});
  both.release({1, 2, 3});
  EXPECT_EQ(both.queue(), (Blocks{0, 4, 5, 1, 2, 3}));
}

TEST(Facts, Fact_25_PrependedBlocksKeepTheirOrder) {
  BothPools both(6, FreeOrder::prepend);
  both.take(6);
  both.release({0});
  both.release({4, 5});
  both.release({1, 2});
  for (const BlockId id : Blocks{1, 2, 4, 5, 0}) EXPECT_EQ(both.take(1), Blocks{id});
}

TEST(Facts, Fact_26_SeveralAreTakenInQueueOrder) {
  BothPools both(6, FreeOrder::append);
  both.take(6);
  both.release({1, 3, 5, 4, 0, 2});
  EXPECT_EQ(both.take(0), Blocks{});
  EXPECT_EQ(both.take(1), Blocks{1});
  EXPECT_EQ(both.take(2), (Blocks{3, 5}));
  EXPECT_EQ(both.take(3), (Blocks{4, 0, 2}));
  EXPECT_EQ(both.queue(), Blocks{});
}

TEST(Facts, Fact_27_AKeyServesItsOldestBlockUntilItIsGone) {
  reference::PrefixCache naive;
  Pool fast(8, {});
  const reference::PrefixKey naive_key{0, 7, 16};
  naive.insert(naive_key, 1);
  fast.publish(1, key(7), 0, 16);
  EXPECT_TRUE(naive.erase(2).empty()) << "another block does not take the key along";
  fast.forget(2);
  EXPECT_EQ(naive.find(naive_key), 1U);
  EXPECT_EQ(fast.index().find(key(7)), 1U);
  naive.insert(naive_key, 2);
  fast.publish(2, key(7), 0, 16);
  EXPECT_EQ(naive.find(naive_key), 1U);
  EXPECT_EQ(fast.index().find(key(7)), 1U);
  naive.erase(1);
  fast.forget(1);
  EXPECT_EQ(naive.find(naive_key), 2U);
  EXPECT_EQ(fast.index().find(key(7)), 2U);
  naive.erase(2);
  fast.forget(2);
  EXPECT_FALSE(naive.find(naive_key));
  EXPECT_EQ(fast.index().find(key(7)), optimized::kNoBlock);
}

TEST(Facts, Fact_28_EvictionTakesTheBlockOutOfItsKey) {
  enum : std::uint32_t { kA = 1, kB, kC };
  reference::BlockPool naive(5, FreeOrder::append);
  Pool fast(5, {});
  const std::uint32_t keys[] = {kA, kB, kC, kA};
  for (BlockId block = 0; block < 4; ++block) {
    naive.publish(0, {ours(block)}, {{0, keys[block], 16}}, 0, 16);
    fast.publish(ours(block), key(keys[block]), 0, 16);
  }
  const auto holders = [&](std::uint32_t k) {
    const auto& entries = naive.cache().entries();
    const auto at = entries.find({0, k, 16});
    Blocks out = at == entries.end() ? Blocks{} : at->second;
    BlockId copy = fast.index().find(key(k));
    for (BlockId& block : out) {
      EXPECT_EQ(copy, block);
      copy = fast.index().next_copy(copy);
      block = of_the_facts(block);
    }
    EXPECT_EQ(copy, optimized::kNoBlock);
    return out;
  };
  const auto evict = [&](BlockId block) {
    naive.evict({ours(block)});
    fast.forget(ours(block));
  };
  evict(1);
  EXPECT_EQ(holders(kB), Blocks{});
  EXPECT_EQ(holders(kA), (Blocks{0, 3}));
  evict(0);
  EXPECT_EQ(holders(kA), Blocks{3});
  evict(2);
  EXPECT_EQ(naive.cache().entries().size(), 1U);
  EXPECT_EQ(fast.num_keys(), 1U);
  EXPECT_EQ(holders(kA), Blocks{3});
  evict(3);
  EXPECT_TRUE(naive.cache().entries().empty());
  EXPECT_EQ(fast.num_keys(), 0U);
}

TEST(Facts, Fact_30_GroupsHaveKeysOfTheirOwn) {
  reference::BlockPool naive(6, FreeOrder::append);
  Pool fast(6, {});
  const auto cached = [&](GroupId group, std::uint32_t k) {
    const bool found = naive.cache().find({group, k, 4 * k}).has_value();
    EXPECT_EQ(fast.index().find(in_group(key(k), group)) != optimized::kNoBlock, found);
    return found;
  };
  BlockId block = 1;
  for (GroupId group = 0; group < 2; ++group) {
    for (std::uint32_t k = 1; k <= 2 + group; ++k, ++block) {
      naive.publish(group, {block}, {{group, k, 4 * k}}, 0, 4 * k);
      fast.publish(block, in_group(key(k), group), group, 4 * k);
    }
  }
  EXPECT_EQ(naive.cache().entries().size(), 5U);
  EXPECT_EQ(fast.num_keys(), 5U);
  EXPECT_FALSE(cached(0, 3));
  EXPECT_TRUE(cached(1, 3));
}

FACT(30, AHitNeedsItsBlockInAllGroups) {
  Driver m(way, pool(10, {full(4), full(4)}));
  m.admit("r0", range(0, 12));
  m.evict({m.table("r0").at(2)});
  EXPECT_EQ(m.num_keys(), 5U);
  EXPECT_EQ(m.probe(range(0, 13)).hit_tokens, 8U) << "the third is not in group 0";
}

// ---- events ----

std::vector<BlockId> blocks_of(const event::Stored& stored) {
  std::vector<BlockId> out;
  for (const StoredBlock& block : stored.blocks) out.push_back(block.block);
  return out;
}

FACT(31, EventsOfAnEqualRequestThatTakesTheSameBlocks) {
  for (const std::uint32_t k : {2U, 3U, 10U}) {
    Driver m(way, pool(k + 1, {full(16)}));
    m.admit("r0", range(0, 16 * k));
    const std::vector<Event> first = m.take_events();
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(std::get<event::Stored>(first[0]).blocks.size(), k);
    EXPECT_EQ(std::get<event::Stored>(first[0]).group, 0U);
    m.finish("r0");
    m.apply(op::Arrive{.req = "r1", .tokens = range(0, 16 * k), .skip_lookup = true});
    m.compute("r1", 16 * k);
    const std::vector<Event> second = m.take_events();
    ASSERT_EQ(second.size(), k + 1);
    for (std::uint32_t i = 0; i < k; ++i) {
      EXPECT_TRUE(std::holds_alternative<event::Removed>(second[i]));
    }
    EXPECT_EQ(std::get<event::Stored>(second[k]).blocks.size(), k);
    m.finish("r1");
    EXPECT_TRUE(m.reset());
    EXPECT_EQ(m.take_events(), std::vector<Event>{event::Cleared{}});
  }
}

FACT(32, EventsOfAnEvictionStandInFrontOfTheStore) {
  Driver m(way, pool(4, {full(4)}));
  m.admit("r0", range(0, 12));
  m.finish("r0");
  EXPECT_EQ(m.queue(), (Blocks{3, 2, 1}));
  m.take_events();
  m.admit("r1", range(500'000, 8));
  const std::vector<Event> events = m.take_events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0], Event(event::Removed{0, 3, 12})) << "chain index 2";
  EXPECT_EQ(events[1], Event(event::Removed{0, 2, 8})) << "chain index 1";
  EXPECT_EQ(blocks_of(std::get<event::Stored>(events[2])).size(), 2U);
}

}  // namespace
}  // namespace kvproof::properties
