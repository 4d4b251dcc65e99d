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
#include "bench/allocator/one_lock_pool.h"
#include "bench/instruments/latency.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kMaxThreads = 2;
constexpr int kMaxTries = 10;

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

Metric spread(std::vector<double> samples, const char* unit) {
  std::ranges::sort(samples);
  return {median(samples), unit, percentile(samples, 0.1), percentile(samples, 0.9)};
}

std::vector<double> ratios(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> out(above.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = above[i] / below[i];
  return out;
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
    metrics.emplace_back("ns_per_block", spread(v.ns, "ns"));
    metrics.emplace_back("ratio_to_floor", spread(ratios(v.ns, samples("sequential", 1)), "ratio"));
    if (v.pool != std::string_view("sequential")) {
      metrics.emplace_back("ratio_to_one_mutex",
                           spread(ratios(v.ns, samples("one_mutex", v.threads)), "ratio"));
      metrics.emplace_back("ratio_to_one_thread",
                           spread(ratios(v.ns, samples(v.pool, 1)), "ratio"));
    }
    metrics.emplace_back("cycles", Metric{static_cast<double>(v.ns.size()), "count", {}, {}});
    metrics.emplace_back("disturbed_cycles",
                         Metric{static_cast<double>(v.num_disturbed), "count", {}, {}});
    metrics.emplace_back("pool_bytes", Metric{static_cast<double>(v.bytes), "bytes", {}, {}});
    if (v.threads == 1) {
      metrics.emplace_back("checksum", Metric{static_cast<double>(v.checksum), "count", {}, {}});
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
