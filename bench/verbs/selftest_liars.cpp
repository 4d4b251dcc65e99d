// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/selftest_liars.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "properties/selftest/lies/liar_matrix.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::kFrequencies;
using properties::LiarCell;

struct LiarScore {
  std::uint64_t cells = 0;
  std::uint64_t noticed = 0;
  std::uint64_t excused = 0;

  void add(const LiarCell& cell) {
    ++cells;
    noticed += cell.noticed() ? 1 : 0;
    excused += !cell.noticed() && !cell.excuse.empty() ? 1 : 0;
  }
  [[nodiscard]] std::uint64_t missed() const { return cells - noticed - excused; }
};

/// How a lie passed: at which frequencies, and how often it was told.
std::string how_it_passed(const LiarCell& cell) {
  std::string out;
  for (std::size_t f = 0; f < std::size(kFrequencies); ++f) {
    const auto& told = cell.told[f];
    if (told.told == 0 || told.noticed) continue;
    out += say(out.empty() ? "" : ", ", kFrequencies[f].name, " (told ", told.told, " times in ",
               told.operations, " operations)");
  }
  return out;
}

Result row_of(const LiarCell& cell) {
  const Verdict verdict = cell.noticed()        ? Verdict::holds
                          : cell.excuse.empty() ? Verdict::broken
                                                : Verdict::known;
  Result row{"liar",
             {{"operation", std::string(cell.operation)},
              {"lie", std::string(cell.lie)},
              {"level", std::string(cell.level)},
              {"excuse", cell.excuse.empty() ? "-" : std::string(cell.excuse)},
              {"verdict", std::string(name_of(verdict))},
              {"reason", verdict == Verdict::known    ? std::string(cell.excuse)
                         : verdict == Verdict::broken ? how_it_passed(cell)
                                                      : ""}},
             {{"noticed", count(cell.noticed() ? 1 : 0)}}};
  for (std::size_t f = 0; f < std::size(kFrequencies); ++f) {
    const std::string name(kFrequencies[f].name);
    row.parameters.emplace_back(name + "_by", cell.told[f].by.empty() ? "-" : cell.told[f].by);
    row.metrics.emplace_back(name + "_operations", count(cell.told[f].operations));
  }
  return row;
}

/// The reasons of excuses whose cells were all noticed.
void add_idle_excuses(const std::vector<LiarCell>& cells, std::vector<Result>& out) {
  std::map<std::string_view, bool> needed;
  for (const LiarCell& cell : cells) {
    if (!cell.excuse.empty()) needed[cell.excuse] |= !cell.noticed();
  }
  for (const auto& [reason, is_needed] : needed) {
    if (is_needed) continue;
    out.push_back(
        {"liar_note", {{"note", say("excuse that this seed does not need: ", reason)}}, {}});
  }
}

Result row_of(const char* experiment, Parameters parameters, const LiarScore& score) {
  return {experiment,
          std::move(parameters),
          {{"cells", count(score.cells)},
           {"noticed", count(score.noticed)},
           {"excused", count(score.excused)},
           {"missed", count(score.missed())}}};
}

/// It holds if all cells were noticed, but for the tenth that may be excused.
std::vector<Result> liar_results(const std::vector<LiarCell>& cells, double seconds) {
  std::vector<Result> out;
  LiarScore all;
  for (const LiarCell& cell : cells) out.push_back(row_of(cell)), all.add(cell);
  add_idle_excuses(cells, out);
  for (const auto& view : properties::kViews) {
    LiarScore score;
    for (const LiarCell& cell : cells) {
      if (cell.level == view.name) score.add(cell);
    }
    out.push_back(row_of("liar_level", {{"level", std::string(view.name)}}, score));
  }
  const bool sound = all.missed() == 0 && 10 * all.excused <= all.cells;
  const Verdict verdict = sound ? Verdict::holds : Verdict::broken;
  out.push_back(row_of("liars", {{"verdict", std::string(name_of(verdict))}}, all));
  out.back().metrics.emplace_back("seconds", Metric{seconds, "s", {}, {}});
  return out;
}

}  // namespace

int selftest_liars(const LiarArguments& arguments, int argc, const char* const* argv) {
  using Clock = std::chrono::steady_clock;
  const OutputFiles outputs(arguments.outputs);
  properties::LiarOptions options;
  options.seed = arguments.seed;
  options.operations = arguments.operations;
  options.lie = arguments.lie;
  options.operation = arguments.operation;
  std::cout << "seed " << arguments.seed << "\n\n";
  Progress progress;
  const auto start = Clock::now();
  const std::vector<LiarCell> cells =
      run_liars(options, [&progress](double share, const LiarCell& cell) {
        progress.update(share, std::string(cell.operation) + " " + std::string(cell.lie));
      });
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  progress.clear();
  const std::vector<Result> results = liar_results(cells, seconds);
  print_results(std::cout, results);
  outputs.commit(describe_environment(argc, argv, arguments.seed), results);
  const bool sound = text_in(results.back(), "verdict") == name_of(Verdict::holds);
  return exit_code_of(sound ? Verdict::holds : Verdict::broken);
}

}  // namespace kvproof::bench
