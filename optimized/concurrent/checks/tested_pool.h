// SPDX-License-Identifier: Apache-2.0
// The calls of a concurrent pool behind one interface, so that whole pools and broken ones share
// the code of the histories.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "optimized/concurrent/checks/pool_model.h"
#include "optimized/concurrent/checks/race_point.h"
#include "optimized/pool/block_record.h"
#include "optimized/pool/hashing.h"

namespace kvproof::properties::concurrency {

/// Model keys are 1 and up.
[[nodiscard]] inline optimized::Key128 pool_key(std::uint64_t key) {
  return {{key * 0x9e3779b97f4a7c15U, key * 0xd6e8feb86659fd93U}};
}

inline constexpr std::uint8_t kMostModelKeys = 3;

class TestedPool {
 public:
  using Key = optimized::Key128;
  using Cell = std::atomic<std::uint8_t>;

  virtual ~TestedPool() = default;
  [[nodiscard]] virtual bool take(std::span<BlockId> out) = 0;
  virtual void touch(std::span<const BlockId> blocks) = 0;
  virtual void release(std::span<const BlockId> blocks) = 0;
  /// Writes the content of a block, then publishes it. @return whether the block had no key before
  virtual bool fill(BlockId block, std::uint8_t key, Cell& cell) = 0;
  [[nodiscard]] virtual std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) = 0;
  virtual void forget(BlockId block) = 0;
  virtual bool reset() = 0;
  /// The state of the pool at rest, without the cells. Throws what its audit throws.
  [[nodiscard]] virtual PoolState found() const = 0;
};

template <class Pool>
class Tested final : public TestedPool {
 public:
  Tested(std::uint32_t num_blocks, FreeOrder order) : pool_(num_blocks, order) {}

  bool take(std::span<BlockId> out) override { return pool_.take(out); }
  void touch(std::span<const BlockId> blocks) override { pool_.touch(blocks); }
  void release(std::span<const BlockId> blocks) override {
    pool_.release(InterruptedBlocks(blocks));
  }
  bool fill(BlockId block, std::uint8_t key, Cell& cell) override {
    if constexpr (requires { pool_.fill(block, pool_key(key), cell, key); }) {
      return pool_.fill(block, pool_key(key), cell, key);
    } else {
      cell.store(key);
      return pool_.publish(block, pool_key(key));
    }
  }
  std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) override {
    return pool_.acquire(keys, out);
  }
  void forget(BlockId block) override { pool_.forget(block); }
  bool reset() override { return pool_.reset(); }

  [[nodiscard]] PoolState found() const override {
    pool_.audit();
    PoolState state;
    for (BlockId at = pool_.queue().head(); at != pool_.queue().sentinel();) {
      state.queue[state.num_free++] = static_cast<std::uint8_t>(at);
      at = pool_.record(at).next;
    }
    for (BlockId block = 1; block < pool_.num_blocks(); ++block) {
      state.references[block] = static_cast<std::uint8_t>(pool_.ref_cnt(block));
    }
    for (std::uint8_t key = 1; key <= kMostModelKeys; ++key) {
      std::uint8_t rank = 0;
      for (BlockId block = pool_.index().find(pool_key(key)); block != optimized::kNoBlock;
           block = pool_.index().next_copy(block)) {
        state.key[block] = key;
        state.rank[block] = rank++;
      }
    }
    return state;
  }

 private:
  Pool pool_;
};

/// The pool that a history uses.
using MakePool = std::unique_ptr<TestedPool> (*)(std::uint32_t num_blocks, FreeOrder order);

template <class Pool>
[[nodiscard]] std::unique_ptr<TestedPool> make_pool(std::uint32_t num_blocks, FreeOrder order) {
  return std::make_unique<Tested<Pool>>(num_blocks, order);
}

}  // namespace kvproof::properties::concurrency
