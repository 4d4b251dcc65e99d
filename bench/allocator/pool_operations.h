// SPDX-License-Identifier: Apache-2.0
// The operations of the block pool that are measured, each with its steady state around it.
//
// Model:   a round is prepare(), calls() times call(i), verify(), finish(). Only call() is timed;
//          it handles `batch` blocks. After finish() the next round finds the state that this one
//          found.
// Leaves out: clocks, which pool_bench.cpp has.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "bench/allocator/pool_state.h"
#include "optimized/cache_manager.h"
#include "optimized/pool/hashing.h"
#include "reference/ids.h"

namespace kvproof::bench {

/// Takes a batch from the head and releases it to the tail: the queue without a prefix cache.
class TakeRelease : public PoolState {
 public:
  explicit TakeRelease(const PoolCase& c);
  void prepare() {}
  void call(std::uint32_t) {
    pool_.take(out_);
    pool_.release(out_);
  }
  void floor_call() { floor_.rotate(out_); }
  /// Rounds after which every record of the list was visited.
  [[nodiscard]] std::uint32_t rounds_per_turn() const { return ceil_div(usable(), round_blocks()); }
  void verify() const;
  void finish() {}

 private:
  std::vector<BlockId> out_;
  BareList floor_;
};

/// Revives a batch of free blocks with content: each leaves the middle of the queue.
class Touch : public PoolState {
 public:
  explicit Touch(const PoolCase& c);
  void prepare() {}
  void call(std::uint32_t i) { pool_.touch(slice(i)); }
  void verify() const;
  void finish();
};

/// Registers a batch of full blocks in the index, beside all others.
class Publish : public PoolState {
 public:
  explicit Publish(const PoolCase& c);
  void prepare();
  void call(std::uint32_t i) {
    const std::span<const BlockId> blocks = slice(i);
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      pool_.publish(blocks[j], keys_[i * blocks.size() + j]);
    }
  }
  void verify() const;
  void finish() { next_window(); }

 private:
  std::vector<PoolKey> keys_;  // shape [round blocks]
};

/// Takes the content of a batch of blocks away.
class Evict : public PoolState {
 public:
  explicit Evict(const PoolCase& c);
  void prepare() {}
  void call(std::uint32_t i) {
    for (const BlockId block : slice(i)) pool_.forget(block);
  }
  void verify() const;
  void finish();
};

/// Finds the blocks of a batch of keys, all of them or none of them there.
class Lookup : public PoolState {
 public:
  Lookup(const PoolCase& c, bool hit);
  void prepare();
  void call(std::uint32_t i) {
    const std::size_t first = std::size_t{i} * case_.batch;
    for (std::size_t j = first; j < first + case_.batch; ++j) {
      found_ += pool_.index().find(keys_[j]) != optimized::kNoBlock ? 1 : 0;
    }
  }
  void verify();
  void finish() { next_window(); }

 private:
  bool hit_;
  std::uint64_t found_ = 0;
  std::vector<PoolKey> keys_;  // shape [round blocks]
};

/// Takes a batch whose blocks are all free and all cached: each loses its content on the way.
class EvictBatch : public PoolState {
 public:
  explicit EvictBatch(const PoolCase& c);
  void prepare() {}
  void call(std::uint32_t i) {
    pool_.take(std::span(out_).subspan(std::size_t{i} * case_.batch, case_.batch));
  }
  void verify() const;
  void finish();

 private:
  std::vector<BlockId> out_;  // shape [round blocks]
};

/// Finishes the oldest of the requests that fill a pool, each with a batch of published blocks, in
/// one call of the manager.
class FreeRequest {
 public:
  explicit FreeRequest(const PoolCase& c);
  [[nodiscard]] static std::uint32_t calls() { return 1; }
  [[nodiscard]] std::uint32_t batch() const { return case_.batch; }
  [[nodiscard]] std::uint32_t checksum() const { return pool_checksum(manager_.pool()); }
  [[nodiscard]] std::uint64_t pool_bytes() const { return manager_.pool().bytes(); }
  void audit() const { manager_.pool().audit(); }
  void prepare() {}
  void call(std::uint32_t) { manager_.finish(live_[oldest_]); }
  void verify() const;
  void finish();

 private:
  [[nodiscard]] RequestId start();
  [[nodiscard]] std::uint32_t num_live() const { return (case_.num_blocks - 1) / case_.batch; }

  PoolCase case_;
  optimized::CacheManager<optimized::Xxh3Digest> manager_;
  std::vector<TokenId> tokens_;
  std::vector<RequestId> live_;  // a ring
  std::size_t oldest_ = 0;
};

/// Hashes a batch of 16-token units, each chained to the one before. No pool.
template <class Digest>
class UnitHash {
 public:
  static constexpr std::uint32_t kUnitTokens = 16;

  explicit UnitHash(const PoolCase& c)
      : case_(c),
        hasher_(kUnitTokens, c.seed),
        tokens_(std::size_t{c.batch} * kUnitTokens),
        keys_(c.batch) {
    std::mt19937_64 random(c.seed);
    for (TokenId& token : tokens_) token = static_cast<TokenId>(random() & 0x1ffff);
  }
  [[nodiscard]] static std::uint32_t calls() { return 64; }
  [[nodiscard]] std::uint32_t batch() const { return case_.batch; }
  [[nodiscard]] std::uint32_t checksum() const {
    return static_cast<std::uint32_t>(keys_.back().words[0]);
  }
  [[nodiscard]] static std::uint64_t pool_bytes() { return 0; }
  void audit() const {  // a hasher without memory of earlier chains gives the same keys
    UnitHash other(case_);
    other.call(0);
    require(other.keys_ == keys_, case_, "the same chain has two hashes");
  }
  void prepare() { keys_.back() = {}; }
  void call(std::uint32_t) { hasher_.hash(tokens_.data(), nullptr, 0, case_.batch, keys_.data()); }
  void verify() const {
    require(keys_.back() != typename Digest::Key{}, case_, "nothing was hashed");
  }
  void finish() {}

 private:
  PoolCase case_;
  optimized::ChainHasher<Digest> hasher_;
  std::vector<TokenId> tokens_;
  std::vector<typename Digest::Key> keys_;  // shape [batch]
};

}  // namespace kvproof::bench
