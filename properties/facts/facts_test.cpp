// SPDX-License-Identifier: Apache-2.0
// The facts of reference/vllm/v1.md that are not tests, each with its reason, and the proof that
// none is forgotten.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "properties/facts/anchors.h"

namespace kvproof::properties {
namespace {

using Faults = std::vector<std::string>;

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
    {54, "the junction of shared prefixes: since vllm-0.33, facts_033_sparse_test.cpp"},
    {63, "windows that spare the prompt: since vllm-0.33, facts_033_sparse_test.cpp"},
    {75, kPartialHit},
    {76, kPartialHit},
    {78, "who is preempted is a scheduler's choice; the refusal before it is fact 79"},
    {81, "recycling behind steps in flight: since vllm-0.33, facts_033_test.cpp"},
    {82, "frees deferred behind steps in flight: the caller holds a lease until they are over"},
    {84, "rates over the last n requests: counters.h counts since construction"},
    {87, "rows of a persistent table: slot_mapping.h fills rows anew and moves none"},
    {88, "start-up sizing, not an allocator's: pool_sizing_test.cpp"},
};

/// The number in Fact_07_WhatHolds; 0 when the name is none of a fact.
int fact_of(const std::string& test) {
  return test.rfind("Fact_", 0) == 0 ? std::atoi(test.c_str() + 5) : 0;
}

TEST(FactList, EachFactIsAnAnchorAndEitherTestedOrListedWithItsReason) {
  std::map<std::string, std::string> found;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    if (std::string(suite.name()) != "Facts") continue;
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string name = suite.GetTestInfo(t)->name();
      found[std::to_string(fact_of(name))] = name;
    }
  }
  for (const Untested& row : kUntested) {
    const std::string fact = std::to_string(row.fact);
    EXPECT_TRUE(found.emplace(fact, row.reason).second)
        << "fact " << fact << " is listed, and is " << found[fact];
  }
  std::set<std::string> carried;
  for (const auto& [fact, where] : found) carried.insert(fact);
  EXPECT_EQ(faults_of_anchors(document("v1.md"), "fact-", carried), Faults{});
}

TEST(FactList, AnAnchorThatIsMissingDoubledOrCarriedByNothingIsRejected) {
  const std::string text = "- <a id=\"fact-1\"></a>**1** a\n- <a id=\"fact-12\"></a>**12** b\n";
  EXPECT_EQ(faults_of_anchors(text, "fact-", {"1", "12"}), Faults{});
  EXPECT_EQ(faults_of_anchors(text, "fact-", {"1", "12", "2"}), Faults{"fact-2 is no anchor"});
  EXPECT_EQ(faults_of_anchors(text, "fact-", {"12"}), Faults{"nothing carries fact-1"});
  EXPECT_EQ(faults_of_anchors(text + text.substr(0, 20), "fact-", {"1", "12"}),
            Faults{"fact-1 is an anchor twice"});
  EXPECT_EQ(faults_of_anchors(text, "i", {}), Faults{});
}

}  // namespace
}  // namespace kvproof::properties
