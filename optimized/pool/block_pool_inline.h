// SPDX-License-Identifier: Apache-2.0
// What happens to one block when it is taken, held again, released: inlined, because it happens to
// every block of every request.
#pragma once

#include "optimized/pool/block_pool.h"

namespace kvproof::optimized {

template <class Key, class Victims>
inline BlockId BlockPool<Key, Victims>::take_one() {
  ++counters_.taken;
  if constexpr (!Victims::kInQueueOrder) {
    const BlockId victim = victims_.victim();
    queue_.remove(victim);
    make_held(victim);
    return victim;
  }
  const BlockId block = queue_.head();
  const BlockId rest = records_[block].next;
  queue_.drop_front(1, rest);
  prefetch_victim(rest);
  make_held(block);
  return block;
}

template <class Key, class Victims>
inline void BlockPool<Key, Victims>::tell_freed(BlockId block) {
  if constexpr (!Victims::kInQueueOrder) {
    std::uint64_t content = kNoContent;
    if (hashed(block)) {
      const Key& key = holds_whole(block) ? records_[block].key : tails_->key(block);
      content = key.words[0];
    }
    victims_.freed(block, content);
  }
}

template <class Key, class Victims>
inline void BlockPool<Key, Victims>::tell_forgotten(BlockId block) {
  if constexpr (!Victims::kInQueueOrder) {
    victims_.revived(block);
    victims_.freed(block, kNoContent);
  }
}

template <class Key, class Victims>
inline void BlockPool<Key, Victims>::make_held(BlockId block) {
  Record& record = records_[block];
  record.prev = record.next = kUnlinked;
  record.ref_cnt = 1;
  const bool evicted = (record.flags & kKeyed) != 0;
  residency_.taken(block, step_, evicted);
  if (!evicted) return;
  ++counters_.evictions;
  forget_keys(block);
}

template <class Key, class Victims>
inline void BlockPool<Key, Victims>::prefetch_victim(BlockId next) const {
  __builtin_prefetch(&records_[records_[next].next]);
  index_.prefetch(records_[next].key);
}

template <class Key, class Victims>
inline void BlockPool<Key, Victims>::forget_keys(BlockId block) {
  const std::uint32_t flags = records_[block].flags;
  ++num_forgotten_;
  if ((flags & Record::kTailKeyed) != 0 || !state_steps_.empty()) return forget_special(block);
  index_.erase(block);
  events_.removed(flags >> Record::kGroupShift, block);
}

template <class Key, class Victims>
inline void BlockPool<Key, Victims>::touch(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    if (block == kNullBlock) continue;
    Record& record = records_[block];
    if (record.ref_cnt++ > 0) continue;
    queue_.remove(block);
    ++counters_.revivals;
    if constexpr (!Victims::kInQueueOrder) victims_.revived(block);
  }
}

template <class Key, class Victims>
inline std::uint32_t BlockPool<Key, Victims>::num_revived(std::span<const BlockId> blocks) const {
  std::uint32_t count = 0;
  for (const BlockId block : blocks) {
    count += block != kNullBlock && records_[block].ref_cnt == 0 ? 1 : 0;
  }
  return count;
}

template <class Key, class Victims>
template <class Range>
void BlockPool<Key, Victims>::release(const Range& blocks) {
  const FreeOrder order = order_;
  const bool timed = residency_.enabled();
  BlockId last_front = queue_.sentinel();  // blocks for the front go behind one another
  for (const BlockId block : blocks) {
    if (block == kNullBlock) continue;
    Record& record = records_[block];
    expects(record.ref_cnt > 0, Breach::not_held, "release of a block that nobody holds");
    if (--record.ref_cnt > 0) continue;
    if (timed) residency_.released(block, step_);
    const bool to_front =
        order != FreeOrder::append && (order == FreeOrder::prepend || (record.flags & kKeyed) == 0);
    if (to_front) {
      queue_.insert_after(last_front, block);
      last_front = block;
    } else {
      queue_.push_back(block);
    }
    tell_freed(block);
  }
}

}  // namespace kvproof::optimized
