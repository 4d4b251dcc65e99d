// SPDX-License-Identifier: Apache-2.0
// The block pool: the records of all blocks, their free queue and their prefix index.
//
// Model:   as reference/block_pool.h, block for block. No operation allocates.
// Source:  vLLM v1 BlockPool.
// Leaves out: requests, tables, admission (cache_manager.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "optimized/pool/counters.h"
#include "optimized/pool/event_log.h"
#include "optimized/pool/free_queue.h"
#include "optimized/pool/huge_pages.h"
#include "optimized/pool/prefix_index.h"
#include "optimized/pool/tail_keys.h"
#include "optimized/pool/victims.h"
#include "reference/config.h"
#include "reference/contract.h"

namespace kvproof::optimized {

/// The options that a pool is built with besides its size.
struct PoolOptions {
  FreeOrder order = FreeOrder::append;
  std::uint32_t event_records = 0;  // see EventLog; 0 = no events
  std::uint32_t tail_keys = 0;      // per block, see TailKeys; 0 = none
  bool new_states = false;          // remember which keys were published since the last step
  bool residency = false;           // see Residency
  VictimPolicy* victims = nullptr;  // outlives the pool; nullptr = the head of the free queue
};

template <class Key>
class BlockPool {
 public:
  using Record = BlockRecord<Key>;

  /// @param num_blocks with the null block; 0 = there is no pool. @pre num_blocks != 1
  BlockPool(std::uint32_t num_blocks, const PoolOptions& options);

  [[nodiscard]] std::uint32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::uint32_t num_free() const { return queue_.size(); }
  [[nodiscard]] bool all_free() const { return num_free() + 1 >= num_blocks_; }
  [[nodiscard]] const Record& record(BlockId block) const { return records_[block]; }
  /// Whether the block carries any key.
  [[nodiscard]] bool hashed(BlockId block) const { return (records_[block].flags & kKeyed) != 0; }
  /// Whether it carries the key of the whole block, not only that of a prompt which ends in it.
  [[nodiscard]] bool holds_whole(BlockId block) const {
    return (records_[block].flags & Record::kHashed) != 0;
  }
  /// The group of a block's key. @pre hashed(block)
  [[nodiscard]] GroupId group(BlockId block) const {
    return GroupId(records_[block].flags >> Record::kGroupShift);
  }
  [[nodiscard]] const FreeQueue<Record>& queue() const { return queue_; }
  [[nodiscard]] const PrefixIndex<Key>& index() const { return index_; }
  [[nodiscard]] EventLog& events() { return events_; }
  [[nodiscard]] const EventLog& events() const { return events_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] const Residency& residency() const { return residency_; }
  /// Whether a request that ends gives its last block back first.
  [[nodiscard]] bool deepest_first() const {
    return victims_ == nullptr || victims_->deepest_first();
  }

  /// Hands out the next victims, each with one reference and without content.
  /// @param out shape [n], in that order. @pre n <= num_free()
  void take(std::span<BlockId> out);

  /// Whether nothing follows what happens to blocks: no policy, no events, no histograms, no marks
  /// of new states; and whether keys are only those of whole blocks. The steps of a pool that is
  /// plain leave such work out where it is a constant of the code (kPlain).
  [[nodiscard]] bool plain() const {
    return victims_ == nullptr && !events_.enabled() && !residency_.enabled() &&
           state_steps_.empty() && !tails_;
  }

  /// As take(), of one block. @pre num_free() > 0
  template <bool kPlain = false>
  BlockId take_one();

  /// Adds a reference to each block; a free one leaves the queue (revival). The null block is left
  /// alone. @pre ids < num_blocks
  void touch(std::span<const BlockId> blocks);

  /// Blocks that touch() would take out of the queue.
  [[nodiscard]] std::uint32_t num_revived(std::span<const BlockId> blocks) const;

  /// Drops one reference per occurrence, in the order of the range; blocks without any left enter
  /// the free queue in that order, at the end that FreeOrder names. The null block is left alone. A
  /// block that nobody holds is a ContractViolation; the blocks before it are released, and the
  /// queue is whole.
  template <class Range>
  void release(const Range& blocks);
  /// As release(), of one block. It usually has content, which nobody else reads.
  [[gnu::always_inline]] void release_one(BlockId block) {
    Record& record = records_[block];
    const bool usual = order_ != FreeOrder::prepend && record.ref_cnt == 1 &&
                       (record.flags & kKeyed) != 0 && victims_ == nullptr;
    if (!usual || residency_.enabled()) return release(std::span(&block, 1));
    record.ref_cnt = 0;
    queue_.push_back(block);
  }

  /// Registers a block under a key that covers `prefix_tokens` tokens. @return false if the block
  /// carries a key already
  template <bool kPlain = false>
  [[gnu::always_inline]] bool publish(BlockId block, const Key& key, GroupId group = 0,
                                      std::uint32_t prefix_tokens = 0) {
    if (holds_whole(block)) return false;  // a fork has published it
    index_.insert(key, block, group << Record::kGroupShift);
    if constexpr (!kPlain) events_.stored_block(block, prefix_tokens);
    return true;
  }

