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
  copy->issued = {self().thread.linear, place};
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

}  // namespace

void end_phase_if_complete(CountingBarrier& barrier);

void land(TensorCopy& copy) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  for (const BoxPiece& piece : copy.pieces) {
    std::byte* const shared = shared_at(piece.shared, piece.bytes, copy.issued.place);
    if (copy.load && piece.global == nullptr) {
      std::memset(shared, 0, piece.bytes);
    } else if (copy.load) {
      std::memcpy(shared, piece.global, piece.bytes);
    } else if (piece.global != nullptr) {
      std::memcpy(const_cast<std::byte*>(piece.global), shared, piece.bytes);
    }
  }
  copy.done = true;
  if (copy.load) {
    copy.barrier->bytes -= copy.bytes;
    end_phase_if_complete(*copy.barrier);
  }
  const auto mine = std::ranges::find_if(a.copies, [&](const auto& c) { return c.get() == &copy; });
  if (!copy.load) a.retired.push_back(std::move(*mine));
  a.copies.erase(mine);
}

void tensor_load(SharedAddress to, const kernels::TensorMap& map, const std::int32_t* at, int,
                 SharedAddress barrier, Place place) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  auto copy = copy_of(map, at, to, place);
  for (const auto& b : a.barriers) {
    if (b->at == barrier) copy->barrier = b.get();
  }
  if (copy->barrier == nullptr) fail("tensor_load: no barrier, at " + text_of(place));
  copy->barrier->unsent -= copy->bytes;
  if (copy->barrier->unsent < 0)
    fail("tensor_load: more bytes than expected, at " + text_of(place));
  for (const BoxPiece& piece : copy->pieces) {
    std::memset(shared_at(piece.shared, piece.bytes, place), 0xFF, piece.bytes);
  }
  a.copies.push_back(std::move(copy));
  if (a.slowness == 0) land(*a.copies.back());
}

void tensor_store(const kernels::TensorMap& map, const std::int32_t* at, int, SharedAddress from,
                  Place place) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  auto copy = copy_of(map, at, from, place);
  copy->load = false;
  async_thread().stores.push_back(copy.get());
  a.copies.push_back(std::move(copy));
  if (a.slowness == 0) land(*a.copies.back());
}

void bulk_commit(Place) {
  AsyncThread& thread = async_thread();
  thread.store_groups.push_back(std::move(thread.stores));
  thread.stores.clear();
}

void bulk_wait(int newest, bool, Place) {
  AsyncThread& thread = async_thread();
  while (thread.store_groups.size() > static_cast<std::size_t>(newest)) {
    for (TensorCopy* store : thread.store_groups.front()) {
      if (!store->done) land(*store);
    }
    thread.store_groups.pop_front();
  }
}

}  // namespace kvproof::simt
