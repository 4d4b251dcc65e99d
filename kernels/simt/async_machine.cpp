// SPDX-License-Identifier: Apache-2.0
// A block's asynchronous units: when what is on its way ends, and what is said if it never does.
#include "kernels/simt/async_machine.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace kvproof::simt {
namespace {

constexpr int kMostIdle = 10000;  // rounds in which threads only ask, before nothing is expected

}  // namespace

AsyncMachine& async() {
  Machine& m = machine();
  if (m.async == nullptr) {
    const Unobserved unobserved;
    m.async = std::make_shared<AsyncMachine>();
  }
  return *m.async;
}

AsyncMachine::AsyncMachine() : drawn{machine().schedule.seed + machine().block_number} {
  Machine& m = machine();
  if (m.schedule.seed != 0) {
    constexpr std::uint64_t kSlownesses[] = {1, 4, 64, std::uint64_t{1} << 40};
    slowness = kSlownesses[drawn.next() % 4];
  }
  threads = std::vector<AsyncThread>(m.num_threads);
  clocks.assign(m.num_threads, Clock(m.num_threads + kMostBarriers));
  for (std::size_t t = 0; t < m.num_threads; ++t) clocks[t][t] = 1;
  groups = std::vector<Warpgroup>(m.num_threads / kGroupSize);
  const int each = std::min(256, kBlockRegisters / static_cast<int>(m.num_threads) / 8 * 8);
  for (Warpgroup& group : groups) {
    group.meeting.expected = kGroupSize;
    group.registers = each;
  }
  const Shared& dynamic = m.shared[nullptr];
  views.begin(dynamic.bytes, dynamic.size, dynamic.address, m.num_threads / kWarpSize);
  watching = true;
}

void AsyncMachine::release(Clock& to) {
  const Unobserved unobserved;
  const std::size_t thread = own_index();
  to.join(clocks[thread]);
  ++clocks[thread][thread];
}

void AsyncMachine::end_round(Meeting& meeting, std::uint64_t round) {
  const Unobserved unobserved;
  const Machine& m = machine();
  const bool of_warp = self().waiting == Waiting::warp;
  const std::size_t first = of_warp ? own_index() / kWarpSize * kWarpSize : 0;
  const std::size_t end = of_warp ? first + kWarpSize : m.num_threads;
  for (std::size_t t = first; t < end; ++t) {
    const Runner& r = *m.runners[t];
    if (r.waiting == Waiting::no || r.meeting != &meeting || r.round != round) continue;
    const std::uint32_t own = clocks[t][t];
    clocks[t] = meeting.clock;  // it arrived, so its own is contained
    clocks[t][t] = own;
  }
  meeting.clock.clear();
}

bool AsyncMachine::let_time_pass() {
  if (slowness == 0) return false;
  const bool lands = !copies.empty() && drawn.one_in(slowness);
  if (lands) land(*copies[drawn.next() % copies.size()]);
  for (Warpgroup& group : groups) {
    if (!group.waiting.empty() && drawn.one_in(slowness)) {
      execute_until(group, group.waiting.front().number + drawn.next() % group.waiting.size());
    }
  }
  return lands;
}

bool AsyncMachine::complete_one(bool asked) {
  if (!copies.empty()) {
    land(*copies[drawn.next() % copies.size()]);
    idle = 0;
    return true;
  }
  return asked && ++idle < kMostIdle;
}

std::string AsyncMachine::what_is_open() const {
  const Unobserved unobserved;
  std::string out;
  for (const auto& barrier : barriers) {
    const CountingBarrier& b = *barrier;
    if (b.pending == b.expected && b.bytes == 0) continue;
    out += "; the barrier initialised by " + text_of(b.init) + ": phase " +
           std::to_string(b.phase) + " lacks " + std::to_string(b.pending) + " of " +
           std::to_string(b.expected) + " arrivals and " + std::to_string(b.bytes) + " bytes";
  }
  for (int id = 0; id < 16; ++id) {
    const Meeting& meeting = named[id].meeting;
    if (meeting.arrived == 0) continue;
    out += "; named barrier " + std::to_string(id) + ": " + std::to_string(meeting.arrived) +
           " of " + std::to_string(meeting.expected) + " threads came, the first at " +
           text_of(meeting.place);
  }
  for (const Warpgroup& group : groups) {
    if (group.asked > group.registers) {
      out += "; " + std::to_string(free_registers) + " registers are free, a warpgroup waits for " +
             std::to_string(kGroupSize * (group.asked - group.registers));
    }
  }
  return out;
}

void AsyncMachine::end_thread() {
  const Unobserved unobserved;
  const AsyncThread& thread = async_thread();
  if (thread.retired != thread.issued) {
    fail("a thread ended that did not wait for its product at " + text_of(thread.product));
  }
  for (const auto& group : thread.store_groups) {
    if (group.empty()) continue;
    fail("a thread ended that did not wait for its store at " +
         text_of(group.front()->issued.place));
  }
  if (!thread.stores.empty()) {
    fail("a thread ended that did not commit its store at " +
         text_of(thread.stores.front()->issued.place));
  }
}

void AsyncMachine::end_block() {
  if (!copies.empty() && copies.front()->load) {
    report("the block ended before the copy started by " + text_of(copies.front()->issued) +
           " had landed");
  }
  while (!copies.empty()) land(*copies.front());
}

std::string text_of(const Culprit& culprit) {
  return "thread " + std::to_string(culprit.thread) + " at " + text_of(culprit.place);
}

void report(const std::string& what) {
  Machine& m = machine();
  if (!m.broken) m.broken = what;
}

SharedAddress address_of(const void* shared, Place place) {
  const Unobserved unobserved;
  const Machine& m = machine();
  static_cast<void>(async());
  const auto* const at = static_cast<const std::byte*>(shared);
  for (const auto& [key, slot] : m.shared) {
    if (at >= slot.bytes && at <= slot.bytes + slot.size) {
      return slot.address + static_cast<SharedAddress>(at - slot.bytes);
    }
  }
  fail("shared_address of what is no shared memory, at " + text_of(place));
}

std::byte* shared_at(SharedAddress address, std::size_t count, Place place) {
  for (const auto& [key, slot] : machine().shared) {
    if (address >= slot.address && address + count <= slot.address + slot.size) {
      return slot.bytes + (address - slot.address);
    }
  }
  fail("no shared memory at address " + std::to_string(address) + ", at " + text_of(place));
}

void fence_async(Place) {
  const Unobserved unobserved;
  async().views.publish(own_index());
}

void store_tiles(void* row, const std::uint32_t (&tiles)[4], Place place) {
  require_aligned(row, 16, "store_tiles");
  struct Mine {
    void* row;
    std::uint32_t tiles[4];
  } const mine{row, {tiles[0], tiles[1], tiles[2], tiles[3]}};
  const auto cells = warp_exchange(&mine, sizeof(mine), place);
  const Thread& thread = current();
  // This thread writes the row it gave: of tile lane / 8, what lanes 4 r to 4 r + 3 hold.
  const int tile = thread.lane() / 8, first = thread.lane() % 8 * 4;
  std::uint32_t words[4];
  for (int i = 0; i < 4; ++i) {
    std::memcpy(&words[i], cells[first + i] + offsetof(Mine, tiles) + 4 * tile, 4);
  }
  note_write(row, true, true, place);
  std::memcpy(row, words, sizeof(words));
}

int multiprocessors() { return 3; }

}  // namespace kvproof::simt
