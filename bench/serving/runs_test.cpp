// SPDX-License-Identifier: Apache-2.0
// Random runs of the simulated engine hold under the laws of a run, and each seeded fault of a
// scheduler (properties/selftest/serving.patches) breaks the law that its row names first.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>

#include "bench/serving/random_runs.h"
#include "bench/serving/scheduler_mutants.h"
#include "bench/serving/shrink_run.h"
#include "properties/shadow/verdict.h"
#include "properties/sources/traces/test_files.h"

namespace kvproof::bench {
namespace {

constexpr std::uint64_t kSeeds = 400;

WrittenRun sound_run(const RunSetup& setup) { return write_run<Engine, EngineOptions>(setup); }

/// @return the most steps that the worker has at once
std::uint64_t most_in_flight(const std::string& lines) {
  std::istringstream in(lines);
  std::uint64_t now = 0, most = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string op = nlohmann::json::parse(line).value("op", "");
    now += op == "dispatch" ? 1 : op == "retire" ? ~std::uint64_t{0} : 0;
    most = std::max(most, now);
  }
  return most;
}

TEST(Runs, OfTheSimulationHoldWhateverComesTogether) {
  ServingTotals all;
  std::uint64_t deep = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const WrittenRun run = sound_run(draw_setup(seed));
    const nlohmann::json verdict = judge_run(run.lines);
    ASSERT_EQ(broken_first(verdict), "")
        << "seed " << seed << ", kvproof live "
        << keep_failing_run(draw_setup(seed), sound_run, ".").string() << "\n"
        << verdict.dump(1);
    ASSERT_TRUE(verdict["ended"]) << seed;
    EXPECT_GT(verdict["evaluated"]["L3"], 0) << seed;
    deep += most_in_flight(run.lines) > 1 ? 1 : 0;
    all.preemptions += run.totals.preemptions;
    all.aborted += run.totals.aborted;
    all.hit_tokens += run.totals.hit_tokens;
    all.drafts += run.totals.drafts - run.totals.accepted_drafts;
  }
  std::cout << kSeeds << " runs: " << deep << " with two steps in flight, " << all.preemptions
            << " preemptions, " << all.aborted << " aborts, " << all.hit_tokens << " tokens found, "
            << all.drafts << " drafts rejected\n";
  EXPECT_GT(deep, kSeeds / 4);
  for (const std::uint64_t count : {all.preemptions, all.aborted, all.hit_tokens, all.drafts}) {
    EXPECT_GT(count, kSeeds / 4);
  }
}

TEST(Runs, OfOneSeedHaveTheSameBytesAndSoHasTheCopyWithoutAFault) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RunSetup setup = draw_setup(seed);
    const std::string lines = sound_run(setup).lines;
    EXPECT_EQ(lines, sound_run(setup).lines) << seed;
    EXPECT_EQ(lines, faulty_run(setup, "none").lines) << seed;
  }
}

TEST(Runs, OfAFaultySchedulerBreakTheLawThatItsRowNamesFirst) {
  const std::vector<properties::Seeded> mutants = scheduler_mutants();
  EXPECT_GE(mutants.size(), 8U);
  for (const properties::Seeded& mutant : mutants) {
    const properties::Kill kill = properties::hunt(mutant, {}, {});
    EXPECT_EQ(kill.breaches, std::vector{mutant.law}) << mutant.id << ": " << mutant.sentence;
    std::cout << mutant.id << " noticed by " << testing::PrintToString(kill.breaches) << " after "
              << kill.operations << " events: " << mutant.sentence << "\n";
  }
}

/// @return the first setup whose run breaks a law under that fault
RunSetup failing_setup(std::string_view id) {
  std::uint64_t seed = 0;
  while (broken_first(judge_run(faulty_run(draw_setup(seed), id).lines)).empty()) ++seed;
  return draw_setup(seed);
}

TEST(Runs, ThatFailAreMadeShortAndKept) {
  const RunSetup failing = failing_setup("E07");
  const std::size_t lines = std::ranges::count(faulty_run(failing, "E07").lines, '\n');
  const WriteRun write = [](const RunSetup& setup) { return faulty_run(setup, "E07"); };
  const properties::TemporaryFolder folder;
  const std::filesystem::path path = keep_failing_run(failing, write, folder.path());
  const live::Judge judge = live::judge_file(path.string());
  ASSERT_EQ(judge.findings().size(), 1U);
  EXPECT_EQ(live::kRunLaws[judge.findings()[0].law].id, "S14");
  EXPECT_EQ(judge.events(), judge.findings()[0].event) << "it ends with what breaks the law";
  // A request is admitted, aborted while its step is in flight, and gets the answer: the header,
  // the request, its dispatch, the abort, what ran, what came back, the token, and few besides.
  EXPECT_LE(judge.events(), 12U);
  EXPECT_EQ(judge.requests(), 1U);
  std::cout << "a run of " << lines << " lines is shrunk to " << judge.events() << "\n";
}

}  // namespace
}  // namespace kvproof::bench
