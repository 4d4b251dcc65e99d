// SPDX-License-Identifier: Apache-2.0
// Replaces operator new by one that counts; the other forms call it.
#include "bench/instruments/allocation_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t count = 0;

}  // namespace

std::uint64_t kvproof::bench::num_allocations() { return count; }

void* operator new(std::size_t bytes) {
  ++count;
  if (void* const out = std::malloc(bytes > 0 ? bytes : 1)) return out;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
