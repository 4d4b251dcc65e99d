// SPDX-License-Identifier: Apache-2.0
// The verb selftest: what kvproof notices of bugs, lies and small changes that are made for it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/results/ci_files.h"
#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "bench/serving/scheduler_mutants.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/mutation_score.h"
#include "properties/selftest/kill_matrix.h"
#include "properties/selftest/lies/liar_matrix.h"
#include "properties/selftest/lies/lies.h"
#include "properties/selftest/mutants.h"
#include "properties/selftest/patches.h"
#include "reference/support/say.h"
#include "reference/trace_names.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof selftest"};

struct Arguments {
  bool hunts = false;
  bool lies = false;
  bool scores = false;
  std::vector<std::string> mutants;  // only these; empty = all
  std::string lie;                   // only this one; empty = all
  std::string operation;             // only lies about this one; empty = all
  MutationOptions score;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> operations;
  OutputPaths outputs;
};

// ---- --mutants: hunts every seeded bug, and says which oracle noticed it ----

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
           {"seconds_to_kill", metric(row.laws.killed ? row.laws.seconds : 0, "s")},
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
  out.back().metrics.emplace_back("seconds", metric(seconds, "s"));
  return out;
}

/// Prints a table by family and every mutant that its law did not notice, writes JSON.
/// @param argc, argv of the program, for the file. @return 0 all are killed, 1 one survived.
/// Throws std::invalid_argument for an id that no mutant has, and OutputError.
int selftest_mutants(const Arguments& arguments, int argc, const char* const* argv) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Seeded> mutants = chosen_mutants(arguments.mutants);
  const OutputFiles outputs(arguments.outputs);
  MatrixOptions matrix;
  matrix.seed = arguments.seed;
  matrix.most_operations = arguments.operations.value_or(200'000);
  std::cout << "seed " << arguments.seed << "\n\n";
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
  outputs.commit(describe_environment(argc, argv, arguments.seed), results);
  const bool all_killed = text_in(results.back(), "verdict") == name_of(Verdict::holds);
  return exit_code_of(all_killed ? Verdict::holds : Verdict::broken);
}

// ---- --liars: a sound allocator lies in every way; which lies pass? ----

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
  out.back().metrics.emplace_back("seconds", metric(seconds, "s"));
  return out;
}

/// Prints a table by level of promise and every lie that passes, writes JSON.
/// @param argc, argv of the program, for the file. @return 0 each is noticed or excused, 1 one is
/// not. Throws std::invalid_argument for a lie or an operation that there is not, and OutputError.
int selftest_liars(const Arguments& arguments, int argc, const char* const* argv) {
  using Clock = std::chrono::steady_clock;
  const OutputFiles outputs(arguments.outputs);
  properties::LiarOptions options;
  options.seed = arguments.seed;
  options.operations = arguments.operations.value_or(2000);
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

void add_options(CommandLine& line, Arguments& arguments) {
  const auto mutants = line.flag("--mutants", arguments.hunts,
                                 "seed each bug of the list, and report which oracle detects it");
  const auto liars = line.flag("--liars", arguments.lies,
                               "falsify each answer of a correct allocator, and report what passes")
                         .not_with({mutants});
  const auto score = line.flag("--mutation-score", arguments.scores,
                               "report the share of small changes to optimized/ that check detects")
                         .not_with({mutants, liars});
  line.option("--seed", arguments.seed, "of the random runs, or of the draw; default 1");
  line.option("--operations", arguments.operations,
              "at most so many per seeded bug, default 200000, or per configuration of a lie, "
              "default 2000")
      .between(std::uint64_t{1}, std::uint64_t{1} << 40)
      .goes_with({mutants, liars});
  line.option("--mutant", arguments.mutants, "seed only this bug, repeatable").goes_with({mutants});
  line.option("--lie", arguments.lie, "falsify only in this way")
      .one_of(row_names(properties::all_lies()))
      .placeholder("LIE")
      .goes_with({liars});
  line.option("--lie-about", arguments.operation, "falsify the answers to this operation only")
      .one_of({std::begin(kOperationNames), std::end(kOperationNames)})
      .goes_with({liars});
  const auto all = line.flag("--all", arguments.score.all,
                             "all small changes to optimized/, which takes a night")
                       .goes_with({score});
  line.option("--part", arguments.score.part,
              "of these every N-th, from the I-th on, counted from 0: a share of the night")
      .placeholder("I/N")
      .goes_with({all});
  const auto only =
      line.option("--only", arguments.score.only, "only the operator mutant of this id, repeatable")
          .goes_with({score})
          .not_with({all});
  line.option("--draw", arguments.score.mutants, "how many small changes are drawn, default 220")
      .between(1U, 1'000'000U)
      .goes_with({score})
      .not_with({all, only});
  line.option("--excuses", arguments.score.excuses,
              "the list of equivalent mutants, default: "
              "properties/selftest/operators/equivalent.tsv")
      .goes_with({score});
  auto outputs = add_output_options(line, arguments.outputs, Says::verdicts);
  for (std::size_t i = 1; i < outputs.size(); ++i) outputs[i].not_with({score});
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(
      kProgram,
      "Checks kvproof itself: seeds bugs, wrong answers and small changes, and reports "
      "which of them the checks detect.\nExamples: kvproof selftest --mutants --json=mutants.json\n"
      "          kvproof selftest --liars\n"
      "          kvproof selftest --mutation-score --draw=20 --seed=7");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  if (arguments.hunts) return selftest_mutants(arguments, argc, argv);
  if (arguments.lies) return selftest_liars(arguments, argc, argv);
  if (arguments.scores) {
    arguments.score.seed = arguments.seed;
    arguments.score.json_path = arguments.outputs.json;
#ifdef KVPROOF_MUTATED_TESTS  // the mutants are in this program
    return mutation_score(arguments.score, argc, argv);
#else
    throw UsageError(
        "--mutation-score works from a checkout, where ./kvproof selftest --mutation-score builds "
        "it");
#endif
  }
  throw UsageError("expected --mutants, --liars or --mutation-score");
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
