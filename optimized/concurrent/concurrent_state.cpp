// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/concurrent_state.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace kvproof::optimized {

template <class Key>
ConcurrentState<Key>::ConcurrentState(std::uint32_t num_blocks, FreeOrder order)
    : num_blocks_(num_blocks),
      order_(order),
      records_(num_blocks + 1),
      queue_(records_.data(), num_blocks),
      index_(records_.data(), num_blocks) {
  for (BlockId block = 1; block < num_blocks; ++block) queue_.push_back(block);
  num_free_.store(queue_.size(), std::memory_order_relaxed);
}

template <class Key>
bool ConcurrentState<Key>::take(std::span<BlockId> out) {
  {
    const Section section(*this);
    if (out.size() > queue_.size()) return false;
    BlockId at = queue_.head();
    for (BlockId& block : out) {
      block = at;
      const std::atomic_ref<std::uint32_t> holders_of(word(at));
      at = records_[at].next;
      // A free block without content changes under this lock alone. One with content may lose it
      // to forget() meanwhile, and must not be found from now on.
      if ((holders_of.load(std::memory_order_relaxed) & HolderWord::kContent) == 0) {
        holders_of.store(1, std::memory_order_relaxed);
      } else {
        holders_of.fetch_add(HolderWord::kTaking + 1, std::memory_order_relaxed);
      }
    }
    queue_.drop_front(static_cast<std::uint32_t>(out.size()), at);
    __builtin_prefetch(&records_[records_[at].next]);  // the next take walks there
  }
  // The links of a held block belong to its taker: no thread reads them until it is released.
  for (const BlockId block : out) {
    records_[block].prev = records_[block].next = kUnlinked;
    if (being_taken(block)) index_.prefetch(records_[block].key);
  }
  evict_taken(out);
  return true;
}

/// Erases the content of blocks that take has marked, and the marks.
template <class Key>
void ConcurrentState<Key>::evict_taken(std::span<const BlockId> blocks) {
  for (std::size_t i = 0; i < blocks.size();) {
    if (!being_taken(blocks[i])) {
      ++i;
      continue;
    }
    const std::lock_guard guard(index_lock_);
    for (const std::size_t run_end = std::min(blocks.size(), i + kRun); i < run_end; ++i) {
      const std::uint32_t state = seen(blocks[i]);
      if ((state & HolderWord::kTaking) == 0) continue;
      if ((state & HolderWord::kContent) != 0) index_.erase(blocks[i]);
      std::atomic_ref(word(blocks[i])).fetch_and(HolderWord::kCount, std::memory_order_relaxed);
    }
  }
}

template <class Key>
std::size_t ConcurrentState<Key>::publish(std::span<const BlockId> blocks,
                                          std::span<const Key> keys) {
  std::size_t num_registered = 0;
  for (std::size_t i = 0; i < blocks.size();) {
    const std::size_t run_end = std::min(blocks.size(), i + kRun);
    for (std::size_t j = i; j < run_end; ++j) index_.prefetch(keys[j]);
    const std::lock_guard guard(index_lock_);
    for (; i < run_end; ++i) {
      expect_in_range(blocks[i]);
      const std::uint32_t state = seen(blocks[i]);
      expects((state & HolderWord::kCount) > 0 && (state & HolderWord::kTaking) == 0,
              Breach::not_held, "publication of a block that the caller does not hold");
      if ((state & HolderWord::kContent) != 0) continue;
      index_.insert(keys[i], blocks[i]);
      std::atomic_ref(word(blocks[i])).fetch_or(HolderWord::kContent, std::memory_order_relaxed);
      ++num_registered;
    }
  }
  return num_registered;
}

template <class Key>
void ConcurrentState<Key>::forget(BlockId block) {
  expect_in_range(block);
  if ((seen(block) & HolderWord::kContent) == 0) return;
  const std::lock_guard guard(index_lock_);
  if ((seen(block) & HolderWord::kContent) == 0) return;  // since the look above
  index_.erase(block);
  std::atomic_ref(word(block)).fetch_and(~HolderWord::kContent, std::memory_order_relaxed);
}

template <class Key>
bool ConcurrentState<Key>::reset() {
  const std::lock_guard guard(index_lock_);
  const Section section(*this);
  if (queue_.size() + 1 != num_blocks_) return false;
  for (Record& record : records_) {
    std::atomic_ref(record.ref_cnt).store(0, std::memory_order_relaxed);
    record.flags = 0;
  }
  index_.clear();
  return true;
}

template <class Key>
void ConcurrentState<Key>::audit() const {
  const auto require = [](bool holds, const char* law) {
    if (!holds) throw std::logic_error(std::string("concurrent pool: ") + law);
  };
  std::uint32_t walked = 0;
  BlockId before = queue_.sentinel();
  for (BlockId at = queue_.head(); at != queue_.sentinel(); at = records_[at].next) {
    require(at != kNullBlock && at < num_blocks_,
            "the free queue names a block that cannot be free");
    require(records_[at].prev == before, "a queued block's neighbour does not point back");
    require(ref_cnt(at) == 0, "a queued block is held");
    require(++walked <= queue_.size(), "the free queue is longer than its count");
    before = at;
  }
  require(walked == queue_.size() && walked == num_free(),
          "the free queue is shorter than its count");
  require(records_[queue_.sentinel()].prev == before,
          "the tail of the free queue is not the last block");
  std::uint32_t heads = 0;
  for (BlockId block = 1; block < num_blocks_; ++block) {
    const Record& record = records_[block];
    require((ref_cnt(block) == 0) == queue_.contains(block),
            "a block is neither held nor queued, or both");
    require((record.ref_cnt & HolderWord::kTaking) == 0, "a block is still being taken");
    require(hashed(block) == ((record.flags & Record::kHashed) != 0),
            "a block and the index disagree on whether it has content");
    if (!hashed(block)) continue;
    const BlockId head = index_.find(record.key);
    require(head != kNoBlock, "a block's key is not in the index");
    if ((record.flags & Record::kHead) == 0) continue;
    require(head == block, "the index names another block as the oldest");
    ++heads;
  }
  require(heads == index_.num_keys(), "the index counts keys that no block carries");
}

template class ConcurrentState<Key128>;
template class ConcurrentState<Key256>;

}  // namespace kvproof::optimized
