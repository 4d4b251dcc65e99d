// SPDX-License-Identifier: Apache-2.0
// A pool in a steady state, and the threads that work on it together.
//
// Model:   threads start a round together; it ends with the last of them. The time is divided by
//          the blocks of all threads: two threads that do not disturb each other take half of the
//          time of one. A round in which a thread lost its core, or came late, is marked as
//          disturbed, because it shows other work of the machine.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/allocator/pool_state.h"

namespace kvproof::bench {

using SteadyClock = std::chrono::steady_clock;

enum class Work { take_release, touch_own, touch_shared, acquire_held, acquire_free, prefill };

struct ConcurrentCase {
  const char* operation;
  Work work;
  std::uint32_t batch;  // [blocks] per call
};

constexpr std::uint32_t kOwnBlocks = 1'024;  // of a thread, if threads do not share

/// The data of one thread, on cache lines of its own.
struct alignas(128) Lane {
  std::vector<BlockId> own;   // held, or the free blocks that its keys name
  std::vector<PoolKey> keys;  // of `own`, where the work looks up
  std::vector<BlockId> out;   // shape [batch]
  std::size_t next = 0;       // in `own`
  std::uint64_t done = 0;     // [blocks] of the last round
  std::uint64_t new_keys = 0;
  SteadyClock::time_point start;
  SteadyClock::time_point end;
  bool lost_core = false;
};

/// How often the calling thread had to leave its core to another. [switches]
[[nodiscard]] inline long num_preemptions() {
#if defined(RUSAGE_THREAD)
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
#else
  return 0;
#endif
}

struct Round {
  double ns_per_block = 0;
  bool disturbed = false;
};

/// One pool in a steady state with the threads that work on it.
template <class AnyPool>
class Rig {
 public:
  Rig(const ConcurrentCase& c, std::uint32_t num_threads, std::uint32_t num_blocks,
      std::uint64_t seed)
      : case_(c), num_blocks_(num_blocks), pool_(num_blocks, FreeOrder::append) {
    std::vector<BlockId> ids(num_blocks - 1);
    if (!pool_.take(ids)) throw std::logic_error("the new pool is not free");
    std::mt19937_64 random(seed);
    std::ranges::shuffle(ids, random);
    const bool content =
        c.work == Work::acquire_held || c.work == Work::acquire_free || c.work == Work::prefill;
    std::vector<PoolKey> keys(ids.size());
    std::ranges::generate(keys, [&] { return PoolKey{{random(), random()}}; });
    if (content) pool_.publish(ids, keys);
    lanes_.resize(num_threads);
    const bool shared = c.work == Work::touch_shared || c.work == Work::acquire_held;
    const std::size_t share = shared ? c.batch : kOwnBlocks;
    for (std::size_t t = 0; t < num_threads; ++t) {
      const auto first = static_cast<std::ptrdiff_t>(shared ? 0 : t * share);
      const auto last = first + static_cast<std::ptrdiff_t>(share);
      lanes_[t].own.assign(ids.begin() + first, ids.begin() + last);
      lanes_[t].keys.assign(keys.begin() + first, keys.begin() + last);
      lanes_[t].out.resize(c.batch);
      if (c.work == Work::prefill) lanes_[t].keys.resize(c.batch);  // new ones, each time
      lanes_[t].new_keys = random();
    }
    held_ = c.work == Work::touch_own ? num_threads * share : shared ? share : 0;
    pool_.release(std::span<const BlockId>(ids).subspan(held_));
  }

  Round round(std::uint32_t calls) {
    std::atomic<std::uint32_t> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t < lanes_.size(); ++t) {
      threads.emplace_back([&, t] {
        ++ready;
        while (!go.load(std::memory_order_acquire)) {
        }
        work(lanes_[t], calls);
      });
    }
    while (ready + 1 < lanes_.size()) std::this_thread::yield();
    go.store(true, std::memory_order_release);
    work(lanes_[0], calls);
    for (std::thread& thread : threads) thread.join();
    return summary(calls);
  }

  void audit() const { pool_.audit(); }
  [[nodiscard]] std::uint32_t checksum() const { return pool_.checksum(); }
  [[nodiscard]] std::uint64_t bytes() const { return pool_.bytes(); }

 private:
  [[nodiscard]] Round summary(std::uint32_t calls) const {
    SteadyClock::time_point start = lanes_[0].start;
    SteadyClock::time_point last_start = start;
    SteadyClock::time_point end = lanes_[0].end;
    std::uint64_t done = 0;
    bool lost_core = false;
    for (const Lane& lane : lanes_) {
      start = std::min(start, lane.start);
      last_start = std::max(last_start, lane.start);
      end = std::max(end, lane.end);
      done += lane.done;
      lost_core = lost_core || lane.lost_core;
    }
    if (done != std::uint64_t{calls} * case_.batch * lanes_.size() ||
        pool_.num_free() + held_ + 1 != num_blocks_) {
      throw std::logic_error(std::string(case_.operation) + ": blocks were refused, lost or kept");
    }
    return {
        std::chrono::duration<double, std::nano>(end - start).count() / static_cast<double>(done),
        lost_core || (last_start - start) * 20 > end - start};
  }

  void work(Lane& lane, std::uint32_t calls) {
    const long preemptions = num_preemptions();
    lane.done = 0;
    lane.start = SteadyClock::now();
    for (std::uint32_t i = 0; i < calls; ++i) {
      switch (case_.work) {
        case Work::take_release: lane.done += pool_.take(lane.out) ? case_.batch : 0; break;
        case Work::touch_own:
        case Work::touch_shared:
          std::ranges::copy(next(lane, lane.own), lane.out.begin());
          pool_.touch(lane.out);
          lane.done += case_.batch;
          break;
        case Work::acquire_held:
        case Work::acquire_free: lane.done += pool_.acquire(next(lane, lane.keys), lane.out); break;
        case Work::prefill:
          lane.done += pool_.take(lane.out) ? case_.batch : 0;
          std::ranges::generate(lane.keys, [&lane] { return new_key(lane); });
          pool_.publish(lane.out, lane.keys);
          break;
      }
      pool_.release(lane.out);
    }
    lane.end = SteadyClock::now();
    lane.lost_core = num_preemptions() != preemptions;
  }

  template <class Item>
  std::span<const Item> next(Lane& lane, const std::vector<Item>& items) const {
    const std::size_t first = lane.next;
    lane.next = first + 2 * case_.batch > items.size() ? 0 : first + case_.batch;
    return std::span(items).subspan(first, case_.batch);
  }

  static PoolKey new_key(Lane& lane) {
    ++lane.new_keys;
    return {{lane.new_keys * 0x9e3779b97f4a7c15U, lane.new_keys * 0xd6e8feb86659fd93U}};
  }

  ConcurrentCase case_;
  std::uint32_t num_blocks_;
  AnyPool pool_;
  std::vector<Lane> lanes_;
  std::size_t held_ = 0;  // [blocks] between rounds
};

}  // namespace kvproof::bench
