// SPDX-License-Identifier: Apache-2.0
// Every seeded bug is caught by the laws alone, with its law named and a short trace; its sound
// twin is not.
#include "properties/mutants.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <set>

#include "properties/laws.h"
#include "properties/random/shrink.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

constexpr std::uint64_t kMostOperations = 100000;  // within which a fault must show
constexpr std::uint64_t kSeeds[] = {1, 2, 3};
constexpr std::size_t kLongestTrace = 25;  // [operations] after shrinking
constexpr Oracles kLawsAlone{true, false, false};
constexpr Oracles kModelAlone{false, true, false};
constexpr Oracles kContentAlone{false, false, true};

const Profile& default_profile() { return *find_profile("vllm-0.24"); }

/// The textbook allocator has one group, and neither forks nor tiers.
const Configuration& plain() { return *find_configuration("plain"); }

/// Random cases from the seed until one fails or the operations are used up.
std::optional<Failure> hunt(const MakeSubject& make, const Profile& profile, Oracles oracles,
                            std::uint64_t seed, Counts& counts) {
  ChoiceStream stream(seed);
  while (counts.operations < kMostOperations) {
    if (auto failure = run_case(make, profile, plain(), draw_case(stream, 200), oracles, counts))
      return failure;
  }
  return std::nullopt;
}

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, AreKilledByTheirLawAloneWithAShortTrace) {
  const Mutant& mutant = GetParam();
  ASSERT_NE(find_law(mutant.law), nullptr) << mutant.law << " is no law";
  for (std::uint64_t seed : kSeeds) {
    Counts counts;
    const auto found = hunt(mutant.make, default_profile(), kLawsAlone, seed, counts);
    ASSERT_TRUE(found.has_value())
        << mutant.id << " survived " << counts.operations << " operations, seed " << seed;
    std::string laws;
    for (const std::string& id : found->breaches) laws += " " + id;
    EXPECT_TRUE(found->names(std::string(mutant.law)))
        << "seed " << seed << " broke" << laws << "\n"
        << found->text;

    const Failure small = shrink(mutant.make, *found, kLawsAlone);
    EXPECT_LE(small.trace.size(), kLongestTrace) << describe_failure(small, seed, "");
    EXPECT_EQ(small.breaches.front(), found->breaches.front());
    std::cout << mutant.id << " killed by" << laws << " after " << counts.operations
              << " operations; " << found->trace.size() << " operations shrunk to "
              << small.trace.size() << "\n";
  }
}

TEST_P(Mutants, AreSeenByTheModelAndWhereBytesAreMisreadByContentAlone) {
  const Mutant& mutant = GetParam();
  Counts by_model;
  const auto modelled = hunt(mutant.make, default_profile(), kModelAlone, kSeeds[0], by_model);
  ASSERT_TRUE(modelled.has_value()) << mutant.id << " equals the model";
  EXPECT_TRUE(modelled->names("model")) << modelled->text;

  Counts by_content;
  const auto read = hunt(mutant.make, default_profile(), kContentAlone, kSeeds[0], by_content);
  EXPECT_EQ(read.has_value(), mutant.misread) << (read ? read->text : "nobody read foreign bytes");
  if (read) {
    EXPECT_TRUE(read->names("content")) << read->text;
    EXPECT_LE(shrink(mutant.make, *read, kContentAlone).trace.size(), kLongestTrace);
  }
}

INSTANTIATE_TEST_SUITE_P(List, Mutants, testing::ValuesIn(kMutants),
                         [](const auto& tested) { return std::string(tested.param.id); });

TEST(MutantList, HasDistinctReportsAndTheTwoThatMustBeThere) {
  std::set<std::string_view> ids;
  for (const Mutant& row : kMutants) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id << " is listed twice";
    EXPECT_TRUE(row.link.starts_with("https://")) << row.id;
    EXPECT_FALSE(row.sentence.empty()) << row.id;
  }
  EXPECT_TRUE(ids.contains("B002"));
  EXPECT_TRUE(ids.contains("B004"));
  EXPECT_GE(ids.size(), 8U);
}

// The same runs, without a fault, under every oracle: else a kill would say nothing.
TEST(Textbook, WithoutFaultSurvivesTheRunsThatKillTheMutants) {
  for (const Profile& profile : kProfiles) {
    for (std::uint64_t seed : kSeeds) {
      Counts counts;
      const auto failure = hunt(make_textbook<Fault::none>, profile, {}, seed, counts);
      EXPECT_FALSE(failure.has_value()) << describe_failure(*failure, seed, "");
      EXPECT_GT(counts.hits, 0U);
      EXPECT_GT(counts.evictions, 0U);
      EXPECT_GT(counts.refusals, 0U);
      EXPECT_GT(counts.revivals, 0U);
      EXPECT_GT(counts.preemptions, 0U);
      EXPECT_EQ(counts.blind, 0U);
    }
  }
}

TEST(Textbook, WithoutFaultEqualsTheModelWithoutACacheToo) {
  Counts counts;
  ChoiceStream stream(kSeeds[0]);
  while (counts.operations < 20000) {
    Configuration uncached = plain();
    uncached.caching = false;
    const auto failure = run_case(make_textbook<Fault::none>, default_profile(), uncached,
                                  draw_case(stream, 200), {}, counts);
    ASSERT_FALSE(failure.has_value()) << describe_failure(*failure, 0, "");
  }
}

}  // namespace
}  // namespace kvproof::properties
