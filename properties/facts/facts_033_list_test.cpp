// SPDX-License-Identifier: Apache-2.0
// The facts of reference/vllm/0.33.md that are not tests, each with its reason, and the proof that
// none is forgotten.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "properties/facts/anchors.h"

namespace kvproof::properties {
namespace {

struct Untested033 {
  const char* fact;
  const char* reason;
};

constexpr const char kScheduler[] = "what a scheduler does: operations are its calls";
constexpr const char kConnector[] = "a call of a connector";

constexpr Untested033 kUntested033[] = {
    {"1_3",
     "the mark of a group says that it drops: who builds a manager without drops marks none"},
    {"1_12", "no call makes a table longer than what is loaded behind it"},
    {"1_14", "no state stayed behind a gap in the sequences that were tried"},
    {"1_15", "a mark of the release that no answer depends on where drafts have no states"},
    {"1_16", "an assertion of the release about its own state"},
    {"2_3", "the bytes of hashes: vllm_hashing_test.cpp"},
    {"4_11", "off by default, and read only: the profile has no value for it"},
    {"6_3", "context parallelism is not modelled"},
    {"6_4", "draft heads of several modules are not modelled"},
    {"6_6", "references without a table are leases here, which end as other references do"},
    {"6_7", "a second pool on the device is not modelled"},
    {"7_1", kConnector},
    {"7_2", kConnector},
    {"8_1", kScheduler},
    {"8_2", kScheduler},
    {"8_3", kScheduler},
    {"8_4", kScheduler},
    {"8_5", kScheduler},
    {"8_6", kScheduler},
    {"8_7", kScheduler},
    {"8_8", kScheduler},
    {"8_9", kScheduler},
    {"8_10", kScheduler},
};

/// The number in F3_6_WhatHolds, "3_6"; "0" has no second part.
std::string fact_of_033(const std::string& test) {
  const std::size_t section = test.find('_');
  const std::string first = test.substr(1, section - 1);
  if (first == "0") return first;
  return first + "_" + test.substr(section + 1, test.find('_', section + 1) - section - 1);
}

TEST(FactList033, EachFactIsAnAnchorAndEitherTestedOrListedWithItsReason) {
  std::set<std::string> met;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    if (std::string(suite.name()) != "Facts033") continue;
    for (int t = 0; t < suite.total_test_count(); ++t) {
      met.insert(fact_of_033(suite.GetTestInfo(t)->name()));
    }
  }
  for (const Untested033& row : kUntested033) {
    EXPECT_TRUE(met.insert(row.fact).second)
        << "fact " << row.fact << " is listed, and is a test or a row";
    std::cout << "not tested: " << row.fact << ", " << row.reason << '\n';
  }
  std::set<std::string> carried;  // 3_6 is the anchor 3.6
  for (std::string fact : met) {
    std::ranges::replace(fact, '_', '.');
    carried.insert(fact);
  }
  EXPECT_EQ(faults_of_anchors(document("0.33.md"), "f033-", carried), std::vector<std::string>{});
}

}  // namespace
}  // namespace kvproof::properties
