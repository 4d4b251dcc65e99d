// SPDX-License-Identifier: Apache-2.0
// The free queue: a doubly linked list threaded through the block records, which is also the
// eviction order.
//
// Model:   a ring with one sentinel record after the last block; head = sentinel.next. A record
//          that is not queued has both links set to kUnlinked. Every operation is O(1) per block.
// Source:  vLLM v1 FreeKVCacheBlockQueue.
// Memory:  it has none of its own.
#pragma once

#include <cstdint>

#include "reference/ids.h"

namespace kvproof::optimized {

inline constexpr BlockId kUnlinked{0xffffffffU};

/// `Record` has members prev and next. The array has one more record than there are blocks.
template <class Record>
class FreeQueue {
 public:
  /// @param records shape [num_blocks + 1], owned by the pool; the last one is the sentinel.
  FreeQueue(Record* records, std::uint32_t num_blocks)
      : records_(records), end_(records + num_blocks), sentinel_(num_blocks) {
    end_->prev = end_->next = sentinel_;
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] BlockId head() const { return end_->next; }
  [[nodiscard]] BlockId sentinel() const { return sentinel_; }
  [[nodiscard]] bool contains(BlockId block) const { return records_[block].prev != kUnlinked; }

  void push_back(BlockId block) { link_between(end_->prev, block, sentinel_); }

  /// Blocks that enter at the back one behind the other. Until close(), nothing else may happen to
  /// the queue, whose last link and size lag behind.
  struct Arriving {
    Record* last;  // its record
    BlockId last_id;
    std::uint32_t count = 0;
  };
  [[nodiscard]] Arriving open() const {
    const BlockId last = end_->prev;
    return {&records_[last], last};
  }
  static void push_back(Arriving& arriving, BlockId block, Record& record) {
    record.prev = arriving.last_id;
    arriving.last->next = block;
    arriving = {&record, block, arriving.count + 1};
  }
  void close(const Arriving& arriving) {
    arriving.last->next = sentinel_;
    end_->prev = arriving.last_id;
    size_ += arriving.count;
  }

  /// Inserts behind `before`, which is queued, or at the front if it is the sentinel.
  void insert_after(BlockId before, BlockId block) {
    link_between(before, block, records_[before].next);
  }

  /// Unlinks a queued block, wherever it stands.
  void remove(BlockId block) {
    Record& record = records_[block];
    records_[record.prev].next = record.next;
    records_[record.next].prev = record.prev;
    record.prev = record.next = kUnlinked;
    --size_;
  }

  /// Unlinks the first `n` blocks at once. The caller has walked them and clears their links.
  /// @param rest the block behind them, or the sentinel
  void drop_front(std::uint32_t n, BlockId rest) {
    end_->next = rest;
    records_[rest].prev = sentinel_;
    size_ -= n;
  }

 private:
  void link_between(BlockId before, BlockId block, BlockId behind) {
    records_[block].prev = before;
    records_[block].next = behind;
    records_[before].next = block;
    records_[behind].prev = block;
    ++size_;
  }

  Record* records_;
  Record* end_;       // the sentinel
  BlockId sentinel_;  // not a block of the pool: the number behind the last one
  std::uint32_t size_ = 0;
};

}  // namespace kvproof::optimized
