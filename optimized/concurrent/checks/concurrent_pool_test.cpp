// SPDX-License-Identifier: Apache-2.0
// The concurrent pool from one thread keeps BlockPool's contract; and its lock.
#include "optimized/concurrent/concurrent_pool.h"

#include <gtest/gtest.h>

#include <thread>

#include "optimized/concurrent/checks/run.h"
#include "optimized/pool/block_pool.h"

namespace kvproof::properties::concurrency {
namespace {

using optimized::BlockPool;
using optimized::ConcurrentPool;

/// Both pools side by side. A call throws if their answers differ, or their states after it.
class Twins final : public Tested<ConcurrentPool<Key>> {
  using Base = Tested<ConcurrentPool<Key>>;

 public:
  Twins(std::uint32_t num_blocks, FreeOrder order)
      : Base(num_blocks, order), one_(num_blocks, {.order = order}) {}

  bool take(std::span<BlockId> out) override {
    std::vector<BlockId> expected(out.size());
    const bool granted = Base::take(out);
    require(granted == (out.size() <= one_.num_free()), "take is granted");
    if (!granted) return false;
    one_.take(expected);
    require(std::ranges::equal(out, expected), "blocks that take hands out");
    return compare(true);
  }
  void touch(std::span<const BlockId> blocks) override {
    Base::touch(blocks);
    one_.touch(blocks);
    compare();
  }
  void release(std::span<const BlockId> blocks) override {
    Base::release(blocks);
    one_.release(blocks);
    compare();
  }
  bool fill(BlockId block, std::uint32_t key, Cell& cell) override {
    const bool registered = Base::fill(block, key, cell);
    require(registered == !one_.hashed(block), "publish registers");
    if (registered) one_.publish(block, pool_key(key));
    return compare(registered);
  }
  std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) override {
    const std::size_t found = Base::acquire(keys, out);
    std::vector<BlockId> expected;
    for (const Key& key : keys) {
      const BlockId block = one_.index().find(key);
      if (block == optimized::kNoBlock) break;
      expected.push_back(block);
    }
    one_.touch(expected);
    require(std::ranges::equal(out.first(found), expected), "blocks that acquire finds");
    return compare(found);
  }
  void forget(BlockId block) override {
    Base::forget(block);
    one_.forget(block);
    compare();
  }
  bool reset() override {
    const bool done = Base::reset();
    require(done == one_.reset(), "reset");
    return compare(done);
  }

 private:
  static void require(bool equal, const char* what) {
    if (!equal) throw std::logic_error(say("the pools differ: ", what));
  }

  /// @return the answer, if the states are equal
  template <class Answer = bool>
  Answer compare(Answer answer = {}) {
    if (++num_calls_ % (kUnderThreadSanitizer ? 32 : 8) != 0) return answer;
    require(num_free() == one_.num_free(), "number of free blocks");
    BlockId a = one_.queue().head();
    BlockId b = ConcurrentPool<Key>::queue().head();
    for (std::uint32_t i = 0; i < one_.num_free(); ++i) {
      require(a == b, "order of the free queue");
      a = one_.record(a).next;
      b = record(b).next;
    }
    for (BlockId block = 1; block < num_blocks(); ++block) {
      require(ref_cnt(block) == one_.record(block).ref_cnt, "references");
      require(hashed(block) == one_.hashed(block), "content");
    }
    for (std::uint32_t key = 1; key < 2 * num_blocks(); ++key) {
      require(index().find(pool_key(key)) == one_.index().find(pool_key(key)), "index");
    }
    if (num_calls_ % 1'024 == 0) {
      audit();
      one_.audit();
    }
    return answer;
  }

  BlockPool<Key> one_;
  std::uint64_t num_calls_ = 0;
};

TEST(ConcurrentPool, FromOneThreadIsTheBlockPoolBlockForBlockAndQueueForQueue) {
  for (const FreeOrder order : {FreeOrder::append, FreeOrder::prepend, FreeOrder::unhashed_first}) {
    Runner runner([](std::uint32_t num_blocks, FreeOrder free_order) {
      return std::unique_ptr<TestedPool>(std::make_unique<Twins>(num_blocks, free_order));
    });
    runner.on_threads({.seed = 20'260'301,
                       .num_threads = 1,
                       .num_calls = 100'000,
                       .num_blocks = 301,
                       .order = order},
                      1);
    EXPECT_EQ(runner.complaint, "");
    EXPECT_GT(runner.num_hits, 1'000U);
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
