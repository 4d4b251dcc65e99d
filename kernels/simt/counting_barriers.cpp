// SPDX-License-Identifier: Apache-2.0
// Barriers of arrivals and bytes (mbarrier), named barriers, and registers that change hands.
#include <algorithm>
#include <cstring>

#include "kernels/simt/async_machine.h"

namespace kvproof::simt {
namespace {

constexpr std::uint64_t kPattern = 0xBA55'1E4D'0BA2'21E4;  // what a barrier's 8 bytes hold
constexpr int kReleased = -1;                              // in place of a waiter's parity

bool phase_ended(const CountingBarrier& barrier, int parity) {
  return barrier.phase % 2 != static_cast<std::uint64_t>(parity);
}

/// The thread has seen the end of the last phase.
void acquire(CountingBarrier& b, std::size_t thread) { async().clocks[thread].join(b.ended); }

/// A parity names the phase that the thread knows to have ended last, or the next one. The barrier
/// answers for the last that ended, and the one that has not.
void require_near(const CountingBarrier& b, int parity, Place place) {
  const Machine& m = machine();
  const auto known = std::int64_t{async().clocks[own_index()][m.num_threads + b.index]};
  const std::int64_t meant = known % 2 == parity ? known : known - 1;
  if (meant + 1 >= static_cast<std::int64_t>(b.phase)) return;
  fail("a wait for phase " + std::to_string(meant) + " by " + text_of(culprit(place)) +
       ", two phases back: " + std::to_string(b.phase) +
       " have ended of the barrier initialised by " + text_of(b.init));
}

}  // namespace

CountingBarrier& barrier_at(SharedAddress address, Place place) {
  for (const auto& barrier : async().barriers) {
    if (barrier->at == address) return *barrier;
  }
  fail("no barrier was initialised at address " + std::to_string(address) + ", used at " +
       text_of(place));
}

CountingBarrier& usable_barrier(SharedAddress address, Place place, bool by_unit) {
  AsyncMachine& a = async();
  CountingBarrier& b = barrier_at(address, place);
  const auto init = static_cast<std::size_t>(b.init.thread);
  const std::size_t user = own_index();
  if ((user != init || by_unit) && (b.visible == 0 || a.clocks[user][init] < b.visible)) {
    fail("barrier used by " + text_of(culprit(place)) + ", initialised by " + text_of(b.init) +
         (b.visible == 0 ? ", not fenced" : ", fenced, but no barrier orders the fence before"));
  }
#if !defined(KVPROOF_SIMT_ASAN)
  if (std::memcmp(shared_at(address, 8, place), &kPattern, 8) != 0) {
    fail("the 8 bytes of the barrier initialised by " + text_of(b.init) +
         " were overwritten, seen at " + text_of(place));
  }
#endif
  return b;
}

void end_phase_if_complete(CountingBarrier& b) {
  if (b.pending > 0 || b.bytes > 0) return;
  const Machine& m = machine();
  b.pending = b.expected;
  ++b.phase;
  b.ended = b.arriving;
  b.ended[m.num_threads + b.index] = static_cast<std::uint32_t>(b.phase);
  b.arriving = Clock(m.num_threads + kMostBarriers);
  for (std::size_t t = 0; t < m.num_threads; ++t) {
    Runner& r = *m.runners[t];
    if (r.waiting != Waiting::phase || r.what != &b) continue;
    if (r.number == kReleased) {
      report("phase " + std::to_string(b.phase - 1) + " of the barrier initialised by " +
             text_of(b.init) + " ended before " + text_of(Culprit{r.thread.linear, r.place}) +
             " saw the end of the one before");
    } else if (phase_ended(b, r.number)) {
      acquire(b, t);
      r.number = kReleased;
    }
  }
}

void barrier_init(SharedAddress barrier, int arrivals, Place place) {
  const Unobserved unobserved;
  AsyncMachine& a = async();
  std::byte* const bytes = shared_at(barrier, 8, place);
  if (barrier % 8 != 0) fail("barrier_init: address is no multiple of 8, at " + text_of(place));
  if (arrivals < 1 || arrivals >= 1 << 20) {
    fail("barrier_init: " + std::to_string(arrivals) + " arrivals, at " + text_of(place));
  }
  for (const auto& other : a.barriers) {
    if (other->at < barrier + 8 && barrier < other->at + 8) {
      fail("barrier_init of a barrier that lives since " + text_of(other->init) + ", at " +
           text_of(place));
    }
  }
  if (a.barriers.size() == kMostBarriers) fail("more than 64 barriers, at " + text_of(place));
  std::memcpy(bytes, &kPattern, sizeof(kPattern));
  forbid(bytes, sizeof(kPattern));
  auto made = std::make_unique<CountingBarrier>();
  made->at = barrier;
  made->index = a.barriers.size();
  made->init = culprit(place);
  made->expected = made->pending = arrivals;
  made->arriving = Clock(machine().num_threads + kMostBarriers);
  made->ended = made->arriving;
  a.barriers.push_back(std::move(made));
}

void fence_barrier_init(Place) {
  const Unobserved unobserved;
  const std::size_t thread = own_index();
  for (const auto& barrier : async().barriers) {
    if (barrier->init.thread != static_cast<int>(thread) || barrier->visible != 0) continue;
    barrier->visible = async().clocks[thread][thread];
  }
}

void barrier_arrive(SharedAddress barrier, int bytes, Place place) {
  const Unobserved unobserved;
  CountingBarrier& b = usable_barrier(barrier, place);
  if (b.pending == 0) {
    fail("too many arrivals in phase " + std::to_string(b.phase) +
         " of the barrier initialised by " + text_of(b.init) + ": " + text_of(culprit(place)));
  }
  if (bytes < 0 || bytes >= 1 << 20) {
    fail("barrier_expect: " + std::to_string(bytes) + " bytes, at " + text_of(place));
  }
  order_before(&b.order[b.phase % 2]);
  async().release(b.arriving);
  --b.pending;
  b.bytes += bytes;
  b.unsent += bytes;
  end_phase_if_complete(b);
}

void barrier_wait(SharedAddress barrier, int parity, Place place) {
  const Unobserved unobserved;
  CountingBarrier& b = usable_barrier(barrier, place);
  require_near(b, parity, place);
  if (phase_ended(b, parity)) {
    acquire(b, own_index());
    order_after(&b.order[(b.phase + 1) % 2]);
    return;
  }
  const std::uint64_t phase = b.phase;
  wait_until(
      Waiting::phase, [](const Runner& r) { return r.number == kReleased; }, &b, parity, place);
  order_after(&b.order[phase % 2]);
}

bool barrier_ended(SharedAddress barrier, int parity, Place place) {
  const Unobserved unobserved;
  CountingBarrier& b = usable_barrier(barrier, place);
  require_near(b, parity, place);
  if (!phase_ended(b, parity)) {  // who asks again and again lets the others run
    self().round = machine().pass;
    wait_until(
        Waiting::turn, [](const Runner& r) { return r.round != machine().pass; }, &b, parity,
        place);
  }
  if (!phase_ended(b, parity)) return false;
  acquire(b, own_index());
  order_after(&b.order[(b.phase + 1) % 2]);
  return true;
}

void named_barrier(int id, int threads, bool waits, Place place) {
  const Unobserved unobserved;
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
  if (meeting.arrived == 0) barrier.arrived.reset();
  if (barrier.arrived[own_index()]) {
    fail("named barrier " + std::to_string(id) + ": " + text_of(culprit(place)) +
         " comes again before its round has ended");
  }
  barrier.arrived.set(own_index());
  meeting.expected = threads;
  meet(meeting, Waiting::named, place, waits);
}

void set_registers(int count, bool up, Place place) {
  const Unobserved unobserved;
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
