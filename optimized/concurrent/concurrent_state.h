// SPDX-License-Identifier: Apache-2.0
// The state of a ConcurrentPool, its operations without a step outside a lock, and its views at
// rest. concurrent_pool.h has the promises.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "optimized/concurrent/spin_lock.h"
#include "optimized/pool/free_queue.h"
#include "optimized/pool/prefix_index.h"
#include "reference/config.h"
#include "reference/contract.h"

namespace kvproof::optimized {

/// `ref_cnt` of a record under threads: the number of holders and two marks, in one word, because
/// a step that reads one of them must fail when another changes.
struct HolderWord {
  static constexpr std::uint32_t kTaking = 1U << 31;   // taken, and its old content not yet erased
  static constexpr std::uint32_t kContent = 1U << 30;  // in the index; changes under its lock
  static constexpr std::uint32_t kCount = kContent - 1;
};

template <class Key>
class ConcurrentState {
 public:
  using Record = BlockRecord<Key>;

  /// The most blocks that one section of a lock handles, a take apart. [blocks]
  static constexpr std::uint32_t kRun = 64;

  /// @param num_blocks with the null block. @pre num_blocks >= 2
  ConcurrentState(std::uint32_t num_blocks, FreeOrder order);

  [[nodiscard]] std::uint32_t num_blocks() const { return num_blocks_; }
  /// A hint: the number as it was a moment ago.
  [[nodiscard]] std::uint32_t num_free() const { return num_free_.load(std::memory_order_relaxed); }

  /// Hands out the blocks at the head, each with one reference and without content.
  /// @param out shape [n], in queue order @return false, with nothing changed, if fewer are free
  [[nodiscard]] bool take(std::span<BlockId> out);

  /// Registers blocks that the caller holds under their keys; one that carries a key keeps it.
  /// @param keys shape [blocks.size()] @return how many were registered. Throws not_held and
  /// block_out_of_range, the blocks before that one registered.
  std::size_t publish(std::span<const BlockId> blocks, std::span<const Key> keys);
  bool publish(BlockId block, const Key& key) {
    return publish(std::span(&block, 1), std::span(&key, 1)) == 1;
  }

  /// Forgets the content of a block, held or free; a free one keeps its place. Throws
  /// block_out_of_range.
  void forget(BlockId block);

  /// Forgets all content. @return false, with nothing changed, while any block is held. Holds both
  /// locks for O(num_blocks).
  bool reset();

  /// Memory of the records and the index.
  [[nodiscard]] std::uint64_t bytes() const {
    return records_.size() * sizeof(Record) + index_.bytes();
  }

  // Views at rest: @pre no other thread is inside the pool, and all are joined or synchronised.

  [[nodiscard]] std::uint32_t ref_cnt(BlockId block) const {
    return records_[block].ref_cnt & HolderWord::kCount;
  }
  [[nodiscard]] bool hashed(BlockId block) const {
    return (records_[block].ref_cnt & HolderWord::kContent) != 0;
  }
  [[nodiscard]] const Record& record(BlockId block) const { return records_[block]; }
  [[nodiscard]] const FreeQueue<Record>& queue() const { return queue_; }
  [[nodiscard]] const PrefixIndex<Key>& index() const { return index_; }

  /// Recounts everything from the structure; throws std::logic_error naming what is broken.
  /// O(num_blocks).
  void audit() const;

 protected:
  /// A critical section of the free queue, and its number in the order of all of them.
  class Section {
   public:
    explicit Section(ConcurrentState& state) : state_(state), guard_(state.queue_lock_) {
      ++state_.num_sections_;
    }
    ~Section() { state_.num_free_.store(state_.queue_.size(), std::memory_order_relaxed); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    [[nodiscard]] std::uint64_t number() const { return state_.num_sections_; }

   private:
    ConcurrentState& state_;
    std::lock_guard<SpinLock> guard_;
  };

  [[nodiscard]] bool in_range(BlockId block) const {
    return block != kNullBlock && block < num_blocks_;
  }
  void expect_in_range(BlockId block) const {
    expects(in_range(block), Breach::block_out_of_range, "a block id that the pool does not have");
  }
  [[nodiscard]] std::uint32_t& word(BlockId block) { return records_[block].ref_cnt; }
  [[nodiscard]] std::uint32_t seen(BlockId block) {
    return std::atomic_ref(word(block)).load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t holders(BlockId block) { return seen(block) & HolderWord::kCount; }
  [[nodiscard]] bool being_taken(BlockId block) { return (seen(block) & HolderWord::kTaking) != 0; }

  /// Adds a reference, the first one or not. @pre a Section
  void add_first(BlockId block) {
    if (holders(block) == 0) queue_.remove(block);
    std::atomic_ref(word(block)).fetch_add(1, std::memory_order_relaxed);
  }

  /// Drops a reference, the last one or not. @pre a Section
  /// @param last_front the block that the next one for the front follows @return the same, after
  BlockId drop_last(BlockId block, BlockId last_front) {
    expects(holders(block) > 0, Breach::not_held, "release of a block that nobody holds");
    const std::uint32_t before =
        std::atomic_ref(word(block)).fetch_sub(1, std::memory_order_acq_rel);
    if ((before & HolderWord::kCount) > 1) return last_front;  // a holder joined in between
    const bool to_front = order_ == FreeOrder::prepend || (order_ == FreeOrder::unhashed_first &&
                                                           (before & HolderWord::kContent) == 0);
    if (!to_front) {
      queue_.push_back(block);
      return last_front;
    }
    queue_.insert_after(last_front, block);
    return block;
  }

  void evict_taken(std::span<const BlockId> blocks);

  // The two locks and what they guard stand on cache lines of their own.
  std::uint32_t num_blocks_;
  FreeOrder order_;
  std::vector<Record> records_;  // shape [num_blocks + 1]; the last is the queue's sentinel
  alignas(64) SpinLock queue_lock_;
  std::atomic<std::uint32_t> num_free_{0};  // queue_.size() after the last section
  std::uint64_t num_sections_ = 0;
  FreeQueue<Record> queue_;  // and prev and next of every record
  alignas(64) SpinLock index_lock_;
  PrefixIndex<Key> index_;  // and key and flags of every record
};

}  // namespace kvproof::optimized
