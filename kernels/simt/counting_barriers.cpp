// SPDX-License-Identifier: Apache-2.0
// Barriers of arrivals and bytes (mbarrier), named barriers, and registers that change hands.
#include <algorithm>
#include <cstring>

#include "kernels/simt/async_machine.h"

namespace kvproof::simt {
namespace {

constexpr std::uint64_t kPattern = 0xBA55'1E4D'0BA2'21E4;  // what a barrier's 8 bytes hold

CountingBarrier& barrier_at(SharedAddress address, Place place) {
  for (const auto& barrier : async().barriers) {
    if (barrier->at == address) return *barrier;
  }
  fail("no barrier was initialised at address " + std::to_string(address) + ", used at " +
       text_of(place));
}

bool phase_ended(const CountingBarrier& barrier, int parity) {
  return barrier.phase % 2 != static_cast<std::uint64_t>(parity);
}

bool phase_has_ended(const Runner& runner) {
  return phase_ended(*static_cast<const CountingBarrier*>(runner.what), runner.number);
}

}  // namespace

/// Ends the phase if nothing is missing.
void end_phase_if_complete(CountingBarrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes > 0) return;
  barrier.pending = barrier.expected;
  ++barrier.phase;
}

void barrier_init(SharedAddress barrier, int arrivals, Place place) {
  const Unobserved unobserved;
  std::byte* const bytes = shared_at(barrier, 8, place);
  if (barrier % 8 != 0) fail("barrier_init: address is no multiple of 8, at " + text_of(place));
  if (arrivals < 1 || arrivals >= 1 << 20) fail("barrier_init: arrivals, at " + text_of(place));
  for (const auto& other : async().barriers) {
    if (other->at == barrier) {
      fail("barrier_init of a barrier that lives since " + text_of(other->init) + ", at " +
           text_of(place));
    }
  }
  std::memcpy(bytes, &kPattern, sizeof(kPattern));
  auto made = std::make_unique<CountingBarrier>();
  made->at = barrier;
  made->init = {self().thread.linear, place};
  made->expected = made->pending = arrivals;
  async().barriers.push_back(std::move(made));
}

void fence_barrier_init(Place) { static_cast<void>(async()); }

void barrier_arrive(SharedAddress barrier, int bytes, Place place) {
  CountingBarrier& b = barrier_at(barrier, place);
  if (b.pending == 0) fail("barrier: too many arrivals, at " + text_of(place));
  order_before(&b.order[b.phase % 2]);
  --b.pending;
  b.bytes += bytes;
  b.unsent += bytes;
  end_phase_if_complete(b);
}

void barrier_wait(SharedAddress barrier, int parity, Place place) {
  CountingBarrier& b = barrier_at(barrier, place);
  if (!phase_ended(b, parity)) {
    wait_until(Waiting::phase, &phase_has_ended, &b, parity, place);
  }
  order_after(&b.order[(b.phase + 1) % 2]);
}

bool barrier_ended(SharedAddress barrier, int parity, Place place) {
  CountingBarrier& b = barrier_at(barrier, place);
  if (!phase_ended(b, parity)) {  // who asks again and again lets the others run
    wait_until(
        Waiting::turn, [](const Runner& r) { return r.round != machine().pass; }, &b, parity,
        place);
  }
  if (!phase_ended(b, parity)) return false;
  order_after(&b.order[(b.phase + 1) % 2]);
  return true;
}

void named_barrier(int id, int threads, bool waits, Place place) {
  if (id < 1 || id > 15 || threads < kWarpSize || threads % kWarpSize != 0 ||
      static_cast<std::size_t>(threads) > machine().num_threads) {
    fail("named barrier " + std::to_string(id) + " of " + std::to_string(threads) +
         " threads, at " + text_of(place));
  }
  NamedBarrier& barrier = async().named[id];
  Meeting& meeting = barrier.meeting;
  if (meeting.arrived > 0 && meeting.expected != threads) {
    fail("named barrier " + std::to_string(id) + ": " + std::to_string(threads) + " threads at " +
         text_of(place) + ", " + std::to_string(meeting.expected) + " at " +
         text_of(meeting.place));
  }
  meeting.expected = threads;
  meet(meeting, Waiting::named, place, waits);
}

void set_registers(int count, bool up, Place place) {
  AsyncMachine& a = async();
  const auto index = static_cast<std::size_t>(self().thread.linear / kGroupSize);
  if (index >= a.groups.size()) fail("registers of no whole warpgroup, at " + text_of(place));
  Warpgroup& group = a.groups[index];
  if (group.meeting.arrived == 0) group.asked = count;
  if (group.asked != count)
    fail("unlike numbers of registers in a warpgroup, at " + text_of(place));
  meet(group.meeting, Waiting::warpgroup, place);
  const bool first = self().thread.linear % kGroupSize == 0;
  if (first && (up ? count < group.registers : count > group.registers)) {
    fail("registers from " + std::to_string(group.registers) + " " + (up ? "up to " : "down to ") +
         std::to_string(count) + ", at " + text_of(place));
  }
  const int more = kGroupSize * (count - group.registers);
  if (first && more > a.free_registers) {
    wait_until(
        Waiting::registers, [](const Runner& r) { return r.number <= async().free_registers; },
        nullptr, more, place);
  }
  if (first) {
    a.free_registers -= more;
    group.registers = count;
  }
  meet(group.meeting, Waiting::warpgroup, place);
}

}  // namespace kvproof::simt
