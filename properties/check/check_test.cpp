// SPDX-License-Identifier: Apache-2.0
// The check is checked: a seeded bug is reported, a short run is not taken for a proof, and what is
// demanded follows from what is promised and shown.
#include "properties/check/check.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "properties/check/drawing.h"
#include "properties/check/published_keys.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/ways.h"
#include "properties/sources/traces/test_files.h"
#include "reference/operations.h"
#include "reference/support/input_error.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

std::vector<std::string> demanded(const CacheConfig& config, const Demands& demands) {
  std::vector<std::string> out;
  for (const Law& law : kStateLaws) {
    if (why_left_out(law, config, demands).empty()) out.emplace_back(law.id);
  }
  return out;
}

Demands safety(std::initializer_list<std::string_view> operations, Parts shown) {
  Demands out;
  out.promises.level = Level::safety;
  out.promises.operations = operation_set(operations);
  out.promises.block_ids = (shown & kIds) != 0;
  out.shown = shown;
  return out;
}

using Ids = std::vector<std::string>;

TEST(PublishedKeys, AreThoseOfTheManagerWithThatHashAlone) {
  for (const PublishedKey& row : published_keys()) {
    for (const std::string_view hash : kPublishedHashes) {
      const optimized::SubjectRow& manager = *optimized::find_manager(hash);
      const auto subject = manager.make(row.config);
      subject->apply(row.arrival);
      Snapshot state;
      subject->observe(state);
      for (const std::string_view other : kPublishedHashes) {
        EXPECT_EQ(why_another_key(row, other, state).has_value(), other != hash) << other;
      }
    }
  }
}

TEST(PublishedKeys, AnotherKeyIsAFinding) {
  Candidate candidate = own_candidate(*optimized::find_manager("sha256"));
  candidate.hash = "vllm_sha256";
  const CheckReport report = check(candidate, {});
  ASSERT_NE(report.failure(), nullptr);
  EXPECT_EQ(report.failure()->where, "published keys");
  EXPECT_EQ(report.failure()->failure.breaches, Ids{"keys"});
  EXPECT_NE(report.failure()->failure.step.after->requests, std::vector<RequestState>());
}

TEST(Reach, AnAllocatorOfOursIsHeldToEverything) {
  CacheConfig config = pool(9, {full(2), window(2, 3)});
  config.num_host_blocks = 4;
  EXPECT_EQ(demanded(config, {}).size(), kStateLaws.size());
  const Oracles oracles = oracles_for(config, {});
  EXPECT_TRUE(oracles.content && oracles.model);
  EXPECT_EQ(oracles.laws_left_out, 0U);
}

TEST(Reach, WhoShowsNoBlocksIsHeldToCounts) {
  const Demands counts = safety({"lookup", "reset"}, kUsage);
  EXPECT_EQ(
      demanded(pool(9, {full(2)}, false), counts),
      (Ids{"I9", "I10", "I20", "I21", "I22", "I23", "I25", "I29", "I31", "C12", "C13", "C14"}));
  EXPECT_EQ(demanded(pool(9, {full(2)}), counts),
            (Ids{"I20", "I22", "I23", "I31", "C12", "C13", "C14"}));
  EXPECT_EQ(demanded(pool(9, {full(2), window(2, 3)}), counts),
            (Ids{"I20", "I22", "I23", "I31", "C12", "C13", "C14"}));
  const Oracles oracles = oracles_for(pool(9, {full(2)}), counts);
  EXPECT_FALSE(oracles.content || oracles.model);
}

TEST(Reach, PolicyIsDemandedOfWhoPromisesIt) {
  Demands demands = safety({}, kAllParts);
  const CacheConfig config = pool(9, {full(2)});
  for (const char* id : {"I12", "I17", "I26"}) {
    EXPECT_NE(why_left_out(*find_law(id), config, demands), "") << id;
  }
  demands.promises.level = Level::policy;
  for (const char* id : {"I12", "I17", "I26"}) {
    EXPECT_EQ(why_left_out(*find_law(id), config, demands), "") << id;
  }
  EXPECT_FALSE(oracles_for(config, demands).model);
  demands.promises.level = Level::profile;
  demands.promises.profile = "vllm-0.22";
  EXPECT_FALSE(oracles_for(config, demands).model) << "another profile than it promises";
  demands.promises.profile = config.profile.name;
  EXPECT_TRUE(oracles_for(config, demands).model);
}