  /// As publish() for the first group of a plain pool, one block at a time: nothing was fetched.
  /// @pre the block carries no key
  [[gnu::always_inline]] void publish_later(BlockId block, const Key& key) {
    index_.insert_later(key, block);
  }

  /// Registers the key of the prefix whose last hash unit lies inside of a block, behind the keys
  /// that the block has. Keys of shorter prefixes alone are forgotten first. Does nothing if the
  /// block has a key of such a prefix, its own or that of a relative that goes on otherwise, or if
  /// there is no room for a second one (TailKeys).
  void publish_tail(BlockId block, const Key& key, GroupId group, TokenRange unit);

  /// The block that has such a key, or kNoBlock. @pre tails() != nullptr
  [[nodiscard]] BlockId find_tail(const Key& key) const { return tails_->find(key); }
  /// Whether the block has such a key. @param wanted the key, or the length of its prefix [tokens]
  template <class Wanted>
  [[nodiscard]] bool has_tail(BlockId block, const Wanted& wanted) const {
    return (records_[block].flags & Record::kTailKeyed) != 0 && tails_->carries(block, wanted);
  }

  /// The content of a block is announced to be in another one, without an event. @pre `to` has none
  void move_keys(BlockId from, BlockId to);

  /// Forgets the keys of prefixes that end inside, if there are no others: the block is complete
  /// now.
  void forget_partial(BlockId block) {
    if ((records_[block].flags & kKeyed) == Record::kTailKeyed) forget_early(block);
  }

  /// Forgets the content of a block, held or free; a free one keeps its place. @pre block <
  /// num_blocks()
  void forget(BlockId block) {
    if (!hashed(block)) return;
    forget_early(block);
    if (records_[block].ref_cnt == 0) tell_forgotten(block);
  }

  /// Forgets all content. @return false, with nothing changed, while any block is held.
  bool reset();

  /// How often a block has lost content; while the number stays the same, every hit stays valid.
  [[nodiscard]] std::uint32_t num_forgotten() const {
    return num_forgotten_ + static_cast<std::uint32_t>(counters_.evictions);
  }

  /// O(num_blocks)
  [[nodiscard]] std::uint32_t num_keys() const {
    return index_.num_keys() + (tails_ ? tails_->index().num_keys() : 0);
  }
  /// The keys of prompts' ends; nullptr if the profile has none.
  [[nodiscard]] const TailKeys<Key>* tails() const { return tails_ ? &*tails_ : nullptr; }

  /// A scheduling step starts: no key is new any more.
  void step() { ++step_; }
  /// A key of the block is that of a state which this step will compute. A block with a state has
  /// one key. @pre it has that key
  /// @param inside whether the key in question ends inside of the block
  void mark_new_state(BlockId block, bool inside) {
    if (inside) {
      tail_steps_[tails_->index().find(tails_->key(block))] = step_;
    } else {
      state_steps_[index_.find(records_[block].key)] = step_;
    }
  }
  [[nodiscard]] bool is_new_state(BlockId block, bool inside) const {
    if (inside) return tail_steps_[tails_->index().find(tails_->key(block))] == step_;
    return state_steps_[index_.find(records_[block].key)] == step_;
  }

  /// Memory of the records and the index; side arrays that an option asks for apart.
  [[nodiscard]] std::uint64_t bytes() const {
    return records_.size() * sizeof(Record) + index_.bytes();
  }

  /// Recounts everything from the structure; throws std::logic_error naming what is broken.
  /// O(num_blocks).
  void audit() const;

 private:
  static constexpr std::uint32_t kKeyed = Record::kHashed | Record::kTailKeyed;

  /// @tparam kFollowed whether a victim policy or a histogram is told
  template <bool kFollowed, class Range>
  void release_to_queue(const Range& blocks);
  /// Tells the victim policy and the histograms, where there are, of a block that became free.
  void tell_freed(BlockId block);
  /// Tells it, if there is one, of a free block that has lost its content.
  void tell_forgotten(BlockId block);
  /// As take(), without a victim policy.
  template <bool kPlain>
  void take_heads(std::span<BlockId> out);
  /// A block leaves the queue: it gets its first reference and loses its content.
  template <bool kPlain = false>
  void make_held(BlockId block);
  /// Starts to fetch the data that taking the next block will evict, and the block behind it.
  void prefetch_victim(BlockId next) const;
  template <bool kPlain = false>
  void forget_keys(BlockId block);
  void forget_early(BlockId block) {
    ++num_forgotten_;
    forget_keys(block);
  }
  void forget_special(BlockId block);
  /// The mark of a key goes to the next holder of it, if it has been set in this step.
  void pass_mark(const PrefixIndex<Key>& index, std::vector<std::uint32_t>& steps, BlockId block);

