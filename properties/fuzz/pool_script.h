// SPDX-License-Identifier: Apache-2.0
// Bytes as two logical threads at one concurrent pool, one interrupting the other inside of its
// calls, beside the model.
//
// Model:   one real thread. Two bytes are a call; a call that touches, releases or acquires can be
//          interrupted where it counts a holder without a lock (ConcurrentPool's `Holders`): there
//          the next call of the input runs whole, as the other thread's. The model gets the steps
//          in the order in which they took place, so everything is compared exactly: answers, who
//          holds what, content, the order of the free queue.
// Refuses: interruptions inside of a lock, and between the two sections of take, where the pool has
//          no place to enter it; a search by real threads is in allocators/concurrent_stress.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "optimized/concurrent_pool.h"

namespace kvproof::properties {

/// What happens at the places where a call can be interrupted.
class PoolInterruption {
 public:
  enum class Place { before, counted, not_counted };  // of an attempt to count a holder

  virtual ~PoolInterruption() = default;
  /// @param word the holders of the block
  virtual void at(const std::uint32_t& word, Place place) = 0;
};

/// Of the script that runs, or nullptr.
inline PoolInterruption* pool_interruption = nullptr;

inline void may_be_interrupted(const std::uint32_t& word, PoolInterruption::Place place) {
  if (pool_interruption != nullptr) pool_interruption->at(word, place);
}

/// `Inner` with places to interrupt it before and after each attempt.
template <class Inner>
struct InterruptedHolders {
  static bool join(std::uint32_t& word, std::uint32_t refused) {
    return around(word, [&] { return Inner::join(word, refused); });
  }
  static bool leave(std::uint32_t& word) {
    return around(word, [&] { return Inner::leave(word); });
  }

 private:
  template <class Attempt>
  static bool around(const std::uint32_t& word, const Attempt& attempt) {
    may_be_interrupted(word, PoolInterruption::Place::before);
    const bool done = attempt();
    may_be_interrupted(
        word, done ? PoolInterruption::Place::counted : PoolInterruption::Place::not_counted);
    return done;
  }
};

/// A seeded bug: looks, then counts, and is interrupted in between.
struct LostCountHolders : optimized::AtomicHolders {
  static bool join(std::uint32_t& word, std::uint32_t refused) {
    const std::uint32_t seen = word;
    if ((seen & optimized::HolderWord::kCount) == 0 || (seen & refused) != 0) return false;
    may_be_interrupted(word, PoolInterruption::Place::before);
    word = seen + 1;
    return true;
  }
};

struct PoolScriptResult {
  std::string complaint;  // what broke, and the calls that led there; empty: all held
  std::uint64_t num_calls = 0;
  std::uint64_t num_interruptions = 0;
};

/// @tparam Holders optimized::AtomicHolders, or LostCountHolders, which must be noticed
template <class Holders>
[[nodiscard]] PoolScriptResult run_pool_script(std::span<const std::uint8_t> bytes);

}  // namespace kvproof::properties
