// SPDX-License-Identifier: Apache-2.0
// Random runs of the simulated engine hold under the laws of a run, and each seeded fault of a
// scheduler (properties/selftest/serving.patches) breaks the law that its row names first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "bench/serving/random_runs.h"
#include "bench/serving/scheduler_mutants.h"
#include "properties/shadow/verdict.h"
#include "properties/sources/traces/test_files.h"

namespace kvproof::bench {
namespace {

constexpr std::uint64_t kSeeds = 400;

using WriteRun = std::function<WrittenRun(const RunSetup&)>;

/// @return the lines up to the event that breaks a law first
std::string up_to_finding(const std::string& lines) {
  const nlohmann::json verdict = judge_run(lines);
  if (broken_first(verdict).empty() || verdict.contains("error")) return lines;
  std::istringstream in(lines);
  std::string line, out;
  for (auto left = verdict["findings"][0]["event"].get<std::uint32_t>(); left > 0; --left) {
    std::getline(in, line);
    out += line + "\n";
  }
  return out;
}

/// Makes a random run that breaks a law short: fewer requests, then shorter ones, which have fewer
/// steps, then without aborts, drafts, deferred frees and steps in flight, then with other draws,
/// until nothing can be left out. properties/audit/shrink.h does so with operations.
class RunShrinker {
 public:
  RunShrinker(RunSetup failing, const WriteRun& write)
      : setup_(std::move(failing)), write_(write), law_(law_of(setup_)) {}

  /// @return the shortest setup found that breaks the same law first
  const RunSetup& shrink() {
    while (drop_requests() || shorten_requests() || simplify() || draw_others()) {
    }
    return setup_;
  }

 private:
  [[nodiscard]] std::string law_of(const RunSetup& setup) const {
    return broken_first(judge_run(write_(setup).lines));
  }
  bool attempt(const std::function<void(RunSetup&)>& change) {
    RunSetup smaller = setup_;
    change(smaller);
    if (law_of(smaller) != law_) return false;
    setup_ = std::move(smaller);
    return true;
  }

  bool drop_requests() {
    bool any = false;
    for (std::size_t i = setup_.requests.size(); i-- > 0;) {
      any |= attempt([i](RunSetup& s) {
        s.requests.erase(s.requests.begin() + static_cast<std::ptrdiff_t>(i));
      });
    }
    return any;
  }
  bool shorten_requests() {
    bool any = false;
    for (std::size_t i = 0; i < setup_.requests.size(); ++i) {
      for (std::int64_t Request::*tokens : {&Request::output_tokens, &Request::input_tokens}) {
        for (const std::int64_t less : {setup_.requests[i].*tokens / 2, std::int64_t{1}}) {
          if (less == 0 || setup_.requests[i].*tokens <= less) continue;
          any |= attempt([=](RunSetup& s) {
            Request& request = s.requests[i];
            request.*tokens -= less;
            request.block_ids.resize(static_cast<std::size_t>(request.input_tokens + 15) / 16);
          });
        }
      }
    }
    return any;
  }
  bool simplify() {
    bool any = false;
    if (setup_.aborts > 0) any |= attempt([](RunSetup& s) { s.aborts = 0; });
    if (setup_.drafts > 0) any |= attempt([](RunSetup& s) { --s.drafts; });
    if (setup_.defer_frees) any |= attempt([](RunSetup& s) { s.defer_frees = false; });
    if (setup_.steps_in_flight > 0) {
      any |= attempt([](RunSetup& s) { s.steps_in_flight = 0, s.defer_frees = false; });
    }
    return any;
  }

  /// Other drafts and aborts, if the law breaks earlier with them.
  bool draw_others() {
    constexpr std::uint64_t kOthers = 32;
    const auto length = [this](const RunSetup& s) { return up_to_finding(write_(s).lines).size(); };
    const std::size_t before = length(setup_);
    for (std::uint64_t seed = 0; seed < kOthers; ++seed) {
      RunSetup other = setup_;
      other.seed = seed;
      if (length(other) >= before) continue;
      if (attempt([seed](RunSetup& s) { s.seed = seed; })) return true;
    }
    return false;
  }

  RunSetup setup_;
  const WriteRun& write_;
  std::string law_;
};

/// Shrinks a failing run and writes it to the folder. @return its path
std::filesystem::path keep_failing_run(const RunSetup& failing, const WriteRun& write,
                                       const std::filesystem::path& folder) {
  const std::filesystem::path path =
      folder / ("kvproof-run-" + std::to_string(failing.seed) + ".jsonl");
  std::ofstream(path) << up_to_finding(write(RunShrinker(failing, write).shrink()).lines);
  return path;
}

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
