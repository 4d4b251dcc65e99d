// SPDX-License-Identifier: Apache-2.0
// Times the pool operations under Google Benchmark.
//
// A benchmark iteration is two rounds: one timed as a whole, which gives nanoseconds per block, and
// one with each call timed alone, which gives the percentiles. If a floor exists, both go once
// round their lists untimed, then several rounds timed, in turn.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/allocator/pool_operations.h"
#include "bench/instruments/latency.h"
#include "bench/results/environment.h"
#include "bench/suites.h"
#include "reference/operations.h"

namespace kvproof::bench {
namespace {

constexpr int kRepetitions = 3;
constexpr int kRoundsBesideFloor = 8;
constexpr std::size_t kMaxCallSamples = 200'000;

/// A case with its operation set up, kept while Google Benchmark calls it again and again.
template <class Operation>
struct Live {
  template <class... Arguments>
  explicit Live(const PoolCase& c, Arguments... arguments) : operation(c, arguments...) {}

  Operation operation;
  CallSamples samples{kMaxCallSamples};
  std::uint32_t checksum = 0;
  std::optional<double> huge_page_share;
};

struct Run {
  Run(const BenchOptions& bench_options, std::size_t num)
      : options(bench_options), num_cases(num) {}

  const BenchOptions& options;
  CallClock clock;
  std::shared_ptr<void> live;  // of the case named below; one at a time, for its memory
  std::string live_name;
  std::string failure;
  std::size_t num_started = 0;
  std::size_t num_cases;
};

template <class Operation, class... Arguments>
auto set_up(const PoolCase& c, Arguments... arguments) {
  const std::optional<std::uint64_t> before = huge_page_bytes();
  auto live = std::make_shared<Live<Operation>>(c, arguments...);
  const std::optional<std::uint64_t> after = huge_page_bytes();
  Operation& operation = live->operation;
  const auto bytes = static_cast<double>(operation.pool_bytes());
  if (before && after && bytes > 0) {
    const double grown = *after > *before ? static_cast<double>(*after - *before) : 0;
    live->huge_page_share = std::min(grown / bytes, 1.0);
  }
  operation.prepare();  // correctness first: one round, its effect, and an audit of everything
  for (std::uint32_t i = 0; i < operation.calls(); ++i) operation.call(i);
  operation.verify();
  operation.finish();
  operation.audit();
  live->checksum = operation.checksum();
  return live;
}

/// Times one round as a whole; if it is a single call, it is a sample, too. @return [ns per block]
template <class Operation>
double time_round(Live<Operation>& live, const CallClock& clock) {
  Operation& operation = live.operation;
  const std::uint32_t calls = operation.calls();
  operation.prepare();
  const std::uint64_t start = CallClock::now();
  for (std::uint32_t i = 0; i < calls; ++i) operation.call(i);
  const std::uint64_t end = CallClock::now();
  operation.verify();
  operation.finish();
  if (calls == 1) live.samples.add(end - start);
  return clock.net_ns(end - start) / static_cast<double>(std::uint64_t{operation.batch()} * calls);
}

template <class Operation>
double time_floor_round(Operation& operation, const CallClock& clock) {
  const std::uint32_t calls = operation.calls();
  const std::uint64_t start = CallClock::now();
  for (std::uint32_t i = 0; i < calls; ++i) operation.floor_call();
  const std::uint64_t end = CallClock::now();
  return clock.net_ns(end - start) / static_cast<double>(std::uint64_t{operation.batch()} * calls);
}

template <class Operation>
void time_calls(Operation& operation, CallSamples& samples) {
  operation.prepare();
  for (std::uint32_t i = 0; i < operation.calls(); ++i) {
    const std::uint64_t start = CallClock::now();
    operation.call(i);
    samples.add(CallClock::now() - start);
  }
  operation.verify();
  operation.finish();
}

/// The times of the rounds of one benchmark run. [ns per block]
struct RoundSamples {
  std::vector<double> ns;
  std::vector<double> floor_ns;
  std::vector<double> ratios;
};

/// Times an operation and its floor in turn. Each first goes once round its own list, so that its
/// records are in the caches. If they took turns round by round, each would evict the records of
/// the other, and both would measure memory instead of their own work.
template <class Operation>
void time_beside_floor(Live<Operation>& live, const CallClock& clock, RoundSamples& samples) {
  Operation& operation = live.operation;
  const std::uint32_t turn = operation.rounds_per_turn();
  for (std::uint32_t i = 0; i < turn; ++i) (void)time_round(live, clock);
  for (int i = 0; i < kRoundsBesideFloor; ++i) samples.ns.push_back(time_round(live, clock));
  if (operation.calls() > 1 && !live.samples.full()) time_calls(operation, live.samples);
  for (std::uint32_t i = 0; i < turn; ++i) (void)time_floor_round(operation, clock);
  for (int i = 0; i < kRoundsBesideFloor; ++i) {
    samples.floor_ns.push_back(time_floor_round(operation, clock));
    samples.ratios.push_back(samples.ns[samples.ratios.size()] / samples.floor_ns.back());
  }
}

template <class Operation>
void iterate(benchmark::State& state, Live<Operation>& live, const CallClock& clock) {
  constexpr bool kHasFloor = requires(Operation & o) { o.floor_call(); };
  Operation& operation = live.operation;
  RoundSamples samples;
  for ([[maybe_unused]] auto _ : state) {
    if constexpr (kHasFloor) {
      time_beside_floor(live, clock, samples);
    } else {
      samples.ns.push_back(time_round(live, clock));
      if (operation.calls() > 1 && !live.samples.full()) time_calls(operation, live.samples);
    }
  }
  operation.audit();
  const CallSamples::Summary calls = live.samples.summary(clock);
  state.counters["ns_per_block"] = median(samples.ns);
  if constexpr (kHasFloor) {
    state.counters["floor_ns_per_block"] = median(samples.floor_ns);
    state.counters["ratio_to_floor"] = median(samples.ratios);
  }
  state.counters["call_p50"] = calls.p50_ns;
  state.counters["call_p99"] = calls.p99_ns;
  state.counters["call_worst"] = calls.worst_ns;
  state.counters["call_resolution"] = clock.step_ns();
  state.counters["calls"] = static_cast<double>(live.samples.size());
  if (operation.pool_bytes() > 0) {
    state.counters["pool_bytes"] = static_cast<double>(operation.pool_bytes());
  }
  if (live.huge_page_share) state.counters["huge_page_share"] = *live.huge_page_share;
  state.counters["checksum"] = live.checksum;
}

/// How to measure one case of any operation.
using Measure = void (*)(benchmark::State&, Run&, const PoolCase&, const std::string& name);

template <class Operation, auto... Arguments>
void measure(benchmark::State& state, Run& run, const PoolCase& c, const std::string& name) {
  try {
    if (run.live_name != name) {
      run.live.reset();
      run.options.progress->update(
          static_cast<double>(run.num_started++) / static_cast<double>(run.num_cases), name);
      run.live = set_up<Operation>(c, Arguments...);
      run.live_name = name;
    }
    iterate(state, *static_cast<Live<Operation>*>(run.live.get()), run.clock);
  } catch (const std::exception& error) {
    if (run.failure.empty()) run.failure = name + ": " + error.what();
    state.SkipWithError("a check failed");
  }
}

struct OperationRow {
  const char* name;
  const char* experiment;
  std::vector<std::uint32_t> batches;  // [blocks]
  std::vector<Order> orders;           // empty: the operation has no pool
  Measure measure;
};

/// The list of measured pool operations.
const std::vector<OperationRow>& operations() {
  static const std::vector<OperationRow> kOperations = {
      {"take_release",
       "pool_operation",
       {1, 16, 256},
       {Order::fresh, Order::shuffled},
       &measure<TakeRelease>},
      {"touch", "pool_operation", {64}, {Order::shuffled}, &measure<Touch>},
      {"publish", "pool_operation", {64}, {Order::shuffled}, &measure<Publish>},
      {"evict", "pool_operation", {64}, {Order::shuffled}, &measure<Evict>},
      {"lookup_hit", "pool_operation", {64}, {Order::shuffled}, &measure<Lookup, true>},
      {"lookup_miss", "pool_operation", {64}, {Order::shuffled}, &measure<Lookup, false>},
      {"evict_batch", "pool_operation", {512}, {Order::shuffled}, &measure<EvictBatch>},
      {"free_request",
       "pool_operation",
       {8'192},
       {Order::fresh, Order::shuffled},
       &measure<FreeRequest>},
      {"hash_xxh3", "unit_hash", {64}, {}, &measure<UnitHash<optimized::Xxh3Digest>>},
      {"hash_sha256", "unit_hash", {64}, {}, &measure<UnitHash<optimized::Sha256Digest>>},
  };
  return kOperations;
}

struct NamedCase {
  std::string name;
  PoolCase parameters;
  const OperationRow* row;

  [[nodiscard]] bool has_pool() const { return !row->orders.empty(); }
};

std::string name_of(const PoolCase& c, const OperationRow& row) {
  std::string name = std::string(row.experiment) + "/" + c.operation;
  if (!row.orders.empty()) name += "/num_blocks:" + std::to_string(c.num_blocks);
  name += "/batch:" + std::to_string(c.batch);
  if (!row.orders.empty()) name += c.order == Order::fresh ? "/order:fresh" : "/order:shuffled";
  return name;
}

std::vector<NamedCase> all_cases(const BenchOptions& options) {
  const std::vector<std::uint32_t> sizes =
      options.smoke ? std::vector<std::uint32_t>{1'024, 16'384}
                    : std::vector<std::uint32_t>{1'024, 16'384, 65'536, 262'144, 1'048'576};
  std::vector<NamedCase> cases;
  const auto add = [&](const OperationRow& row, PoolCase c) {
    cases.push_back({name_of(c, row), std::move(c), &row});
  };
  for (const OperationRow& row : operations()) {
    for (const std::uint32_t batch : row.batches) {
      if (row.orders.empty()) add(row, {row.name, 0, batch, Order::fresh, options.seed});
      for (const Order order : row.orders) {
        for (const std::uint32_t num_blocks : sizes) {
          if (num_blocks - 1 < batch) continue;  // it does not fit
          add(row, {row.name, num_blocks, batch, order, options.seed});
        }
      }
    }
  }
  return cases;
}

struct Shown {
  const char* counter;
  const char* unit;
  bool spread;  // it has a spread over the repetitions; others are over all calls, or constant
};
constexpr Shown kShown[] = {
    {"ns_per_block", "ns", true},      {"floor_ns_per_block", "ns", true},
    {"ratio_to_floor", "ratio", true}, {"call_p50", "ns", false},
    {"call_p99", "ns", false},         {"call_worst", "ns", false},
    {"call_resolution", "ns", false},  {"calls", "count", false},
    {"pool_bytes", "bytes", false},    {"huge_page_share", "ratio", false},
    {"checksum", "count", false},
};

Result result_of(const NamedCase& c, const std::vector<benchmark::BenchmarkReporter::Run>& runs) {
  Result result{c.row->experiment, {{"operation", c.parameters.operation}}, {}};
  if (c.has_pool()) {
    result.parameters.emplace_back("num_blocks", std::int64_t{c.parameters.num_blocks});
  }
  result.parameters.emplace_back("batch", std::int64_t{c.parameters.batch});
  if (c.has_pool()) {
    result.parameters.emplace_back("order",
                                   c.parameters.order == Order::fresh ? "fresh" : "shuffled");
  }
  for (const Shown& shown : kShown) {
    std::vector<double> values;
    for (const auto& run : runs) {
      const auto found = run.counters.find(shown.counter);
      if (found != run.counters.end()) values.push_back(found->second.value);
    }
    if (values.empty()) continue;
    Metric metric{shown.spread ? median(values) : values.back(), shown.unit, {}, {}};
    if (shown.spread) {
      metric.min = *std::ranges::min_element(values);
      metric.max = *std::ranges::max_element(values);
    }
    result.metrics.emplace_back(shown.counter, metric);
  }
  return result;
}

/// Turns the reports of Google Benchmark, one case with all its repetitions at a time, into
/// results.
class Collector : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(const std::vector<NamedCase>& cases) : cases_(cases) {}

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    if (runs.empty() || runs.front().run_type != Run::RT_Iteration) return;  // its own averages
    const std::string& name = runs.front().run_name.function_name;
    const auto found = std::ranges::find(cases_, name, &NamedCase::name);
    if (found != cases_.end()) results_.push_back(result_of(*found, runs));
  }
  [[nodiscard]] std::vector<Result> take() { return std::move(results_); }

