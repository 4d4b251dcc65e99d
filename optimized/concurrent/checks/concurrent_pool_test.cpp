// SPDX-License-Identifier: Apache-2.0
// The concurrent pool: BlockPool's contract from one thread, and its own promises between many.
#include "optimized/concurrent/concurrent_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <ranges>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/concurrent_stress.h"
#include "optimized/concurrent/checks/history_reports.h"
#include "optimized/concurrent/checks/sanitizer.h"
#include "optimized/pool/block_pool.h"

namespace kvproof::optimized {
namespace {

using properties::concurrency::again;
using properties::concurrency::history_settings;
using properties::concurrency::key_of;
using properties::concurrency::stress;
using properties::concurrency::StressPlan;
using properties::concurrency::StressReport;
using Key = Key128;

/// Both pools side by side, under the same random calls from one thread.
class Twins {
 public:
  static constexpr std::uint32_t kBlocks = 301;
  static constexpr std::uint32_t kKeys = 400;

  Twins(FreeOrder order, std::uint64_t seed)
      : random_(seed), one_(kBlocks, {.order = order}), many_(kBlocks, order) {}

  void step() {
    switch (below(10)) {
      case 0:
      case 1: take(); break;
      case 2: touch(); break;
      case 3:
      case 4: release(); break;
      case 5:
      case 6: publish(); break;
      case 7: acquire(); break;
      case 8: forget(); break;
      default: rare(); break;
    }
  }

  void compare() {
    ASSERT_EQ(many_.num_free(), one_.num_free());
    BlockId a = one_.queue().head();
    BlockId b = many_.queue().head();
    for (std::uint32_t i = 0; i < one_.num_free(); ++i) {
      ASSERT_EQ(a, b) << "place " << i << " of the free queue";
      a = one_.record(a).next;
      b = many_.record(b).next;
    }
    for (BlockId block = 1; block < kBlocks; ++block) {
      ASSERT_EQ(many_.ref_cnt(block), one_.record(block).ref_cnt) << "block " << block;
      ASSERT_EQ(many_.hashed(block), one_.hashed(block)) << "block " << block;
    }
    for (std::uint32_t k = 0; k < kKeys; ++k) {
      ASSERT_EQ(many_.index().find(key_of(k)), one_.index().find(key_of(k))) << "key " << k;
    }
  }

  void audit() const {
    one_.audit();
    many_.audit();
  }
  [[nodiscard]] std::uint64_t num_hits() const { return num_hits_; }
  [[nodiscard]] std::uint64_t num_breaches() const { return num_breaches_; }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  BlockId any_block() { return BlockId(1 + below(kBlocks - 1)); }

  void take() {
    const std::uint32_t n = below(4) == 0 ? below(200) : below(8);
    std::vector<BlockId> a(n);
    std::vector<BlockId> b(n);
    const bool fits = n <= one_.num_free();
    ASSERT_EQ(many_.take(b), fits);
    if (!fits) return;
    one_.take(a);
    ASSERT_EQ(a, b);
    held_.insert(held_.end(), a.begin(), a.end());
  }

  void touch() {
    std::vector<BlockId> blocks(below(90));
    std::ranges::generate(blocks, [&] { return any_block(); });
    one_.touch(blocks);
    many_.touch(blocks);
    held_.insert(held_.end(), blocks.begin(), blocks.end());
  }

  /// Some of what is held, with duplicates where it is held twice; at times all of it.
  void release() {
    std::ranges::shuffle(held_, random_);
    const std::size_t n =
        below(8) == 0 ? held_.size() : std::min<std::size_t>(held_.size(), below(100));
    const std::vector<BlockId> blocks(held_.end() - static_cast<std::ptrdiff_t>(n), held_.end());
    held_.resize(held_.size() - n);
    one_.release(blocks);
    many_.release(blocks);
  }