TEST(Reach, HitsAreDemandedWithoutAnOrder) {
  Demands demands = safety({"lookup"}, kAllParts);
  const CacheConfig config = pool(9, {full(2)});
  Ids expected = demanded(config, demands);
  EXPECT_EQ(why_left_out(*find_law("C10"), config, demands), "it promises safety, not hits");
  demands.promises.level = Level::hits;
  EXPECT_EQ(why_left_out(*find_law("I26"), config, demands), "it promises hits, not policy");
  expected.insert(std::ranges::find(expected, "C12"), "C10");
  EXPECT_EQ(demanded(config, demands), expected);
}

TEST(Reach, WhatIsLeftOutSaysWhy) {
  const CacheConfig config = pool(9, {full(2)});
  EXPECT_EQ(why_left_out(*find_law("C2"), config, safety({}, kAllParts)),
            "it does not declare fork");
  EXPECT_EQ(why_left_out(*find_law("I2"), config, safety({}, kIds)),
            "it does not show the free queue, reference counts");
}

CheckOptions options(const char* configuration, std::uint64_t operations) {
  CheckOptions out;
  out.operations = operations;
  out.rows = {find_configuration(configuration)};
  out.profiles = {&kProfiles[0]};
  return out;
}

TEST(Check, ReportsASeededBugShrunkWithTheStatesAroundIt) {
  const Candidate broken{.name = "seeded", .open = [](const CacheConfig& config) {
                           return Opened{make_museum("B004", config), {}};
                         }};
  const CheckReport report = check(broken, options("plain", 1000));
  ASSERT_NE(report.failure(), nullptr);
  const FailureReport& f = *report.failure();
  EXPECT_LE(f.failure.trace.size(), f.found_after);
  EXPECT_LE(f.failure.trace.size(), 25U);
  ASSERT_NE(f.failure.step.after, nullptr);
  EXPECT_NE(*f.failure.step.after, *f.failure.step.before);
  EXPECT_EQ(f.failure.step.operation, f.failure.trace.back());
  EXPECT_EQ(f.failure.step.index + 1, f.failure.trace.size());
  std::size_t broken_laws = 0;
  for (const LawReport& law : report.laws) broken_laws += law.reported > 0 ? 1 : 0;
  EXPECT_EQ(broken_laws, f.failure.breaches.size());
}

TEST(Check, ReplaysWhatOnceBrokeAnAllocator) {
  const Candidate broken{.name = "seeded", .open = [](const CacheConfig& config) {
                           return Opened{make_museum("B055", config), {}};
                         }};
  CheckOptions with = options("full_uncached", 1);  // a hit is not drawn
  with.waits = with.shrinks = false;
  EXPECT_EQ(check(broken, with).failure(), nullptr);
  with.regressions = KVPROOF_SOURCE_DIR "/properties/sources/regressions";
  const CheckReport report = check(broken, with);
  ASSERT_NE(report.failure(), nullptr);
  EXPECT_NE(report.failure()->where.find("stale-hit.jsonl"), std::string::npos);
}

TEST(Check, ARegressionOfAHostTierIsForWhoHasOne) {
  std::uint32_t opened = 0;
  const Candidate candidate{
      .name = "without swaps", .foreign = true, .open = [&](const CacheConfig& config) {
        ++opened;
        EXPECT_EQ(config.num_host_blocks, 0U);
        Opened out = own_candidate(find_row("naive")).open(config);
        out.demands.promises.operations &= ~operation_set({"swap_out", "swap_in"});
        return out;
      }};
  CheckOptions with = options("plain", 1);
  with.waits = with.shrinks = false;
  with.profiles = {find_profile("vllm-0.33")};
  with.regressions = KVPROOF_SOURCE_DIR "/properties/sources/regressions";
  EXPECT_EQ(check(candidate, with).failure(), nullptr);
  EXPECT_GT(opened, 1U);
}

