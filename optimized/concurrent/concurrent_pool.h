// SPDX-License-Identifier: Apache-2.0
// A block pool that many threads may call at once: BlockPool's records, queue and index, with a
// lock for each of the two structures and atomic reference counts.
//
// Model:   a reference that is not the first and not the last comes and goes without a lock. The
//          queue lock is held to link and unlink blocks, and for the first and the last reference
//          with it: under it, a block is queued iff nobody holds it. The index lock is held to
//          look up (shared) and to register and erase (alone). Lock order: index, then queue; take
//          lets go of the queue before it evicts. Hashing is the caller's, outside both.
// Order:   from one thread, block for block and queue for queue that of BlockPool. Between
//          threads every operation on one block is linearizable. take is one section of the queue:
//          all or none, neighbours of the queue. The free queue has the order of the sections;
//          a release is one section per run of up to kRun blocks that it is the last to hold, and
//          other threads' blocks may come to stand between two runs of it.
// Content: a block returned by acquire carries that key until the caller releases it: take marks a
//          block with content as being taken in the section that unlinks it, and a lookup passes
//          over marked ones. What the publisher wrote before publish is visible after acquire.
// Refuses: publish by a thread that does not hold the block.
// Leaves out: lookup without a reference, whose answer would be old when it arrives; content by
//          touch, which only gives a reference, as the block may have been taken before; a capacity
//          gate across calls (num_free is a hint); events.
#pragma once

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "optimized/concurrent/concurrent_state.h"

namespace kvproof::optimized {

/// Counts a holder that is neither the first nor the last: one atomic step each.
struct AtomicHolders {
  /// Adds a holder, unless there is none or the word has a bit of `refused`. @return whether it did
  static bool join(std::uint32_t& word, std::uint32_t refused) {
    const std::atomic_ref<std::uint32_t> holders(word);
    std::uint32_t seen = holders.load(std::memory_order_relaxed);
    while ((seen & HolderWord::kCount) != 0 && (seen & refused) == 0) {
      if (holders.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  /// Drops a holder, unless there is at most one. @return whether it did
  static bool leave(std::uint32_t& word) {
    const std::atomic_ref<std::uint32_t> holders(word);
    std::uint32_t seen = holders.load(std::memory_order_relaxed);
    while ((seen & HolderWord::kCount) > 1) {
      if (holders.compare_exchange_weak(seen, seen - 1, std::memory_order_release,
                                        std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
};

/// take, publish, forget, reset and the views at rest are in ConcurrentState.
/// @tparam Holders as AtomicHolders; tests pass broken ones, which they must notice.
template <class Key, class Holders = AtomicHolders>
class ConcurrentPool : public ConcurrentState<Key> {
  using Base = ConcurrentState<Key>;
  using typename Base::Section;

 public:
  using Base::Base;

  /// Adds a reference to each block; a free one leaves the queue. Blocks that the caller holds
  /// keep their content; for others only acquire can tell. Throws block_out_of_range at the first
  /// id that is not in (0, num_blocks), the ones before it touched.
  void touch(std::span<const BlockId> blocks) {
    for (std::size_t i = 0; i < blocks.size();) {
      this->expect_in_range(blocks[i]);
      if (Holders::join(this->word(blocks[i]), 0)) {
        ++i;
        continue;
      }
      const Section section(*this);
      const std::size_t run_end = std::min(blocks.size(), i + Base::kRun);
      do {
        this->add_first(blocks[i++]);
      } while (i < run_end && this->in_range(blocks[i]) && this->holders(blocks[i]) == 0);
    }
  }

  /// Finds blocks by key and holds them. Of several with one key: the oldest that is not being
  /// taken.
  /// @param keys shape [n], of a prefix in order @param out shape [>= n]
  /// @return how many keys in a row were found; out[0, that) has one reference more each. Keys are
  /// looked up kRun at a time; found ones stay held while later ones are searched.
  [[nodiscard]] std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) {
    std::size_t held = 0;
    while (held < keys.size()) {
      const std::size_t run_end = std::min(keys.size(), held + Base::kRun);
      for (std::size_t i = held; i < run_end; ++i) this->index_.prefetch(keys[i]);
      const std::shared_lock guard(this->index_lock_);
      std::size_t found = held;
      for (; found < run_end; ++found) {
        out[found] = this->index_.find(keys[found]);
        if (out[found] == kNoBlock) break;
      }
      held += hold(out.subspan(held, found - held));
      if (held < run_end) break;
    }
    return held;
  }

  /// Drops one reference per occurrence, in the order of the range; blocks without any left enter
  /// the free queue in that order, at the end that FreeOrder names. Throws not_held for a block
  /// that nobody holds and block_out_of_range; the blocks before it are released, the queue whole.
  template <class Range>
  void release(const Range& blocks) {
    BlockId last_front = this->queue_.sentinel();  // blocks for the front go behind one another
    std::uint64_t last_section = 0;
    auto at = std::begin(blocks);
    const auto end = std::end(blocks);
    while (at != end) {
      this->expect_in_range(*at);
      if (Holders::leave(this->word(*at))) {
        ++at;
        continue;
      }
      fetch_run(at, end);
      const Section section(*this);
      if (section.number() != last_section + 1) last_front = this->queue_.sentinel();
      last_section = section.number();
      std::uint32_t run = 0;
      do {
        last_front = this->drop_last(*at, last_front);
        ++at;
      } while (++run < Base::kRun && at != end && this->in_range(*at) && this->holders(*at) == 1);
    }
  }

 private:
  /// Starts to fetch the records of a run before it takes the lock, so that no thread waits for
  /// that.
  template <class Iterator>
  void fetch_run(Iterator at, Iterator end) const {
    for (std::uint32_t i = 0; i < Base::kRun && at != end && this->in_range(*at); ++i, ++at) {
      __builtin_prefetch(&this->records_[*at], 1);
    }
  }

  /// Holds blocks that the index names; in the place of one that is being taken, its next copy.
  /// @pre the index lock, shared: no key comes or goes, and no mark of take goes, while it is held
  /// @return how many, until there was no copy left
  std::size_t hold(std::span<BlockId> blocks) {
    for (std::size_t i = 0; i < blocks.size();) {
      if (Holders::join(this->word(blocks[i]), HolderWord::kTaking)) {
        ++i;
      } else if (this->being_taken(blocks[i])) {
        blocks[i] = this->index_.next_copy(blocks[i]);
        if (blocks[i] == kNoBlock) return i;
      } else {  // free, unless another thread was faster, which the next turn sees
        const Section section(*this);
        while (i < blocks.size() && this->holders(blocks[i]) == 0) this->add_first(blocks[i++]);
      }
    }
    return blocks.size();
  }
};

}  // namespace kvproof::optimized
