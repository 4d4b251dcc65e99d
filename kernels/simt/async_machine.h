// SPDX-License-Identifier: Apache-2.0
// The state of a block's asynchronous units: barriers that count, copies and products on their way,
// and what every thread knows to have come before.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/async.h"
#include "kernels/simt/clocks.h"
#include "kernels/simt/machine.h"
#include "kernels/simt/matrix_layout.h"
#include "kernels/simt/shared_views.h"

namespace kvproof::simt {

constexpr std::uint32_t kDynamicAddress = 1024;    // behind what the system keeps for itself
constexpr std::uint32_t kStaticAddress = 0x3A000;  // behind the largest dynamic array
constexpr int kGroupSize = 128;                    // threads of a warpgroup
constexpr int kBlockRegisters = 65536;
constexpr std::size_t kMostBarriers = 64;

struct CountingBarrier {
  SharedAddress at = 0;
  std::size_t index = 0;
  Culprit init;
  std::uint32_t visible = 0;  // the initialiser's count at fence_barrier_init; 0: not yet
  int expected = 0;           // arrivals of a phase
  int pending = 0;            // of them, those that lack
  std::int64_t bytes = 0;     // that have still to land in this phase
  std::int64_t unsent = 0;    // of them, those that no copy was started for
  std::uint64_t phase = 0;    // how many have ended
  Clock arriving, ended;      // what came before this phase's arrivals; before the last phase's end
  char order[2] = {};         // for the sanitizer, of even and odd phases
};

struct NamedBarrier {
  Meeting meeting;
  std::bitset<1024> arrived;  // threads, in this round
};

/// The copy of a box, on its way.
struct TensorCopy {
  bool load = true;
  std::vector<BoxPiece> pieces;
  std::vector<std::byte> early;  // the source, if it was read at once
  std::uint32_t bytes = 0;
  CountingBarrier* barrier = nullptr;
  std::size_t number = 0;  // in its log, see SharedViews
  Culprit issued;
  bool done = false;
};

/// The sums of a warpgroup that products add to, while any of these is on its way.
struct Accumulator {
  float* registers[kGroupSize] = {};
  int count = 0;              // registers of a thread
  std::vector<float> sums;    // [64][2 * count]
  std::uint64_t product = 0;  // the last one
};

struct Product {
  std::uint64_t number = 0;  // from 1 on, in the order of the warpgroup
  MatrixCall call;           // its first thread's
  Accumulator* accumulator = nullptr;
  std::vector<std::uint32_t> a;  // [128][4] if from registers
};

struct Warpgroup {
  Meeting meeting;
  MatrixCall calls[kGroupSize];
  std::deque<Product> waiting;  // issued, not executed
  std::uint64_t issued = 0;     // number of the last product
  std::vector<std::unique_ptr<Accumulator>> accumulators;
  int registers = 0;  // of a thread
  int asked = 0;      // registers, by the first thread that comes
};

/// Registers that a product had once, and their values at the last fence or write-back.
struct KnownRegisters {
  const void* at = nullptr;
  std::vector<std::uint32_t> words;
};

/// Words of A that a product on its way reads.
struct HeldRegisters {
  const std::uint32_t* at = nullptr;
  std::uint32_t words[4] = {};
  std::uint64_t product = 0;
  Place place{};
};

/// What the units know of a thread.
struct AsyncThread {
  std::uint64_t issued = 0, committed = 0, retired = 0;  // numbers of products
  std::deque<std::uint64_t> groups;                      // each: its last product
  std::vector<Accumulator*> in_flight;
  std::vector<HeldRegisters> held;
  std::vector<KnownRegisters> known;
  bool fenced = false;              // since its last wait for products
  Place product{};                  // the last one
  std::vector<TensorCopy*> stores;  // not committed
  std::deque<std::vector<TensorCopy*>> store_groups;
};

class AsyncMachine {
 public:
  AsyncMachine();

  /// Whatever the seed lets happen now. @return whether anybody may go on for it
  bool let_time_pass();
  /// Nobody can run: one of the operations on their way ends. @param asked some threads ask again
  /// and again instead of waiting @return whether anybody may go on
  bool complete_one(bool asked);
  /// For the report of a barrier that was never met.
  [[nodiscard]] std::string what_is_open() const;
  void end_thread();
  void end_block();

  /// An arrival of the running thread at a barrier whose arrivals have this clock.
  void release(Clock& to);
  /// All have arrived: those that wait there know it.
  void end_round(Meeting& meeting, std::uint64_t round);

  DrawnNumbers drawn;
  std::uint64_t slowness = 0;  // operations end one in so many times; 0: at once
  std::vector<AsyncThread> threads;
  std::vector<Clock> clocks;  // of the threads
  std::vector<Warpgroup> groups;
  std::vector<std::unique_ptr<CountingBarrier>> barriers;
  NamedBarrier named[16];
  std::vector<std::unique_ptr<TensorCopy>> copies;  // on their way
  std::vector<std::unique_ptr<TensorCopy>> stored;  // stores that may still be waited for
  SharedViews views;
  int free_registers = 0;
  int idle = 0;
};

/// The running block's; it is there from the first use on.
[[nodiscard]] AsyncMachine& async();
[[nodiscard]] inline Runner& self() { return *machine().running; }
[[nodiscard]] inline std::size_t own_index() {
  return static_cast<std::size_t>(self().thread.linear);
}
[[nodiscard]] inline AsyncThread& async_thread() { return async().threads[own_index()]; }
[[nodiscard]] inline Culprit culprit(Place place) { return {self().thread.linear, place}; }
/// Where `count` bytes of shared memory are. Fails where there are none.
[[nodiscard]] std::byte* shared_at(SharedAddress address, std::size_t count, Place place);
/// Ends the launch; also where no thread runs.
void report(const std::string& what);

[[nodiscard]] CountingBarrier& barrier_at(SharedAddress address, Place place);
/// The barrier, which the running thread must know to be there, with its bytes as they were.
/// @param by_unit a unit counts there, for which even its initialiser must have fenced it
[[nodiscard]] CountingBarrier& usable_barrier(SharedAddress address, Place place,
                                              bool by_unit = false);
void end_phase_if_complete(CountingBarrier& barrier);
void land(TensorCopy& copy);
/// Executes the products up to this number, in order.
void execute_until(Warpgroup& group, std::uint64_t number);

}  // namespace kvproof::simt
