// SPDX-License-Identifier: Apache-2.0
// The concurrent pool from one thread answers as BlockPool does; and its lock.
#include "optimized/concurrent/concurrent_pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <tuple>

#include "optimized/concurrent/checks/run.h"
#include "optimized/pool/block_pool.h"

namespace kvproof::properties::concurrency {
namespace {

using optimized::ConcurrentPool;

/// The block pool with the calls of the concurrent one.
class OneThreadPool : public optimized::BlockPool<Key> {
 public:
  OneThreadPool(std::uint32_t num_blocks, FreeOrder order)
      : BlockPool(num_blocks, {.order = order}) {}

  bool take(std::span<BlockId> out) {
    if (out.size() > num_free()) return false;
    BlockPool::take(out);
    return true;
  }
  std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) {
    std::size_t found = 0;
    for (; found < keys.size(); ++found) {
      out[found] = index().find(keys[found]);
      if (out[found] == optimized::kNoBlock) break;
    }
    touch(out.first(found));
    return found;
  }
  [[nodiscard]] std::uint32_t ref_cnt(BlockId block) const { return record(block).ref_cnt; }
};

TEST(ConcurrentPool, FromOneThreadHandsOutTheBlocksThatBlockPoolDoes) {
  for (const FreeOrder order : {FreeOrder::append, FreeOrder::prepend, FreeOrder::unhashed_first}) {
    const auto run = [&](MakePool make) {
      Runner runner(make);
      runner.on_threads({.seed = 20'260'301,
                         .num_threads = 1,
                         .num_calls = 100'000,
                         .num_blocks = 301,
                         .order = order},
                        1);
      EXPECT_EQ(runner.complaint, "");
      EXPECT_GT(runner.num_hits, 1'000U);
      return std::tuple(runner.num_hits, runner.num_refused, runner.blocks_in_order);
    };
    EXPECT_EQ(run(make_pool<ConcurrentPool<Key>>), run(make_pool<OneThreadPool>));
  }
}

TEST(ConcurrentPool, NamesWhatACallerBrokeAndStopsThere) {
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
  EXPECT_EQ(breach_of([&] { pool.touch(foreign); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.touch(null_block); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.release(foreign); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.forget(8); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.publish(8, pool_key(1)); }), "block_out_of_range");
  EXPECT_EQ(breach_of([&] { pool.publish(3, pool_key(1)); }), "not_held");
  pool.audit();
  EXPECT_EQ(pool.num_free(), 7U);

  // A double free in the middle of a release, of blocks with one reference and with two.
  for (const std::uint32_t references : {1U, 2U}) {
    std::vector<BlockId> held(2);
    ASSERT_TRUE(pool.take(held));
    if (references == 2) pool.touch(held);
    const std::vector<BlockId> blocks = {held[0], 7, held[1]};
    EXPECT_EQ(breach_of([&] { pool.release(blocks); }), "not_held");
    pool.audit();
    EXPECT_EQ(pool.ref_cnt(held[0]), references - 1);
    EXPECT_EQ(pool.ref_cnt(held[1]), references);
    if (references == 2) pool.release(held);
    pool.release(std::span(held).last(1));
  }
  EXPECT_EQ(pool.num_free(), 7U);
}

TEST(SpinLock, LetsOneWriterInOrManyReaders) {
  optimized::SpinLock lock;
  std::uint64_t counter = 0;  // not atomic: the lock is what is tested
  std::uint64_t copy = 0;
  std::atomic<std::uint32_t> torn{0};
  std::vector<std::jthread> threads;
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
  threads.clear();  // joins
  EXPECT_EQ(counter, 400'000U);
  EXPECT_EQ(torn.load(), 0U);
}

}  // namespace
}  // namespace kvproof::properties::concurrency
