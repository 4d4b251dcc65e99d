// SPDX-License-Identifier: Apache-2.0
// Times audited random operations, as the state machine and the fuzzers perform them.
//
// Workload: cases of 1 to 200 choices, as the tests draw them, on a pool of 12 blocks; everything
//           counts: drawing, the subject and its construction, observing, the oracles. All rows of
//           one configuration perform the same operations, one row after the other, round by round.
#include <algorithm>
#include <stdexcept>

#include "bench/instruments/allocation_count.h"
#include "bench/instruments/latency.h"
#include "bench/suites.h"
#include "optimized/subjects.h"
#include "properties/audit/runner.h"
#include "properties/sources/random/cases.h"
#include "reference/mix64.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kUsableBlocks = 12;
constexpr std::uint32_t kHostBlocks = 8;  // usable ones
constexpr std::size_t kMostChoices = 200;
constexpr const optimized::SubjectRow& kSubject = optimized::subject_of(optimized::Role::standard);
constexpr const char* kConfigurations[] = {"plain", "full", "window", "full_window", "full_host"};

struct Watch {
  const char* name;
  properties::Oracles oracles;
};
const Watch kWatches[] = {{"all", {true, true, true}},
                          {"laws", {true, false, false}},
                          {"model", {false, true, false}},
                          {"content", {false, false, true}},
                          {"none", {false, false, false}}};

std::string name_of(const char* configuration, const Watch& watch) {
  return std::string("audit/") + configuration + "/oracles:" + watch.name;
}

/// One row with the times of its rounds.
struct Row {
  const Watch* watch = nullptr;
  std::vector<double> seconds;  // shape [rounds]
  std::vector<double> rates;    // [operations per second] shape [rounds]
  std::uint64_t allocations = 0;
  properties::Counts counts;
};

struct DrawnCase {
  CacheConfig config;
  properties::Swarm swarm;
  std::vector<properties::Choice> choices;
};

std::vector<DrawnCase> draw_cases(const properties::Configuration& configuration,
                                  const BenchOptions& options) {
  properties::ChoiceStream stream(options.seed);
  std::vector<DrawnCase> out(options.smoke ? 4 : 64);
  for (DrawnCase& c : out) {
    properties::Case drawn = properties::draw_case(stream, kMostChoices);
    c.config = properties::draw_config(kDefaultProfile, configuration, drawn.setup);
    c.config.num_blocks = kUsableBlocks + 1;
    if (configuration.host_tier) c.config.num_host_blocks = kHostBlocks + 1;
    c.swarm = properties::draw_swarm(configuration, mix64(drawn.setup));
    c.choices = std::move(drawn.choices);
  }
  return out;
}

void run_round(Row& row, const std::vector<DrawnCase>& cases) {
  const properties::MakeSubject make = kSubject.make;
  properties::Counts counts;
  const std::uint64_t allocations = num_allocations();
  const double start = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (const DrawnCase& c : cases) {
    const auto failure =
        properties::run_choices(make, c.config, c.swarm, c.choices, row.watch->oracles, counts);
    if (failure) throw std::logic_error("audit: " + failure->text);
  }
  row.seconds.push_back(processor_seconds(CLOCK_THREAD_CPUTIME_ID) - start);
  row.rates.push_back(static_cast<double>(counts.operations) / row.seconds.back());
  row.allocations += num_allocations() - allocations;
  row.counts += counts;
}

Result result_of(Row& row, const char* configuration) {
  std::ranges::sort(row.rates);
  const auto at = [&](std::size_t tenths) {
    return row.rates[std::min(row.rates.size() * tenths / 10, row.rates.size() - 1)];
  };
  const auto operations = static_cast<double>(row.counts.operations);
  Result out;
  out.experiment = "audit";
  out.parameters = {{"configuration", std::string(configuration)},
                    {"oracles", std::string(row.watch->name)},
                    {"subject", std::string(kSubject.name)},
                    {"usable_blocks", std::int64_t{kUsableBlocks}}};
  out.metrics.emplace_back("operations_per_second", Metric{at(5), "operations/s", at(1), at(9)});
  out.metrics.emplace_back("ns_per_operation", Metric{1e9 / at(5), "ns", 1e9 / at(9), 1e9 / at(1)});
  out.metrics.emplace_back("allocations_per_operation",
                           metric(static_cast<double>(row.allocations) / operations, "count"));
  const auto share = [&](const char* name, std::uint64_t n) {
    out.metrics.emplace_back(name, metric(static_cast<double>(n) / operations, "ratio"));
  };
  share("grants", row.counts.grants);
  share("hits", row.counts.hits);
  share("evictions", row.counts.evictions);
  share("refusals", row.counts.refusals);
  out.metrics.emplace_back("operations", metric(operations, "count"));
  return out;
}

std::vector<Result> run_configuration(const char* name, std::vector<Row> rows,
                                      const BenchOptions& options) {
  const auto cases = draw_cases(*properties::find_configuration(name), options);
  double spent = 0;
  const double enough = options.min_seconds_per_case * static_cast<double>(rows.size());
  for (int round = 0; spent < enough || round < 3; ++round) {
    for (Row& row : rows) {
      run_round(row, cases);
      spent += row.seconds.back();
      if (row.counts.operations != rows.front().counts.operations) {
        throw std::logic_error("audit: an oracle changed which operations were performed");
      }
    }
  }
  std::vector<Result> out;
  for (Row& row : rows) out.push_back(result_of(row, name));
  return out;
}

}  // namespace

std::vector<std::string> audit_cases(const BenchOptions&) {
  std::vector<std::string> names;
  for (const char* configuration : kConfigurations) {
    for (const Watch& watch : kWatches) names.push_back(name_of(configuration, watch));
  }
  return names;
}

std::vector<Result> run_audit_suite(std::span<const std::string> selected,
                                    const BenchOptions& options) {
  std::vector<Result> out;
  double done = 0;
  for (const char* configuration : kConfigurations) {
    std::vector<Row> rows;
    for (const Watch& watch : kWatches) {
      if (std::ranges::find(selected, name_of(configuration, watch)) == selected.end()) continue;
      rows.emplace_back().watch = &watch;
    }
    if (rows.empty()) continue;
    options.progress->update(done / static_cast<double>(selected.size()), configuration);
    done += static_cast<double>(rows.size());
    const auto results = run_configuration(configuration, std::move(rows), options);
    out.insert(out.end(), results.begin(), results.end());
  }
  return out;
}

}  // namespace kvproof::bench
