// SPDX-License-Identifier: Apache-2.0
// The concurrent pool as a list and a few maps, in steps of one block.
//
// Model:   what optimized/concurrent_pool.h promises of one block is one step here; whoever runs
//          the pool says in which order the steps of two threads took place.
// Refuses: locks, runs, marks: how the pool does it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "reference/config.h"
#include "reference/ids.h"

namespace kvproof::properties {

class PoolModel {
 public:
  using Key = std::uint32_t;

  PoolModel(std::uint32_t num_blocks, FreeOrder order)
      : order_(order), holders_(num_blocks), keys_(num_blocks) {
    for (BlockId block = 1; block < num_blocks; ++block) queue_.push_back(block);
  }

  /// Where the next block of one release goes when it goes to the front: behind the last one,
  /// unless somebody else changed the queue in between.
  struct FrontRun {
    BlockId last = kNullBlock;
    std::uint64_t changes = 0;
  };

  [[nodiscard]] std::optional<std::vector<BlockId>> take(std::size_t n) {
    ++changes_;
    if (n > queue_.size()) return std::nullopt;
    std::vector<BlockId> out;
    for (; n > 0; --n) {
      out.push_back(queue_.front());
      queue_.pop_front();
      holders_[out.back()] = 1;
      forget(out.back());
    }
    return out;
  }

  void touch(BlockId block) {
    if (holders_[block]++ > 0) return;
    ++changes_;
    queue_.remove(block);
  }

  /// @pre somebody holds the block
  void release(BlockId block, FrontRun& run) {
    if (--holders_[block] > 0) return;
    const bool to_front =
        order_ == FreeOrder::prepend || (order_ == FreeOrder::unhashed_first && !keys_[block]);
    if (run.changes != changes_) run.last = kNullBlock;
    run.changes = ++changes_;
    if (!to_front) {
      queue_.push_back(block);
      return;
    }
    const auto last = std::ranges::find(queue_, run.last);
    queue_.insert(last == queue_.end() ? queue_.begin() : std::next(last), block);
    run.last = block;
  }

  /// @pre somebody holds the block @return whether it had no key before
  bool publish(BlockId block, Key key) {
    if (keys_[block]) return false;
    keys_[block] = key;
    copies_[key].push_back(block);
    return true;
  }

  void forget(BlockId block) {
    if (!keys_[block]) return;
    std::erase(copies_[*keys_[block]], block);
    keys_[block].reset();
  }

  bool reset() {
    ++changes_;
    if (queue_.size() + 1 != holders_.size()) return false;
    copies_.clear();
    std::ranges::fill(keys_, std::nullopt);
    return true;
  }

  /// @return the oldest block of each key, as far as there is one
  [[nodiscard]] std::vector<BlockId> find(std::span<const Key> keys) const {
    std::vector<BlockId> out;
    for (const Key key : keys) {
      const auto at = copies_.find(key);
      if (at == copies_.end() || at->second.empty()) break;
      out.push_back(at->second.front());
    }
    return out;
  }

  [[nodiscard]] const std::list<BlockId>& queue() const { return queue_; }
  [[nodiscard]] std::uint32_t holders(BlockId block) const { return holders_[block]; }
  [[nodiscard]] bool hashed(BlockId block) const { return keys_[block].has_value(); }

 private:
  FreeOrder order_;
  std::vector<std::uint32_t> holders_;          // shape [num_blocks]
  std::vector<std::optional<Key>> keys_;        // shape [num_blocks]
  std::map<Key, std::vector<BlockId>> copies_;  // oldest first
  std::list<BlockId> queue_;                    // head first
  std::uint64_t changes_ = 0;                   // sections of the queue so far
};

}  // namespace kvproof::properties
