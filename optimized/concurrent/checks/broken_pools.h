// SPDX-License-Identifier: Apache-2.0
// Concurrent pools that are broken on purpose: each has one defect of family A13 of the seeded
// bugs, or a torn count.
//
// Model:   a policy breaks how holders are counted; a wrapper does in two calls what the pool does
//          in one. All pass race points between their halves. B132, B133, B136 and B137 are
//          reported bugs: TensorRT-LLM#12179, omlx#3087, llm-d-kv-cache#107, Mooncake#1374.
// Leaves out: defects that one thread alone would meet (mutants.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "optimized/concurrent/checks/race_point.h"
#include "optimized/pool/block_record.h"

namespace kvproof::properties::concurrency {

/// Counts down in three steps instead of one, so that changes by other threads in between are lost.
/// It breaks neither the marks nor a count of zero, so that a complaint can name what went wrong.
template <class Holders, std::uint32_t kCount>
struct TornHolders : Holders {
  static bool leave(std::uint32_t& word) {
    const std::atomic_ref<std::uint32_t> holders(word);
    std::uint32_t now = holders.load(std::memory_order_relaxed);
    const std::uint32_t left = (now & kCount) - 1;
    if ((now & kCount) <= 1) return false;
    RacePoint::here();
    while ((now & kCount) != 0 && !holders.compare_exchange_weak(now, (now & ~kCount) | left)) {
    }
    return true;
  }
};

/// Holds a block while another thread takes it, like a lookup that only looks at the count.
template <class Holders>
struct BlindHolders : Holders {
  static bool join(std::uint32_t& word, std::uint32_t) { return Holders::join(word, 0); }
};

/// B132, a lock per call: asks whether there are enough blocks, then takes them one by one.
template <class Base>
class TakesOneByOne : public Base {
 public:
  using Base::Base;

  [[nodiscard]] bool take(std::span<BlockId> out) {
    if (out.size() > this->num_free()) return false;
    for (std::size_t i = 0; i < out.size(); ++i) {
      RacePoint::here();
      if (Base::take(out.subspan(i, 1))) continue;
      this->release(out.first(i));
      return false;
    }
    return true;
  }
};

/// A section per block: other threads come in between two blocks that only the caller held.
template <class Base>
class ReleasesOneByOne : public Base {
 public:
  using Base::Base;

  template <class Range>
  void release(const Range& blocks) {
    for (const BlockId block : blocks) Base::release(std::span(&block, 1));
  }
};

/// B132, a reference that outlives the lock: one section reads the head of the queue, the next one
/// uses it.
template <class Base>
class TakesWhatWasTheHead : public Base {
 public:
  using Base::Base;

  [[nodiscard]] bool take(std::span<BlockId> out) {
    {
      const std::lock_guard guard(this->queue_lock_);
      if (out.size() > this->queue_.size()) return false;
      BlockId at = this->queue_.head();
      for (BlockId& block : out) {
        block = at;
        at = this->records_[at].next;
      }
    }
    RacePoint::here();
    this->touch(out);
    for (const BlockId block : out) this->forget(block);
    return true;
  }
};

/// B133: between finding a block and holding it the content may change; the caller only checks that
/// there is some content.
template <class Base, class Key>
class AcquiresAnyContent : public Base {
 public:
  using Base::Base;

  [[nodiscard]] std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) {
    std::size_t found = 0;
    {
      const std::shared_lock guard(this->index_lock_);
      for (; found < keys.size(); ++found) {
        out[found] = this->index_.find(keys[found]);
        if (out[found] == optimized::kNoBlock) break;
      }
    }
    for (std::size_t i = 0; i < found; ++i) {
      RacePoint::here();
      if (!this->hashed(out[i])) return i;
      this->touch(out.subspan(i, 1));
    }
    return found;
  }
};

/// B136: a thread that finds no block with a key makes the set of the key anew, and the set that
/// another thread made in between is lost.
template <class Base, class Key>
class CreatesWithoutLookingAgain : public Base {
 public:
  using Base::Base;

  bool publish(BlockId block, const Key& key) {
    bool is_new = false;
    {
      const std::shared_lock guard(this->index_lock_);
      is_new = this->index_.find(key) == optimized::kNoBlock;
    }
    RacePoint::here();
    if (is_new) {
      BlockId lost = optimized::kNoBlock;
      {
        const std::shared_lock guard(this->index_lock_);
        lost = this->index_.find(key);
      }
      if (lost != optimized::kNoBlock) this->forget(lost);
    }
    return Base::publish(block, key);
  }
};

/// B137: publishes the block first and writes it afterwards.
template <class Base, class Key>
class PublishesBeforeWriting : public Base {
 public:
  using Base::Base;

  bool fill(BlockId block, const Key& key, std::atomic<std::uint8_t>& cell, std::uint8_t value) {
    const bool registered = this->publish(block, key);
    RacePoint::here();
    cell.store(value);
    return registered;
  }
};

}  // namespace kvproof::properties::concurrency
