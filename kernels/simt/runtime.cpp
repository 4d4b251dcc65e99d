// SPDX-License-Identifier: Apache-2.0
// The simulated machine. It is compiled without ThreadSanitizer, which is told only which accesses
// a barrier orders.
#include "kernels/simt/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "kernels/simt/async_machine.h"
#include "kernels/simt/machine.h"

namespace kvproof::simt {

Machine the_machine;
bool watching = false;

std::string text_of(Place place) {
  const char* slash = std::strrchr(place.file, '/');
  return std::string(slash ? slash + 1 : place.file) + ":" + std::to_string(place.line);
}

void wait_until(Waiting kind, bool (*ready)(const Runner&), const void* what, int number,
                Place place) {
  Runner& self = *machine().running;
  self.waiting = kind;
  self.meeting = nullptr;
  self.ready = ready;
  self.what = what;
  self.number = number;
  self.place = place;
  self.fiber.pause();
  self.waiting = Waiting::no;
}

void meet(Meeting& meeting, Waiting kind, Place place, bool waits) {
  Runner& self = *machine().running;
  if (meeting.arrived == 0) meeting.place = place;
  const bool orders = kind != Waiting::warpgroup;  // a warpgroup's operations order no memory
  char& order = meeting.order[meeting.round % 2];
  if (orders) order_before(&order);
  if (watching && orders) machine().async->release(meeting.clock);
  const std::uint64_t round = meeting.round;
  if (waits) {
    self.waiting = kind;
    self.meeting = &meeting;
    self.round = round;
    self.place = place;
  }
  if (++meeting.arrived == meeting.expected) {
    meeting.arrived = 0;
    ++meeting.round;
    if (watching && orders) machine().async->end_round(meeting, round);
  }
  if (!waits) return;
  self.fiber.pause();
  self.waiting = Waiting::no;
  if (orders) order_after(&order);
}

namespace {

bool can_run(const Runner& runner) {
  if (runner.ended) return false;
  if (runner.waiting == Waiting::no) return true;
  if (runner.meeting != nullptr) return runner.meeting->round != runner.round;
  return runner.ready(runner);
}

/// Says which threads wait where: "threads 0-31 at op.cu:40, threads 32-63 ended".
std::string who_waits(std::size_t num_threads) {
  Machine& m = machine();
  std::string out;
  std::size_t first = 0;
  const auto state = [&](std::size_t i) {
    const Runner& r = *m.runners[i];
    if (r.ended) return std::string("ended");
    if (r.waiting == Waiting::no) return std::string("not waiting");
    constexpr const char* kWhere[] = {"",
                                      "at the barrier ",
                                      "at the warp operation ",
                                      "at the warpgroup's operation ",
                                      "at the named barrier ",
                                      "for a phase at ",
                                      "for registers at ",
                                      "asking again and again at "};
    return kWhere[static_cast<int>(r.waiting)] + text_of(r.place);
  };
  for (std::size_t i = 1; i <= num_threads; ++i) {
    if (i < num_threads && state(i) == state(first)) continue;
    out += (out.empty() ? "threads " : ", threads ") + std::to_string(first) + "-" +
           std::to_string(i - 1) + " " + state(first);
    first = i;
  }
  return out;
}

/// Unwinds a thread that broke a rule.
struct Failed {};

void run_thread(void* argument) {
  Runner& self = *static_cast<Runner*>(argument);
  Machine& m = machine();
  order_after(&m.kernel);
  try {
    (*m.kernel)();
    if (m.async != nullptr) m.async->end_thread();
  } catch (const Failed&) {  // the launch ends
  }
  order_before(&m.runners);
  self.ended = true;
}

void free_shared() {
  const Unobserved unobserved;
  Machine& m = machine();
  m.async.reset();
  watching = false;
  for (const auto& [key, shared] : m.shared) allow(shared.bytes, shared.size);
  m.shared.clear();
  m.next_address = kStaticAddress;
}

void prepare_block(Dim3 grid, Dim3 block, Dim3 index, std::size_t num_threads,
                   DrawnNumbers& random) {
  const Unobserved unobserved;
  Machine& m = machine();
  m.num_threads = num_threads;
  m.block_number = index.x + std::uint64_t{grid.x} * (index.y + std::uint64_t{grid.y} * index.z);
  m.pass = 0;
  m.barrier = {};
  m.barrier.expected = static_cast<int>(num_threads);
  m.warps.assign(num_threads / kWarpSize, Warp{});
  for (Warp& warp : m.warps) warp.meeting.expected = kWarpSize;
  const bool late = m.schedule.seed != 0 && random.next() % 2 == 0;
  for (std::size_t i = 0; i < num_threads; ++i) {
    Runner& r = *m.runners[i];
    const auto n = static_cast<unsigned>(i);
    r.thread.thread_index = {n % block.x, n / block.x % block.y, n / (block.x * block.y)};
    r.thread.block_index = index;
    r.thread.block_dim = block;
    r.thread.grid_dim = grid;
    r.thread.linear = static_cast<int>(i);
    r.thread.copies_late = late;
    r.thread.copy_groups.clear();
    r.thread.copies.clear();
    r.waiting = Waiting::no;
    r.ended = false;
    r.exchanges = 0;
    r.fiber.start(&run_thread, &r);
  }
}

/// Resumes the threads that can run, in an order that a seed draws warp by warp. One warp goes as
/// far ahead as it can before the next one moves: that finds a missing barrier.
void run_block(std::size_t num_threads, DrawnNumbers& random) {
  Machine& m = machine();
  std::vector<std::size_t> order(num_threads);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (m.schedule.seed != 0) {
    std::vector<std::uint64_t> rank(num_threads / kWarpSize);
    for (auto& r : rank) r = random.next();
    const bool backwards = random.next() % 2 == 0;
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      const auto wa = rank[a / kWarpSize], wb = rank[b / kWarpSize];
      return wa != wb ? wa < wb : backwards ? a > b : a < b;
    });
  }
  std::size_t left = num_threads;
  while (left > 0) {
    bool moved = false, asked = false;
    ++m.pass;
    for (std::size_t w = 0; w < num_threads; w += kWarpSize) {
      bool warp_moved = true;
      while (warp_moved && !m.broken) {
        warp_moved = false;
        for (std::size_t i = w; i < w + kWarpSize; ++i) {
          Runner& r = *m.runners[order[i]];
          if (!can_run(r)) continue;
          m.running = &r;
          const bool only_asks = r.waiting == Waiting::turn;
          r.fiber.resume();
          if (r.ended) --left;
          warp_moved = true;
          (only_asks ? asked : moved) = true;
        }
      }
      if (m.async != nullptr && m.async->let_time_pass()) moved = true;
    }
    if (m.broken) throw KernelError(*m.broken + "; " + who_waits(num_threads));
    if (moved || (m.async != nullptr && m.async->complete_one(asked))) continue;
    if (m.broken) throw KernelError(*m.broken + "; " + who_waits(num_threads));
    throw KernelError("barrier never met: " + who_waits(num_threads) +
                      (m.async != nullptr ? m.async->what_is_open() : ""));
  }
  if (m.async != nullptr) m.async->end_block();
  if (m.broken) throw KernelError(*m.broken);
}

}  // namespace

