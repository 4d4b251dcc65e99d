// SPDX-License-Identifier: Apache-2.0
// The gate's measured region: a call inside collected() is what callgrind counts. What the calls of
// the subject ask of the heap is counted before it, too.
#pragma once

#include <cstdint>

namespace kvproof::bench {

/// The pattern of its name, for callgrind.
inline constexpr const char* kCollectedPattern = "*kvproof::bench::collected<*";

template <class Call>
[[gnu::noinline]] auto collected(const Call& call) {
  return call();
}

/// The calls of malloc and its relatives, and of mmap, during the life of a HeapWatch.
struct HeapUse {
  bool counted = false;           // whether this build can count it
  std::uint64_t allocations = 0;  // calls
  std::int64_t live_bytes = 0;    // usable bytes that were not given back
  std::int64_t peak_bytes = 0;
};

[[nodiscard]] HeapUse heap_use();
/// From now on allocations count from zero.
void forget_allocations();

class HeapWatch {
 public:
  HeapWatch();
  ~HeapWatch();
  HeapWatch(const HeapWatch&) = delete;
  HeapWatch& operator=(const HeapWatch&) = delete;
};

/// Brackets the calls of one subject.
class Brackets {
 public:
  /// Whether the measured part of the stream has begun.
  void measure(bool on) { measuring_ = on; }

  /// Makes a call of the subject. It is collected once the measured part has begun; its use of the
  /// heap always counts.
  template <class Call>
  auto operator()(const Call& call) const {
    const HeapWatch watch;
    return measuring_ ? collected(call) : call();
  }

 private:
  bool measuring_ = false;
};

}  // namespace kvproof::bench
