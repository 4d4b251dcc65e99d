// SPDX-License-Identifier: Apache-2.0
// The audit itself: each oracle alone, what it throws, what it counts, and how failures are told
// and kept.
#include "properties/audit/audit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "optimized/subjects.h"
#include "properties/audit/shrink.h"
#include "properties/laws/law_scenes.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/cases.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

class Naive : public Subject {
 public:
  explicit Naive(const CacheConfig& config) : model_(config) {}
  Outcome apply(const Operation& operation) override { return model_.apply(operation); }
  void observe(Snapshot& out) const override { model_.observe(out); }

 private:
  reference::CacheManager model_;
};

/// The naive manager behind a lie about what it answered and what state it is in.
class Lying final : public Naive {
 public:
  using Lie = void (*)(const Operation&, Outcome*, Snapshot*);

  Lying(const CacheConfig& config, Lie lie) : Naive(config), lie_(lie) {}
  Outcome apply(const Operation& operation) override {
    last_ = operation;
    Outcome outcome = Naive::apply(operation);
    lie_(last_, &outcome, nullptr);
    return outcome;
  }
  void observe(Snapshot& snapshot) const override {
    Naive::observe(snapshot);
    lie_(last_, nullptr, &snapshot);
  }

 private:
  Lie lie_;
  Operation last_ = op::Step{};
};

/// Plays one request under the given oracles.
std::optional<Failure> audit_lie(Lying::Lie lie, Oracles oracles) {
  const std::vector<Operation> trace = {op::Arrive{"a", {0, 1, 2, 3, 4}}, op::Lookup{"a"},
                                        allocate("a", 5, true), op::Advance{"a", 5},
                                        op::Finish{"a"}};
  return run_trace([lie](const auto& config) { return std::make_unique<Lying>(config, lie); },
                   small_config(), trace, oracles);
}

void honest(const Operation&, Outcome*, Snapshot*) {}

// A reference more than there are holders: breaks a law, differs from the model, moves no byte.
void leak(const Operation& o, Outcome*, Snapshot* s) {
  if (s != nullptr && std::holds_alternative<op::Finish>(o)) s->blocks[1].ref_cnt = 1;
}

// Swapped blocks: no count is off, but every row is read from the wrong place.
void swap_table(const Operation& o, Outcome* answer, Snapshot* s) {
  if (!std::holds_alternative<op::Advance>(o) || answer != nullptr) return;
  std::swap(s->requests[0].tables[0][0], s->requests[0].tables[0][1]);
}

void fail(const Operation& o, Outcome* answer, Snapshot*) {
  if (answer != nullptr && std::holds_alternative<op::Finish>(o))
    throw std::runtime_error("out of luck");
}

void lose_blocks(const Operation& o, Outcome*, Snapshot* s) {
  if (s != nullptr && std::holds_alternative<op::Lookup>(o)) s->blocks.pop_back();
}

TEST(Audit, AcceptsACorrectSubject) { EXPECT_FALSE(audit_lie(honest, {}).has_value()); }

// Of two groups that are alike, one drops: both keep what a lookup of both needs.
TEST(Audit, KnowsThatAlikeGroupsDropTogether) {
  const GroupConfig window{.kind = LayerKind::sliding_window, .block_size = 1, .window = 1};
  CacheConfig config = small_config();
  config.num_blocks = 20;
  config.hash_block_size = 1;
  config.groups = {window, {.block_size = 2}, window};
  config.groups.back().eagle = true;
  reference::CacheManager subject(config);
  Audit audit(config, subject);
  audit.apply(op::Arrive{"a", {0, 1, 2, 3, 4}});
  EXPECT_NO_THROW(audit.apply(allocate("a", 5)));
  EXPECT_FALSE(audit.state().index.empty());
}

