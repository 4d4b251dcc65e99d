// SPDX-License-Identifier: Apache-2.0
// Replaces malloc and mmap of the measuring program by ones that count; glibc's own do the work.
#include <cerrno>
#include <cstddef>

#include "bench/gate/collected.h"

#if defined(__linux__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define KVPROOF_COUNTS_HEAP 1
#else
#define KVPROOF_COUNTS_HEAP 0
#endif

namespace kvproof::bench {
namespace {

struct HeapMeter {
  HeapUse use{.counted = KVPROOF_COUNTS_HEAP != 0};
  bool on = false;
};

/// malloc belongs to the process and takes no object, so it counts into variables of the process,
/// which no other file sees.
HeapMeter& meter() {
  static constinit HeapMeter the_meter;
  return the_meter;
}

}  // namespace

HeapUse heap_use() { return meter().use; }
void forget_allocations() { meter().use.allocations = 0; }
HeapWatch::HeapWatch() { meter().on = true; }
HeapWatch::~HeapWatch() { meter().on = false; }

}  // namespace kvproof::bench

#if KVPROOF_COUNTS_HEAP

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

void note_given(std::size_t bytes) {
  kvproof::bench::HeapMeter& meter = kvproof::bench::meter();
  if (!meter.on) return;
  ++meter.use.allocations;
  meter.use.live_bytes += static_cast<std::int64_t>(bytes);
  if (meter.use.live_bytes > meter.use.peak_bytes) meter.use.peak_bytes = meter.use.live_bytes;
}

void note_taken_back(std::size_t bytes) {
  kvproof::bench::HeapMeter& meter = kvproof::bench::meter();
  if (meter.on) meter.use.live_bytes -= static_cast<std::int64_t>(bytes);
}

void* given(void* memory) {
  if (memory != nullptr) note_given(malloc_usable_size(memory));
  return memory;
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
  if (memory != nullptr) note_taken_back(malloc_usable_size(memory));
  __libc_free(memory);
}
void* realloc(void* memory, std::size_t bytes) {
  const std::size_t before = memory != nullptr ? malloc_usable_size(memory) : 0;
  void* const out = __libc_realloc(memory, bytes);
  if (out != nullptr || bytes == 0) note_taken_back(before);
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
  if (out != MAP_FAILED) note_given(bytes);
  return out;
}
int munmap(void* at, std::size_t bytes) {
  const auto status = static_cast<int>(syscall(SYS_munmap, at, bytes));
  if (status == 0) note_taken_back(bytes);
  return status;
}

}  // extern "C"

#endif
