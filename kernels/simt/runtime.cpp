// SPDX-License-Identifier: Apache-2.0
// The simulated machine. It is compiled without ThreadSanitizer, which is told only which accesses
// a barrier orders.
#include "kernels/simt/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "kernels/simt/fiber.h"
#include "reference/mix64.h"

#if defined(KVPROOF_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>

extern "C" {  // of the sanitizer's runtime
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace kvproof::simt {
namespace {

/// While one lives, ThreadSanitizer ignores the writes and frees of this thread: the machine's own
/// memory is not the kernel's, and shared memory is there before a block starts.
struct Unobserved {
#if defined(KVPROOF_SIMT_TSAN)
  Unobserved() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
  ~Unobserved() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
#else
  ~Unobserved() {}  // not trivial, so that no compiler calls the guard an unused variable
#endif
};

void order_before([[maybe_unused]] void* what) {
#if defined(KVPROOF_SIMT_TSAN)
  __tsan_release(what);
#endif
}
void order_after([[maybe_unused]] void* what) {
#if defined(KVPROOF_SIMT_TSAN)
  __tsan_acquire(what);
#endif
}

struct Random {
  std::uint64_t state;
  std::uint64_t next() { return next_mix64(state); }
};

/// Threads that wait for each other: a block's barrier, or a warp's.
struct Meeting {
  int expected = 0;
  int arrived = 0;
  std::uint64_t round = 0;
  Place place{};  // where the first thread of this round waits
  char order[2] =
      {};  // orders even and odd rounds apart: a thread ahead may have reached the next round
};

struct Warp {
  Meeting meeting;
  std::byte cells[2][kWarpSize][32];
};

enum class Waiting { no, block, warp };

struct Runner {
  Thread thread;
  Fiber fiber;
  Waiting waiting = Waiting::no;
  std::uint64_t round = 0;  // the round of the meeting that it waits for
  Place place{};
  bool ended = false;
  int exchanges = 0;
};

struct Shared {
  std::unique_ptr<std::byte, decltype(&std::free)> bytes{nullptr, &std::free};
  std::size_t size = 0;
};

struct Machine {
  Schedule schedule;
  std::vector<std::unique_ptr<Runner>> runners;  // kept from launch to launch
  std::vector<Warp> warps;
  Meeting barrier;
  std::map<const void*, Shared> shared;  // by key; null: dynamic
  Runner* running = nullptr;
  const std::function<void()>* kernel = nullptr;
  std::optional<std::string> broken;
};

Machine& machine() {
  static Machine self;
  return self;
}

std::string text_of(Place place) {
  const char* slash = std::strrchr(place.file, '/');
  return std::string(slash ? slash + 1 : place.file) + ":" + std::to_string(place.line);
}

void wait_at(Meeting& meeting, Waiting kind, Place place) {
  Machine& m = machine();
  Runner& self = *m.running;
  if (meeting.arrived == 0) meeting.place = place;
  const bool elsewhere =
      kind == Waiting::block &&
      (meeting.place.line != place.line || std::strcmp(meeting.place.file, place.file) != 0);
  if (elsewhere && !m.broken) {
    m.broken = "divergent barrier: thread " + std::to_string(self.thread.linear) + " waits at " +
               text_of(place) + ", others at " + text_of(meeting.place);
  }
  char& order = meeting.order[meeting.round % 2];
  order_before(&order);
  self.waiting = kind;
  self.round = meeting.round;
  self.place = place;
  if (++meeting.arrived == meeting.expected) {
    meeting.arrived = 0;
    ++meeting.round;
  }
  self.fiber.pause();
  self.waiting = Waiting::no;
  order_after(&order);
}

bool can_run(const Runner& runner) {
  Machine& m = machine();
  if (runner.ended) return false;
  if (runner.waiting == Waiting::no) return true;
  const auto warp = static_cast<std::size_t>(runner.thread.linear / kWarpSize);
  const Meeting& meeting = runner.waiting == Waiting::block ? m.barrier : m.warps[warp].meeting;
  return meeting.round != runner.round;
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
    return (r.waiting == Waiting::warp ? "at the warp operation " : "at the barrier ") +
           text_of(r.place);
  };
  for (std::size_t i = 1; i <= num_threads; ++i) {
    if (i < num_threads && state(i) == state(first)) continue;
    out += (out.empty() ? "threads " : ", threads ") + std::to_string(first) + "-" +
           std::to_string(i - 1) + " " + state(first);
    first = i;
  }
  return out;
}

void run_thread(void* argument) {
  Runner& self = *static_cast<Runner*>(argument);
  Machine& m = machine();
  order_after(&m.kernel);
  (*m.kernel)();
  order_before(&m.runners);
  self.ended = true;
}

void free_shared() {
  const Unobserved unobserved;
  machine().shared.clear();
}

void prepare_block(Dim3 grid, Dim3 block, Dim3 index, std::size_t num_threads, Random& random) {
  const Unobserved unobserved;
  Machine& m = machine();
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
void run_block(std::size_t num_threads, Random& random) {
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
    bool moved = false;
    for (std::size_t w = 0; w < num_threads; w += kWarpSize) {
      bool warp_moved = true;
      while (warp_moved && !m.broken) {
        warp_moved = false;
        for (std::size_t i = w; i < w + kWarpSize; ++i) {
          Runner& r = *m.runners[order[i]];
          if (!can_run(r)) continue;
          m.running = &r;
          r.fiber.resume();
          if (r.ended) --left;
          warp_moved = moved = true;
        }
      }
    }
    if (m.broken) throw KernelError(*m.broken + "; " + who_waits(num_threads));
    if (!moved) throw KernelError("barrier never met: " + who_waits(num_threads));
  }
}

}  // namespace

Thread& current() { return machine().running->thread; }

void fail(const std::string& what) {
  Machine& m = machine();
  if (!m.broken) m.broken = what + "; thread " + std::to_string(m.running->thread.linear);
  m.running->fiber.pause();  // it is never resumed again
  std::abort();
}

void set_schedule(Schedule schedule) { machine().schedule = schedule; }

void block_barrier(Place place) { wait_at(machine().barrier, Waiting::block, place); }

void warp_barrier(Place place) {
  Machine& m = machine();
  wait_at(m.warps[static_cast<std::size_t>(m.running->thread.linear / kWarpSize)].meeting,
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

void* shared_memory(const void* key, std::size_t bytes, std::size_t alignment) {
  const Unobserved unobserved;
  Shared& slot = machine().shared[key];
  if (!slot.bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, std::max(alignment, sizeof(void*)),
                       std::max(bytes, std::size_t{1})))
      throw std::bad_alloc();
    std::memset(memory, 0xFF, bytes);
    slot.bytes.reset(static_cast<std::byte*>(memory));
    slot.size = bytes;
  }
  return slot.bytes.get();
}

void* dynamic_shared_memory() { return machine().shared[nullptr].bytes.get(); }

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
  while (m.runners.size() < num_threads) m.runners.push_back(std::make_unique<Runner>());
  Random random{m.schedule.seed};
  m.kernel = &kernel;
  m.broken.reset();
  order_before(&m.kernel);
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
  free_shared();
  order_after(&m.runners);
}

}  // namespace kvproof::simt
