// SPDX-License-Identifier: Apache-2.0
// The random state machine: the model and an allocator in every configuration of the list and every
// profile, the same allocator with other keys in the default one alone; all are audited by all
// three oracles and the judge of runs after every operation.
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
#include "properties/audit/shrink.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/cases.h"
#include "properties/story/beside.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

constexpr int kMostOperationsPerCase = 200;

struct Tested {
  const optimized::SubjectRow* subject;
  const Profile* profile;
  const Configuration* configuration;
};

std::string name_of(const Tested& t) {
  std::string name = say(t.subject->name, "_", t.profile->name, "_", t.configuration->name);
  std::replace_if(
      name.begin(), name.end(), [](char x) { return x == '-' || x == '.'; }, '_');
  return name;
}

std::vector<Tested> all_tested() {
  std::vector<Tested> out;
  for (const auto& subject : optimized::kSubjects) {
    for (const Profile& profile : kProfiles) {
      if (subject.role == optimized::Role::any && &profile != &kDefaultProfile) continue;
      for (const Configuration& row : kConfigurations) out.push_back({&subject, &profile, &row});
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
  Failure small = shrink(make, failure, {.runs = true});
  small.subject = subject;
  const auto file = write_failure(small, seed_from_environment(), folder);
  return describe_failure(small, seed_from_environment(), file) +
         write_lens_beside(file, small, show_all(make));
}

/// @return whether all cases hold; otherwise `failure` is RapidCheck's smallest one.
bool holds(const std::string& name, const MakeSubject& make, const Profile& profile,
           const Configuration& configuration, Counts& counts, std::optional<Failure>& failure) {
  configure_rapidcheck();
  return rc::check(name, [&] {
    Case c;
    c.setup = *any_choice();
    c.choices = *rc::gen::resize(kMostOperationsPerCase,
                                 rc::gen::container<std::vector<Choice>>(any_choice()));
    auto found = run_case(make, profile, configuration, c, {.runs = true}, counts);
    if (!found) return;
    failure = std::move(
        found);  // the last one that fails is the smallest: shrinking only follows failures
    throw Violation(*failure);
  });
}

void tell(const Counts& c) {
  std::cout << c.operations << " operations: " << c.grants << " grants, " << c.hits << " hits, "
            << c.evictions << " evictions, " << c.revivals << " revivals, " << c.refusals
            << " refusals, " << c.preemptions << " preemptions, " << c.rejections << " rejections, "
            << c.recycled << " recycled, " << c.forks << " forks, " << c.copies << " copies, "
            << c.truncations << " truncations, " << c.leases << " leases, " << c.swaps << " swaps, "
            << c.failed_swaps << " failed swaps\n";
}

bool forgets(const Configuration& row) {
  return row.has(LayerKind::sliding_window) || row.has(LayerKind::chunked_local) ||
         row.has(LayerKind::mamba);
}

class StateMachine : public testing::TestWithParam<Tested> {};

TEST_P(StateMachine, AgreesWithAllOraclesAfterEveryOperation) {
  const Tested& t = GetParam();
  const Configuration& row = *t.configuration;
  Counts counts;
  std::optional<Failure> failure;
  const bool held = holds(name_of(t), t.subject->make, *t.profile, row, counts, failure);
  if (failure) ADD_FAILURE() << report(t.subject->name, t.subject->make, *failure, ".");
  ASSERT_TRUE(held);
  tell(counts);
  if (configure_rapidcheck()) {
    EXPECT_GE(counts.operations, operations_from_environment());
  }
  // A run in which these never happened has shown nothing about them.
  EXPECT_GT(counts.refusals, 0U);
  EXPECT_GT(counts.preemptions, 0U);
  EXPECT_GT(counts.rejections, 0U);
  EXPECT_EQ(counts.blind, 0U) << "the generator made the caller break its contract";
  EXPECT_EQ(counts.skipped, 0U) << "the subject lacks a mechanism";
  EXPECT_EQ(counts.hits > 0, row.caching);
  EXPECT_EQ(counts.evictions > 0, row.caching);
  EXPECT_EQ(counts.revivals > 0, row.caching);
  const bool may_forget = t.profile->sparse && row.has(LayerKind::full);  // if drawn as R-SWA
  if (forgets(row) || !may_forget) {
    EXPECT_EQ(counts.recycled > 0, forgets(row));
  }
  EXPECT_EQ(counts.forks > 0, row.can_fork());
  EXPECT_EQ(counts.truncations > 0, row.sharing);
  EXPECT_EQ(counts.leases > 0, row.sharing);
  if (row.can_fork()) {
    EXPECT_GT(counts.copies, 0U);
  }
  EXPECT_EQ(counts.swaps > 0, row.host_tier);
  EXPECT_EQ(counts.failed_swaps > 0, row.host_tier);
}

INSTANTIATE_TEST_SUITE_P(Subjects, StateMachine, testing::ValuesIn(all_tested()),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(StateMachineFailure, NamesAllOfItsConfiguration) {
  Failure failure;
  failure.config.profile = *find_profile("vllm-0.33");
  failure.config.retention = 0;
  failure.config.hash_lookahead = 1;
  failure.config.groups = {
      {.kind = LayerKind::rswa, .window = 5},
      {.kind = LayerKind::mamba, .mode = MambaMode::align, .checkpoint_alignment = 4}};
  const std::string text = describe_failure(failure, 1, "");
  for (const char* part : {"retention 0, hash lookahead 1", "window 5", "checkpoints at 4"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

// The way a failure goes, walked with a seeded bug: the file must fail again, on it and on nobody
// else.
TEST(StateMachineFailure, IsShrunkWrittenAndToldWithTheCommandThatReplaysIt) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "kvproof-state-machine-test";
  std::filesystem::create_directories(folder);
  const MakeSubject make = [](const CacheConfig& c) { return make_museum("B004", c); };
  const MakeSubject sound = [](const CacheConfig& c) { return make_museum("", c); };
  Counts counts;
  std::optional<Failure> failure;
  std::cerr << "the following failure is wanted:\n";
  EXPECT_FALSE(
      holds("a seeded bug", make, kProfiles[0], *find_configuration("plain"), counts, failure));
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
  EXPECT_FALSE(run_trace(sound, config, trace, {}).has_value());
  for (const std::string& part :
       {std::string(say("seed ", seed_from_environment())), std::string("I2"),
        "./kvproof replay " + file.string(), "look at it: file://" + folder.string()}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvproof::properties