TEST(Check, ARecordingEndsAtWhatTheSubjectDoesNotDeclare) {
  class WithoutLeases final : public Subject {
   public:
    explicit WithoutLeases(const CacheConfig& config)
        : subject_(own_candidate(find_row("naive")).open(config).subject) {}
    Outcome apply(const Operation& operation) override {
      if (!std::holds_alternative<op::Pin>(operation)) return subject_->apply(operation);
      return Outcome{NotAsked{"it does not declare it"}, {}};
    }
    void observe(Snapshot& out) const override { subject_->observe(out); }

   private:
    std::unique_ptr<Subject> subject_;
  };
  const Candidate candidate{.name = "without leases", .open = [](const CacheConfig& config) {
                              Opened out{std::make_unique<WithoutLeases>(config), {}};
                              out.demands.promises.operations &= ~operation_set({"pin", "unpin"});
                              return out;
                            }};
  CheckOptions with = options("plain", 1);
  with.waits = with.shrinks = false;
  with.vectors = KVPROOF_SOURCE_DIR "/properties/sources/traces/vectors";
  EXPECT_EQ(check(candidate, with).failure(), nullptr);
}

/// Finds nothing, as if a lookup were of no use to anybody.
class Forgetful final : public Subject {
 public:
  explicit Forgetful(const CacheConfig& config)
      : subject_(own_candidate(find_row("naive")).open(config).subject) {}
  Outcome apply(const Operation& operation) override {
    const auto* lookup = std::get_if<op::Lookup>(&operation);
    return subject_->apply(lookup == nullptr ? operation : op::Lookup{lookup->req, 0});
  }
  void observe(Snapshot& out) const override { subject_->observe(out); }

 private:
  std::unique_ptr<Subject> subject_;
};

TEST(Check, LostHitsAreReportedOfWhoPromisesThem) {
  CheckOptions with = options("full", 3000);
  with.profiles = {find_profile("vllm-0.33")};
  with.waits = with.shrinks = false;
  for (const Level level : {Level::safety, Level::hits, Level::policy}) {
    const Candidate candidate{
        .name = "forgetful", .foreign = true, .open = [level](const CacheConfig& config) {
          Opened out{std::make_unique<Forgetful>(config), {}};
          out.demands.promises.level = level;
          out.demands.promises.operations &= ~operation_set({"decode"});
          return out;
        }};
    const CheckReport report = check(candidate, with);
    ASSERT_EQ(report.failure() == nullptr, level == Level::safety);
    EXPECT_TRUE(level == Level::safety || report.failure()->failure.names("C10"));
  }
}

TEST(Check, ASubjectThatThrowsIsAFailureWithoutAnAnswer) {
  class Thrower final : public Subject {
   public:
    explicit Thrower(const CacheConfig& config) : blocks_(config.num_blocks) {}
    Outcome apply(const Operation&) override { throw std::runtime_error("out of order"); }
    void observe(Snapshot& out) const override { out.blocks.resize(blocks_); }

   private:
    std::size_t blocks_;
  };
  const Candidate broken{.name = "thrower", .open = [](const CacheConfig& config) {
                           return Opened{std::make_unique<Thrower>(config), {}};
                         }};
  const CheckReport report = check(broken, options("plain", 10));
  ASSERT_NE(report.failure(), nullptr);
  EXPECT_EQ(report.failure()->failure.breaches, Ids{"exception"});
  EXPECT_EQ(report.failure()->failure.step.after, nullptr);
  EXPECT_FALSE(report.failure()->failure.step.answer.has_value());
}

FailureReport finding(std::vector<std::string> laws, std::vector<Operation> trace,
                      std::string text = "") {
  FailureReport out;
  out.failure.breaches = std::move(laws);
  out.failure.text = std::move(text);
  out.failure.trace = std::move(trace);
  return out;
}

