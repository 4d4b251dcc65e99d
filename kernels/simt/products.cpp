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
  std::memcpy(bits, async().views.seen(at, 16, call.place), 16);
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

/// The words of registers, wherever they are; their scope may have ended.
#if defined(__clang__) || defined(__GNUC__)
__attribute__((noinline, no_sanitize("address")))
#endif
void read_words(const void* from, std::size_t count, std::uint32_t* to) {
  const volatile std::uint32_t* const words = static_cast<const volatile std::uint32_t*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] = words[i];
}

std::vector<std::uint32_t> words_at(const void* at, std::size_t count) {
  std::vector<std::uint32_t> out(count);
  read_words(at, count, out.data());
  return out;
}

/// A product takes registers that other instructions may have changed since the last fence.
void require_fenced(AsyncThread& thread, const void* at, std::size_t count, const char* name,
                    Culprit by) {
  std::vector<std::uint32_t> now = words_at(at, count);
  const auto known = std::ranges::find_if(
      thread.known, [&](const auto& k) { return k.at == at && k.words.size() == count; });
  if (known == thread.known.end() ? !thread.fenced : known->words != now) {
    fail(std::string(name) + " of the product by " + text_of(by) +
         " were changed without a matrix_fence behind");
  }
  if (known == thread.known.end()) thread.known.push_back({at, std::move(now)});
}

Accumulator& accumulator_of(Warpgroup& group, const MatrixCall& call) {
  for (const auto& known : group.accumulators) {
    if (known->registers[0] == call.d && known->count == call.count) return *known;
  }
  group.accumulators.push_back(std::make_unique<Accumulator>());
  return *group.accumulators.back();
}

bool is_blank(const float* d, int count) {
  for (const std::uint32_t word : words_at(d, static_cast<std::size_t>(count))) {
    if (word != 0xFFFF'FFFF) return false;
  }
  return true;
}

/// Fails if a thread changed what a product on its way adds to.
void require_blank(const Accumulator& sums, int t, const Culprit& by) {
  if (is_blank(sums.registers[t], sums.count)) return;
  fail("accumulators of " + text_of(by) + " were changed before the wait for their product");
}

/// Takes the sums out of the threads' registers, unless a product before has them.
void take_registers(Warpgroup& group, Accumulator& sums, int first) {
  const int count = group.calls[0].count;
  sums.sums.resize(static_cast<std::size_t>(kRows * 2 * count));
  for (int t = 0; t < kGroupSize; ++t) {
    AsyncThread& thread = async().threads[static_cast<std::size_t>(first + t)];
    const MatrixCall& call = group.calls[t];
    const Culprit by{first + t, call.place};
    if (std::ranges::find(thread.in_flight, &sums) != thread.in_flight.end()) {
      if (sums.registers[t] != call.d) fail("unlike accumulators, " + text_of(by));
      require_blank(sums, t, by);
      continue;
    }
    require_fenced(thread, call.d, static_cast<std::size_t>(count), "accumulators", by);
    sums.registers[t] = call.d;
    sums.count = count;
    for (int r = 0; r < count; ++r) {
      sums.sums[static_cast<std::size_t>(row_of(t, r) * 2 * count + column_of(t, r))] = call.d[r];
    }
    std::memset(call.d, 0xFF, sizeof(float) * static_cast<std::size_t>(count));
    thread.in_flight.push_back(&sums);
  }
}

/// Copies A out of the threads' registers.
void take_a(Product& product, Warpgroup& group, int first) {
  for (int t = 0; t < kGroupSize; ++t) {
    AsyncThread& thread = async().threads[static_cast<std::size_t>(first + t)];
    const MatrixCall& call = group.calls[t];
    require_fenced(thread, call.a_registers, 4, "A's registers", {first + t, call.place});
    HeldRegisters held{call.a_registers, {}, product.number, call.place};
    std::copy_n(call.a_registers, 4, held.words);
    product.a.insert(product.a.end(), held.words, held.words + 4);
    thread.held.push_back(held);
  }
}

/// Notes which chunks the product reads: of A, each warp its own 16 rows.
void note_reads(const Product& product, int first) {
  SharedViews& views = async().views;
  const MatrixCall& call = product.call;
  const auto number = static_cast<std::uint32_t>(product.number);
  const int warp = first / kWarpSize;
  const Culprit by{first, call.place};
  for (int row = 0; row < kRows && call.a_registers == nullptr; ++row) {
    for (int k = 0; k < kDepth; k += 8) {
      const auto at = matrix_element_at(call.a, kernels::Major::k, row, k, 2);
      views.multiply(at, warp + row / 16, warp + row / 16 + 1, number, by);
    }
  }
  const bool by_k = call.major == kernels::Major::k;
  for (int n = 0; n < 2 * call.count; n += by_k ? 1 : 8) {
    for (int k = 0; k < kDepth; k += by_k ? 8 : 1) {
      views.multiply(matrix_element_at(call.b, call.major, n, k, 2), warp, warp + 4, number, by);
    }
  }
}

bool alike(const MatrixCall& x, const MatrixCall& y) {
  return x.a == y.a && x.b == y.b && x.add == y.add && x.count == y.count && x.major == y.major &&
         x.bf16 == y.bf16 && (x.a_registers == nullptr) == (y.a_registers == nullptr);
}

/// All 128 threads have called.
void issue(Warpgroup& group, int first) {
  const MatrixCall& call = group.calls[0];
  for (int t = 1; t < kGroupSize; ++t) {
    if (alike(group.calls[t], call)) continue;
    fail("a product's operands are not the same for " + text_of(Culprit{first, call.place}) +
         " and " + text_of(Culprit{first + t, group.calls[t].place}));
  }
  Product product;
  product.number = ++group.issued;
  product.call = call;
  async().views.products[static_cast<std::size_t>(first / kGroupSize)].push_back(call.place);
  note_reads(product, first);
  if (call.a_registers != nullptr) take_a(product, group, first);
  product.accumulator = &accumulator_of(group, call);
  take_registers(group, *product.accumulator, first);
  product.accumulator->product = product.number;
  group.waiting.push_back(std::move(product));
  if (async().slowness == 0) execute_until(group, group.issued);
}

void execute(const Product& product) {
  const MatrixCall& call = product.call;
  const int columns = 2 * call.count;
  float a[kRows][kDepth];
  std::vector<float> b(static_cast<std::size_t>(kDepth * columns));
  read_a(product, a);
  read_b(call, columns, b);
  std::vector<float>& sums = product.accumulator->sums;
  if (!call.add) std::ranges::fill(sums, 0.0F);
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kDepth; ++i) {
      const int k = 5 * i % kDepth;  // in an order of its own, the same in every schedule
      add_scaled(&sums[static_cast<std::size_t>(row * columns)], a[row][k],
                 &b[static_cast<std::size_t>(k * columns)], columns);
    }
  }
}

