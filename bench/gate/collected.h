// SPDX-License-Identifier: Apache-2.0
// The gate's measured region: a call inside collected() is what callgrind counts, and what it asks
// of the heap is counted too.
#pragma once

#include <cstdint>

namespace kvproof::bench {

/// The pattern of its name, for callgrind.
inline constexpr const char* kCollectedPattern = "*kvproof::bench::collected<*";

/// What was asked of malloc and its relatives, and of mmap, inside collected().
struct HeapUse {
  bool counted = false;           // whether this build can count it
  std::uint64_t allocations = 0;  // calls
  std::int64_t live_bytes = 0;    // usable bytes of what was not given back
  std::int64_t peak_bytes = 0;
};

extern HeapUse heap_use;
extern bool heap_counting;

/// Whether the measured part of the stream has begun.
extern bool measuring;

namespace detail {

struct HeapRegion {
  HeapRegion() { heap_counting = true; }
  ~HeapRegion() { heap_counting = false; }
};

}  // namespace detail

template <class Call>
[[gnu::noinline]] auto collected(const Call& call) {
  const detail::HeapRegion region;
  return call();
}

/// A call of the subject: collected once the measured part has begun, of the heap in any case.
template <class Call>
auto bracketed(const Call& call) {
  if (measuring) return collected(call);
  const detail::HeapRegion region;
  return call();
}

}  // namespace kvproof::bench
