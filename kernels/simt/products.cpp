// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup (wgmma): started by 128 threads, executed later.
#include <algorithm>
#include <cstring>

#include "kernels/element.h"
#include "kernels/simt/async_machine.h"

namespace kvproof::simt {
namespace {

constexpr int kRows = 64, kDepth = 16;

/// Of a thread's register r: its row and column.
constexpr int row_of(int thread, int r) {
  return thread / 32 * 16 + thread % 32 / 4 + r / 2 % 2 * 8;
}
constexpr int column_of(int thread, int r) { return r / 4 * 8 + thread % 4 * 2 + r % 2; }

Warpgroup& my_group(Place place) {
  AsyncMachine& a = async();
  const auto index = static_cast<std::size_t>(self().thread.linear / kGroupSize);
  if (index >= a.groups.size()) fail("a product of no whole warpgroup, at " + text_of(place));
  return a.groups[index];
}

float value_of(std::uint16_t bits, bool bf16) {
  return bf16 ? kernels::to_float(kernels::Bf16{bits}) : kernels::to_float(kernels::Fp16{bits});
}

/// One chunk of 8 elements, which lie beside each other.
void read_chunk(float (&out)[8], SharedAddress at, const MatrixCall& call) {
  std::uint16_t bits[8];
  std::memcpy(bits, shared_at(at, 16, call.place), 16);
  for (int i = 0; i < 8; ++i) out[i] = value_of(bits[i], call.bf16);
}

void read_a(const Product& product, float (&a)[kRows][kDepth]) {
  const MatrixCall& call = product.call;
  if (call.a_registers == nullptr) {
    for (int row = 0; row < kRows; ++row) {
      for (int k = 0; k < kDepth; k += 8) {
        float chunk[8];
        read_chunk(chunk, matrix_element_at(call.a, kernels::Major::k, row, k, 2), call);
        std::copy_n(chunk, 8, &a[row][k]);
      }
    }
    return;
  }
  for (int t = 0; t < kGroupSize; ++t) {
    for (int word = 0; word < 4; ++word) {
      const std::uint32_t pair = product.a[static_cast<std::size_t>(4 * t + word)];
      const int row = t / 32 * 16 + t % 32 / 4 + word % 2 * 8, k = t % 4 * 2 + word / 2 * 8;
      a[row][k] = value_of(static_cast<std::uint16_t>(pair), call.bf16);
      a[row][k + 1] = value_of(static_cast<std::uint16_t>(pair >> 16), call.bf16);
    }
  }
}

/// @param b [16][columns]
void read_b(const MatrixCall& call, int columns, std::vector<float>& b) {
  const auto at = [&](int k, int n) -> float& {
    return b[static_cast<std::size_t>(k * columns + n)];
  };
  float chunk[8];
  if (call.major == kernels::Major::k) {
    for (int n = 0; n < columns; ++n) {
      for (int k = 0; k < kDepth; k += 8) {
        read_chunk(chunk, matrix_element_at(call.b, call.major, n, k, 2), call);
        for (int i = 0; i < 8; ++i) at(k + i, n) = chunk[i];
      }
    }
  } else {
    for (int k = 0; k < kDepth; ++k) {
      for (int n = 0; n < columns; n += 8) {
        read_chunk(chunk, matrix_element_at(call.b, call.major, n, k, 2), call);
        for (int i = 0; i < 8; ++i) at(k, n + i) = chunk[i];
      }
    }
  }
}

/// sums += x * row, `columns` of them
void add_scaled(float* sums, float x, const float* row, int columns) {
  for (int n = 0; n < columns; ++n) sums[n] += x * row[n];
}

Accumulator& accumulator_of(Warpgroup& group, const MatrixCall& call) {
  for (const auto& known : group.accumulators) {
    if (known->registers[0] == group.calls[0].d && known->count == call.count) return *known;
  }
  group.accumulators.push_back(std::make_unique<Accumulator>());
  return *group.accumulators.back();
}

/// Takes the sums out of the threads' registers, unless a product before has them.
void take_registers(Warpgroup& group, Accumulator& sums, const MatrixCall& call, int first) {
  std::vector<AsyncThread>& threads = async().threads;
  const std::vector<Accumulator*>& flying = threads[static_cast<std::size_t>(first)].in_flight;
  if (std::ranges::find(flying, &sums) != flying.end()) return;
  sums.count = call.count;
  sums.sums.resize(static_cast<std::size_t>(kRows * 2 * call.count));
  for (int t = 0; t < kGroupSize; ++t) {
    float* const d = sums.registers[t] = group.calls[t].d;
    for (int r = 0; r < call.count; ++r) {
      sums.sums[static_cast<std::size_t>(row_of(t, r) * 2 * call.count + column_of(t, r))] = d[r];
    }
    std::memset(d, 0xFF, sizeof(float) * static_cast<std::size_t>(call.count));
    threads[static_cast<std::size_t>(first + t)].in_flight.push_back(&sums);
  }
}

/// All 128 threads have called.
void issue(Warpgroup& group, int first) {
  const MatrixCall& call = group.calls[0];
  Product product;
  product.number = ++group.issued;
  product.call = call;
  product.first_thread = first;
  for (int t = 0; t < kGroupSize; ++t) {
    const MatrixCall& other = group.calls[t];
    if (other.a != call.a || other.b != call.b || other.add != call.add ||
        other.count != call.count) {
      fail("unlike descriptors in a warpgroup's product, at " + text_of(call.place));
    }
    if (other.a_registers == nullptr) continue;
    product.a.insert(product.a.end(), other.a_registers, other.a_registers + 4);
  }
  product.accumulator = &accumulator_of(group, call);
  take_registers(group, *product.accumulator, call, first);
  product.accumulator->product = product.number;
  group.waiting.push_back(std::move(product));
  if (async().slowness == 0) execute_until(group, group.issued);
}

}  // namespace

void execute(Warpgroup&, const Product& product) {
  const MatrixCall& call = product.call;
  const int columns = 2 * call.count;
  static float a[kRows][kDepth];
  static std::vector<float> b;
  b.resize(static_cast<std::size_t>(kDepth * columns));
  read_a(product, a);
  read_b(call, columns, b);
  int order[kDepth];
  for (int k = 0; k < kDepth; ++k) order[k] = k;
  if (async().slowness != 0) {
    for (int k = kDepth - 1; k > 0; --k) {
      std::swap(order[k], order[async().drawn.next() % static_cast<std::uint64_t>(k + 1)]);
    }
  }
  std::vector<float>& sums = product.accumulator->sums;
  if (!call.add) std::ranges::fill(sums, 0.0F);
  for (int row = 0; row < kRows; ++row) {
    for (const int k : order) {
      add_scaled(&sums[static_cast<std::size_t>(row * columns)], a[row][k],
                 &b[static_cast<std::size_t>(k * columns)], columns);
    }
  }
}

void execute_until(Warpgroup& group, std::uint64_t number) {
  const Unobserved unobserved;
  while (!group.waiting.empty() && group.waiting.front().number <= number) {
    execute(group, group.waiting.front());
    group.waiting.pop_front();
  }
}

void multiply(const MatrixCall& call) {
  Warpgroup& group = my_group(call.place);
  const int thread = self().thread.linear;
  group.calls[thread % kGroupSize] = call;
  if (group.meeting.arrived == kGroupSize - 1) {
    const Unobserved unobserved;
    issue(group, thread / kGroupSize * kGroupSize);
  }
  async_thread().issued = group.meeting.arrived == kGroupSize - 1 ? group.issued : group.issued + 1;
  meet(group.meeting, Waiting::warpgroup, call.place);
}

void matrix_fence(Place) { static_cast<void>(async()); }

void matrix_commit(Place) {
  AsyncThread& thread = async_thread();
  thread.committed = thread.issued;
  thread.groups.push_back(thread.committed);
}

void matrix_wait(int newest, Place place) {
  const Unobserved unobserved;
  AsyncThread& thread = async_thread();
  Warpgroup& group = my_group(place);
  while (thread.groups.size() > static_cast<std::size_t>(newest)) {
    thread.retired = thread.groups.front();
    thread.groups.pop_front();
  }
  execute_until(group, thread.retired);
  const int t = self().thread.linear % kGroupSize;
  std::erase_if(thread.in_flight, [&](Accumulator* sums) {
    if (sums->product > thread.retired) return false;
    for (int r = 0; r < sums->count; ++r) {
      sums->registers[t][r] =
          sums->sums[static_cast<std::size_t>(row_of(t, r) * 2 * sums->count + column_of(t, r))];
    }
    return true;
  });
}

}  // namespace kvproof::simt
