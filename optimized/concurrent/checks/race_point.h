// SPDX-License-Identifier: Apache-2.0
// Race points: places between two halves of an operation where another thread may come in.
//
// Model:   code under test calls here() between its halves and waits() where it cannot go on. The
//          test sets `passed` for each thread to decide what happens then: nothing, the thread
//          yields its core, or another fiber runs (schedule.h).
// Callers: test policies, wrappers and ranges; no code of optimized/ calls it.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <thread>

#include "reference/ids.h"

namespace kvproof::properties::concurrency {

struct RacePoint {
  using Passed = void (*)(void* context, bool waits);

  static void here() {
    if (passed != nullptr) passed(context, false);
  }
  static void waits() {
    if (passed != nullptr) passed(context, true);
  }

  static inline thread_local Passed passed = nullptr;
  static inline thread_local void* context = nullptr;
};

/// On a real thread: yields the core at one race point in `one_in`.
class SometimesYields {
 public:
  SometimesYields(std::uint32_t seed, std::uint32_t one_in) : random_(seed), one_in_(one_in) {
    RacePoint::context = this;
    RacePoint::passed = [](void* self, bool) { static_cast<SometimesYields*>(self)->passed(); };
  }
  ~SometimesYields() {
    RacePoint::passed = nullptr;
    RacePoint::context = nullptr;
  }
  SometimesYields(const SometimesYields&) = delete;
  SometimesYields& operator=(const SometimesYields&) = delete;

 private:
  void passed() {
    if (random_() % one_in_ == 0) std::this_thread::yield();
  }

  std::minstd_rand random_;
  std::uint32_t one_in_;
};

/// The pool's own counting, with a race point on both sides of every step.
template <class Holders>
struct Interrupted {
  static bool join(std::uint32_t& word, std::uint32_t refused) {
    RacePoint::here();
    return Holders::join(word, refused);
  }
  static bool leave(std::uint32_t& word) {
    const bool left = Holders::leave(word);
    RacePoint::here();
    return left;
  }
};

/// Blocks to release. Other threads may come in before each is read, hence also inside of a
/// section.
class InterruptedBlocks {
 public:
  explicit InterruptedBlocks(std::span<const BlockId> blocks) : blocks_(blocks) {}

  class Iterator {
   public:
    explicit Iterator(const BlockId* at) : at_(at) {}
    BlockId operator*() const {
      RacePoint::here();
      return *at_;
    }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const BlockId* at_;
  };

  [[nodiscard]] Iterator begin() const { return Iterator(blocks_.data()); }
  [[nodiscard]] Iterator end() const { return Iterator(blocks_.data() + blocks_.size()); }

 private:
  std::span<const BlockId> blocks_;
};

}  // namespace kvproof::properties::concurrency
