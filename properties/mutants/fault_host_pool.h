// SPDX-License-Identifier: Apache-2.0
// The fault host's pool: an array of blocks, a deque of free ids, a hash table in buckets.
// The device has such a pool, and so has the host.
//
// Model:   the pool of reference/block_pool.h, as an engine writes it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "properties/mutants.h"
#include "reference/config.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// The key that a block is published under.
struct FaultHostKey {
  GroupId group = 0;
  std::uint64_t hash = 0;
  std::uint64_t tier_hash = 0;  // the name of the same content in the other tier
  std::uint64_t parent = 0;     // hash of the block before
  std::uint32_t prefix_tokens = 0;
};

class FaultHostPool {
 public:
  using Blocks = std::vector<BlockId>;

  struct Block {
    std::int64_t refs = 0;
    bool hashed = false;
    FaultHostKey key;
    bool recycled = false;  // given back by a window
    bool hit = false;       // held since because a lookup found it
  };

  FaultHostPool(std::uint32_t num_blocks, FreeOrder order, Fault fault);

  /// Hands out the head of the queue. Throws when it is too short.
  Blocks take(std::uint64_t n);
  void touch(const Blocks& blocks);
  /// Drops a reference per occurrence; blocks without a reference left are queued in the order
  /// given.
  void release(const Blocks& blocks);
  void publish(BlockId block, const FaultHostKey& key);
  void unpublish(BlockId block);
  void reset();

  /// The oldest block of that content.
  [[nodiscard]] std::optional<BlockId> find(GroupId group, std::uint64_t hash) const;
  [[nodiscard]] std::optional<BlockId> find_tier(GroupId group, std::uint64_t tier_hash) const;

  [[nodiscard]] Block& operator[](BlockId block) { return blocks_[block]; }
  [[nodiscard]] const Block& operator[](BlockId block) const { return blocks_[block]; }
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }
  [[nodiscard]] std::deque<BlockId>& free() { return free_; }
  [[nodiscard]] const std::deque<BlockId>& free() const { return free_; }
  [[nodiscard]] bool all_free() const { return free_.size() + 1 >= blocks_.size(); }
  [[nodiscard]] bool has_content() const;
  /// Blocks of that content in the queue: those among `found` without a holder.
  [[nodiscard]] std::uint64_t queued(const Blocks& found) const;

  std::vector<Event>& events() { return events_; }
  void observe(PoolState& out) const;

 private:
  struct Entry {
    FaultHostKey key;
    BlockId block = 0;
  };
  static constexpr std::size_t kBuckets = 16;  // few, so that a lookup must compare

  [[nodiscard]] bool is(Fault fault) const { return fault_ == fault; }
  [[nodiscard]] bool to_front(const Block& b) const;
  void enqueue(const Blocks& blocks);

  FreeOrder order_;
  Fault fault_;
  std::vector<Block> blocks_;
  std::deque<BlockId> free_;                          // head first
  std::array<std::vector<Entry>, kBuckets> buckets_;  // oldest first
  std::vector<Event> events_;
};

}  // namespace kvproof::properties
