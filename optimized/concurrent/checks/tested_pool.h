// SPDX-License-Identifier: Apache-2.0
// The calls of a concurrent pool behind one interface, so that whole pools and broken ones share
// the code of the runs; and its views at rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "optimized/concurrent/checks/race_point.h"
#include "optimized/pool/block_record.h"
#include "optimized/pool/hashing.h"
#include "reference/config.h"
#include "reference/support/sanitizer.h"

namespace kvproof::properties::concurrency {

using Key = optimized::Key128;

/// Keys of runs are 1 and up.
[[nodiscard]] inline Key pool_key(std::uint64_t key) {
  return {{key * 0x9e3779b97f4a7c15U, key * 0xd6e8feb86659fd93U}};
}

/// What a block contains: the key for which it was written. ThreadSanitizer must see what the pool
/// fails to order; elsewhere a broken pool may not tear it.
using Cell = std::conditional_t<kUnderThreadSanitizer, std::uint32_t, std::atomic<std::uint32_t>>;

/// Blocks to release. Other threads may come in before each is read, hence also inside of a
/// section.
struct InterruptedBlocks {
  struct Iterator {
    const BlockId* at;

    BlockId operator*() const {
      RacePoint::here();
      return *at;
    }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };

  std::span<const BlockId> blocks;

  [[nodiscard]] Iterator begin() const { return {blocks.data()}; }
  [[nodiscard]] Iterator end() const { return {blocks.data() + blocks.size()}; }
};

class TestedPool {
 public:
  virtual ~TestedPool() = default;
  [[nodiscard]] virtual bool take(std::span<BlockId> out) = 0;
  virtual void touch(std::span<const BlockId> blocks) = 0;
  virtual void release(std::span<const BlockId> blocks) = 0;
  /// Writes the content of a block, then publishes it. @return whether the block had no key before
  virtual bool fill(BlockId block, std::uint32_t key, Cell& cell) = 0;
  [[nodiscard]] virtual std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) = 0;
  virtual void forget(BlockId block) = 0;
  virtual bool reset() = 0;

  // At rest.

  /// The free blocks in their order. Throws what the pool's audit throws.
  [[nodiscard]] virtual std::vector<BlockId> queue() const = 0;
  [[nodiscard]] virtual std::uint32_t references(BlockId block) const = 0;
  /// The blocks with this key, the oldest first.
  [[nodiscard]] virtual std::vector<BlockId> copies(std::uint32_t key) const = 0;
};

template <class Pool>
class Tested : public TestedPool, protected Pool {
 public:
  Tested(std::uint32_t num_blocks, FreeOrder order) : Pool(num_blocks, order) {}

  bool take(std::span<BlockId> out) override { return Pool::take(out); }
  void touch(std::span<const BlockId> blocks) override { Pool::touch(blocks); }
  void release(std::span<const BlockId> blocks) override {
    Pool::release(InterruptedBlocks{blocks});
  }
  bool fill(BlockId block, std::uint32_t key, Cell& cell) override {
    cell = key;
    return Pool::publish(block, pool_key(key));
  }
  std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) override {
    return Pool::acquire(keys, out);
  }
  void forget(BlockId block) override { Pool::forget(block); }
  bool reset() override { return Pool::reset(); }

  [[nodiscard]] std::vector<BlockId> queue() const override {
    Pool::audit();
    std::vector<BlockId> blocks;
    const auto& queue = Pool::queue();
    for (BlockId at = queue.head(); at != queue.sentinel(); at = Pool::record(at).next) {
      blocks.push_back(at);
    }
    return blocks;
  }
  [[nodiscard]] std::uint32_t references(BlockId block) const override {
    return Pool::ref_cnt(block);
  }
  [[nodiscard]] std::vector<BlockId> copies(std::uint32_t key) const override {
    std::vector<BlockId> blocks;
    const auto& index = Pool::index();
    for (BlockId at = index.find(pool_key(key)); at != optimized::kNoBlock;
         at = index.next_copy(at)) {
      blocks.push_back(at);
    }
    return blocks;
  }
};

/// Makes the pool of a run.
using MakePool = std::unique_ptr<TestedPool> (*)(std::uint32_t num_blocks, FreeOrder order);

template <class Pool>
[[nodiscard]] std::unique_ptr<TestedPool> make_pool(std::uint32_t num_blocks, FreeOrder order) {
  return std::make_unique<Tested<Pool>>(num_blocks, order);
}

}  // namespace kvproof::properties::concurrency
