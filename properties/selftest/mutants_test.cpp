// SPDX-License-Identifier: Apache-2.0
// Every seeded bug is noticed by the laws alone, by the expected one first, with a short trace; its
// sound twin is not; and the matrix that says so is shown what it must not praise.
#include "properties/selftest/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <set>
#include <thread>

#include "properties/audit/shrink.h"
#include "properties/laws/laws.h"
#include "properties/selftest/kill_matrix.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/cases.h"

namespace kvproof::properties {
namespace {

std::unique_ptr<Subject> sound(const CacheConfig& config) { return make_museum("", config); }

Seeded seeded(MakeSubject make) {
  return {"test", "A1", "here", "", "I2", "full", &kProfiles[0], std::move(make)};
}

TEST(MutantList, NamesEachReportOnceWithALawAndAConfigurationThatExist) {
  std::set<std::string_view> ids;
  for (const Mutant& row : kMutants) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id << " is listed twice";
    EXPECT_NE(find_law(row.law), nullptr) << row.id << ": " << row.law << " is no law";
    EXPECT_NE(find_configuration(row.configuration), nullptr) << row.id;
    EXPECT_NE(std::ranges::find(kFamilies, row.family, &Family::id), std::end(kFamilies)) << row.id;
    EXPECT_NE(row.report.find('/'), std::string_view::npos) << row.id;
    EXPECT_TRUE(row.sentence.ends_with('.')) << row.id;
  }
  for (const Patch& row : patched_folder("reference").rows) {
    EXPECT_NE(std::ranges::find(kMutants, row.id, &Mutant::id), std::end(kMutants)) << row.id;
  }
  for (const NotApplicable& row : kNotApplicable) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id << " is listed twice";
    EXPECT_FALSE(row.mechanism.empty()) << row.id;
  }
  EXPECT_GE(std::size(kMutants), 100U);
  std::cout << std::size(kMutants) << " reports are re-made, " << std::size(kNotApplicable)
            << " need a mechanism that is not here\n";
}

/// The bugs of the museum under a profile; states have no margin to drop where vllm-0.33 searches.
std::vector<Seeded> mutants_under(const Profile& profile) {
  std::vector<Seeded> out = museum_mutants();
  for (Seeded& mutant : out) mutant.profile = &profile;
  std::erase_if(out,
                [&](const Seeded& m) { return m.id == "B095" && profile.searches_all_hashes; });
  return out;
}

TEST(Mutants, AreAllKilledByTheLawsAloneAndByTheExpectedOneInTheLastTwoProfiles) {
  MatrixOptions options;
  options.laws_only = true;
  options.seed = seed_from_environment();
  std::cout << "KVPROOF_SEED=" << options.seed << "\n";
  for (const char* profile : {"vllm-0.24", "vllm-0.33"}) {
    SCOPED_TRACE(profile);
    const std::vector<Seeded> mutants = mutants_under(*find_profile(profile));
    EXPECT_GE(mutants.size() + 1, std::size(kMutants));
    std::vector<std::uint32_t> traces;
    const auto rows = run_matrix(mutants, options, [](std::size_t, const MatrixRow&) {});
    for (std::size_t i = 0; i < mutants.size(); ++i) {
      const MatrixRow& row = rows[i];
      ASSERT_TRUE(row.laws.killed)
          << mutants[i].id << " survived " << row.laws.operations << " operations";
      EXPECT_TRUE(row.killed_by(mutants[i].law))
          << mutants[i].id << " was killed by " << testing::PrintToString(row.laws.breaches)
          << ", not by " << mutants[i].law;
      EXPECT_LE(row.laws.trace_operations, kLongestTrace) << mutants[i].id;
      traces.push_back(row.laws.trace_operations);
    }
    std::ranges::sort(traces);
    EXPECT_LE(traces[traces.size() / 2], 8U) << "the median of the shrunk traces";
  }
}

