// SPDX-License-Identifier: Apache-2.0
// The parts of the paged allocator one by one: queue, index, hashes, capacity, memory.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "optimized/cache_manager.h"
#include "optimized/concurrent/concurrent_pool.h"
#include "optimized/concurrent/spin_lock.h"
#include "optimized/slot_mapping.h"

namespace kvproof::optimized {
namespace {

using Pool = BlockPool<Key128>;

std::vector<BlockId> queue_of(const Pool& pool) {
  std::vector<BlockId> out;
  for (BlockId at = pool.queue().head(); at != pool.queue().sentinel(); at = pool.record(at).next) {
    out.push_back(at);
  }
  return out;
}

Key128 key(std::uint64_t n) { return {{n * 0x9e3779b97f4a7c15U, n}}; }

TEST(FreeQueue, HandsOutAscendingIdsAndNeverTheNullBlock) {
  Pool pool(6, {});
  EXPECT_EQ(queue_of(pool), (std::vector<BlockId>{1, 2, 3, 4, 5}));
  std::array<BlockId, 2> taken{};
  pool.take(taken);
  EXPECT_EQ(taken, (std::array<BlockId, 2>{1, 2}));
  EXPECT_EQ(pool.num_free(), 3U);
  pool.audit();
}

TEST(FreeQueue, KeepsTheGivenOrderAtBothEnds) {
  Pool pool(6, {.order = FreeOrder::unhashed_first});
  std::array<BlockId, 5> all{};
  pool.take(all);
  pool.publish(2, key(2), 0, 0);
  pool.publish(4, key(4), 0, 0);
  pool.release(std::array<BlockId, 3>{5, 4, 3});
  EXPECT_EQ(queue_of(pool), (std::vector<BlockId>{5, 3, 4}));
  pool.release(std::array<BlockId, 2>{2, 1});
  EXPECT_EQ(queue_of(pool), (std::vector<BlockId>{1, 5, 3, 4, 2}));
  pool.audit();
}

TEST(FreeQueue, TouchRevivesFromTheMiddle) {
  Pool pool(6, {});
  pool.touch(std::array<BlockId, 1>{3});
  EXPECT_EQ(queue_of(pool), (std::vector<BlockId>{1, 2, 4, 5}));
  pool.touch(std::array<BlockId, 1>{3});
  pool.release(std::array<BlockId, 2>{3, 3});  // twice in one call: queued once
  EXPECT_EQ(queue_of(pool), (std::vector<BlockId>{1, 2, 4, 5, 3}));
  pool.audit();
}

TEST(BlockPool, ReleaseOfAFreeBlockIsNamedAndLeavesTheQueueWhole) {
  Pool pool(4, {});
  try {
    pool.release(std::array<BlockId, 1>{2});
    FAIL() << "a double free went through";
  } catch (const ContractViolation& violation) {
    EXPECT_EQ(violation.breach(), Breach::not_held);
  }
  EXPECT_EQ(queue_of(pool), (std::vector<BlockId>{1, 2, 3}));
  pool.audit();
}

TEST(PrefixIndex, ServesTheOldestCopyAndOutlivesIt) {
  Pool pool(8, {});
  std::array<BlockId, 4> blocks{};
  pool.take(blocks);
  for (BlockId block = 1; block < 4; ++block) pool.publish(block, key(7), 0, 0);
  pool.publish(4, key(8), 0, 0);
  EXPECT_EQ(pool.index().num_keys(), 2U);
  EXPECT_EQ(pool.index().find(key(7)), 1U);
  pool.forget(2);
  EXPECT_EQ(pool.index().next_copy(1), 3U);
  pool.forget(1);
  EXPECT_EQ(pool.index().find(key(7)), 3U);
  pool.publish(1, key(7), 0, 0);
  EXPECT_EQ(pool.index().find(key(7)), 3U) << "a block that comes back is the youngest";
  pool.forget(3);
  pool.forget(1);
  EXPECT_EQ(pool.index().find(key(7)), kNoBlock);
  EXPECT_EQ(pool.index().num_keys(), 1U);
  pool.audit();
}

TEST(PrefixIndex, AgreesWithAMapOfListsUnderRandomChurn) {
  constexpr std::uint32_t kBlocks = 300;
  std::mt19937_64 random(2);
  Pool pool(kBlocks, {});
  std::map<std::uint64_t, std::vector<BlockId>> model;
  std::map<BlockId, std::uint64_t> key_of;
  for (int step = 0; step < 200'000; ++step) {
    const BlockId block(1 + random() % (kBlocks - 1));
    if (const auto at = key_of.find(block); at != key_of.end()) {
      std::erase(model[at->second], block);
      if (model[at->second].empty()) model.erase(at->second);
      key_of.erase(at);
      pool.forget(block);
    } else {
      // Keys of few home chunks and few tags, so that chunks overflow and tags collide.
      const std::uint64_t n = random() % 400;
      pool.publish(block, {{n % 3, n}}, 0, 0);
      model[n].push_back(block);
      key_of[block] = n;
    }
    const std::uint64_t probe = random() % 400;
    const BlockId found = pool.index().find({{probe % 3, probe}});
    const auto expected = model.find(probe);
    ASSERT_EQ(found, expected == model.end() ? kNoBlock : expected->second.front())
        << "step " << step;
    ASSERT_EQ(pool.index().num_keys(), model.size());
  }
  pool.audit();
}

TEST(PrefixIndex, RecordsAndIndexTakeAtMost48And64BytesPerBlock) {
  for (const std::uint32_t n : {1U << 10, 65'536U, 100'000U, 1U << 20}) {
    EXPECT_LE(static_cast<double>(BlockPool<Key128>(n, {}).bytes()) / n, 48.0) << n;
    EXPECT_LE(static_cast<double>(BlockPool<Key256>(n, {}).bytes()) / n, 64.0) << n;
    EXPECT_EQ(ConcurrentPool<Key128>(n, FreeOrder::append).bytes(),
              BlockPool<Key128>(n, {}).bytes());
  }
}

// Every block under a key of its own leaves few slots empty, whatever the size.
TEST(PrefixIndex, HasRoomForAKeyOfEveryBlock) {
  std::mt19937_64 random(1);
  for (std::uint32_t n = 2; n < 300; ++n) {
    BlockPool<Key128> pool(n, {});
    std::vector<BlockId> blocks(n - 1);
    pool.take(blocks);
    for (const BlockId block : blocks) pool.publish(block, {{random(), random()}});
    EXPECT_EQ(pool.num_keys(), n - 1);
    for (const BlockId block : blocks) {
      ASSERT_EQ(pool.index().find(pool.record(block).key), block) << n << " blocks";
    }
  }
}

// More keys want one chunk than it counts; when some of them leave, the others are still found.
TEST(PrefixIndex, FindsKeysBehindAChunkThatHasLostCount) {
  constexpr std::uint32_t kKeys = 1000;
  BlockPool<Key128> pool(2 * kKeys, {});
  std::vector<BlockId> blocks(kKeys);
  pool.take(blocks);
  for (const BlockId block : blocks) pool.publish(block, {{0, std::uint32_t{block}}});
  for (std::size_t gone = 0; gone < kKeys; ++gone) {
    pool.forget(blocks[gone]);
    for (const std::size_t left : {gone + 1, (gone + kKeys) / 2, std::size_t{kKeys - 1}}) {
      if (left <= gone || left >= kKeys) continue;
      const BlockId block = blocks[left];
      ASSERT_EQ(pool.index().find(pool.record(block).key), block) << gone << " are gone";
    }
  }
}

// Different contents must have different messages: the pairs below collide when extra keys are
// untagged, unseparated, or without their place.
TEST(Hashing, ExtraKeysAreInjective) {
  const auto keys = [](const char* lora, const char* salt, std::vector<MultimodalItem> mm) {
    return ExtraKeys{.lora = lora, .salt = salt, .layout = {}, .mm = std::move(mm), .embeds = {}};
  };
  std::vector<ExtraKeys> cases = {keys("", "", {}),
                                  keys("a", "", {}),
                                  keys("", "a", {}),
                                  keys("ab", "", {}),
                                  keys("a", "b", {}),
                                  keys("b", "a", {}),
                                  keys("", "", {{"a", 0, 2}}),
                                  keys("", "", {{"a", 1, 2}}),
                                  keys("", "", {{"a", 0, 1}, {"a", 1, 1}}),
                                  keys("", "", {{"aa", 0, 2}})};
  cases.push_back({.lora = {}, .salt = {}, .layout = "a", .mm = {}, .embeds = {}});
  cases.push_back({.lora_path = "a"});
  cases.push_back({.lora = "a", .lora_path = "b"});
  cases.push_back({.lora = "b", .lora_path = "a"});
  cases.push_back({.lora = {}, .salt = {}, .layout = {}, .mm = {}, .embeds = {{"a", 0, 2}}});
  std::set<std::string> messages;
  for (const ExtraKeys& extra : cases) {
    std::string message;
    append_extra_keys(extra, 0, 4, message);
    EXPECT_LE(message.size(), extra_key_bytes(extra));
    EXPECT_TRUE(messages.insert(message).second);
  }
}

template <class Digest>
std::vector<typename Digest::Key> chain(std::uint32_t unit, std::vector<TokenId> tokens,
                                        std::uint64_t seed, const ExtraKeys* extra = nullptr) {
  ChainHasher<Digest> hasher(unit, seed);
  std::vector<typename Digest::Key> keys(tokens.size() / unit);
  if (extra != nullptr) hasher.reserve(*extra);
  hasher.hash(tokens.data(), extra, 0, static_cast<std::uint32_t>(keys.size()), keys.data());
  return keys;
}

template <class Digest>
void expect_chained() {
  for (const std::uint32_t unit : {1U, 4U, 16U, 300U}) {  // 16 has a path of its own
    std::vector<TokenId> tokens(3 * unit);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i);
    const auto keys = chain<Digest>(unit, tokens, 1);
    EXPECT_EQ(keys, chain<Digest>(unit, tokens, 1)) << "the same in every hasher";
    EXPECT_NE(keys[0], chain<Digest>(unit, tokens, 2)[0]) << "another seed, another chain";
    const ExtraKeys none;
    EXPECT_EQ(keys, chain<Digest>(unit, tokens, 1, &none)) << "no extra keys is no extra keys";
    tokens[0] += 1;
    const auto changed = chain<Digest>(unit, tokens, 1);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NE(keys[i], changed[i]) << "a key covers its whole prefix";
  }
}

TEST(Hashing, Xxh3KeysAreChained) { expect_chained<Xxh3Digest>(); }
TEST(Hashing, Sha256KeysAreChained) { expect_chained<Sha256Digest>(); }

// Goes red when the message or the hash changes; then every mirror of our events has to be told.
TEST(Hashing, KeysAreWhatTheyWere) {
  const std::vector<TokenId> tokens = {0, 1, 2, 3};
  EXPECT_EQ(chain<Xxh3Digest>(4, tokens, 0)[0].words[0], 13194398782548184848U);
  EXPECT_EQ(chain<Sha256Digest>(4, tokens, 0)[0].words[0], 15679511760692707640U);
}

TEST(Hashing, Sha256IsSha256) {
  // FIPS 180-2, appendix B.1: the digest of "abc".
  const Key256 digest = Sha256Digest{}("abc", 3);
  const auto* bytes = reinterpret_cast<const unsigned char*>(digest.words.data());
  const unsigned char expected[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(bytes[i], expected[i]);
}

CacheConfig config(std::uint32_t num_blocks, std::uint32_t block_size, std::uint32_t max_len) {
  CacheConfig out;
  out.num_blocks = num_blocks;
  out.max_model_len = max_len;
  out.hash_block_size = block_size;
  out.groups = {{.kind = LayerKind::full, .block_size = block_size}};
  return out;
}

TEST(CacheManager, CapacityIsANamedRefusalThatChangesNothing) {
  CacheManager<Xxh3Digest> manager(config(16, 4, 8), {.max_requests = 1});
  const std::vector<TokenId> nine(9), eight(8);
  EXPECT_THROW(manager.arrive({.tokens = nine}), ContractViolation);
  const RequestId id = manager.arrive({.tokens = eight});
  EXPECT_THROW(manager.arrive({.tokens = eight}), ContractViolation);
  EXPECT_THROW(manager.append(id, std::array<TokenId, 1>{}), ContractViolation);
  EXPECT_EQ(manager.tokens(id).size(), 8U);
  manager.finish(id);
  EXPECT_THROW(manager.finish(id), ContractViolation) << "a finished request is unknown";
  EXPECT_EQ(manager.arrive({.tokens = eight}), id) << "its place is free again";
}

// A relative publishes the shared block and leaves; then a lease or a hit holds it under that key.
TEST(CacheManager, CopiesWhatARelativePublishedAndSomebodyHoldsBeforeItIsWritten) {
  for (const bool by_lease : {true, false}) {
    CacheManager<Xxh3Digest> manager(config(16, 2, 64));
    const RequestId parent = manager.arrive({.tokens = std::array<TokenId, 1>{1}});
    ASSERT_TRUE(manager.allocate(parent, {.new_tokens = 2}));  // a draft behind the prompt
    const RequestId child = manager.fork(parent);
    manager.append(parent, std::array<TokenId, 1>{2});
    manager.cache(parent, 2);
    manager.finish(parent);
    manager.recycle(child, 0);  // looks at its table: nobody else is there
    const BlockId block = manager.table(child)[0];
    if (by_lease) {
      manager.pin(std::array<BlockId, 1>{block});
    } else {
      const RequestId other = manager.arrive({.tokens = std::array<TokenId, 3>{1, 2, 3}});
      ASSERT_EQ(manager.lookup(other), 2U);
      ASSERT_TRUE(manager.allocate(other, {.new_tokens = 1, .use_lookup = true}));
    }
    manager.append(child, std::array<TokenId, 1>{7});
    ASSERT_TRUE(manager.allocate(child, {.new_tokens = 2, .status = RequestStatus::running}));
    const std::vector<BlockCopy> copies = manager.take_copies();
    ASSERT_EQ(copies.size(), 1U);
    EXPECT_EQ(copies[0].from, block);
    EXPECT_EQ(copies[0].to, manager.table(child)[0]);
    EXPECT_TRUE(manager.pool().hashed(block)) << "whoever holds it goes on to read it";
  }
}

// A table and a hit for every block; a key for each and the root before them.
TEST(CacheManager, RequestsTakeMemoryForTheirTokensHashesAndTables) {
  CacheManager<Xxh3Digest> manager(config(16, 4, 8), {.max_requests = 2});
  const std::uint64_t empty = manager.request_bytes();
  const std::vector<TokenId> eight(8);
  manager.finish(manager.arrive({.tokens = eight}));
  const std::uint64_t one = 8 * sizeof(TokenId) + 3 * sizeof(Key128) + 2 * 2 * sizeof(BlockId);
  EXPECT_EQ(manager.request_bytes() - empty, one);
  manager.arrive({.tokens = eight});
  EXPECT_EQ(manager.request_bytes() - empty, one) << "the memory of a finished request is reused";
  manager.arrive({.tokens = eight});
  EXPECT_EQ(manager.request_bytes() - empty, 2 * one);
}

TEST(EventLog, CountsWhatDoesNotFitUntilItIsTaken) {
  EventLog log(3, 8);
  log.stored(0, {0, 8});
  log.stored_block(5, 4);
  log.stored_block(6, 8);
  log.removed(0, 5);
  EXPECT_EQ(log.num_lost(), 1U);
  EXPECT_EQ(log.take(), (std::vector<Event>{event::Stored{0, 0, 8, {{5, 4}, {6, 8}}}}));
  log.removed(0, 6);
  EXPECT_EQ(log.take(), (std::vector<Event>{event::Removed{0, 6, 8}}));
  EXPECT_EQ(log.num_lost(), 1U) << "since construction";
  EXPECT_GE(log.bytes(), 8 * sizeof(std::uint32_t));
  EXPECT_EQ(EventLog(0, 8).bytes(), 0U) << "off";
  EventLog smallest(1, 8);
  smallest.stored(0, {0, 0});
  EXPECT_EQ(smallest.take(), (std::vector<Event>{event::Stored{}}));
  smallest.stored_block(5, 4);
  EXPECT_EQ(smallest.prefix_tokens(5), 4U);
}

TEST(CacheManager, SlotsFollowTheTableAndPaddingIsMinusOne) {
  CacheManager<Xxh3Digest> manager(config(16, 4, 64));
  const std::vector<TokenId> prompt(6);
  const RequestId id = manager.arrive({.tokens = prompt});
  ASSERT_EQ(*manager.allocate(id, {.new_tokens = 6}), 2U);
  std::array<SlotId, 8> slots{};
  fill_slot_mapping(manager.table(id), 2, 4, 4, slots);
  EXPECT_EQ(slots, (std::array<SlotId, 8>{6, 7, 8, 9, -1, -1, -1, -1}));
  EXPECT_THROW(fill_slot_mapping(manager.table(id), 6, 3, 4, slots), std::out_of_range);
  std::array<std::int32_t, 4> row{9, 9, 9, 9};
  fill_table_row(manager.table(id), row);
  EXPECT_EQ(row, (std::array<std::int32_t, 4>{1, 2, 0, 0}));
  EXPECT_THROW(fill_table_row(manager.table(id), std::span(row).first(1)), std::out_of_range);
}

TEST(CacheManager, RefusesWhatItDoesNotSupport) {
  CacheConfig chunks = config(16, 8, 64);
  chunks.hash_block_size = 4;
  chunks.groups.push_back({.kind = LayerKind::chunked_local, .block_size = 4, .chunk = 8});
  EXPECT_THROW(CacheManager<Xxh3Digest>{chunks}, std::invalid_argument);
}

// A child publishes what it wrote behind its parent's tokens and leaves; the parent writes other
// tokens there.
TEST(CacheManager, ABlockThatARelativePublishedIsForgottenWhereItIsWrittenAnew) {
  CacheManager<Xxh3Digest> manager(config(16, 4, 64));
  const std::vector<TokenId> prompt = {0, 1, 2, 3, 4, 5};
  const RequestId parent = manager.arrive({.tokens = prompt});
  ASSERT_TRUE(manager.allocate(parent, {.new_tokens = 6}));
  manager.advance(parent, 6);
  const RequestId child = manager.fork(parent);
  manager.append(child, std::array<TokenId, 2>{60, 70});
  manager.cache(child, 8);
  manager.finish(child);
  manager.append(parent, std::array<TokenId, 2>{61, 71});
  ASSERT_TRUE(manager.allocate(parent, {.new_tokens = 2, .status = RequestStatus::running}));
  const std::vector<TokenId> childs = {0, 1, 2, 3, 4, 5, 60, 70, 8};
  const std::vector<TokenId> parents = {0, 1, 2, 3, 4, 5, 61, 71, 8};
  EXPECT_EQ(manager.lookup(manager.arrive({.tokens = childs})), 4U);
  EXPECT_EQ(manager.lookup(manager.arrive({.tokens = parents})), 8U);
}

TEST(CacheManager, ResetForgetsTheKeysOfPromptsThatEndInsideABlock) {
  CacheConfig tails = config(16, 4, 64);
  tails.hash_block_size = 2;
  tails.profile.prompt_tail = PromptTail::complete;
  tails.groups.push_back({.kind = LayerKind::sliding_window, .block_size = 2, .window = 4});
  CacheManager<Xxh3Digest> manager(tails);
  const std::vector<TokenId> prompt = {0, 1, 2, 3, 4, 5};
  for (int round = 0; round < 2; ++round) {
    const RequestId id = manager.arrive({.tokens = prompt});
    ASSERT_TRUE(manager.allocate(id, {.new_tokens = 6}));
    manager.advance(id, 6);
    manager.append(id, std::array<TokenId, 2>{});
    ASSERT_TRUE(manager.allocate(id, {.new_tokens = 2, .status = RequestStatus::running}));
    EXPECT_EQ(manager.pool().tails()->index().num_keys(), 1U);
    manager.finish(id);
    EXPECT_TRUE(manager.reset());
    EXPECT_EQ(manager.pool().num_keys(), 0U);
  }
}

// The state behind the last block is cached, too, but attention has dropped that block.
TEST(CacheManager, AStateBeyondWhatEagleLeavesIsNotHit) {
  CacheConfig eagle = config(32, 4, 64);
  eagle.profile = *find_profile("vllm-0.24");
  eagle.groups.front().eagle = true;
  eagle.groups.push_back(
      {.kind = LayerKind::mamba, .block_size = 4, .eagle = true, .mode = MambaMode::all});
  CacheManager<Xxh3Digest> manager(eagle);
  const std::vector<TokenId> prompt(24);
  const RequestId id = manager.arrive({.tokens = prompt});
  ASSERT_TRUE(manager.allocate(id, {.new_tokens = 24}));
  EXPECT_EQ(manager.lookup(manager.arrive({.tokens = prompt})), 16U);
}

TEST(Backoff, SleepsWhenNothingElseHelps) {
  Backoff backoff;
  const auto slept = [&] {
    const auto start = std::chrono::steady_clock::now();
    backoff.wait();
    return std::chrono::steady_clock::now() - start;
  };
  for (int i = 0; i < 100; ++i) slept();
  EXPECT_GE(slept(), std::chrono::microseconds(50));
}

TEST(Hashing, AUnitOfSixteenTokensIsTheLibrarysHashOfParentAndTokens) {
  constexpr std::size_t kUnits = 64;
  std::mt19937 random(1);
  std::vector<TokenId> tokens(16 * kUnits);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random());
  std::vector<Key128> keys(kUnits);
  ChainHasher<Xxh3Digest>(16, 7).hash(tokens.data(), nullptr, 0, kUnits, keys.data());
  for (std::size_t unit = 1; unit < kUnits; ++unit) {
    struct {
      Key128 parent;
      std::array<TokenId, 16> tokens;
    } message{keys[unit - 1], {}};
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(16 * unit), 16,
                message.tokens.begin());
    EXPECT_EQ(keys[unit], Xxh3Digest()(&message, sizeof(message))) << unit;
  }
}

}  // namespace
}  // namespace kvproof::optimized
