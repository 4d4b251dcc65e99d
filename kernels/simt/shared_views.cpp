// SPDX-License-Identifier: Apache-2.0
// The two views of shared memory. See shared_views.h.
#include "kernels/simt/shared_views.h"

#include <algorithm>
#include <cstring>

#include "kernels/simt/async_machine.h"

namespace kvproof::simt {
namespace {

bool knows(std::size_t thread, std::size_t of, std::uint32_t count) {
  return async().clocks[thread][of] >= count;
}

/// Whether a thread of the warp knows it: a warp's operation comes after all of its lanes.
bool warp_knows(int warp, std::size_t of, std::uint32_t count) {
  const auto first = static_cast<std::size_t>(warp * kWarpSize);
  for (std::size_t t = first; t < first + kWarpSize; ++t) {
    if (knows(t, of, count)) return true;
  }
  return false;
}

std::size_t component_of(const SharedViews::Load& load) {
  return machine().num_threads + load.barrier;
}

}  // namespace

void SharedViews::begin(std::byte* bytes, std::size_t size, std::uint32_t address,
                        std::size_t num_warps) {
  bytes_ = bytes;
  size_ = size;
  address_ = address;
  num_warps_ = num_warps;
  seen_.assign(size, std::byte{0xFF});
  const std::size_t num_chunks = (size + kChunkBytes - 1) / kChunkBytes;
  chunks_.assign(num_chunks, {});
  reads_.assign(num_chunks * num_warps, 0);
  retired_.assign(num_warps, {});
  dirty_.assign(num_warps * kWarpSize, {});
  products.assign(num_warps / 4, {});
}

std::size_t SharedViews::index_of(std::uint32_t at, Place place) const {
  if (at < address_ || at + kChunkBytes > address_ + size_) {
    fail("the asynchronous unit is sent to " + std::to_string(at) +
         ", outside of dynamic shared memory, at " + text_of(place));
  }
  return (at - address_) / kChunkBytes;
}

/// What a copy brings must have been waited for.
void SharedViews::require_arrived(const Chunk& chunk, const char* what, Culprit by) const {
  if (chunk.load == 0) return;
  const Load& load = loads[chunk.load - 1];
  if (knows(static_cast<std::size_t>(by.thread), component_of(load), load.phase + 1)) return;
  fail(std::string(what) + " by " + text_of(by) + ", not waited for: the copy started by " +
       text_of(load.by));
}

/// Units that read the chunk must have ended, as the running thread knows.
void SharedViews::require_read(std::size_t index, const char* what, Culprit by) const {
  const auto thread = static_cast<std::size_t>(by.thread);
  for (std::size_t warp = 0; warp < num_warps_; ++warp) {
    const std::uint32_t product = reads_[index * num_warps_ + warp];
    if (product == 0) continue;
    const bool retired = product <= retired_[warp].size();
    if (retired && knows(thread, warp * kWarpSize, retired_[warp][product - 1])) continue;
    fail(std::string(what) + " by " + text_of(by) + ", still read by the product of warp " +
         std::to_string(warp) + " at " + text_of(products[warp / 4][product - 1]) +
         (retired ? ": no barrier orders its wait before" : ": it has not waited for it"));
  }
  if (const std::uint32_t number = chunks_[index].store; number != 0) {
    const Store& store = stores[number - 1];
    if (store.waited != 0 &&
        knows(thread, static_cast<std::size_t>(store.by.thread), store.waited)) {
      return;
    }
    fail(std::string(what) + " by " + text_of(by) + ", still read by the copy started by " +
         text_of(store.by) +
         (store.waited != 0 ? ": no barrier orders its wait before" : ": nobody waited for it"));
  }
}

/// What a unit reads must have been fenced by its writer, or have landed, as the warp knows that
/// calls it; without a warp, as the calling thread knows.
void SharedViews::require_visible(std::size_t index, int warp, Culprit by) const {
  const Chunk& chunk = chunks_[index];
  const bool loaded = chunk.load != 0;
  const auto who = [&] { return "read by the asynchronous unit for " + text_of(by) + ", "; };
  const auto from = [&] { return "written by " + text_of(chunk.writer) + ", "; };
  if (!loaded && chunk.writer.thread < 0) {
    fail(who() +
         "written by no noted store and no copy since the block's first "
         "shared_address: byte " +
         std::to_string(address_ + index * kChunkBytes) + " of shared memory");
  }
  if (!loaded && chunk.published == 0) fail(who() + from() + "not fenced");
  const std::size_t of =
      loaded ? component_of(loads[chunk.load - 1]) : static_cast<std::size_t>(chunk.writer.thread);
  const std::uint32_t count = loaded ? loads[chunk.load - 1].phase + 1 : chunk.published;
  if (warp < 0 ? knows(static_cast<std::size_t>(by.thread), of, count)
               : warp_knows(warp, of, count)) {
    return;
  }
  if (loaded) {
    fail(who() + "not waited for: the copy started by " + text_of(loads[chunk.load - 1].by));
  }
  fail(who() + from() + "fenced, but no barrier orders the fence before");
}

void SharedViews::begin_write(const void* to, Culprit by) {
  if (!covers(to)) return;
  const std::size_t index = index_of(to);
  Chunk& chunk = chunks_[index];
  require_arrived(chunk, "written", by);
  require_read(index, "written", by);
  std::fill_n(&reads_[index * num_warps_], num_warps_, 0);
  chunk = {by, 0, 0, 0};
}

void SharedViews::end_write(const void* to, Culprit by) {
  if (!covers(to)) return;
  const std::size_t index = index_of(to);
  dirty_[static_cast<std::size_t>(by.thread)].push_back(static_cast<std::uint32_t>(index));
}

void SharedViews::read(const void* from, Culprit by) const {
  if (!covers(from)) return;
  const std::size_t index = index_of(from);
  require_arrived(chunks_[index], "read", by);
}

void SharedViews::publish(std::size_t thread) {
  for (const std::uint32_t index : dirty_[thread]) {
    Chunk& chunk = chunks_[index];
    if (chunk.writer.thread != static_cast<int>(thread) || chunk.published != 0) continue;
    chunk.published = async().clocks[thread][thread];
    const std::size_t at = std::size_t{index} * kChunkBytes;
    std::memcpy(&seen_[at], bytes_ + at, std::min(kChunkBytes, size_ - at));
  }
  dirty_[thread].clear();
}

void SharedViews::load(std::uint32_t chunk_at, std::uint32_t number, Culprit by) {
  const std::size_t index = index_of(chunk_at, by.place);
  Chunk& chunk = chunks_[index];
  if (chunk.load == number) return;  // another piece of the same chunk
  require_arrived(chunk, "overwritten", by);
  require_read(index, "overwritten", by);
  const auto writer = static_cast<std::size_t>(chunk.writer.thread);
  if (chunk.writer.thread >= 0 &&
      (chunk.published == 0 ||
       !knows(static_cast<std::size_t>(by.thread), writer, chunk.published))) {
    fail("overwritten by " + text_of(by) + ", written by " + text_of(chunk.writer) +
         (chunk.published == 0 ? ", not fenced"
                               : ", fenced, but no barrier orders the fence before"));
  }
  std::fill_n(&reads_[index * num_warps_], num_warps_, 0);
  chunk = {{}, 0, number, 0};
  const std::size_t at = index * kChunkBytes;
  std::memset(&seen_[at], 0xFF, kChunkBytes);
  std::memset(bytes_ + at, 0xFF, kChunkBytes);
  forbid(bytes_ + at, kChunkBytes);
}

void SharedViews::store(std::uint32_t chunk_at, std::uint32_t number, Culprit by) {
  const std::size_t index = index_of(chunk_at, by.place);
  require_visible(index, -1, by);
  static_cast<void>(seen(chunk_at, kChunkBytes, by.place));
  chunks_[index].store = number;
}

void SharedViews::multiply(std::uint32_t chunk_at, int first_warp, int end_warp,
                           std::uint32_t product, Culprit by) {
  const std::size_t index = index_of(chunk_at, by.place);
  for (int warp = first_warp; warp < end_warp; ++warp) {
    require_visible(index, warp, by);
    reads_[index * num_warps_ + static_cast<std::size_t>(warp)] = product;
  }
  static_cast<void>(seen(chunk_at, kChunkBytes, by.place));
}

void SharedViews::retire(int warp, std::uint64_t product, std::uint32_t count) {
  auto& counts = retired_[static_cast<std::size_t>(warp)];
  if (counts.size() < product) counts.resize(product, count);
}

const std::byte* SharedViews::seen(std::uint32_t at, std::size_t bytes, Place place) {
  const std::size_t offset = at - address_;
  if (std::memcmp(&seen_[offset], bytes_ + offset, bytes) != 0) {
    const Chunk& chunk = chunks_[offset / kChunkBytes];
    report("read by the asynchronous unit at " + text_of(place) +
           ", changed by no noted store since " +
           (chunk.load != 0 ? "the copy started by " + text_of(loads[chunk.load - 1].by)
                            : "the store of " + text_of(chunk.writer)) +
           ": byte " + std::to_string(at) + " of shared memory");
  }
  return &seen_[offset];
}

void SharedViews::bring(std::uint32_t at, const std::byte* from, std::size_t bytes) {
  const std::size_t offset = at - address_;
  allow(bytes_ + offset, bytes);
  if (from == nullptr) {
    std::memset(&seen_[offset], 0, bytes);
  } else {
    std::memcpy(&seen_[offset], from, bytes);
  }
  std::memcpy(bytes_ + offset, &seen_[offset], bytes);
}

void note_write(const void* to, bool begins, bool ends, Place place) {
  const Unobserved unobserved;
  SharedViews& views = async().views;
  if (begins) views.begin_write(to, culprit(place));
  if (ends) views.end_write(to, culprit(place));
}

void note_read(const void* from, Place place) {
  const Unobserved unobserved;
  async().views.read(from, culprit(place));
}

}  // namespace kvproof::simt
