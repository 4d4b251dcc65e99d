// SPDX-License-Identifier: Apache-2.0
// Dynamic shared memory as the threads have it and as the asynchronous units see it, and who may
// touch which of its bytes.
//
// Model:   Per chunk of 16 bytes: the last writer, a thread or a copy; whether it was fenced; the
//          last product of each warp and the last store that read it. Whoever reads or writes must
//          come after them, by the clocks. A write that is not noted (not by store16, store_tiles
//          or copy_async16) never reaches the units: they find that the two views differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/simt/runtime.h"

namespace kvproof::simt {

constexpr std::size_t kChunkBytes = 16;

/// A thread, and where in its program.
struct Culprit {
  int thread = -1;
  Place place{};
};
[[nodiscard]] std::string text_of(const Culprit& culprit);

struct Chunk {
  Culprit writer;               // thread -1: none, or a copy
  std::uint32_t published = 0;  // the writer's count at its fence; 0: not fenced
  std::uint32_t load = 0;       // the copy that wrote it, from 1 on
  std::uint32_t store = 0;      // the last copy that read it, from 1 on
};

class SharedViews {
 public:
  /// @param bytes, size the dynamic array, address its first byte's
  void begin(std::byte* bytes, std::size_t size, std::uint32_t address, std::size_t num_warps);

  // What threads do, named by their address in the program's memory; other memory is none of this.
  void begin_write(const void* to, Culprit by);  // from now on the bytes may change
  void end_write(const void* to, Culprit by);    // they have changed
  void read(const void* from, Culprit by) const;
  /// The units see what this thread wrote.
  void publish(std::size_t thread);

  // What units do, for the running thread; addresses are those of chunks.
  /// Until the copy lands, both views hold a pattern that is a NaN of any type.
  void load(std::uint32_t chunk_at, std::uint32_t number, Culprit by);
  void store(std::uint32_t chunk_at, std::uint32_t number, Culprit by);
  /// A product of the warps [first, end) reads a chunk.
  void multiply(std::uint32_t chunk_at, int first_warp, int end_warp, std::uint32_t product,
                Culprit by);
  /// Products of a warp up to this number were waited for, at this count of its first thread.
  void retire(int warp, std::uint64_t product, std::uint32_t count);

  /// The bytes that the units see. Reports if the threads' differ.
  [[nodiscard]] const std::byte* seen(std::uint32_t at, std::size_t bytes, Place place);
  /// A copy brings bytes, or zeros, to both views.
  void bring(std::uint32_t at, const std::byte* from, std::size_t bytes);

  struct Load {
    Culprit by;
    std::size_t barrier;
    std::uint32_t phase;
  };
  struct Store {
    Culprit by;
    std::uint32_t waited = 0;  // the thread's count at its wait; 0: not yet
  };
  std::vector<Load> loads;
  std::vector<Store> stores;
  std::vector<std::vector<Place>> products;  // of each warpgroup

 private:
  [[nodiscard]] bool covers(const void* at) const { return at >= bytes_ && at < bytes_ + size_; }
  [[nodiscard]] std::size_t index_of(const void* at) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(at) - bytes_) / kChunkBytes;
  }
  [[nodiscard]] std::size_t index_of(std::uint32_t at, Place place) const;
  void require_arrived(const Chunk& chunk, const char* what, Culprit by) const;
  void require_read(std::size_t index, const char* what, Culprit by) const;
  void require_visible(std::size_t index, int warp, Culprit by) const;

  std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::uint32_t address_ = 0;
  std::size_t num_warps_ = 0;
  std::vector<std::byte> seen_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> reads_;                 // [chunks][warps] the last product
  std::vector<std::vector<std::uint32_t>> retired_;  // [warps][products] the count at its wait
  std::vector<std::vector<std::uint32_t>> dirty_;    // [threads] chunks, not published
};

}  // namespace kvproof::simt
