// SPDX-License-Identifier: Apache-2.0
// The state of a block's asynchronous units: barriers that count, copies and products on their way.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/async.h"
#include "kernels/simt/machine.h"
#include "kernels/simt/matrix_layout.h"

namespace kvproof::simt {

constexpr std::uint32_t kDynamicAddress = 1024;    // behind what the system keeps for itself
constexpr std::uint32_t kStaticAddress = 0x3A000;  // behind the largest dynamic array
constexpr int kGroupSize = 128;                    // threads of a warpgroup
constexpr int kBlockRegisters = 65536;

/// A thread, and where in its program.
struct Culprit {
  int thread = 0;
  Place place{};
};

struct CountingBarrier {
  SharedAddress at = 0;
  Culprit init;
  int expected = 0;         // arrivals of a phase
  int pending = 0;          // of them
  std::int64_t bytes = 0;   // still to land in this phase
  std::int64_t unsent = 0;  // of them, those that no copy was started for
  std::uint64_t phase = 0;  // how many have ended
  char order[2] = {};       // for the sanitizer, of even and odd phases
};

struct NamedBarrier {
  Meeting meeting;
  std::vector<Culprit> arrived;  // in this round
};

/// The copy of a box, on its way.
struct TensorCopy {
  bool load = true;
  std::vector<BoxPiece> pieces;
  std::vector<std::byte> early;  // the source, where it was read at once
  std::uint32_t bytes = 0;
  CountingBarrier* barrier = nullptr;
  Culprit issued;
  bool done = false;
};

/// The sums of a warpgroup that products add to: its registers while any is on its way.
struct Accumulator {
  float* registers[kGroupSize] = {};
  int count = 0;              // registers of a thread
  std::vector<float> sums;    // [64][2 * count]
  std::uint64_t product = 0;  // the last one
};

struct Product {
  std::uint64_t number = 0;  // from 1 on, in the order of the warpgroup
  MatrixCall call;           // thread 0's
  int first_thread = 0;
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

/// What the units know of a thread.
struct AsyncThread {
  std::uint64_t issued = 0, committed = 0, retired = 0;  // numbers of products
  std::deque<std::uint64_t> groups;                      // each: its last product
  std::vector<Accumulator*> in_flight;
  std::vector<TensorCopy*> stores;  // not committed
  std::deque<std::vector<TensorCopy*>> store_groups;
};

class AsyncMachine {
 public:
  AsyncMachine();
  ~AsyncMachine();

  /// Whatever the seed lets happen now.
  void let_time_pass();
  /// Nobody can run: one of the operations on their way ends. @param asked some threads ask again
  /// and again instead of waiting @return whether anybody may go on
  bool complete_one(bool asked);
  /// For the report of a barrier that was never met.
  [[nodiscard]] std::string what_is_open() const;
  void end_block();

  DrawnNumbers drawn;
  std::uint64_t slowness = 0;  // operations end one in so many times; 0: at once
  std::vector<AsyncThread> threads;
  std::vector<Warpgroup> groups;
  std::vector<std::unique_ptr<CountingBarrier>> barriers;
  NamedBarrier named[16];
  std::vector<std::unique_ptr<TensorCopy>> copies;   // on their way
  std::vector<std::unique_ptr<TensorCopy>> retired;  // stores that may still be waited for
  int free_registers = 0;
  int idle = 0;
};

/// The running block's; it is there from the first use on.
[[nodiscard]] AsyncMachine& async();
[[nodiscard]] inline Runner& self() { return *machine().running; }
[[nodiscard]] inline AsyncThread& async_thread() {
  return async().threads[static_cast<std::size_t>(self().thread.linear)];
}
[[nodiscard]] std::string text_of(const Culprit& culprit);
/// Where `count` bytes of shared memory are. Fails where there are none.
[[nodiscard]] std::byte* shared_at(SharedAddress address, std::size_t count, Place place);

void land(TensorCopy& copy);
void execute(Warpgroup& group, const Product& product);
/// Executes the products up to this number, in order.
void execute_until(Warpgroup& group, std::uint64_t number);

}  // namespace kvproof::simt