 private:
  const std::vector<NamedCase>& cases_;
  std::vector<Result> results_;
};

}  // namespace

std::vector<std::string> pool_cases(const BenchOptions& options) {
  std::vector<std::string> names;
  for (const NamedCase& c : all_cases(options)) names.push_back(c.name);
  return names;
}

std::vector<Result> run_pool_suite(std::span<const std::string> selected,
                                   const BenchOptions& options) {
  std::vector<NamedCase> cases = all_cases(options);
  std::erase_if(cases, [&](const NamedCase& c) {
    return std::ranges::find(selected, c.name) == selected.end();
  });
  Run run(options, cases.size());
  for (const NamedCase& c : cases) {
    auto* const registered = benchmark::RegisterBenchmark(
        c.name.c_str(),
        [&run, &c](benchmark::State& state) { c.row->measure(state, run, c.parameters, c.name); });
    registered->UseRealTime()->Repetitions(kRepetitions);
    registered->MinTime(options.min_seconds_per_case / kRepetitions);
  }
  Collector collector(cases);
  benchmark::RunSpecifiedBenchmarks(&collector);
  benchmark::ClearRegisteredBenchmarks();
  if (!run.failure.empty()) throw std::logic_error(run.failure);
  return collector.take();
}

}  // namespace kvproof::bench
