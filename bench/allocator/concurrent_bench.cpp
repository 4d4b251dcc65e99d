// SPDX-License-Identifier: Apache-2.0
// Times the concurrent pool on one and two threads, between its floor and its baseline.
//
// Model:   a cycle runs one round of every variant in turn: BlockPool without any lock on one
//          thread (the floor), BlockPool under one lock for every call (std::mutex, and the pool's
//          own SpinLock, so that the lock and its grain are told apart), ConcurrentPool. A
//          disturbed round is played again, up to ten times; the number of rounds that stayed
//          disturbed stands beside the figures: if they are many, the figures say nothing.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/allocator/concurrent_rig.h"
#include "bench/allocator/pool_state.h"
#include "bench/instruments/latency.h"
#include "bench/suites.h"
#include "optimized/concurrent/concurrent_pool.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kMaxThreads = 2;
constexpr int kMaxTries = 10;

struct NoLock {
  void lock() {}
  void unlock() {}
};

/// The baseline: BlockPool behind the calls of ConcurrentPool, each of them one section of one
/// lock, or without a lock.
template <class Lock>
class OneLockPool {
 public:
  OneLockPool(std::uint32_t num_blocks, FreeOrder order) : pool_(num_blocks, {.order = order}) {}

  bool take(std::span<BlockId> out) {
    const std::lock_guard guard(lock_);
    if (out.size() > pool_.num_free()) return false;
    pool_.take(out);
    return true;
  }
  void touch(std::span<const BlockId> blocks) {
    const std::lock_guard guard(lock_);
    pool_.touch(blocks);
  }
  std::size_t acquire(std::span<const PoolKey> keys, std::span<BlockId> out) {
    const std::lock_guard guard(lock_);
    std::size_t found = 0;
    for (; found < keys.size(); ++found) {
      out[found] = pool_.index().find(keys[found]);
      if (out[found] == optimized::kNoBlock) break;
    }
    pool_.touch(out.first(found));
    return found;
  }
  void release(std::span<const BlockId> blocks) {
    const std::lock_guard guard(lock_);
    pool_.release(blocks);
  }
  std::size_t publish(std::span<const BlockId> blocks, std::span<const PoolKey> keys) {
    const std::lock_guard guard(lock_);
    std::size_t num_registered = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (pool_.hashed(blocks[i])) continue;
      pool_.publish(blocks[i], keys[i]);
      ++num_registered;
    }
    return num_registered;
  }
  [[nodiscard]] std::uint32_t num_free() const { return pool_.num_free(); }
  void audit() const { pool_.audit(); }
  [[nodiscard]] std::uint32_t checksum() const { return pool_checksum(pool_); }
  [[nodiscard]] std::uint64_t bytes() const { return pool_.bytes(); }

 private:
  Lock lock_;
  Pool pool_;
};

class FineLockPool : public optimized::ConcurrentPool<PoolKey> {
 public:
  using ConcurrentPool::ConcurrentPool;
  [[nodiscard]] std::uint32_t checksum() const { return pool_checksum(*this); }
};

// Every call ends with the release of the blocks that it began with.
constexpr ConcurrentCase kConcurrentCases[] = {
    {"take_release", Work::take_release, 1},    // of blocks without content
    {"take_release", Work::take_release, 16},   //
    {"take_release", Work::take_release, 256},  //
    {"touch_own", Work::touch_own, 1},          // of blocks that this thread alone holds
    {"touch_own", Work::touch_own, 64},         //
    {"touch_shared", Work::touch_shared, 64},   // of 64 blocks that all threads hold
    {"acquire_held", Work::acquire_held, 64},   // by the keys of 64 held blocks
    {"acquire_free", Work::acquire_free, 64},   // by the keys of free blocks: revival
    {"prefill", Work::prefill, 16},             // take, which evicts; publish
};

/// A rig without its type, and the times of its rounds.
struct Variant {
  const char* pool;
  std::uint32_t threads;
  std::function<Round(std::uint32_t)> round;
  std::function<void()> audit;
  std::uint64_t bytes;
  std::uint32_t checksum;           // after the first round, with one thread, which fixes it
  std::vector<double> ns;           // shape [cycles]
  std::uint32_t num_disturbed = 0;  // [cycles]

  /// One round that counts, and half a round before it, because the rounds of the other rigs have
  /// pushed its records out of the caches.
  void sample(std::uint32_t calls) {
    Round timed;
    for (int tries = 0; tries < kMaxTries; ++tries) {
      (void)round(calls / 2 + 1);
      timed = round(calls);
      if (!timed.disturbed) break;
    }
    num_disturbed += timed.disturbed ? 1 : 0;
    ns.push_back(timed.ns_per_block);
  }
};

