// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/selftest_liars.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>

#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "properties/liars/liar_matrix.h"

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

void print_level(std::string_view level, const LiarScore& score) {
  std::cout << std::left << std::setw(14) << level << std::right << std::setw(8) << score.cells
            << std::setw(10) << score.noticed << std::setw(10) << score.excused << std::setw(9)
            << score.missed() << '\n';
}

void print_missed(const LiarCell& cell) {
  std::cout << cell.operation << ", " << cell.lie << ", " << cell.level << ":";
  for (std::size_t f = 0; f < std::size(kFrequencies); ++f) {
    const auto& told = cell.told[f];
    if (told.told == 0 || told.noticed) continue;
    std::cout << ' ' << kFrequencies[f].name << " (told " << told.told << " times in "
              << told.operations << " operations)";
  }
  std::cout << '\n';
}

/// The reasons of excuses whose cells were all noticed.
void print_idle_excuses(const std::vector<LiarCell>& cells) {
  std::map<std::string_view, bool> needed;
  for (const LiarCell& cell : cells) {
    if (!cell.excuse.empty()) needed[cell.excuse] |= !cell.noticed();
  }
  for (const auto& [reason, is_needed] : needed) {
    if (!is_needed) std::cout << "excuse that this seed does not need: " << reason << '\n';
  }
}

/// @return whether all cells were noticed, but for the tenth that may be excused
bool print_liars(const std::vector<LiarCell>& cells, double seconds) {
  std::cout << std::left << std::setw(14) << "promise" << std::right << std::setw(8) << "cells"
            << std::setw(10) << "noticed" << std::setw(10) << "excused" << std::setw(9) << "missed"
            << '\n';
  LiarScore all;
  for (const auto& view : properties::kViews) {
    LiarScore score;
    for (const LiarCell& cell : cells) {
      if (cell.level == view.name) score.add(cell), all.add(cell);
    }
    print_level(view.name, score);
  }
  print_level("all", all);
  for (const LiarCell& cell : cells) {
    if (!cell.noticed() && cell.excuse.empty()) print_missed(cell);
  }
  for (const LiarCell& cell : cells) {
    if (cell.noticed() || cell.excuse.empty()) continue;
    std::cout << "excused: " << cell.operation << ", " << cell.lie << ", " << cell.level << ": "
              << cell.excuse << '\n';
  }
  print_idle_excuses(cells);
  std::cout << all.noticed << " of " << all.cells << " cells noticed, " << all.excused
            << " excused, " << all.missed() << " missed, " << std::fixed << std::setprecision(1)
            << seconds << " s\n";
  return all.missed() == 0 && 10 * all.excused <= all.cells;
}

std::vector<Result> liar_results(const std::vector<LiarCell>& cells, double seconds) {
  LiarScore all;
  for (const LiarCell& cell : cells) all.add(cell);
  std::vector<Result> out = {{"liars",
                              {},
                              {{"cells", count(all.cells)},
                               {"noticed", count(all.noticed)},
                               {"excused", count(all.excused)},
                               {"missed", count(all.missed())},
                               {"seconds", {seconds, "s", {}, {}}}}}};
  for (const LiarCell& cell : cells) {
    Result row{"liar",
               {{"operation", std::string(cell.operation)},
                {"lie", std::string(cell.lie)},
                {"level", std::string(cell.level)},
                {"excuse", cell.excuse.empty() ? "-" : std::string(cell.excuse)}},
               {{"noticed", count(cell.noticed() ? 1 : 0)}}};
    for (std::size_t f = 0; f < std::size(kFrequencies); ++f) {
      const std::string name(kFrequencies[f].name);
      row.parameters.emplace_back(name + "_by", cell.told[f].by.empty() ? "-" : cell.told[f].by);
      row.metrics.emplace_back(name + "_operations", count(cell.told[f].operations));
    }
    out.push_back(std::move(row));
  }
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
  const bool sound = print_liars(cells, seconds);
  outputs.commit(describe_environment(argc, argv, arguments.seed), liar_results(cells, seconds));
  return sound ? 0 : 1;
}

}  // namespace kvproof::bench
