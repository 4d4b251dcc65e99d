// SPDX-License-Identifier: Apache-2.0
// The facts that are not tests, each with its reason, and the proof that none is forgotten.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace kvproof::properties {
namespace {

constexpr int kNumFacts = 88;

struct Untested {
  int fact;
  const char* reason;
};

constexpr const char kRetention[] =
    "retention intervals: since vllm-0.33, facts_033_sparse_test.cpp";
constexpr const char kPartialHit[] =
    "hits inside of a block: since vllm-0.33, facts_033_sparse_test.cpp";

constexpr Untested kUntested[] = {
    {48, kRetention},
    {49, kRetention},
    {50, kRetention},
    {51, kRetention},
    {52, kRetention},
    {53, kRetention},
    {54, "the junction of shared prefixes: a hint to the scheduler's chunk split"},
    {63, "windows that spare the prompt: since vllm-0.33, facts_033_sparse_test.cpp"},
    {75, kPartialHit},
    {76, kPartialHit},
    {78, "who is preempted is a scheduler's choice; the refusal before it is fact 79"},
    {81, "recycling behind steps in flight: the caller passes the processed count to recycle()"},
    {82, "frees deferred behind steps in flight: the caller frees when the step is over"},
    {84, "rates over the last n requests: counters.h counts since construction"},
    {87, "rows of a persistent table: slot_mapping.h fills rows anew and moves none"},
    {88, "start-up sizing, not an allocator's: pool_sizing_test.cpp"},
};

/// The number in Fact_07_WhatHolds; 0 when the name is none of a fact.
int fact_of(const std::string& test) {
  return test.rfind("Fact_", 0) == 0 ? std::atoi(test.c_str() + 5) : 0;
}

TEST(FactList, EachFactIsEitherTestedOrListedWithItsReason) {
  std::map<int, std::string> found;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string name = suite.GetTestInfo(t)->name();
      const int fact = fact_of(name);
      if (std::string(suite.name()) != "Facts") continue;
      EXPECT_TRUE(fact >= 1 && fact <= kNumFacts) << name << " names no fact";
      found[fact] = name;
    }
  }
  for (const Untested& row : kUntested) {
    EXPECT_TRUE(row.fact >= 1 && row.fact <= kNumFacts) << row.fact;
    EXPECT_TRUE(found.emplace(row.fact, row.reason).second)
        << "fact " << row.fact << " is listed, and is " << found[row.fact];
  }
  for (int fact = 1; fact <= kNumFacts; ++fact) {
    EXPECT_TRUE(found.contains(fact)) << "fact " << fact << " is neither tested nor listed";
  }
}

}  // namespace
}  // namespace kvproof::properties
