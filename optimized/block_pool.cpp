// SPDX-License-Identifier: Apache-2.0
#include "optimized/block_pool.h"

#include <stdexcept>
#include <string>

namespace kvproof::optimized {

template <class Key>
BlockPool<Key>::BlockPool(std::uint32_t num_blocks, FreeOrder order, std::uint32_t event_capacity)
    : num_blocks_(num_blocks),
      order_(order),
      records_(num_blocks + 1),
      queue_(records_.data(), num_blocks),
      index_(records_.data(), num_blocks),
      events_(event_capacity, num_blocks) {
  for (BlockId block = 1; block < num_blocks; ++block) queue_.push_back(block);
}

// Two passes: the first walks the chain and starts fetching what the second needs to evict.
template <class Key>
void BlockPool<Key>::take(std::span<BlockId> out) {
  BlockId at = queue_.head();
  for (BlockId& block : out) {
    block = at;
    const Record& record = records_[at];
    at = record.next;
    if ((record.flags & Record::kHashed) != 0) index_.prefetch(record.key);
  }
  queue_.drop_front(static_cast<std::uint32_t>(out.size()), at);
  // A decode step takes one block: what the next one will evict, and the one behind it.
  __builtin_prefetch(&records_[records_[at].next]);
  index_.prefetch(records_[at].key);
  for (const BlockId block : out) {
    Record& record = records_[block];
    record.prev = record.next = kUnlinked;
    record.ref_cnt = 1;
    forget(block);
  }
}

template <class Key>
bool BlockPool<Key>::reset() {
  if (num_free() + 1 != num_blocks_) return false;
  for (Record& record : records_) record.flags = 0;
  index_.clear();
  events_.cleared();
  return true;
}

template <class Key>
void BlockPool<Key>::audit() const {
  const auto require = [](bool holds, const char* law) {
    if (!holds) throw std::logic_error(std::string("block pool: ") + law);
  };
  std::uint32_t walked = 0;
  BlockId before = queue_.sentinel();
  for (BlockId at = queue_.head(); at != queue_.sentinel(); at = records_[at].next) {
    require(at != kNullBlock && at < num_blocks_,
            "the free queue names a block that cannot be free");
    require(records_[at].prev == before, "a queued block's neighbour does not point back");
    require(records_[at].ref_cnt == 0, "a queued block is held");
    require(++walked <= num_free(), "the free queue is longer than its count");
    before = at;
  }
  require(walked == num_free(), "the free queue is shorter than its count");
  require(records_[queue_.sentinel()].prev == before,
          "the tail of the free queue is not the last block");
  std::uint32_t heads = 0;
  for (BlockId block = 1; block < num_blocks_; ++block) {
    const Record& record = records_[block];
    require((record.ref_cnt == 0) == queue_.contains(block),
            "a block is neither held nor queued, or both");
    if (!hashed(block)) continue;
    const BlockId head = index_.find(record.key);
    require(head != kNoBlock, "a block's key is not in the index");
    if ((record.flags & Record::kHead) == 0) continue;
    require(head == block, "the index names another block as the oldest");
    ++heads;
  }
  require(heads == index_.num_keys(), "the index counts keys that no block carries");
  require(!hashed(kNullBlock), "the null block carries a key");
}

template class BlockPool<Key128>;
template class BlockPool<Key256>;

}  // namespace kvproof::optimized