TEST(Audit, CreditsEachOracleAlone) {
  const auto laws = audit_lie(leak, {true, false, false});
  ASSERT_TRUE(laws.has_value());
  EXPECT_TRUE(laws->names("I6"));
  EXPECT_NE(laws->text.find("I6 references: block 1 has 1 references"), std::string::npos)
      << laws->text;
  EXPECT_EQ(laws->said_by("I6").about.blocks, std::vector<BlockId>{1});
  EXPECT_EQ(laws->step.index, 4U);
  EXPECT_EQ(laws->step.operation, Operation(op::Finish{"a"}));
  EXPECT_NE(laws->step.before->find("a"), nullptr) << "the state before the request was finished";
  EXPECT_EQ(laws->step.after->find("a"), nullptr);
  EXPECT_EQ(laws->step.after->blocks[1].ref_cnt, 1);
  EXPECT_TRUE(laws->step.answer.has_value());
  const auto model = audit_lie(leak, {false, true, false});
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->said.front().about.blocks, std::vector<BlockId>{1});
  EXPECT_EQ(model->step.expected_after->blocks[1].ref_cnt, 0);
  EXPECT_EQ(model->breaches, std::vector<std::string>{"model"});
  EXPECT_FALSE(audit_lie(leak, {false, false, true}).has_value());

  const auto swapped_model = audit_lie(swap_table, {false, true, false});
  ASSERT_TRUE(swapped_model.has_value());
  EXPECT_TRUE(swapped_model->names("model"));
  EXPECT_FALSE(audit_lie(swap_table, {false, false, false}).has_value());
}

TEST(Audit, ReportsASubjectThatThrowsOrShowsAnotherPool) {
  const auto thrown = audit_lie(fail, {});
  ASSERT_TRUE(thrown.has_value());
  EXPECT_TRUE(thrown->names("exception"));
  EXPECT_NE(thrown->text.find("out of luck"), std::string::npos);
  EXPECT_FALSE(thrown->step.answer.has_value());
  EXPECT_EQ(thrown->step.after, nullptr);
  EXPECT_NE(thrown->step.before->find("a"), nullptr);
  const auto lost = audit_lie(lose_blocks, {});
  ASSERT_TRUE(lost.has_value());
  EXPECT_TRUE(lost->names("I5"));
  EXPECT_EQ(lost->step.after->blocks.size() + 1, lost->step.before->blocks.size());
}

void decline_lookup(const Operation& o, Outcome* answer, Snapshot*) {
  if (answer != nullptr && std::holds_alternative<op::Lookup>(o)) {
    answer->result = Declined{"no lookups"};
  }
}

void hide_counters(const Operation&, Outcome*, Snapshot* s) {
  if (s != nullptr) s->work.reset();
}

void miscount(const Operation& o, Outcome*, Snapshot* s) {
  if (s != nullptr && std::holds_alternative<op::Finish>(o)) ++s->work->granted;
}

void misplace_eviction(const Operation& o, Outcome*, Snapshot* s) {
  if (s != nullptr && std::holds_alternative<op::Finish>(o)) ++s->work->idle[3];
}

// What others may leave out, our own managers must do and show.
TEST(Audit, OurManagersAreWhole) {
  Oracles whole;
  whole.promises.whole = true;
  whole.compared.counters = true;
  EXPECT_FALSE(audit_lie(honest, whole).has_value());
  for (const Lying::Lie lie : {decline_lookup, hide_counters, miscount, misplace_eviction}) {
    const auto found = audit_lie(lie, whole);
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(found->names("model")) << found->text;
  }
  EXPECT_FALSE(audit_lie(decline_lookup, {}).has_value());
  EXPECT_FALSE(audit_lie(hide_counters, {}).has_value());
}

// Neither an answer nor a counter tells of it, and the model itself has changed nothing.
void turn_queue(const Operation& o, Outcome*, Snapshot* s) {
  if (s != nullptr && std::holds_alternative<op::Lookup>(o)) std::swap(s->queue[0], s->queue[1]);
}
void compute_more(const Operation& o, Outcome*, Snapshot* s) {
  if (s != nullptr && std::holds_alternative<op::Lookup>(o)) ++s->requests[0].computed;
}
void grant_more(const Operation& o, Outcome*, Snapshot* s) {
  if (s != nullptr && std::holds_alternative<op::Lookup>(o)) ++s->work->granted;
}

