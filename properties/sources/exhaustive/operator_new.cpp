// SPDX-License-Identifier: Apache-2.0
// Replaces operator new by one that takes from the arena that is in use; the other forms call it.
// It is linked into programs that search, and into no library, so that no other program gets it.
#include <cstdlib>
#include <new>

#include "properties/sources/exhaustive/arena.h"
#include "reference/support/sanitizer.h"

#if !KVPROOF_UNDER_ASAN && !KVPROOF_UNDER_TSAN

using kvproof::properties::exhaustive::Arena;

void* operator new(std::size_t bytes) {
  if (Arena* arena = Arena::in_use()) return arena->take(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  if (void* const out = std::malloc(bytes == 0 ? 1 : bytes)) return out;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  if (Arena* arena = Arena::in_use()) return arena->take(bytes, to);
  if (void* const out = std::aligned_alloc(to, (bytes + to - 1) / to * to)) return out;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  if (Arena* arena = Arena::of(memory)) return arena->give(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  operator delete(memory);
}

#endif