TEST(Findings, AreDistinctByLawsAndCause) {
  Findings findings(3, {{"as reported", {"I9", "I10"}}, {"mended", {"C2"}}, {"gone", {"C3"}}});
  findings.add(finding({"I9"}, {op::Lookup{"a"}, op::Free{"a"}}, "block 3 of r12 in [1, 2]"));
  findings.add(finding({"I9"}, {op::Lookup{"b"}}, "block 14 of r7 in [3]"));
  EXPECT_EQ(findings.all().size(), 1U);
  EXPECT_EQ(findings.all().front().shape(), "lookup") << "the shortest is kept";
  EXPECT_EQ(findings.all().front().seen, 2U);
  ASSERT_TRUE(findings.all().front().known.has_value());
  EXPECT_EQ(findings.all().front().known->id, "as reported");
  findings.add(finding({"I9"}, {op::Lookup{"a"}, op::Free{"a"}}, "the index has no such block"));
  EXPECT_EQ(findings.all().back().shape(), "lookup, free");
  FailureReport behind = finding({"C2"}, {op::Lookup{"a"}});
  behind.behind = 1;
  EXPECT_EQ(behind.without(), " --without-law=I1");
  findings.add(behind);
  EXPECT_FALSE(findings.enough()) << "what may follow from another is not counted";
  findings.add(finding({"I9", "I13"}, {op::Lookup{"a"}}));
  EXPECT_EQ(findings.all().back().laws(), "I9+I13");
  EXPECT_FALSE(findings.all().back().known.has_value()) << "the row does not name I13";
  EXPECT_TRUE(findings.enough());
  ASSERT_EQ(findings.gone().size(), 1U);
  EXPECT_EQ(findings.gone().front().id, "gone");
  EXPECT_EQ(findings.laws_seen_enough(), std::uint64_t{1} << (find_law("I9") - kLaws));
  EXPECT_TRUE(findings.counts_only(finding({"I9"}, {}).failure));
  EXPECT_FALSE(findings.counts_only(finding({"I13"}, {}).failure));
}

std::vector<KnownFinding> read_rows(const std::string& text) {
  const TemporaryFolder folder;
  return read_known(folder.write("known.jsonl", text), is_of_check);
}

TEST(KnownFindings, AreOfTheirEngineReleaseLawsWordsAndPlace) {
  const KnownFinding row =
      read_rows(
          R"({"id":"K1","engine":"mine","law":"I9+I10","says":"r2 holds 3 blocks","first":"0.9",)"
          R"("last":"0.33.0","page":"p.md","what":"w","where":["plain"]})")
          .front();
  EXPECT_EQ(row.law() + ' ' + row.text(), "I9+I10 K1 w p.md");
  for (const char* release : {"0.9", "0.10.1", "0.33.0"}) {
    EXPECT_TRUE(row.applies_to("mine", release)) << release;
  }
  for (const char* release : {"0.8", "0.33.1", "0.33.0+mend", "82f5ca2", ""}) {
    EXPECT_FALSE(row.applies_to("mine", release)) << release;
  }
  EXPECT_FALSE(row.applies_to("another", "0.10"));
  const std::string said = "I9: r17 holds 41 blocks.";
  EXPECT_TRUE(row.explains({"I9"}, said, "plain"));
  EXPECT_FALSE(row.explains({"I9", "I13"}, said, "plain"));
  EXPECT_FALSE(row.explains({"I9"}, "r17 hold 41 blocks", "plain"));
  EXPECT_FALSE(row.explains({"I9"}, said, "window"));
  const auto earlier = read_rows(R"({"finding":"I9","reason":"as reported","link":"l"})");
  EXPECT_EQ(earlier.front().text(), "as reported l");
  EXPECT_TRUE(read_rows(R"({"id":"K","law":"S9+tail"})").empty()) << "no check asks these";
  EXPECT_GT(
      read_known(KVPROOF_SOURCE_DIR "/properties/engines/findings/known.jsonl", is_of_check).size(),
      9U);
}

TEST(KnownFindings, WithWordsHideNoOthersOfTheirLaw) {
  Findings findings(9, {{.id = "K", .laws = {"I9"}, .says = "block of r"}});
  for (const char* text : {"block 1 of r2", "block 3 of r4", "block 5 of r6", "no such block"}) {
    const FailureReport each = finding({"I9"}, {op::Lookup{"a"}}, text);
    if (!findings.counts_only(each.failure)) findings.add(each);
  }
  ASSERT_EQ(findings.all().size(), 2U);
  EXPECT_EQ(findings.all().front().seen, 3U);
  EXPECT_FALSE(findings.all().back().known);
}

