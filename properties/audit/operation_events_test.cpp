// SPDX-License-Identifier: Apache-2.0
// The judge of runs, told operations as events, notices what the content oracle notices, and blocks
// that are given away under a lease, a transfer or another table.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "properties/selftest/kill_matrix.h"
#include "properties/sources/random/cases.h"

namespace kvproof::properties {
namespace {

/// A seeded bug, the law of a run that it breaks first, and whether both notice it at once.
struct Noticed {
  const char* bug;
  const char* law;
  bool by_both;
};

class SeededBugs : public testing::TestWithParam<Noticed> {};

TEST_P(SeededBugs, AreNoticedByTheJudgeOfRuns) {
  const std::vector<Seeded> all = museum_mutants();
  const auto bug = std::ranges::find(all, GetParam().bug, &Seeded::id);
  ASSERT_NE(bug, all.end());
  const Configuration row = without_batches(*find_configuration(bug->configuration));
  ChoiceStream stream(seed_from_environment());
  Counts counts;
  bool noticed = false;
  while (!noticed && counts.operations < 200'000) {
    const auto failure =
        run_case(bug->make, *bug->profile, row, draw_case(stream, 200),
                 {.laws = false, .model = false, .content = true, .runs = true}, counts);
    if (!failure) continue;
    const bool both = failure->names("content");
    EXPECT_TRUE(!both || failure->breaches.size() == 2) << "missed: " << failure->text;
    noticed = failure->names(GetParam().law) && both == GetParam().by_both;
  }
  EXPECT_TRUE(noticed) << GetParam().law << " was not broken";
}

INSTANTIATE_TEST_SUITE_P(Runs, SeededBugs,
                         testing::Values(Noticed{"B023", "S1", true}, Noticed{"B126", "S3", true},
                                         Noticed{"B015", "S8", true}, Noticed{"B009", "S11", true},
                                         Noticed{"B051", "S3", false}, Noticed{"B116", "S5", false},
                                         Noticed{"B040", "S11", false}),
                         [](const auto& noticed) {
                           return std::string(noticed.param.bug) + noticed.param.law;
                         });

}  // namespace
}  // namespace kvproof::properties