template <class AnyPool>
Variant make_variant(const char* name, const ConcurrentCase& c, std::uint32_t threads,
                     std::uint32_t num_blocks, std::uint32_t calls, std::uint64_t seed) {
  auto rig = std::make_shared<Rig<AnyPool>>(c, threads, num_blocks, seed);
  (void)rig->round(calls);  // correctness first: one round, its effect, and an audit of everything
  rig->audit();
  return {name,
          threads,
          [rig](std::uint32_t n) { return rig->round(n); },
          [rig] { rig->audit(); },
          rig->bytes(),
          rig->checksum(),
          {},
          0};
}

std::vector<Result> results_of(const ConcurrentCase& c, std::uint32_t num_blocks,
                               const std::vector<Variant>& variants) {
  const auto samples = [&](std::string_view pool, std::uint32_t threads) -> const auto& {
    return std::ranges::find_if(
               variants, [&](const Variant& v) { return v.pool == pool && v.threads == threads; })
        ->ns;
  };
  std::vector<Result> results;
  for (const Variant& v : variants) {
    Result result{"concurrent_pool",
                  {{"operation", c.operation},
                   {"num_blocks", std::int64_t{num_blocks}},
                   {"batch", std::int64_t{c.batch}},
                   {"pool", v.pool},
                   {"threads", std::int64_t{v.threads}}},
                  {}};
    Metrics& metrics = result.metrics;
    metrics.emplace_back("ns_per_block", metric_of(v.ns, "ns"));
    metrics.emplace_back("ratio_to_floor",
                         metric_of(ratios(v.ns, samples("sequential", 1)), "ratio"));
    if (v.pool != std::string_view("sequential")) {
      metrics.emplace_back("ratio_to_one_mutex",
                           metric_of(ratios(v.ns, samples("one_mutex", v.threads)), "ratio"));
      metrics.emplace_back("ratio_to_one_thread",
                           metric_of(ratios(v.ns, samples(v.pool, 1)), "ratio"));
    }
    metrics.emplace_back("cycles", count(v.ns.size()));
    metrics.emplace_back("disturbed_cycles", count(v.num_disturbed));
    metrics.emplace_back("pool_bytes", metric(v.bytes, "bytes"));
    if (v.threads == 1) {
      metrics.emplace_back("checksum", count(v.checksum));
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<Result> run_case(const ConcurrentCase& c, const BenchOptions& options) {
  const std::uint32_t num_blocks = options.smoke ? 4'096 : 16'384;
  const std::uint32_t calls = (options.smoke ? 4'096 : 32'768) / c.batch;
  const std::size_t min_cycles = options.smoke ? 3 : 21;
  std::vector<Variant> variants;
  const auto add = [&]<class AnyPool>(const char* name, std::uint32_t threads) {
    variants.push_back(make_variant<AnyPool>(name, c, threads, num_blocks, calls, options.seed));
  };
  add.operator()<OneLockPool<NoLock>>("sequential", 1);
  for (std::uint32_t threads = 1; threads <= kMaxThreads; ++threads) {
    add.operator()<OneLockPool<std::mutex>>("one_mutex", threads);
    add.operator()<OneLockPool<optimized::SpinLock>>("one_spin_lock", threads);
    add.operator()<FineLockPool>("concurrent", threads);
  }
  for (const Variant& v : variants) {
    if (v.threads == 1 && v.checksum != variants.front().checksum) {
      throw std::logic_error(std::string(c.operation) + ": on one thread, pool " + v.pool +
                             " came to another state than BlockPool");
    }
  }
  const SteadyClock::time_point start = SteadyClock::now();
  const std::chrono::duration<double> wanted(options.min_seconds_per_case * 4);
  while (variants.front().ns.size() < min_cycles || SteadyClock::now() - start < wanted) {
    for (Variant& v : variants) v.sample(calls);
  }
  for (const Variant& v : variants) v.audit();
  return results_of(c, num_blocks, variants);
}

std::string name_of(const ConcurrentCase& c) {
  return std::string("concurrent_pool/") + c.operation + "/batch:" + std::to_string(c.batch);
}

}  // namespace

std::vector<std::string> concurrent_pool_cases(const BenchOptions&) {
  std::vector<std::string> names;
  for (const ConcurrentCase& c : kConcurrentCases) names.push_back(name_of(c));
  return names;
}

std::vector<Result> run_concurrent_pool_suite(std::span<const std::string> selected,
                                              const BenchOptions& options) {
  std::vector<Result> results;
  std::size_t num_done = 0;
  for (const ConcurrentCase& c : kConcurrentCases) {
    const std::string name = name_of(c);
    if (std::ranges::find(selected, name) == selected.end()) continue;
    options.progress->update(static_cast<double>(num_done++) / static_cast<double>(selected.size()),
                             name);
    std::vector<Result> measured = run_case(c, options);
    std::ranges::move(measured, std::back_inserter(results));
  }
  return results;
}

}  // namespace kvproof::bench
