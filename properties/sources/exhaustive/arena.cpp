// SPDX-License-Identifier: Apache-2.0
// Arenas of one process.
#include "properties/sources/exhaustive/arena.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>

namespace kvproof::properties::exhaustive {
namespace {

constexpr std::size_t kAllBytes = Arena::kMost * Arena::kBytes;

// The memory of all arenas in one place, so that operator delete knows an address of theirs. It is
// mapped for the first of them and not before, because it counts against memory limits.
constinit std::atomic<std::byte*> arena_memory = nullptr;
constinit Arena* arenas[Arena::kMost] = {};
constinit std::mutex arenas_mutex;
constinit thread_local Arena* arena_in_use = nullptr;

/// @throws std::bad_alloc
std::byte* map_memory() {
  void* const memory = mmap(nullptr, kAllBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

constexpr std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

Arena::Arena() : memory_(nullptr) {
  const std::lock_guard lock(arenas_mutex);
  if (arena_memory == nullptr) arena_memory = map_memory();
  for (std::size_t i = 0; i < kMost; ++i) {
    if (arenas[i] != nullptr) continue;
    arenas[i] = this;
    memory_ = arena_memory + i * kBytes;
    new (memory_) Book{.used = rounded_up(sizeof(Book), kStep)};
    return;
  }
  throw std::length_error("more arenas at one time than there is room for");
}

bool Arena::serves_operator_new() {
  const Scope scope(this);
  void* const piece = ::operator new(kStep);
  const bool mine = of(piece) == this;
  ::operator delete(piece);
  return mine;
}

Arena* Arena::in_use() { return arena_in_use; }

Arena::~Arena() {
  const std::lock_guard lock(arenas_mutex);
  arenas[static_cast<std::size_t>(memory_ - arena_memory) / kBytes] = nullptr;
}

Arena* Arena::of(const void* memory) {
  const std::byte* const first = arena_memory.load(std::memory_order_relaxed);
  const auto at =
      reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(first);
  return at < kAllBytes ? arenas[at / kBytes] : nullptr;
}

Arena::Book& Arena::book() const { return *std::launder(reinterpret_cast<Book*>(memory_)); }

Arena::Piece& Arena::piece(std::uint32_t at) const {
  return *reinterpret_cast<Piece*>(memory_ + at - sizeof(Piece));
}

void Arena::save(Image& out) const { out.assign(memory_, memory_ + book().used); }

void Arena::restore(const Image& image) { std::memcpy(memory_, image.data(), image.size()); }

void* Arena::take(std::size_t bytes, std::size_t alignment) {
  Book& b = book();
  const std::size_t size = rounded_up(bytes == 0 ? 1 : bytes, kStep);
  const std::size_t kind = size / kStep;
  if (alignment <= kStep && kind < b.free.size() && b.free[kind] != 0) {
    const std::uint32_t at = b.free[kind];
    b.free[kind] = piece(at).next;
    return memory_ + at;
  }
  const std::size_t at = rounded_up(b.used + sizeof(Piece), alignment < kStep ? kStep : alignment);
  if (size > kBytes || at + size > kBytes) throw std::bad_alloc();
  b.used = at + size;
  new (&piece(static_cast<std::uint32_t>(at))) Piece{static_cast<std::uint32_t>(size), 0};
  return memory_ + at;
}

void Arena::give(void* memory) {
  Book& b = book();
  const auto at = static_cast<std::uint32_t>(static_cast<std::byte*>(memory) - memory_);
  Piece& given = piece(at);
  const std::size_t kind = given.bytes / kStep;
  if (kind >= b.free.size()) return;  // large memory comes back with the next image
  given.next = b.free[kind];
  b.free[kind] = at;
}

Arena::Scope::Scope(Arena* arena) : outer_(arena_in_use) { arena_in_use = arena; }
Arena::Scope::~Scope() { arena_in_use = outer_; }

}  // namespace kvproof::properties::exhaustive
