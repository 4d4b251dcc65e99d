// SPDX-License-Identifier: Apache-2.0
// The concurrent pool compiled once more, with locks of which one can be removed.
#include "optimized/concurrent/checks/sanitized_stress.h"
#include "optimized/concurrent/spin_lock.h"

namespace kvproof::optimized {

/// A pool constructs two: the queue's, then the index's.
class RemovableLock {
 public:
  enum class Removed { queue, index, readers };
  static inline Removed removed = Removed::queue;

  void lock() {
    if (locks(/*shared=*/false)) lock_.lock();
  }
  void unlock() {
    if (locks(/*shared=*/false)) lock_.unlock();
  }
  void lock_shared() {
    if (locks(/*shared=*/true)) lock_.lock_shared();
  }
  void unlock_shared() {
    if (locks(/*shared=*/true)) lock_.unlock_shared();
  }

 private:
  [[nodiscard]] bool locks(bool shared) const {
    switch (removed) {
      case Removed::queue: return is_index_;
      case Removed::index: return !is_index_;
      case Removed::readers: return !shared;
    }
    return true;
  }

  static inline int num_made = 0;
  bool is_index_ = num_made++ % 2 == 1;
  SpinLock lock_;
};

}  // namespace kvproof::optimized

#define SpinLock RemovableLock
#define ConcurrentState UnlockedState
#define ConcurrentPool UnlockedPool
#include "optimized/concurrent/concurrent_pool.h"
#include "optimized/concurrent/concurrent_state.cpp"
#undef SpinLock
#undef ConcurrentState
#undef ConcurrentPool

#include "optimized/concurrent/checks/concurrent_stress.h"

namespace kvproof::properties::concurrency {

StressReport stress_without(std::string_view removed, const StressPlan& plan) {
  using optimized::RemovableLock;
  RemovableLock::removed = removed == "queue"   ? RemovableLock::Removed::queue
                           : removed == "index" ? RemovableLock::Removed::index
                                                : RemovableLock::Removed::readers;
  return stress<optimized::UnlockedPool<optimized::Key128>, std::uint64_t>(plan);
}

}  // namespace kvproof::properties::concurrency
