// SPDX-License-Identifier: Apache-2.0
// Replaces malloc and mmap of the measuring program by ones that count; glibc's own do the work.
#include <cerrno>
#include <cstddef>

#include "bench/gate/collected.h"

namespace kvproof::bench {

HeapUse heap_use;
bool heap_counting = false;
bool measuring = false;

}  // namespace kvproof::bench

#if defined(__linux__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using kvproof::bench::heap_counting;
using kvproof::bench::heap_use;

[[maybe_unused]] const bool known = heap_use.counted = true;

void note(std::int64_t bytes) {
  heap_use.live_bytes += bytes;
  if (heap_use.live_bytes > heap_use.peak_bytes) heap_use.peak_bytes = heap_use.live_bytes;
}

void* given(void* memory) {
  if (heap_counting && memory != nullptr) {
    ++heap_use.allocations;
    note(static_cast<std::int64_t>(malloc_usable_size(memory)));
  }
  return memory;
}

void taken_back(void* memory) {
  if (heap_counting && memory != nullptr) {
    note(-static_cast<std::int64_t>(malloc_usable_size(memory)));
  }
}

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t n, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);

void* malloc(std::size_t bytes) { return given(__libc_malloc(bytes)); }
void* calloc(std::size_t n, std::size_t bytes) { return given(__libc_calloc(n, bytes)); }
void free(void* memory) {
  taken_back(memory);
  __libc_free(memory);
}
void* realloc(void* memory, std::size_t bytes) {
  const std::size_t before = memory != nullptr ? malloc_usable_size(memory) : 0;
  void* const out = __libc_realloc(memory, bytes);
  if (heap_counting && (out != nullptr || bytes == 0)) note(-static_cast<std::int64_t>(before));
  return given(out);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return given(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  void* const memory = memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  void* const out =
      reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
  if (heap_counting && out != MAP_FAILED) {
    ++heap_use.allocations;
    note(static_cast<std::int64_t>(bytes));
  }
  return out;
}
int munmap(void* at, std::size_t bytes) {
  const auto status = static_cast<int>(syscall(SYS_munmap, at, bytes));
  if (heap_counting && status == 0) note(-static_cast<std::int64_t>(bytes));
  return status;
}

}  // extern "C"

#endif