TEST(Audit, TheModelSeesWhatALookupChangesInSecret) {
  Oracles model{.laws = false, .model = true, .content = false};
  model.compared.counters = true;
  for (const Lying::Lie lie : {turn_queue, compute_more, grant_more}) {
    const auto found = audit_lie(lie, model);
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(found->names("model")) << found->text;
  }
}

/// The naive manager, held to what is said of the parts that its operations move.
class Watched final : public Naive {
 public:
  using Naive::Naive;
  Outcome apply(const Operation& operation) override {
    Snapshot before;
    Snapshot after;
    observe(before);
    Outcome outcome = Naive::apply(operation);
    observe(after);
    constexpr Occasions kParts = on::pool | on::host | on::of_requests | on::counters;
    const Occasions moved = occasions_of(before, operation, outcome, after) & kParts;
    if ((moved & ~moved_by(before, operation, outcome.result)) != 0) {
      throw std::logic_error("it has moved what it should not: " + to_json(operation));
    }
    return outcome;
  }
};

TEST(Audit, TheModelMovesOnlyWhatIsObservedAnew) {
  const MakeSubject make = [](const CacheConfig& config) -> std::unique_ptr<Subject> {
    return std::make_unique<Watched>(config);
  };
  for (const Profile& profile : kProfiles) {
    for (const Configuration& row : kConfigurations) {
      ChoiceStream stream(seed_from_environment());
      Counts counts;
      while (counts.operations < 1000) {
        const auto failure =
            run_case(make, profile, row, draw_case(stream, 200), {false, false, false}, counts);
        ASSERT_FALSE(failure.has_value()) << failure->text;
      }
    }
  }
}

// A subject may be full where it says how much it holds: the model, which has no bound, follows it.
TEST(Audit, ASubjectMayBeFullWhereItSaysSo) {
  const CacheConfig config = small_config();
  Oracles oracles;
  oracles.promises.capacity.requests = 1;
  const auto subject = optimized::make_manager_subject<optimized::Xxh3Digest>(config, 1);
  Audit audit(config, *subject, oracles);
  audit.apply(op::Arrive{"a", {1, 2}});
  const Outcome full = audit.apply(op::Arrive{"b", {1, 2}});
  EXPECT_TRUE(is_undone(full.result));
  audit.apply(op::Finish{"a"});
  const Outcome free = audit.apply(op::Arrive{"c", {1, 2}});
  EXPECT_FALSE(is_undone(free.result));

  const auto silent = optimized::make_manager_subject<optimized::Xxh3Digest>(config, 1);
  Audit strict(config, *silent);
  strict.apply(op::Arrive{"a", {1, 2}});
  EXPECT_THROW(strict.apply(op::Arrive{"b", {1, 2}}), Violation);
}

/// Some answers of the naive manager are replaced, and what they answer is not done.
class Moody final : public Naive {
 public:
  using Naive::Naive;
  Outcome apply(const Operation& operation) override {
    // For a cause that the call has, too.
    if (std::holds_alternative<op::Pin>(operation))
      return {Rejected{Breach::no_content, "free"}, {}};
    if (std::holds_alternative<op::Append>(operation) && ++asked_ % 2 == 0) {
      return {Declined{"not now"}, {}};
    }
    if (std::holds_alternative<op::Touch>(operation)) return {Declined{"never"}, {}};
    return Naive::apply(operation);
  }

 private:
  int asked_ = 0;
};

TEST(Audit, CodesAreComparedWithTheModels) {
  const CacheConfig config = small_config();
  Moody subject(config);
  Audit audit(config, subject);
  try {
    audit.apply(op::Pin{{1, 99}, "l"});
    FAIL() << "the model says that block 99 is out of range";
  } catch (const Violation& violation) {
    EXPECT_EQ(violation.breaches, std::vector<std::string>{"model"}) << violation.what();
  }
}

TEST(Audit, WhatIsDeclinedIsDeclinedAgain) {
  const CacheConfig config = small_config();
  Moody subject(config);
  Audit audit(config, subject);
  audit.apply(op::Arrive{"a", {1, 2}});
  audit.apply(op::Append{"a", {1}});
  EXPECT_THROW(audit.apply(op::Append{"a", {1}}), Violation);
}

