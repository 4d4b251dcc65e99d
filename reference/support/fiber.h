// SPDX-License-Identifier: Apache-2.0
// Fibers: a function that runs on a stack of its own and is switched by hand, with Boost.Context or
// else ucontext.
#pragma once

#include <cstddef>
#include <memory>

namespace kvproof {

/// A reusable fiber. resume() runs it until it pauses or its body ends, and tells the sanitizers.
class Fiber {
 public:
  /// @param ordered whether ThreadSanitizer takes what ran before a switch as ordered before the
  /// rest, as it is; otherwise it looks at fibers as at threads
  explicit Fiber(bool ordered = false);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Starts over with this body. The stack of an unfinished body is forgotten.
  void start(void (*body)(void*), void* argument);
  /// Runs until pause() or the end. @pre started, not ended
  void resume();
  /// Returns to the caller of resume(). @pre called on this fiber
  void pause();
  [[nodiscard]] bool ended() const;
  /// What switches: "Boost.Context" or "ucontext".
  [[nodiscard]] static const char* kind();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvproof
