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
  FreeQueue(Record* records, std::uint32_t num_blocks) : records_(records), sentinel_(num_blocks) {
    records_[sentinel_].prev = records_[sentinel_].next = sentinel_;
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] BlockId head() const { return records_[sentinel_].next; }
  [[nodiscard]] BlockId sentinel() const { return sentinel_; }
  [[nodiscard]] bool contains(BlockId block) const { return records_[block].prev != kUnlinked; }

  void push_back(BlockId block) { link_between(records_[sentinel_].prev, block, sentinel_); }

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
    records_[sentinel_].next = rest;
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
  BlockId sentinel_;  // not a block of the pool: the number behind the last one
  std::uint32_t size_ = 0;
};

}  // namespace kvproof::optimized