/// Writes back what a thread waited for, and keeps the rest.
void write_back(AsyncThread& thread, Accumulator& sums, int t) {
  require_blank(sums, t, {self().thread.linear, thread.product});
  float* const d = sums.registers[t];
  for (int r = 0; r < sums.count; ++r) {
    d[r] = sums.sums[static_cast<std::size_t>(row_of(t, r) * 2 * sums.count + column_of(t, r))];
  }
  const auto known = std::ranges::find_if(thread.known, [&](const auto& k) {
    return k.at == d && k.words.size() == static_cast<std::size_t>(sums.count);
  });
  known->words = words_at(d, known->words.size());
}

/// A's registers must be as they were until the wait.
void release_a(AsyncThread& thread) {
  std::erase_if(thread.held, [&](const HeldRegisters& held) {
    if (held.product > thread.retired) return false;
    if (words_at(held.at, 4) != std::vector(held.words, held.words + 4)) {
      fail("A's registers of the product by " + text_of(culprit(held.place)) +
           " were changed, or their scope ended, before the wait for it");
    }
    return true;
  });
}

}  // namespace

void execute_until(Warpgroup& group, std::uint64_t number) {
  const Unobserved unobserved;
  while (!group.waiting.empty() && group.waiting.front().number <= number) {
    execute(group.waiting.front());
    group.waiting.pop_front();
  }
}

void multiply(const MatrixCall& call) {
  const Unobserved unobserved;
  Warpgroup& group = my_group(call.place);
  const int thread = self().thread.linear;
  group.calls[thread % kGroupSize] = call;
  if (group.meeting.arrived == kGroupSize - 1) issue(group, thread / kGroupSize * kGroupSize);
  meet(group.meeting, Waiting::warpgroup, call.place);
  ++async_thread().issued;
  async_thread().product = call.place;
}

void matrix_fence(Place) {
  const Unobserved unobserved;
  AsyncThread& thread = async_thread();
  thread.fenced = true;
  const int t = self().thread.linear % kGroupSize;
  for (KnownRegisters& known : thread.known) {
    const bool flying = std::ranges::any_of(
        thread.in_flight, [&](const Accumulator* sums) { return sums->registers[t] == known.at; });
    if (!flying) read_words(known.at, known.words.size(), known.words.data());
  }
}

void matrix_commit(Place) {
  const Unobserved unobserved;
  AsyncThread& thread = async_thread();
  thread.committed = thread.issued;
  thread.groups.push_back(thread.committed);
}

void matrix_wait(int newest, Place place) {
  const Unobserved unobserved;
  AsyncThread& thread = async_thread();
  Warpgroup& group = my_group(place);
  if (thread.committed != thread.issued) {
    fail("a wait for products at " + text_of(place) + ": the one at " + text_of(thread.product) +
         " was not committed");
  }
  while (thread.groups.size() > static_cast<std::size_t>(newest)) {
    thread.retired = thread.groups.front();
    thread.groups.pop_front();
  }
  execute_until(group, thread.retired);
  const std::size_t index = own_index();
  release_a(thread);
  std::erase_if(thread.in_flight, [&](Accumulator* sums) {
    if (sums->product > thread.retired) return false;
    write_back(thread, *sums, static_cast<int>(index) % kGroupSize);
    return true;
  });
  thread.fenced = false;
  if (index % kWarpSize == 0) {
    AsyncMachine& a = async();
    a.views.retire(static_cast<int>(index) / kWarpSize, thread.retired, a.clocks[index][index]);
  }
  warp_barrier(place);  // what a warp waited for, each of its lanes may tell others
}

}  // namespace kvproof::simt
