// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/broken_pools.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "optimized/concurrent/spin_lock.h"

namespace kvproof::optimized {

/// The pool's lock with race points on both sides. On fibers it waits by letting another one go on.
class TestedLock {
 public:
  bool writers_lock = true;
  bool readers_lock = true;

  void lock() { enter(false); }
  void unlock() { leave(false); }
  void lock_shared() { enter(true); }
  void unlock_shared() { leave(true); }

 private:
  using RacePoint = properties::concurrency::RacePoint;

  void enter(bool shared) {
    RacePoint::here();
    if (!(shared ? readers_lock : writers_lock)) return;
    if (!RacePoint::on_fibers) return shared ? lock_.lock_shared() : lock_.lock();
    while (num_writers_ > 0 || (!shared && num_readers_ > 0)) RacePoint::waits();
    ++(shared ? num_readers_ : num_writers_);
  }
  void leave(bool shared) {
    if (shared ? readers_lock : writers_lock) {
      if (RacePoint::on_fibers) {
        --(shared ? num_readers_ : num_writers_);
      } else {
        shared ? lock_.unlock_shared() : lock_.unlock();
      }
    }
    RacePoint::here();
  }

  SpinLock lock_;
  int num_writers_ = 0;
  int num_readers_ = 0;
};

}  // namespace kvproof::optimized

// The pool's sources under other names: only the lock differs.
#define SpinLock TestedLock
#define ConcurrentState InterruptedState
#define ConcurrentPool InterruptedPool
#include "optimized/concurrent/concurrent_pool.h"
#include "optimized/concurrent/concurrent_state.cpp"
#undef SpinLock
#undef ConcurrentState
#undef ConcurrentPool

namespace kvproof::properties::concurrency {

namespace {

using optimized::AtomicHolders;
using optimized::HolderWord;

struct Interrupted {
  static bool join(std::uint32_t& word, std::uint32_t refused) {
    RacePoint::here();
    return AtomicHolders::join(word, refused);
  }
  static bool leave(std::uint32_t& word) {
    const bool left = AtomicHolders::leave(word);
    RacePoint::here();
    return left;
  }
};

/// Counts down in three steps instead of one, so that changes by other threads in between are lost.
/// It breaks neither the marks nor a count of zero, so that a complaint can name what went wrong.
struct TornCounts : Interrupted {
  static bool leave(std::uint32_t& word) {
    constexpr std::uint32_t kCount = HolderWord::kCount;
    const std::atomic_ref<std::uint32_t> holders(word);
    std::uint32_t now = holders.load(std::memory_order_relaxed);
    const std::uint32_t left = (now & kCount) - 1;
    if ((now & kCount) <= 1) return false;
    RacePoint::here();
    while ((now & kCount) != 0 && !holders.compare_exchange_weak(now, (now & ~kCount) | left)) {
    }
    RacePoint::here();
    return true;
  }
};

/// Holds a block while another thread takes it, like a lookup that only looks at the count.
struct BlindLookup : Interrupted {
  static bool join(std::uint32_t& word, std::uint32_t) { return Interrupted::join(word, 0); }
};

enum class Defect {
  none,
  take_in_several_sections,
  take_of_an_old_head,
  release_in_several_sections,
  acquire_of_any_content,
  publish_that_replaces,
  publish_before_write,
  no_queue_lock,
  no_index_lock,
  no_lock_of_readers
};

template <class Holders>
class BrokenPool final : public Tested<optimized::InterruptedPool<Key, Holders>> {
  using Base = Tested<optimized::InterruptedPool<Key, Holders>>;

 public:
  BrokenPool(std::uint32_t num_blocks, FreeOrder order, Defect defect)
      : Base(num_blocks, order), defect_(defect) {
    this->queue_lock_.writers_lock = defect != Defect::no_queue_lock;
    this->index_lock_.writers_lock = defect != Defect::no_index_lock;
    this->index_lock_.readers_lock =
        defect != Defect::no_index_lock && defect != Defect::no_lock_of_readers;
  }