Thread& current() { return machine().running->thread; }

void fail(const std::string& what) {
  Machine& m = machine();
  if (!m.broken) m.broken = what + "; thread " + std::to_string(m.running->thread.linear);
  throw Failed{};
}

void set_schedule(Schedule schedule) { machine().schedule = schedule; }

void block_barrier(Place place) {
  Machine& m = machine();
  const Meeting& meeting = m.barrier;
  const bool elsewhere = meeting.arrived > 0 && (meeting.place.line != place.line ||
                                                 std::strcmp(meeting.place.file, place.file) != 0);
  if (elsewhere && !m.broken) {
    m.broken = "divergent barrier: thread " + std::to_string(m.running->thread.linear) +
               " waits at " + text_of(place) + ", others at " + text_of(meeting.place);
  }
  meet(m.barrier, Waiting::block, place);
}

void warp_barrier(Place place) {
  Machine& m = machine();
  meet(m.warps[static_cast<std::size_t>(m.running->thread.linear / kWarpSize)].meeting,
       Waiting::warp, place);
}

const std::byte (*warp_exchange(const void* mine, std::size_t bytes, Place place))[32] {
  Machine& m = machine();
  Runner& self = *m.running;
  Warp& warp = m.warps[static_cast<std::size_t>(self.thread.linear / kWarpSize)];
  auto& cells = warp.cells[self.exchanges++ % 2];  // no lane is two exchanges ahead of another
  {
    const Unobserved unobserved;
    std::memcpy(cells[self.thread.lane()], mine, bytes);
  }
  // A shuffle orders no memory (CUDA C++ Programming Guide, 7.22): the sanitizer is told nothing.
  Meeting& meeting = warp.meeting;
  self.waiting = Waiting::warp;
  self.meeting = &meeting;
  self.round = meeting.round;
  self.place = place;
  if (++meeting.arrived == meeting.expected) {
    meeting.arrived = 0;
    ++meeting.round;
  }
  self.fiber.pause();
  self.waiting = Waiting::no;
  return cells;
}