  void publish() {
    for (std::uint32_t i = below(20); i > 0 && !held_.empty(); --i) {
      const BlockId block = held_[below(static_cast<std::uint32_t>(held_.size()))];
      const Key key = key_of(below(kKeys));
      const bool fresh = !one_.hashed(block);
      if (fresh) one_.publish(block, key);
      ASSERT_EQ(many_.publish(block, key), fresh);
    }
  }

  void acquire() {
    std::vector<Key> keys(below(100));
    const std::uint32_t first = below(kKeys);
    for (std::uint32_t i = 0; i < keys.size(); ++i) keys[i] = key_of((first + i / 3) % kKeys);
    std::vector<BlockId> a;
    for (const Key& key : keys) {
      const BlockId block = one_.index().find(key);
      if (block == kNoBlock) break;
      a.push_back(block);
    }
    one_.touch(a);
    std::vector<BlockId> b(keys.size());
    b.resize(many_.acquire(keys, b));
    ASSERT_EQ(a, b);
    num_hits_ += a.size();
    held_.insert(held_.end(), a.begin(), a.end());
  }

  void forget() {
    const BlockId block = any_block();
    one_.forget(block);
    many_.forget(block);
  }

  /// A reset, or a release that fails half-way: both pools must stop at the same block.
  void rare() {
    if (below(4) == 0) {
      ASSERT_EQ(many_.reset(), one_.reset());
      return;
    }
    const BlockId free_block = one_.queue().head();
    if (held_.size() < 2 || free_block == one_.queue().sentinel()) return;
    const BlockId before = held_.back();
    held_.pop_back();
    // The last one is held and must stay so, whether its reference is the last one or not.
    const std::vector<BlockId> blocks = {before, free_block, held_.back()};
    EXPECT_THROW(one_.release(blocks), ContractViolation);
    try {
      many_.release(blocks);
      FAIL() << "a double free went unnoticed";
    } catch (const ContractViolation& violation) {
      EXPECT_EQ(violation.breach(), Breach::not_held);
    }
    ++num_breaches_;
  }

