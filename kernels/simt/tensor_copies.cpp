// SPDX-License-Identifier: Apache-2.0
// Copies of boxes between global and shared memory, which land late.
#include <algorithm>
#include <cstring>

#include "kernels/simt/async_machine.h"

namespace kvproof::simt {
namespace {

std::unique_ptr<TensorCopy> copy_of(const kernels::TensorMap& map, const std::int32_t* at,
                                    SharedAddress shared, Place place) {
  auto copy = std::make_unique<TensorCopy>();
  copy->issued = culprit(place);
  if (shared % 128 != 0) {
    fail("a box at " + std::to_string(shared) + ", no multiple of 128, at " + text_of(place));
  }
  try {
    copy->pieces = box_pieces(map, at, shared);
    copy->bytes = box_bytes(map);
  } catch (const KernelError& error) {
    fail(std::string(error.what()) + ", at " + text_of(place));
  }
  return copy;
}

/// The source, or the part of it that a late copy still has to read.
const std::byte* source_of(const TensorCopy& copy, const BoxPiece& piece, std::size_t offset) {
  if (piece.global == nullptr) return nullptr;
  return copy.early.empty() ? piece.global : &copy.early[offset];
}

/// By seed, the source is read now, not when the copy lands.
void read_early(TensorCopy& copy) {
  copy.early.reserve(copy.bytes);
  for (const BoxPiece& piece : copy.pieces) {
    const std::byte* const from = piece.global;
    if (from == nullptr) {
      copy.early.resize(copy.early.size() + piece.bytes);
    } else {
      copy.early.insert(copy.early.end(), from, from + piece.bytes);
    }
  }
}

void start(std::unique_ptr<TensorCopy> copy) {
  AsyncMachine& a = async();
  TensorCopy& started = *copy;
  a.copies.push_back(std::move(copy));
  if (a.slowness == 0) land(started);
}

constexpr std::uint32_t chunk_of(const BoxPiece& piece) { return piece.shared & ~15u; }

}  // namespace

void land(TensorCopy& copy) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  std::size_t offset = 0;
  for (const BoxPiece& piece : copy.pieces) {
    if (copy.load) {
      a.views.bring(piece.shared, source_of(copy, piece, offset), piece.bytes);
    } else if (piece.global != nullptr) {
      const std::byte* const from = a.views.seen(piece.shared, piece.bytes, copy.issued.place);
      std::memcpy(const_cast<std::byte*>(piece.global), from, piece.bytes);
    }
    offset += piece.bytes;
  }
  copy.done = true;
  if (copy.load) {
    copy.barrier->bytes -= copy.bytes;
    end_phase_if_complete(*copy.barrier);
  }
  const auto mine = std::ranges::find_if(a.copies, [&](const auto& c) { return c.get() == &copy; });
  if (!copy.load) a.stored.push_back(std::move(*mine));
  a.copies.erase(mine);
}

void tensor_load(SharedAddress to, const kernels::TensorMap& map, const std::int32_t* at,
                 SharedAddress barrier, Place place) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  auto copy = copy_of(map, at, to, place);
  CountingBarrier& b = usable_barrier(barrier, place, true);
  copy->barrier = &b;
  b.unsent -= copy->bytes;
  if (b.unsent < 0) {
    fail("tensor_load by " + text_of(copy->issued) + " brings " + std::to_string(-b.unsent) +
         " bytes more than phase " + std::to_string(b.phase) +
         " expects of the barrier initialised by " + text_of(b.init));
  }
  a.views.loads.push_back({copy->issued, b.index, static_cast<std::uint32_t>(b.phase)});
  const auto number = static_cast<std::uint32_t>(a.views.loads.size());
  for (const BoxPiece& piece : copy->pieces) a.views.load(chunk_of(piece), number, copy->issued);
  if (a.slowness != 0 && a.drawn.one_in(2)) read_early(*copy);
  start(std::move(copy));
}

void tensor_store(const kernels::TensorMap& map, const std::int32_t* at, SharedAddress from,
                  Place place) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  auto copy = copy_of(map, at, from, place);
  copy->load = false;
  a.views.stores.push_back({copy->issued});
  copy->number = a.views.stores.size();
  for (const BoxPiece& piece : copy->pieces) {
    a.views.store(chunk_of(piece), static_cast<std::uint32_t>(copy->number), copy->issued);
  }
  async_thread().stores.push_back(copy.get());
  start(std::move(copy));
}

void bulk_commit(Place) {
  const Unobserved unobserved;
  AsyncThread& thread = async_thread();
  thread.store_groups.push_back(std::move(thread.stores));
  thread.stores.clear();
}

void bulk_wait(int newest, bool, Place place) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  AsyncThread& thread = async_thread();
  if (!thread.stores.empty()) {
    fail("a wait for stores at " + text_of(place) + ": the one at " +
         text_of(thread.stores.front()->issued.place) + " was not committed");
  }
  while (thread.store_groups.size() > static_cast<std::size_t>(newest)) {
    for (TensorCopy* store : thread.store_groups.front()) {
      if (!store->done) land(*store);
      a.views.stores[store->number - 1].waited = a.clocks[own_index()][own_index()];
    }
    thread.store_groups.pop_front();
  }
}

}  // namespace kvproof::simt