namespace {

/// Where the dynamic array begins: a kernel may rely on multiples of 128 only, so the seed draws.
std::uint32_t dynamic_address() {
  Machine& m = machine();
  if (m.schedule.seed == 0) return kDynamicAddress;
  DrawnNumbers drawn{m.schedule.seed ^ m.block_number << 32};
  return kDynamicAddress + 128 * static_cast<std::uint32_t>(drawn.next() % 8);
}

}  // namespace

void* shared_memory(const void* key, std::size_t bytes, std::size_t alignment) {
  const Unobserved unobserved;
  Machine& m = machine();
  Shared& slot = m.shared[key];
  if (slot.bytes != nullptr) return slot.bytes;
  // An address and the pointer behind it are alike in their lower bits.
  alignment = std::max(alignment, sizeof(void*));
  const auto mask = static_cast<std::uint32_t>(alignment) - 1;
  slot.address = key == nullptr ? dynamic_address() : (m.next_address + mask) & ~mask;
  const std::size_t skipped = key == nullptr ? slot.address % 1024 : 0;
  void* memory = nullptr;
  if (posix_memalign(&memory, key == nullptr ? 1024 : alignment,
                     std::max(skipped + bytes, std::size_t{1})))
    throw std::bad_alloc();
  std::memset(memory, 0xFF, skipped + bytes);
  slot.allocated.reset(static_cast<std::byte*>(memory));
  slot.bytes = slot.allocated.get() + skipped;
  slot.size = bytes;
  forbid(memory, skipped);
  if (key != nullptr) m.next_address = slot.address + static_cast<std::uint32_t>(bytes);
  return slot.bytes;
}

void* dynamic_shared_memory() { return machine().shared[nullptr].bytes; }

void launch(Dim3 grid, Dim3 block, std::size_t dynamic_shared_bytes,
            const std::function<void()>& kernel) {
  Machine& m = machine();
  const std::size_t num_threads = std::size_t{block.x} * block.y * block.z;
  const std::size_t num_blocks = std::size_t{grid.x} * grid.y * grid.z;
  if (num_threads == 0 || num_threads > 1024 || num_threads % kWarpSize != 0) {
    throw KernelError("launch: " + std::to_string(num_threads) +
                      " threads per block, expected whole warps, 32 to 1024");
  }
  if (num_blocks == 0 || grid.y > 65535 || grid.z > 65535 || grid.x > 0x7FFFFFFFu) {
    throw KernelError("launch: a grid of " + std::to_string(grid.x) + " x " +
                      std::to_string(grid.y) + " x " + std::to_string(grid.z) + " blocks");
  }
  if (dynamic_shared_bytes > kMostSharedBytes) {
    throw KernelError("launch: " + std::to_string(dynamic_shared_bytes) +
                      " bytes of shared memory, at most " + std::to_string(kMostSharedBytes));
  }
  while (m.runners.size() < num_threads) m.runners.push_back(std::make_unique<Runner>());
  DrawnNumbers random{m.schedule.seed};
  m.kernel = &kernel;
  m.broken.reset();
  order_before(&m.kernel);
  const struct Cleanup {
    ~Cleanup() { free_shared(); }
  } cleanup;
  const std::size_t offset = m.schedule.seed == 0 ? 0 : random.next() % num_blocks;
  for (std::size_t n = 0; n < num_blocks; ++n) {
    const auto b = static_cast<unsigned>((n + offset) % num_blocks);
    prepare_block(grid, block, {b % grid.x, b / grid.x % grid.y, b / (grid.x * grid.y)},
                  num_threads, random);
    free_shared();
    if (dynamic_shared_bytes > 0)
      static_cast<void>(shared_memory(nullptr, dynamic_shared_bytes, 128));
    run_block(num_threads, random);
  }
  order_after(&m.runners);
}

}  // namespace kvproof::simt
