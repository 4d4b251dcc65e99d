// SPDX-License-Identifier: Apache-2.0
// A stack of its own to run on, switched to and from by hand: Boost.Context, else ucontext.
#pragma once

#include <cstddef>
#include <memory>

namespace kvproof::simt {

/// A reusable fiber. resume() runs it until it pauses or its body ends; sanitizers are told.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Starts over with this body; what an unfinished one had on its stack is forgotten.
  void start(void (*body)(void*), void* argument);
  /// Runs until pause() or the end. @pre started, not ended
  void resume();
  /// Back to whoever resumed. @pre called on this fiber
  void pause();
  [[nodiscard]] bool ended() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvproof::simt
