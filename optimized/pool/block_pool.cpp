// SPDX-License-Identifier: Apache-2.0
#include "optimized/pool/block_pool.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace kvproof::optimized {

template <class Key>
BlockPool<Key>::BlockPool(std::uint32_t num_blocks, const PoolOptions& options)
    : num_blocks_(num_blocks),
      order_(options.order),
      records_(num_blocks + 1),
      queue_(records_.data(), num_blocks),
      index_(records_.data(), num_blocks),
      events_(options.event_records, num_blocks),
      state_steps_(options.new_states ? num_blocks : 0),
      residency_(options.residency ? num_blocks : 0),
      victims_(options.victims) {
  if (options.tail_keys > 0) tails_.emplace(num_blocks, options.tail_keys);
  if (tails_ && options.new_states) tail_steps_.resize(tails_->num_entries());
  for (BlockId block = 1; block < num_blocks; ++block) {
    queue_.push_back(block);
    tell_freed(block);
  }
}

template <class Key>
void BlockPool<Key>::take(std::span<BlockId> out) {
  if (victims_ != nullptr) [[unlikely]] {
    for (BlockId& block : out) block = take_one();
  } else if (plain()) {
    take_heads<true>(out);
  } else {
    take_heads<false>(out);
  }
}

// Two passes: the first walks the chain and starts to fetch the data that the second evicts.
template <class Key>
template <bool kPlain>
void BlockPool<Key>::take_heads(std::span<BlockId> out) {
  BlockId at = queue_.head();
  for (BlockId& block : out) {
    block = at;
    const Record& record = records_[at];
    at = record.next;
    if ((record.flags & Record::kHashed) != 0) index_.prefetch(record.key);
  }
  queue_.drop_front(static_cast<std::uint32_t>(out.size()), at);
  counters_.taken += out.size();
  prefetch_victim(at);
  for (const BlockId block : out) make_held<kPlain>(block);
}

template <class Key>
void BlockPool<Key>::tell_freed(BlockId block) {
  residency_.released(block, step_);
  if (victims_ == nullptr) return;
  std::uint64_t content = kNoContent;
  if (hashed(block)) {
    content = (holds_whole(block) ? records_[block].key : tails_->key(block)).words[0];
  }
  victims_->freed(block, content);
}

template <class Key>
void BlockPool<Key>::tell_forgotten(BlockId block) {
  if (victims_ == nullptr) return;
  victims_->revived(block);
  victims_->freed(block, kNoContent);
}

template <class Key>
void BlockPool<Key>::publish_tail(BlockId block, const Key& key, GroupId group, TokenRange unit) {
  if (has_tail(block, unit.to)) return;
  if (hashed(block) && !holds_whole(block) && tails_->prefix_tokens(block) < unit.to) {
    forget_early(block);
  }
  if (!tails_->insert(block, key, unit.to)) return;
  Record& record = records_[block];
  if (!hashed(block)) record.flags = group << Record::kGroupShift;
  record.flags |= Record::kTailKeyed;
  events_.stored(group, unit);
  events_.second_key(block, unit.to);
}

template <class Key>
void BlockPool<Key>::pass_mark(const PrefixIndex<Key>& index, std::vector<std::uint32_t>& steps,
                               BlockId block) {
  if (steps.empty() || steps[block] != step_) return;
  const BlockId heir = index.is_oldest(block) ? index.next_copy(block) : kNoBlock;
  if (heir != kNoBlock) steps[heir] = step_;
  steps[block] = 0;
}

template <class Key>
void BlockPool<Key>::move_keys(BlockId from, BlockId to) {
  const std::uint32_t flags = records_[from].flags;
  const std::uint32_t group = flags >> Record::kGroupShift << Record::kGroupShift;
  if ((flags & kKeyed) == 0) return;
  ++num_forgotten_;
  if ((flags & Record::kHashed) != 0) {
    pass_mark(index_, state_steps_, from);
    index_.erase(from);
    index_.insert(records_[from].key, to);
    events_.moved(from, to);
  }
  if ((flags & Record::kTailKeyed) != 0) {
    for (BlockId entry = from; entry != kNoBlock; entry = tails_->next(entry)) {
      pass_mark(tails_->index(), tail_steps_, entry);
    }
    tails_->move(from, to);
    records_[to].flags |= Record::kTailKeyed;
  }
  records_[from].flags = 0;
  records_[to].flags |= group;
}

template <class Key>
void BlockPool<Key>::forget_special(BlockId block) {
  Record& record = records_[block];
  const std::uint32_t flags = record.flags;
  const GroupId group(flags >> Record::kGroupShift);
  if ((flags & Record::kHashed) != 0) {
    pass_mark(index_, state_steps_, block);
    index_.erase(block);
    events_.removed(group, block);
  }
  if ((flags & Record::kTailKeyed) == 0) return;
  for (BlockId entry = block; entry != kNoBlock; entry = tails_->next(entry)) {
    pass_mark(tails_->index(), tail_steps_, entry);
    events_.removed_prefix(group, block, tails_->prefix_tokens(entry));
  }
  record.flags = 0;
  tails_->erase(block);
}

template <class Key>
bool BlockPool<Key>::reset() {
  if (!all_free()) return false;
  for (Record& record : records_) record.flags = 0;
  ++num_forgotten_;
  index_.clear();
  if (tails_) tails_->clear();
  std::ranges::fill(state_steps_, 0);
  std::ranges::fill(tail_steps_, 0);
  for (BlockId block = 1; block < num_blocks_; ++block) tell_forgotten(block);
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
    if (!holds_whole(block)) continue;
    const BlockId head = index_.find(record.key);
    require(head != kNoBlock, "a block's key is not in the index");
    if ((record.flags & Record::kHead) == 0) continue;
    require(head == block, "the index names another block as the oldest");
    require(index_.stands_where_it_says(block), "a block is not in the slot that its record names");
    ++heads;
  }
  require(heads == index_.num_keys(), "the index counts keys that no block carries");
  require(!hashed(kNullBlock), "the null block carries a key");
}

template class BlockPool<Key128>;
template class BlockPool<Key256>;

}  // namespace kvproof::optimized
