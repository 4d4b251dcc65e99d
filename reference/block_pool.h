// SPDX-License-Identifier: Apache-2.0
// The specification of a block pool: how many holders each block has, and in which order free
// blocks are handed out.
//
// Model:   ref_cnt: id -> number of holders; the free queue holds exactly the blocks without a
//          holder, except the null block. The head is the next block to be handed out, so it is
//          also the next block to lose its content.
// Source:  vLLM v1 block_pool.py and kv_cache_utils.py; Kwon et al., SOSP'23, sec. 4.2
//          (arXiv:2309.06180).
// Leaves out: bytes and threads.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "reference/config.h"
#include "reference/outcomes.h"
#include "reference/prefix_cache.h"
#include "reference/snapshot.h"

namespace kvproof::reference {

class BlockPool {
 public:
  /// @pre num_blocks >= 2, or 0 for a pool that is not there. Block 0 is the null block: it is
  /// never free, and touching or releasing it does nothing.
  BlockPool(std::uint32_t num_blocks, FreeOrder order);

  /// Hands out the `n` blocks at the head, each with one reference and without content.
  /// @return ids in queue order, shape [n]. @pre n <= num_free()
  std::vector<BlockId> take(std::uint32_t n);

  /// Adds a reference to each block. A free block leaves the queue, wherever it stands (revival).
  void touch(const std::vector<BlockId>& blocks);

  /// Drops one reference per occurrence. Blocks that lose their last reference enter the free queue
  /// in the given order, at the end that FreeOrder names. @pre ref_cnt >= occurrences, for each
  void release(const std::vector<BlockId>& blocks);

  /// Publishes blocks under their keys, and announces them as one registration of tokens
  /// [from, to), even if there are no blocks. A block loses keys of shorter prefixes that it
  /// carries; it keeps a key of a prefix of the same length and gets the new one as its second.
  void publish(GroupId group, const std::vector<BlockId>& blocks,
               const std::vector<PrefixKey>& keys, std::uint32_t from, std::uint32_t to);

  /// Moves the keys of a block to another one, without an event. @pre `to` has none
  void move_keys(BlockId from, BlockId to);

  /// Forgets the content of each block, held or free. A free block keeps its place in the queue.
  void evict(const std::vector<BlockId>& blocks);

  /// Forgets all content. @pre all_free()
  void reset();

  /// A scheduling step starts; the residency of blocks is counted in steps.
  void step() { ++step_; }
  [[nodiscard]] const WorkCounters& work() const { return work_; }
  [[nodiscard]] WorkCounters& work() { return work_; }

  [[nodiscard]] std::uint32_t num_blocks() const {
    return static_cast<std::uint32_t>(ref_cnt_.size());
  }
  [[nodiscard]] std::uint32_t num_free() const { return static_cast<std::uint32_t>(queue_.size()); }
  [[nodiscard]] std::uint32_t ref_cnt(BlockId block) const { return ref_cnt_[block]; }
  [[nodiscard]] const std::list<BlockId>& queue() const { return queue_; }
  [[nodiscard]] const PrefixCache& cache() const { return cache_; }
  [[nodiscard]] bool all_free() const { return num_free() + 1 >= num_blocks(); }

  /// @return the events since the last call, in order
  std::vector<Event> take_events();

 private:
  struct Residency {
    std::uint32_t taken = 0;  // [steps]
    std::uint32_t last_held = 0;
  };

  void forget(BlockId block);

  FreeOrder order_;
  std::vector<std::uint32_t> ref_cnt_;  // shape [num_blocks]; of the null block: unused
  std::list<BlockId> queue_;            // head first
  PrefixCache cache_;
  std::vector<Event> events_;
  std::uint32_t step_ = 0;
  std::vector<Residency> residency_;  // shape [num_blocks]
  WorkCounters work_;
};

}  // namespace kvproof::reference
