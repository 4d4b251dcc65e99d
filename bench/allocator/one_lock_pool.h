// SPDX-License-Identifier: Apache-2.0
// The baseline of the concurrent pool: BlockPool, with every call under one lock, or without a
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "bench/allocator/pool_state.h"
#include "optimized/concurrent/concurrent_pool.h"

namespace kvproof::bench {

struct NoLock {
  void lock() {}
  void unlock() {}
};

/// BlockPool behind the calls of ConcurrentPool, each of them one section of one lock.
template <class Lock>
class OneLockPool {
 public:
  OneLockPool(std::uint32_t num_blocks, FreeOrder order) : pool_(num_blocks, {.order = order}) {}

  bool take(std::span<BlockId> out) {
    const std::lock_guard guard(lock_);
    if (out.size() > pool_.num_free()) return false;
    pool_.take(out);
    return true;
  }
  void touch(std::span<const BlockId> blocks) {
    const std::lock_guard guard(lock_);
    pool_.touch(blocks);
  }
  std::size_t acquire(std::span<const PoolKey> keys, std::span<BlockId> out) {
    const std::lock_guard guard(lock_);
    std::size_t found = 0;
    for (; found < keys.size(); ++found) {
      out[found] = pool_.index().find(keys[found]);
      if (out[found] == optimized::kNoBlock) break;
    }
    pool_.touch(out.first(found));
    return found;
  }
  void release(std::span<const BlockId> blocks) {
    const std::lock_guard guard(lock_);
    pool_.release(blocks);
  }
  std::size_t publish(std::span<const BlockId> blocks, std::span<const PoolKey> keys) {
    const std::lock_guard guard(lock_);
    std::size_t num_registered = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (pool_.hashed(blocks[i])) continue;
      pool_.publish(blocks[i], keys[i]);
      ++num_registered;
    }
    return num_registered;
  }
  [[nodiscard]] std::uint32_t num_free() const { return pool_.num_free(); }
  void audit() const { pool_.audit(); }
  [[nodiscard]] std::uint32_t checksum() const { return pool_checksum(pool_); }
  [[nodiscard]] std::uint64_t bytes() const { return pool_.bytes(); }

 private:
  Lock lock_;
  Pool pool_;
};

class FineLockPool : public optimized::ConcurrentPool<PoolKey> {
 public:
  using ConcurrentPool::ConcurrentPool;
  [[nodiscard]] std::uint32_t checksum() const { return pool_checksum(*this); }
};

}  // namespace kvproof::bench