  bool take(std::span<BlockId> out) override {
    if (defect_ == Defect::take_in_several_sections) return take_one_by_one(out);
    if (defect_ == Defect::take_of_an_old_head) return take_old_head(out);
    return Base::take(out);
  }

  void release(std::span<const BlockId> blocks) override {
    if (defect_ != Defect::release_in_several_sections) return Base::release(blocks);
    for (std::size_t i = 0; i < blocks.size(); ++i) Base::release(blocks.subspan(i, 1));
  }

  std::size_t acquire(std::span<const Key> keys, std::span<BlockId> out) override {
    if (defect_ != Defect::acquire_of_any_content) return Base::acquire(keys, out);
    // B133: between finding a block and holding it the content may change.
    std::size_t found = 0;
    while (found < keys.size() && (out[found] = find(keys[found])) != optimized::kNoBlock) ++found;
    for (std::size_t i = 0; i < found; ++i) {
      RacePoint::here();
      if (!this->hashed(out[i])) return i;
      this->touch(out.subspan(i, 1));
    }
    return found;
  }

  bool fill(BlockId block, std::uint32_t key, Cell& cell) override {
    if (defect_ == Defect::publish_before_write) {  // B137
      const bool registered = this->publish(block, pool_key(key));
      RacePoint::here();
      cell = key;
      return registered;
    }
    if (defect_ == Defect::publish_that_replaces && find(pool_key(key)) == optimized::kNoBlock) {
      // B136: who finds no block with the key makes its set anew; one made in between is lost.
      RacePoint::here();
      const BlockId lost = find(pool_key(key));
      if (lost != optimized::kNoBlock) this->forget(lost);
    }
    return Base::fill(block, key, cell);
  }

 private:
  BlockId find(const Key& key) {
    const std::shared_lock guard(this->index_lock_);
    return this->index_.find(key);
  }

  /// B132, a lock per call: asks whether there are enough blocks, then takes them one by one.
  bool take_one_by_one(std::span<BlockId> out) {
    if (out.size() > this->num_free()) return false;
    for (std::size_t i = 0; i < out.size(); ++i) {
      RacePoint::here();
      if (Base::take(out.subspan(i, 1))) continue;
      Base::release(out.first(i));
      return false;
    }
    return true;
  }

  /// B132, a reference that outlives the lock: one section reads the head of the queue, the next
  /// one uses it.
  bool take_old_head(std::span<BlockId> out) {
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

  Defect defect_;
};

template <Defect defect, class Holders = Interrupted>
std::unique_ptr<TestedPool> make(std::uint32_t num_blocks, FreeOrder order) {
  return std::make_unique<BrokenPool<Holders>>(num_blocks, order, defect);
}

constexpr unsigned kHistories = fibers | threads;

constexpr PoolRow kPools[] = {
    {"sound", make<Defect::none>, 0},
    {"count in three steps", make<Defect::none, TornCounts>, kHistories | long_runs},
    {"lookup of a block being taken", make<Defect::none, BlindLookup>, kHistories | long_runs},
    {"B132 lock per call", make<Defect::take_in_several_sections>, kHistories},
    {"B132 reference outlives lock", make<Defect::take_of_an_old_head>, kHistories | long_runs},
    {"section per released block", make<Defect::release_in_several_sections>, kHistories},
    {"B133 acquire without the key", make<Defect::acquire_of_any_content>, kHistories | long_runs},
    {"B136 create or get in two steps", make<Defect::publish_that_replaces>, kHistories},
    {"B137 published before written", make<Defect::publish_before_write>, kHistories | long_runs},
    {"no queue lock", make<Defect::no_queue_lock>, thread_sanitizer},
    {"no index lock", make<Defect::no_index_lock>, fibers | thread_sanitizer},
    {"readers do not lock", make<Defect::no_lock_of_readers>, fibers | thread_sanitizer},
};

}  // namespace

std::span<const PoolRow> tested_pools() { return kPools; }

MakePool tested_pool(const std::string& name) {
  const auto* const row = std::ranges::find(kPools, name, &PoolRow::name);
  return row == std::end(kPools) ? nullptr : row->make;
}

}  // namespace kvproof::properties::concurrency