  std::mt19937_64 random_;
  BlockPool<Key> one_;
  ConcurrentPool<Key> many_;
  std::vector<BlockId> held_;  // once per reference
  std::uint64_t num_hits_ = 0;
  std::uint64_t num_breaches_ = 0;
};

class FromOneThread : public testing::TestWithParam<FreeOrder> {};

TEST_P(FromOneThread, IsTheBlockPoolBlockForBlockAndQueueForQueue) {
  constexpr std::uint64_t kSeed = 20'260'301;
  constexpr int kSteps = 100'000;
  constexpr int kCompareEvery = properties::concurrency::kUnderThreadSanitizer ? 32 : 8;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Twins twins(GetParam(), kSeed);
  for (int i = 0; i < kSteps && !HasFatalFailure(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    twins.step();
    if (i % kCompareEvery == 0) twins.compare();
    if (i % 1'024 == 0) twins.audit();
  }
  std::printf("seed %llu: %d steps, %llu hits, %llu refused releases\n",
              static_cast<unsigned long long>(kSeed), kSteps,
              static_cast<unsigned long long>(twins.num_hits()),
              static_cast<unsigned long long>(twins.num_breaches()));
  EXPECT_GT(twins.num_hits(), 1'000U);
  EXPECT_GT(twins.num_breaches(), 100U);
}

INSTANTIATE_TEST_SUITE_P(ConcurrentPool, FromOneThread,
                         testing::Values(FreeOrder::append, FreeOrder::prepend,
                                         FreeOrder::unhashed_first));

TEST(ConcurrentPool, NamesWhatACallerBroke) {
  ConcurrentPool<Key> pool(8, FreeOrder::append);
  const auto breach_of = [](auto&& call) {
    try {
      call();
    } catch (const ContractViolation& violation) {
      return std::string(to_string(violation.breach()));
    }
    return std::string("none");
  };
  const std::vector<BlockId> foreign = {8};
  const std::vector<BlockId> null_block = {kNullBlock};
  const std::vector<BlockId> free_block = {3};
  EXPECT_EQ(breach_of([&] { pool.touch(foreign); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.touch(null_block); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.release(foreign); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.forget(8); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.publish(8, key_of(1)); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.release(free_block); }), "not_held");
  EXPECT_EQ(breach_of([&] { pool.publish(3, key_of(1)); }), "not_held");
  pool.audit();
  EXPECT_EQ(pool.num_free(), 7U);
}

/// Few threads, many, and one per core.
std::vector<std::uint32_t> thread_counts() {
  std::set<std::uint32_t> counts = {1, 2, 4, 8};
  counts.insert(std::max(1U, std::thread::hardware_concurrency()));
  return {counts.begin(), counts.end()};
}

class Threads : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Threads, HoldWhatTheyWereGivenAndFindWhatItSays) {
  for (const FreeOrder order : {FreeOrder::append, FreeOrder::prepend, FreeOrder::unhashed_first}) {
    const StressPlan plan{
        .num_threads = GetParam(), .order = order, .seed = history_settings().seed};
    const StressReport report = stress<ConcurrentPool<Key>, std::uint64_t>(plan);
    std::printf("seed %llu, %u threads: %llu takes, %llu refused, %llu hits\n",
                static_cast<unsigned long long>(plan.seed), plan.num_threads,
                static_cast<unsigned long long>(report.num_taken),
                static_cast<unsigned long long>(report.num_refused),
                static_cast<unsigned long long>(report.num_hits));
    ASSERT_EQ(report.complaint, "") << again(plan.seed);
    EXPECT_GT(report.num_taken, 1'000U);
    EXPECT_GT(report.num_hits, 1'000U);
    EXPECT_GT(report.num_refused, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(ConcurrentPool, Threads, testing::ValuesIn(thread_counts()));

using TornHolders = properties::concurrency::TornHolders<AtomicHolders, HolderWord::kCount>;
using BlindHolders = properties::concurrency::BlindHolders<AtomicHolders>;

/// Rounds until one complains: on one core few do. In a process of its own, because a broken pool
/// may take it down.
template <class Holders>
[[noreturn]] void hunt() {
  alarm(3600);  // [s]
  for (std::uint64_t round = 1;; ++round) {
    const StressPlan plan{.num_threads = 4, .num_calls = 4'000, .seed = round};
    const StressReport report =
        stress<ConcurrentPool<Key, Holders>, std::atomic<std::uint64_t>>(plan);
    if (report.complaint.empty()) continue;
    std::fprintf(stderr, "round %d: %s\n", static_cast<int>(round), report.complaint.c_str());
    std::_Exit(1);
  }
}

class StressedBrokenPool : public testing::Test {
 protected:
  void SetUp() override {
    if (properties::concurrency::kUnderThreadSanitizer) {
      GTEST_SKIP() << "ThreadSanitizer ends a broken pool before the checks can";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(StressedBrokenPool, ThatCountsInThreeStepsIsNoticed) {
  EXPECT_EXIT(hunt<TornHolders>(), testing::ExitedWithCode(1), "round [0-9]+: ");
}

TEST_F(StressedBrokenPool, WhoseLookupHoldsABlockBeingTakenIsNoticed) {
  EXPECT_EXIT(hunt<BlindHolders>(), testing::ExitedWithCode(1), "round [0-9]+: block [0-9]+: ");
}

TEST(SpinLock, LetsOneWriterInOrManyReaders) {
  SpinLock lock;
  std::uint64_t counter = 0;  // not atomic: the lock is what is tested
  std::uint64_t copy = 0;
  std::atomic<std::uint32_t> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200'000; ++i) {
        if (t % 2 == 0) {
          const std::lock_guard guard(lock);
          ++counter;
          ++copy;
        } else {
          const std::shared_lock guard(lock);
          if (counter != copy) ++torn;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 400'000U);
  EXPECT_EQ(torn.load(), 0U);
}

}  // namespace
}  // namespace kvproof::optimized