TEST(Audit, WhatIsDeclinedNeedNotBeDone) {
  const CacheConfig config = small_config();
  Moody subject(config);
  Audit audit(config, subject);  // which asks every law on the first step
  EXPECT_NO_THROW(audit.apply(op::Touch{{1}}));
}

TEST(Audit, CountsWhatHappened) {
  const CacheConfig config = small_config();
  reference::CacheManager subject(config);
  Audit audit(config, subject);
  for (const Operation& o : std::vector<Operation>{
           op::Arrive{"a", {0, 1, 2, 3, 4}}, op::Lookup{"a"}, allocate("a", 5, true),  // grant
           op::Free{"a"}, op::Lookup{"a"},
           allocate("a", 1, true),            // preemption; hit with two revivals
           op::Finish{"a"}, op::Take{6},      // refusal
           op::Take{5}, op::Release{{9}}}) {  // two evictions; rejection
    audit.apply(o);
  }
  const Counts& c = audit.counts();
  EXPECT_EQ(c.operations, 10U);
  EXPECT_EQ(c.grants, 3U);
  EXPECT_EQ(c.hits, 1U);
  EXPECT_EQ(c.revivals, 2U);
  EXPECT_EQ(c.evictions, 2U);
  EXPECT_EQ(c.refusals, 1U);
  EXPECT_EQ(c.rejections, 1U);
  EXPECT_EQ(c.preemptions, 1U);
  EXPECT_EQ(c.blind, 0U);
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Failure, IsWrittenAsATraceThatReadsBackAndFailsAgain) {
  const fs::path folder = fs::path(testing::TempDir()) / "kvproof-audit-test";
  fs::create_directories(folder);
  const MakeSubject make = [](const CacheConfig& c) { return make_museum("B004", c); };
  const std::vector<Operation> trace = {op::Step{}, op::Touch{{2}}, op::Step{}};
  const auto found = run_trace(make, small_config(), trace, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->trace.size(), 2U);  // cut off after the culprit
  const Failure small = shrink(make, *found, {});
  EXPECT_EQ(small.trace, std::vector<Operation>{op::Touch{{2}}});

  const fs::path file = write_failure(small, 42, folder);
  EXPECT_EQ(file, folder / "kvproof-failure-42.jsonl");
  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 3U);
  const TraceLine header = parse_trace_line(lines[0]);
  EXPECT_EQ(header.header.seed, 42U);
  EXPECT_EQ(header.header.config.num_blocks, 6U);
  const TraceLine line = parse_trace_line(lines[1]);
  EXPECT_EQ(line.operation, small.trace[0]);
  EXPECT_EQ(parse_trace_line(lines[2]).num_operations, 1U);
  const auto again =
      run_trace(make, header.header.config, std::vector<Operation>{line.operation}, {});
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->breaches, small.breaches);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);

  const std::string text = describe_failure(small, 42, file);
  for (const std::string& part :
       {std::string("seed 42"), std::string("I2"), lines[1], "./kvproof replay " + file.string()}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  }
  fs::remove_all(folder);
}

TEST(Failure, ThatCannotBeWrittenLeavesNothing) {
  const fs::path nowhere = fs::path(testing::TempDir()) / "kvproof-no-such-folder";
  fs::remove_all(nowhere);
  Failure failure;
  failure.breaches = {"I1"};
  EXPECT_THROW((void)write_failure(failure, 1, nowhere), std::runtime_error);
  EXPECT_FALSE(fs::exists(nowhere));
}

TEST(Environment, NumbersAreReadWholeOrRefused) {
  setenv("KVPROOF_SEED", "77", 1);
  EXPECT_EQ(seed_from_environment(), 77U);
  for (const char* wrong : {"", "7x", "-1", "9223372036854775808", "99999999999999999999"}) {
    setenv("KVPROOF_SEED", wrong, 1);
    EXPECT_THROW((void)seed_from_environment(), std::invalid_argument) << wrong;
  }
  unsetenv("KVPROOF_SEED");
  EXPECT_EQ(seed_from_environment(), 1U);
}

}  // namespace
}  // namespace kvproof::properties
