// SPDX-License-Identifier: Apache-2.0
// The verb selftest: what kvproof notices of bugs, lies and small changes that are made for it.
#include <iterator>
#include <optional>
#include <string>

#include "bench/verbs/command_line.h"
#include "bench/verbs/mutation_score.h"
#include "bench/verbs/selftest_liars.h"
#include "bench/verbs/selftest_mutants.h"
#include "properties/selftest/lies/lies.h"
#include "reference/trace_names.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof selftest"};

struct Arguments {
  bool hunts = false;
  bool lies = false;
  bool scores = false;
  MutantOptions mutants;
  LiarArguments liars;
  MutationOptions score;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> operations;
  OutputPaths outputs;
};

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
  line.option("--mutant", arguments.mutants.ids, "seed only this bug, repeatable")
      .goes_with({mutants});
  line.option("--lie", arguments.liars.lie, "falsify only in this way")
      .one_of(row_names(properties::all_lies()))
      .placeholder("LIE")
      .goes_with({liars});
  line.option("--lie-about", arguments.liars.operation,
              "falsify the answers to this operation only")
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
  auto& [hunts, lies, scores, mutants, liars, score, seed, operations, outputs] = arguments;
  mutants.seed = liars.seed = score.seed = seed;
  mutants.outputs = liars.outputs = outputs;
  score.json_path = outputs.json;
  mutants.most_operations = operations.value_or(mutants.most_operations);
  liars.operations = operations.value_or(liars.operations);
  if (hunts) return selftest_mutants(mutants, argc, argv);
  if (lies) return selftest_liars(liars, argc, argv);
  if (scores) return mutation_score(score, argc, argv);
  throw UsageError("expected --mutants, --liars or --mutation-score");
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