TEST(KnownFindings, AreRefusedByLineAndField) {
  for (const auto& [text, said] :
       {std::pair{R"({"id":"K"})", "line 1: field law: expected a value, found none"},
        {R"({"law":"I9"})", "line 1: field id: expected a value, found none"},
        {R"({"id":"K","law":"I99"})", "field law: expected ids of laws joined by +, found 'I99'"},
        {R"({"id":"K","law":"I9","lnk":"l"})", "field lnk: expected one of id, engine, law"},
        {R"({"id":"K","law":"I9","where":"plain"})", "field where: expected an array"},
        {R"({"id":"K","law":"I9","says":3})", "field says: expected a string"},
        {R"(["K"])", "line 1: expected a JSON object"}}) {
    try {
      static_cast<void>(read_rows(text));
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  }
}

TEST(Check, GoesOnAfterAFindingAndWithoutALaw) {
  const Candidate broken{.name = "seeded", .open = [](const CacheConfig& config) {
                           return Opened{make_museum("B004", config), {}};
                         }};
  CheckOptions several = options("plain", 1000);
  several.findings = 3;
  const CheckReport report = check(broken, several);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_GT(report.findings.front().seen, 1U) << "one bug is one finding, seen again";
  const std::string law = report.findings.front().failure.breaches.front();
  several.known = {{"seeded", report.findings.front().failure.breaches}};
  EXPECT_GT(check(broken, several).num_known(), 0U);
  several.known.clear();
  several.laws_left_out = std::uint64_t{1} << (find_law(law) - kLaws);
  for (const FailureReport& f : check(broken, several).findings) {
    EXPECT_FALSE(f.failure.names(law)) << f.failure.text;
  }
}

TEST(Check, WhatMayFollowFromAKnownFindingDecidesNothing) {
  CheckReport report;
  FailureReport front = finding({"C12"}, {op::Lookup{"a"}});
  FailureReport behind = finding({"I7"}, {op::Lookup{"a"}});
  behind.behind = 1;
  report.findings = {front, behind};
  ASSERT_NE(report.failure(), nullptr);
  EXPECT_EQ(report.failure()->laws(), "C12");
  report.findings.front().known = KnownFinding{"as reported", {"C12"}};
  EXPECT_EQ(report.failure(), nullptr);
  EXPECT_EQ(report.num_behind(), 1U) << "it is told all the same";
}

TEST(Check, SaysWhichRequiredLawIsNotEvaluated) {
  CheckOptions required = options("plain", 3000);
  required.required = {"I1", "C2"};
  const CheckReport report = check(own_candidate(*optimized::find_subject("naive")), required);
  EXPECT_EQ(report.silent, Ids{"C2"});
  EXPECT_TRUE(report.vacuous());
  EXPECT_EQ(report.rows_run(), 1U);
  EXPECT_GT(report.laws_evaluated(), 20U);
}

TEST(Check, IsVacuousWhereNothingHappened) {
  const Candidate naive = own_candidate(*optimized::find_subject("naive"));
  EXPECT_TRUE(check(naive, options("full_host", 1)).vacuous());
  const CheckReport enough = check(naive, options("full_host", 5000));
  EXPECT_FALSE(enough.vacuous());
  EXPECT_EQ(enough.failure(), nullptr);
  for (const RunReport& run : enough.runs) EXPECT_TRUE(run.vacuous.empty()) << run.name;
}

TEST(Check, NamesWhatItDidNotRun) {
  Candidate plain = own_candidate(*optimized::find_subject("naive"));
  plain.foreign = true;
  plain.open = [](const CacheConfig& config) {
    Opened out{optimized::find_subject("naive")->make(config), {}};
    out.demands.promises.operations &= ~operation_set({"lookup", "swap_in"});
    if (config.groups.size() > 1) {
      out.subject = nullptr;
      out.demands.promises.unsupported = "one group only";
    }
    return out;
  };
  for (const auto& [row, reason] :
       {std::pair("full", "it does not declare lookup"),
        std::pair("full_uncached_host", "it does not declare swap_out, swap_in and complete"),
        std::pair("full_cross", "it says: one group only")}) {
    const CheckReport report = check(plain, options(row, 10));
    EXPECT_EQ(report.runs.back().not_run, reason);
    EXPECT_EQ(report.runs.back().runs, 0U);
  }
}

TEST(Swarm, ReachesEveryPairOfFeaturesThatCanBe) {
  std::map<std::string_view, int> excused;
  for (std::size_t a = 0; a < kNumFeatures; ++a) {
    for (std::size_t b = a + 1; b < kNumFeatures; ++b) ++excused[why_apart(a, b)];
  }
  EXPECT_EQ(excused[{}], static_cast<int>(FeaturePairs::possible()));
  for (const auto& [why, pairs] : excused) {
    if (!why.empty()) std::cout << pairs << " pairs cannot be: " << why << '\n';
  }
  for (const auto& row : optimized::kSubjects) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CheckOptions few;
      few.rows = {&kSwarm};
      few.seed = seed;
      few.operations = 2000;
      const CheckReport report = check(own_candidate(row), few);
      EXPECT_FALSE(report.vacuous());
      ASSERT_EQ(report.failure(), nullptr) << row.name << ": " << report.failure()->failure.text;
      for (const std::string& pair : report.pairs.missing()) ADD_FAILURE() << pair << " is absent";
    }
  }
}

