// SPDX-License-Identifier: Apache-2.0
// Memory that is put back as it was: so a subject, which is not a value, returns to a state in one
// copy instead of being made anew and performing a path again.
//
// Model:   while a Scope lives, operator new of this thread takes from the arena, in a program that
//          is linked with operator_new.cpp. All of it that is in use lies at its beginning; an
//          image is a copy of that, and pointers in it stay good because it goes back to the same
//          place.
// Leaves out: memory from malloc, as in a library of others, and sanitizers, which watch the memory
//          of each object apart. For these a subject performs its path again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvproof::properties::exhaustive {

class Arena {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;  // of each
  static constexpr std::size_t kMost = 256;                    // at one time, in this process
  using Image = std::vector<std::byte>;

  Arena();  ///< Throws std::length_error if there are kMost.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Whether the program is linked with operator_new.cpp, and not with a sanitizer.
  [[nodiscard]] bool serves_operator_new();

  void save(Image& out) const;
  void restore(const Image& image);

  /// @throws std::bad_alloc when it is full
  void* take(std::size_t bytes, std::size_t alignment);
  void give(void* memory);
  /// The arena that an address lies in; nullptr = none.
  [[nodiscard]] static Arena* of(const void* memory);

  /// The arena of the scope that this thread is in; nullptr = none.
  [[nodiscard]] static Arena* in_use();

  /// In this thread; of the inner scope, if there are two.
  class Scope {
   public:
    explicit Scope(Arena* arena);  ///< nullptr: ordinary memory
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena* outer_;
  };

 private:
  static constexpr std::size_t kStep = 16;  // sizes are multiples of it
  /// At the beginning of the memory, so that it is part of every image.
  struct Book {
    std::size_t used = 0;                   // [bytes] from the beginning
    std::array<std::uint32_t, 128> free{};  // first given-back piece of i * kStep; 0 = none
  };
  struct alignas(kStep) Piece {  // stands before the memory that is handed out
    std::uint32_t bytes = 0;
    std::uint32_t next = 0;  // given-back piece of the same size
  };

  [[nodiscard]] Book& book() const;
  [[nodiscard]] Piece& piece(std::uint32_t at) const;  // of the memory that begins there

  std::byte* memory_;
};

}  // namespace kvproof::properties::exhaustive
