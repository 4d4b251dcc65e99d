// SPDX-License-Identifier: Apache-2.0
// Runs the kill matrix and reports.
#include "bench/verbs/selftest_mutants.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "bench/serving/scheduler_mutants.h"
#include "properties/selftest/kill_matrix.h"
#include "properties/selftest/mutants.h"
#include "properties/selftest/patches.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::Fate;
using properties::MatrixOptions;
using properties::MatrixRow;
using properties::Seeded;

std::vector<Seeded> chosen_mutants(const std::vector<std::string>& ids) {
  std::vector<Seeded> all = properties::all_mutants();
  std::ranges::move(scheduler_mutants(), std::back_inserter(all));
  if (ids.empty()) return all;
  std::vector<Seeded> out;
  for (const std::string& id : ids) {
    const auto at = std::ranges::find(all, id, &Seeded::id);
    if (at == all.end()) {
      std::string names;
      for (const Seeded& row : all) names += (names.empty() ? "" : ", ") + row.id;
      throw std::invalid_argument("--mutant=" + id + ": expected one of " + names);
    }
    out.push_back(*at);
  }
  return out;
}

std::string_view family_name(std::string_view id) {
  if (id == "P") return "patches of optimized/";
  if (id == "E") return "faults of schedulers";
  return std::ranges::find(properties::kFamilies, id, &properties::Family::id)->name;
}

/// The strongest statement about how a mutant ended.
std::string fate_of(const Seeded& mutant, const MatrixRow& row) {
  if (row.fate == Fate::crashed) return "crash";
  if (row.fate == Fate::hung) return "hang";
  if (row.killed_by(mutant.law)) return "expected";
  if (row.laws.killed) return "other_law";
  if (row.model.killed) return "model";
  return row.content.killed ? "content" : "survived";
}

Result result_of(const Seeded& mutant, const MatrixRow& row) {
  const std::string fate = fate_of(mutant, row);
  const auto first = [](const properties::Kill& kill) {
    return count(kill.killed ? kill.operations : 0);
  };
  return {"mutant",
          {{"id", mutant.id},
           {"family", mutant.family},
           {"family_name", std::string(family_name(mutant.family))},
           {"where", mutant.where},
           {"configuration", mutant.configuration},
           {"expected_law", mutant.law},
           {"laws", row.laws.breaches.empty() ? "-" : joined(row.laws.breaches, " ")},
           {"fate", fate},
           {"verdict", std::string(name_of(fate == "survived" ? Verdict::broken : Verdict::holds))},
           {"reason", fate == "expected" ? "" : std::string(mutant.sentence)}},
          {{"operations_to_kill", first(row.laws)},
           {"seconds_to_kill", {row.laws.killed ? row.laws.seconds : 0, "s", {}, {}}},
           {"trace_operations", count(row.laws.trace_operations)},
           {"model_operations", first(row.model)},
           {"content_operations", first(row.content)}}};
}

struct Score {
  std::uint64_t total = 0;
  std::uint64_t killed = 0;
  std::uint64_t expected = 0;
  std::vector<std::uint32_t> traces;

  void add(const Seeded& mutant, const MatrixRow& row) {
    const std::string fate = fate_of(mutant, row);
    ++total;
    killed += fate != "survived";
    expected += fate == "expected";
    if (row.laws.trace_operations > 0) traces.push_back(row.laws.trace_operations);
    std::ranges::sort(traces);
  }
  [[nodiscard]] std::uint32_t median() const {
    return traces.empty() ? 0 : traces[traces.size() / 2];
  }
  [[nodiscard]] std::uint32_t longest() const { return traces.empty() ? 0 : traces.back(); }
};

/// Of a family, or with the verdict of all.
Result result_of(const std::string& experiment, Parameters parameters, const Score& score) {
  return {experiment,
          std::move(parameters),
          {{"total", count(score.total)},
           {"killed", count(score.killed)},
           {"by_expected_law", count(score.expected)},
           {"median_trace_operations", count(score.median())},
           {"longest_trace_operations", count(score.longest())}}};
}

std::vector<Result> results_of(const std::vector<Seeded>& mutants,
                               const std::vector<MatrixRow>& rows, double seconds) {
  std::vector<Result> out;
  std::vector<std::pair<std::string, Score>> families;
  Score all;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    out.push_back(result_of(mutants[i], rows[i]));
    all.add(mutants[i], rows[i]);
    const std::string& family = mutants[i].family;
    if (families.empty() || families.back().first != family) families.emplace_back(family, Score{});
    families.back().second.add(mutants[i], rows[i]);
  }
  for (const auto& [family, score] : families) {
    out.push_back(result_of(
        "mutant_family", {{"family", family}, {"name", std::string(family_name(family))}}, score));
  }
  const Verdict verdict = all.killed == all.total ? Verdict::holds : Verdict::broken;
  out.push_back(result_of("mutants", {{"verdict", std::string(name_of(verdict))}}, all));
  out.back().metrics.emplace_back("not_applicable", count(std::size(properties::kNotApplicable)));
  out.back().metrics.emplace_back("seconds", Metric{seconds, "s", {}, {}});
  return out;
}

}  // namespace

int selftest_mutants(const MutantOptions& options, int argc, const char* const* argv) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Seeded> mutants = chosen_mutants(options.ids);
  const OutputFiles outputs(options.outputs);
  MatrixOptions matrix;
  matrix.seed = options.seed;
  matrix.most_operations = options.most_operations;
  std::cout << "seed " << options.seed << "\n\n";
  Progress progress;
  std::size_t done = 0;
  const Clock::time_point start = Clock::now();
  const auto rows = run_matrix(mutants, matrix, [&](std::size_t index, const MatrixRow&) {
    progress.update(static_cast<double>(++done) / static_cast<double>(mutants.size()),
                    mutants[index].id);
  });
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  progress.clear();
  const std::vector<Result> results = results_of(mutants, rows, seconds);
  print_results(std::cout, results);
  outputs.commit(describe_environment(argc, argv, options.seed), results);
  const bool all_killed = text_in(results.back(), "verdict") == name_of(Verdict::holds);
  return exit_code_of(all_killed ? Verdict::holds : Verdict::broken);
}

}  // namespace kvproof::bench