// Without drawn rows pairs are absent, and a pair that is said to be impossible never is there.
TEST(Swarm, TheListAloneLacksPairs) {
  CheckOptions few;
  few.operations = 100;
  few.waits = false;
  for (const Configuration& row : kConfigurations) few.rows.push_back(&row);
  const CheckReport report = check(own_candidate(optimized::kSubjects[0]), few);
  EXPECT_LT(report.pairs.reached(), FeaturePairs::possible());
  ChoiceStream choices(1);
  for (int i = 0; i < 2000; ++i) {
    const Configuration row = draw_row(choices.next());
    const Choice setup = choices.next();
    for (const Profile& profile : kProfiles) {
      const CacheConfig config = draw_config(profile, row, setup);
      EXPECT_EQ(unsupported(config), std::nullopt);
      const FeatureSet has = features_of({row, config, draw_swarm(row, setup)});
      for (std::size_t a = 0; a < kNumFeatures; ++a) {
        for (std::size_t b = a + 1; b < kNumFeatures; ++b) {
          EXPECT_TRUE(!has[a] || !has[b] || why_apart(a, b).empty())
              << kFeatures[a].name << " with " << kFeatures[b].name << ": " << why_apart(a, b);
        }
      }
    }
  }
}

TEST(Drawing, MarksWhatChangedAndNamesKeys) {
  Snapshot before;
  before.blocks.resize(4);
  before.num_free = 2;
  before.queue = {2, 3};
  before.queue_backward = {3, 2};
  BlockState& cached = before.blocks[1];
  cached.ref_cnt = 1;
  cached.hashed = true;
  cached.key = 977;
  cached.prefix_tokens = 2;
  RequestState& r0 = before.requests.emplace_back();
  r0.name = "r0";
  r0.num_tokens = 3;
  r0.computed = 2;
  r0.tables = {{1}};
  r0.progress = {1};
  Snapshot after = before;
  after.num_free = 1;
  after.queue = {3};
  after.queue_backward = {2, 3};
  after.blocks[2].ref_cnt = 1;
  after.requests[0].tables = {{1, 2}};
  after.leases = {{"l0", {2}}};
  EXPECT_EQ(draw_change(before, after),
            "  - queue        2 free: head 2 > 3 tail\n"
            "  + queue        1 free: head 3 tail; from the tail [2, 3]\n"
            "    block   1    refs 1  key A of 2 tokens  in r0 [0]\n"
            "  - block   2    refs 0\n"
            "  + block   2    refs 1  in r0 [1], lease l0\n"
            "  - request r0   3 tokens, 2 computed; table [1] cached up to 1\n"
            "  + request r0   3 tokens, 2 computed; table [1, 2] cached up to 1\n"
            "  + lease l0     [2]\n");
  EXPECT_EQ(draw_state(before).find('+'), std::string::npos);
}

}  // namespace
}  // namespace kvproof::properties
