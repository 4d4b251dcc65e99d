// SPDX-License-Identifier: Apache-2.0
// The random state machine: every implementation of the list, in every profile, with and without a
// prefix cache, audited by all three oracles after every operation.
//
// KVPROOF_SEED chooses the cases, KVPROOF_OPERATIONS how many operations each configuration
// performs. RC_PARAMS, when set, is RapidCheck's own and wins.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <mutex>

#include "optimized/subjects.h"
#include "properties/mutants.h"
#include "properties/shrink.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

constexpr int kMostOperationsPerCase = 200;

struct Configuration {
  const optimized::SubjectRow* subject;
  const Profile* profile;
  bool caching;
};

std::string name_of(const Configuration& c) {
  std::string name =
      say(c.subject->name, "_", c.profile->name, c.caching ? "_caching" : "_uncached");
  std::replace_if(
      name.begin(), name.end(), [](char x) { return x == '-' || x == '.'; }, '_');
  return name;
}

std::vector<Configuration> configurations() {
  std::vector<Configuration> out;
  for (const auto& subject : optimized::kSubjects) {
    for (const Profile& profile : kProfiles) {
      for (bool caching : {true, false}) out.push_back({&subject, &profile, caching});
    }
  }
  return out;
}

// Must run before RapidCheck reads its configuration, which it does once.
// @return whether the number of operations is ours to promise.
bool configure_rapidcheck() {
  static const bool ours = std::getenv("RC_PARAMS") == nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    const std::uint64_t cases = operations_from_environment() / (kMostOperationsPerCase / 3) + 1;
    const std::string params = say("seed=", seed_from_environment(), " max_success=", cases);
    setenv("RC_PARAMS", params.c_str(), 0);
    std::cout << "KVPROOF_SEED=" << seed_from_environment()
              << " KVPROOF_OPERATIONS=" << operations_from_environment() << "\n";
  });
  return ours;
}

rc::Gen<Choice> any_choice() {
  return rc::gen::resize(rc::kNominalSize,
                         rc::gen::inRange<Choice>(0, std::numeric_limits<Choice>::max()));
}

/// Shrinks what RapidCheck left, writes it to `folder` and tells about it.
std::string report(std::string_view subject, const MakeSubject& make, const Failure& failure,
                   const std::filesystem::path& folder) {
  Failure small = shrink(make, failure, {});
  small.subject = subject;
  const auto file = write_failure(small, seed_from_environment(), folder);
  return describe_failure(small, seed_from_environment(), file);
}

/// @return whether all cases hold; otherwise `failure` is RapidCheck's smallest one.
bool holds(const std::string& name, const MakeSubject& make, const Profile& profile, bool caching,
           Counts& counts, std::optional<Failure>& failure) {
  configure_rapidcheck();
  return rc::check(name, [&] {
    Case c;
    c.setup = *any_choice();
    c.choices = *rc::gen::resize(kMostOperationsPerCase,
                                 rc::gen::container<std::vector<Choice>>(any_choice()));
    auto found = run_case(make, profile, caching, c, {}, counts);
    if (!found) return;
    failure = std::move(
        found);  // the last one that fails is the smallest: shrinking only follows failures
    throw Violation(failure->breaches, failure->text);
  });
}

class StateMachine : public testing::TestWithParam<Configuration> {};

TEST_P(StateMachine, AgreesWithAllOraclesAfterEveryOperation) {
  const Configuration& c = GetParam();
  Counts counts;
  std::optional<Failure> failure;
  const bool held = holds(name_of(c), c.subject->make, *c.profile, c.caching, counts, failure);
  if (failure) ADD_FAILURE() << report(c.subject->name, c.subject->make, *failure, ".");
  ASSERT_TRUE(held);
  std::cout << counts.operations << " operations: " << counts.grants << " grants, " << counts.hits
            << " hits, " << counts.evictions << " evictions, " << counts.revivals << " revivals, "
            << counts.refusals << " refusals, " << counts.preemptions << " preemptions, "
            << counts.rejections << " rejections\n";
  if (configure_rapidcheck()) {
    EXPECT_GE(counts.operations, operations_from_environment());
  }
  // A run in which these never happened has shown nothing about them.
  EXPECT_GT(counts.refusals, 0U);
  EXPECT_GT(counts.preemptions, 0U);
  EXPECT_GT(counts.rejections, 0U);
  EXPECT_EQ(counts.blind, 0U) << "the generator made the caller break its contract";
  EXPECT_EQ(counts.hits > 0, c.caching);
  EXPECT_EQ(counts.evictions > 0, c.caching);
  EXPECT_EQ(counts.revivals > 0, c.caching);
}

INSTANTIATE_TEST_SUITE_P(Subjects, StateMachine, testing::ValuesIn(configurations()),
                         [](const auto& tested) { return name_of(tested.param); });

// The way a failure goes, walked with a seeded bug: the file must fail again, on it and on nobody
// else.
TEST(StateMachineFailure, IsShrunkWrittenAndToldWithTheCommandThatReplaysIt) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "kvproof-state-machine-test";
  std::filesystem::create_directories(folder);
  const MakeSubject make = make_textbook<Fault::touch_leaves_queued>;
  Counts counts;
  std::optional<Failure> failure;
  std::cerr << "the following failure is wanted:\n";
  EXPECT_FALSE(holds("a seeded bug", make, kProfiles[0], true, counts, failure));
  ASSERT_TRUE(failure.has_value());
  const std::string text = report("B004", make, *failure, folder);

  const auto file = folder / say("kvproof-failure-", seed_from_environment(), ".jsonl");
  std::ifstream in(file);
  CacheConfig config;
  std::vector<Operation> trace;
  for (std::string line; std::getline(in, line);) {
    const TraceLine read = parse_trace_line(line);
    if (read.kind == TraceLine::Kind::header) {
      config = read.header.config;
      EXPECT_EQ(read.header.subject, "B004");
    }
    if (read.kind != TraceLine::Kind::operation) continue;
    trace.push_back(read.operation);
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not told in\n" << text;
  }
  ASSERT_FALSE(trace.empty());
  EXPECT_LE(trace.size(), 25U);
  const auto again = run_trace(make, config, trace, {});
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->names("I2")) << again->text;
  EXPECT_FALSE(run_trace(make_textbook<Fault::none>, config, trace, {}).has_value());
  for (const std::string& part : {say("seed ", seed_from_environment()), std::string("I2"),
                                  "./kvproof replay " + file.string()}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvproof::properties
