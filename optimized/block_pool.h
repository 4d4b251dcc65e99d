// SPDX-License-Identifier: Apache-2.0
// The block pool: the records of all blocks, their free queue and their prefix index.
//
// Model:   as reference/block_pool.h, block for block. No operation allocates.
// Source:  vLLM v1 BlockPool.
// Refuses: requests, tables, admission (cache_manager.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optimized/event_log.h"
#include "optimized/free_queue.h"
#include "optimized/prefix_index.h"
#include "reference/config.h"
#include "reference/contract.h"

namespace kvproof::optimized {

template <class Key>
class BlockPool {
 public:
  using Record = BlockRecord<Key>;

  /// @param num_blocks with the null block. @param event_capacity see EventLog. @pre num_blocks >=
  /// 2
  BlockPool(std::uint32_t num_blocks, FreeOrder order, std::uint32_t event_capacity);

  [[nodiscard]] std::uint32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::uint32_t num_free() const { return queue_.size(); }
  [[nodiscard]] const Record& record(BlockId block) const { return records_[block]; }
  void prefetch(BlockId block) const { __builtin_prefetch(&records_[block], 1); }
  [[nodiscard]] bool hashed(BlockId block) const {
    return (records_[block].flags & Record::kHashed) != 0;
  }
  [[nodiscard]] const FreeQueue<Record>& queue() const { return queue_; }
  [[nodiscard]] const PrefixIndex<Key>& index() const { return index_; }
  [[nodiscard]] EventLog& events() { return events_; }
  [[nodiscard]] const EventLog& events() const { return events_; }

  /// Hands out the blocks at the head, each with one reference and without content.
  /// @param out shape [n], in queue order. @pre n <= num_free()
  void take(std::span<BlockId> out);

  /// Adds a reference to each block; a free one leaves the queue (revival). @pre ids in (0,
  /// num_blocks)
  void touch(std::span<const BlockId> blocks) {
    for (const BlockId block : blocks) {
      Record& record = records_[block];
      if (record.ref_cnt++ == 0) queue_.remove(block);
    }
  }

  /// Drops one reference per occurrence, in the order of the range; blocks without any left enter
  /// the free queue in that order, at the end that FreeOrder names. A block that nobody holds is a
  /// ContractViolation; the blocks before it are released, and the queue is whole.
  template <class Range>
  void release(const Range& blocks);

  /// Registers a block under a key. @pre the block carries no key
  void publish(BlockId block, const Key& key) { index_.insert(key, block); }

  /// Forgets the content of a block, held or free; a free one keeps its place. @pre block <
  /// num_blocks()
  void forget(BlockId block) {
    if (!hashed(block)) return;
    index_.erase(block);
    events_.removed(0, block);
  }

  /// Forgets all content. @return false, with nothing changed, while any block is held.
  bool reset();

  /// Memory of the records and the index; the event log apart.
  [[nodiscard]] std::uint64_t bytes() const {
    return records_.size() * sizeof(Record) + index_.bytes();
  }

  /// Recounts everything from the structure; throws std::logic_error naming what is broken.
  /// O(num_blocks).
  void audit() const;

 private:
  std::uint32_t num_blocks_;
  FreeOrder order_;
  std::vector<Record> records_;  // shape [num_blocks + 1]; the last is the queue's sentinel
  FreeQueue<Record> queue_;
  PrefixIndex<Key> index_;
  EventLog events_;
};

template <class Key>
template <class Range>
void BlockPool<Key>::release(const Range& blocks) {
  BlockId last_front = queue_.sentinel();  // blocks for the front go behind one another
  for (const BlockId block : blocks) {
    Record& record = records_[block];
    expects(record.ref_cnt > 0, Breach::not_held, "release of a block that nobody holds");
    if (--record.ref_cnt > 0) continue;
    const bool to_front = order_ == FreeOrder::prepend || (order_ == FreeOrder::unhashed_first &&
                                                           (record.flags & Record::kHashed) == 0);
    if (to_front) {
      queue_.insert_after(last_front, block);
      last_front = block;
    } else {
      queue_.push_back(block);
    }
  }
}

}  // namespace kvproof::optimized