// A law is left out of the steps that have no occasion to break it: asked there, too, it must say
// nothing new.
TEST(Mutants, AreNoticedAtTheSameStepByTheSameLawsIfEveryLawIsAskedOnEveryStep) {
  const Oracles when_due{.laws = true, .model = false, .content = false};
  Oracles always = when_due;
  always.every_law = true;
  std::size_t noticed = 0;
  for (const Seeded& mutant : museum_mutants()) {
    SCOPED_TRACE(mutant.id);
    ChoiceStream stream(seed_from_environment());
    Counts counts;
    for (bool failed = false; !failed && counts.operations < 2000;) {
      const Case drawn = draw_case(stream, 200);
      const auto run = [&](const Oracles& oracles) {
        return run_case(mutant.make, *mutant.profile, *find_configuration(mutant.configuration),
                        drawn, oracles, counts);
      };
      const auto one = run(when_due);
      const auto other = run(always);
      failed = one.has_value();
      ASSERT_EQ(failed, other.has_value()) << (failed ? *one : *other).text;
      if (!failed) continue;
      ++noticed;
      EXPECT_EQ(one->trace.size(), other->trace.size());
      EXPECT_EQ(one->text, other->text);
    }
  }
  EXPECT_GT(noticed, std::size(kMutants) / 2);
}

// The same runs, without a fault, under every oracle: else a kill would say nothing.
TEST(Museum, WithoutABugEqualsTheModelWhereverAMutantLives) {
  std::set<std::string_view> lived;
  for (const Mutant& row : kMutants) lived.insert(row.configuration);
  Counts all;
  for (const Profile& profile : kProfiles) {
    for (const Configuration& row : kConfigurations) {
      lived.erase(row.name);
      SCOPED_TRACE(say(profile.name, " ", row.name));
      Counts counts;
      ChoiceStream stream(seed_from_environment());
      while (counts.operations < 3000) {
        const auto failure = run_case(sound, profile, row, draw_case(stream, 200), {}, counts);
        ASSERT_FALSE(failure.has_value()) << describe_failure(*failure, 0, "");
      }
      EXPECT_GT(counts.refusals, 0U);
      EXPECT_EQ(counts.skipped, 0U);
      all += counts;
    }
  }
  EXPECT_GT(all.hits, 0U);
  EXPECT_GT(all.swaps, 0U);
  EXPECT_GT(all.recycled, 0U);
  EXPECT_TRUE(lived.empty()) << *lived.begin() << " is not run without a fault";
}

TEST(KillMatrix, SaysThatASoundAllocatorSurvives) {
  MatrixOptions options;
  options.most_operations = 3000;
  options.most_seconds = 7200;
  const auto rows = run_matrix({seeded(sound)}, options, [](auto, const auto&) {});
  EXPECT_EQ(rows[0].fate, Fate::survived);
  EXPECT_FALSE(rows[0].killed());
  EXPECT_GE(rows[0].content.operations, options.most_operations);
}

TEST(KillMatrix, TellsCrashesAndHangsFromKillsAndGoesOn) {
  MatrixOptions patient, options;
  patient.most_seconds = 7200;
  options.most_seconds = 1;
  const auto crash = [](const CacheConfig&) -> std::unique_ptr<Subject> {
    std::raise(SIGKILL);
    return nullptr;
  };
  const auto hang = [](const CacheConfig&) -> std::unique_ptr<Subject> {
    std::this_thread::sleep_for(std::chrono::hours(1));
    return nullptr;
  };
  std::size_t told = 0;
  const auto count = [&](std::size_t, const MatrixRow&) { ++told; };
  const auto rows = run_matrix(
      {seeded(crash), seeded([](const CacheConfig& c) { return make_museum("B014", c); })}, patient,
      count);
  EXPECT_EQ(rows[0].fate, Fate::crashed);
  EXPECT_EQ(rows[1].fate, Fate::noticed);
  EXPECT_EQ(run_matrix({seeded(hang)}, options, count)[0].fate, Fate::hung);
  EXPECT_EQ(told, 3U);
}

}  // namespace
}  // namespace kvproof::properties