  std::uint32_t num_blocks_;
  FreeOrder order_;
  HugeVector<Record> records_;  // shape [num_blocks + 1]; the last is the queue's sentinel
  FreeQueue<Record> queue_;
  PrefixIndex<Key> index_;
  EventLog events_;
  std::optional<TailKeys<Key>> tails_;
  std::uint32_t num_forgotten_ = 0;  // beside those that were evicted
  std::uint32_t step_ = 1;
  std::vector<std::uint32_t> state_steps_;  // shape [num_blocks]; of the oldest holder of a key
  std::vector<std::uint32_t> tail_steps_;   // the same, of keys that end inside of a block
  Counters counters_;
  Residency residency_;
  VictimPolicy* victims_;
};

// The steps that take a block, hold it again and release it. They are inlined, because every block
// of every request goes through them.

template <class Key>
template <bool kPlain>
[[gnu::always_inline]] inline BlockId BlockPool<Key>::take_one() {
  ++counters_.taken;
  if (!kPlain && victims_ != nullptr) [[unlikely]] {
    const BlockId victim = victims_->victim();
    queue_.remove(victim);
    make_held(victim);
    return victim;
  }
  const BlockId block = queue_.head();
  const BlockId rest = records_[block].next;
  queue_.drop_front(1, rest);
  prefetch_victim(rest);
  make_held<kPlain>(block);
  return block;
}

template <class Key>
template <bool kPlain>
[[gnu::always_inline]] inline void BlockPool<Key>::make_held(BlockId block) {
  Record& record = records_[block];
  record.prev = record.next = kUnlinked;
  record.ref_cnt = 1;
  if constexpr (kPlain) {
    if (PrefixIndex<Key>::is_simple(record.flags)) [[likely]] {
      ++counters_.evictions;
      return index_.erase_simple(record);
    }
  }
  const bool evicted = (record.flags & kKeyed) != 0;
  if constexpr (!kPlain) residency_.taken(block, step_, evicted);
  if (!evicted) return;
  ++counters_.evictions;
  forget_keys<kPlain>(block);
}

template <class Key>
[[gnu::always_inline]] inline void BlockPool<Key>::prefetch_victim(BlockId next) const {
  __builtin_prefetch(&records_[records_[next].next]);
  index_.prefetch(records_[next].key);
}

template <class Key>
template <bool kPlain>
inline void BlockPool<Key>::forget_keys(BlockId block) {
  const std::uint32_t flags = records_[block].flags;
  if constexpr (kPlain) return index_.erase(block);
  if ((flags & Record::kTailKeyed) != 0 || !state_steps_.empty()) return forget_special(block);
  index_.erase(block);
  events_.removed(GroupId(flags >> Record::kGroupShift), block);
}

template <class Key>
inline void BlockPool<Key>::touch(std::span<const BlockId> blocks) {
  std::uint32_t revived = 0;
  for (const BlockId block : blocks) {
    if (block == kNullBlock) continue;
    Record& record = records_[block];
    if (record.ref_cnt++ > 0) continue;
    queue_.remove(block);
    ++revived;
    if (victims_ != nullptr) victims_->revived(block);
  }
  counters_.revivals += revived;
}

template <class Key>
inline std::uint32_t BlockPool<Key>::num_revived(std::span<const BlockId> blocks) const {
  std::uint32_t count = 0;
  for (const BlockId block : blocks) {
    count += block != kNullBlock && records_[block].ref_cnt == 0 ? 1 : 0;
  }
  return count;
}

template <class Key>
template <class Range>
void BlockPool<Key>::release(const Range& blocks) {
  if (victims_ == nullptr && !residency_.enabled()) return release_to_queue<false>(blocks);
  release_to_queue<true>(blocks);
}

template <class Key>
template <bool kFollowed, class Range>
void BlockPool<Key>::release_to_queue(const Range& blocks) {
  const std::uint32_t front_below =  // of the flags that say which keys a block has
      order_ == FreeOrder::append    ? 0
      : order_ == FreeOrder::prepend ? ~0U
                                     : 1;
  Record* const records = records_.data();
  BlockId last_front = queue_.sentinel();  // blocks for the front go behind one another
  auto arriving = queue_.open();
  bool held = true;
  for (const BlockId block : blocks) {
    if (block == kNullBlock) continue;
    Record& record = records[block];
    held = record.ref_cnt > 0;
    if (!held) [[unlikely]]
      break;
    if (--record.ref_cnt > 0) continue;
    if ((record.flags & kKeyed) < front_below) {
      queue_.close(arriving);
      queue_.insert_after(last_front, block);
      last_front = block;
      arriving = queue_.open();
    } else {
      queue_.push_back(arriving, block, record);
    }
    if constexpr (kFollowed) tell_freed(block);
  }
  queue_.close(arriving);
  expects(held, Breach::not_held, "release of a block that nobody holds");
}

}  // namespace kvproof::optimized
