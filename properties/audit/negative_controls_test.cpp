// SPDX-License-Identifier: Apache-2.0
// Reports of engines that were no bugs: an oracle that objects to these is wrong.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "optimized/subjects.h"
#include "properties/audit/audit.h"
#include "properties/audit/runner.h"
#include "properties/laws/law_scenes.h"
#include "properties/laws/laws.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/cases.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

CacheConfig blocks_of_four(std::vector<GroupConfig> groups) {
  CacheConfig config;
  config.num_blocks = 16;
  config.max_model_len = 64;
  config.hash_block_size = 4;
  config.groups = std::move(groups);
  return config;
}

std::vector<TokenId> tokens(std::uint32_t n) { return std::vector<TokenId>(n, 7); }

/// Every implementation under all oracles, which throw when they object.
template <class Body>
void for_each_subject(const CacheConfig& config, const Body& body) {
  for (const auto& row : optimized::kSubjects) {
    SCOPED_TRACE(std::string(row.name));
    const std::unique_ptr<Subject> subject = row.make(config);
    Audit audit(config, *subject, {.runs = true});
    body(audit);
  }
}

/// A request of so many equal tokens arrives, and all are granted.
void admit(Audit& audit, const std::string& name, std::uint32_t n) {
  audit.apply(op::Arrive{name, tokens(n)});
  audit.apply(allocate(name, n));
}

bool refused(const Outcome& outcome) { return std::holds_alternative<Refused>(outcome.result); }

// inference-sim#492: to refuse what would have fitted costs time and loses nothing.
TEST(NegativeControls, AConservativeCheckIsUnkindAndSafe) {
  const MakeSubject make = [](const CacheConfig& config) { return make_museum("B062", config); };
  Oracles safety{.model = false, .runs = true};
  for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
    if (kStateLaws[i].promise != Promise::safety) safety.laws_left_out |= 1ULL << i;
  }
  ChoiceStream stream(seed_from_environment());
  Counts counts;
  while (counts.operations < 20000) {
    const auto failure = run_case(make, kProfiles[0], *find_configuration("full"),
                                  draw_case(stream, 200), safety, counts);
    ASSERT_FALSE(failure.has_value()) << failure->text;
  }
  EXPECT_GT(counts.refusals, 100U);
  Counts judged;
  std::optional<Failure> unkind;
  while (!unkind && judged.operations < 20000) {
    unkind = run_case(make, kProfiles[0], *find_configuration("full"), draw_case(stream, 200),
                      {true, false, false}, judged);
  }
  ASSERT_TRUE(unkind.has_value()) << "as a promise of policy it is broken";
  EXPECT_TRUE(unkind->names("I19")) << unkind->text;
}

// vllm#37152: with full attention the kernel that writes a block runs before the one that reads it.
TEST(NegativeControls, AHitOnBlocksOfTheSameStepIsRightForAttentionAndWaitsForStates) {
  const auto hits_in_the_step = [](Audit& audit) {
    audit.apply(op::Step{});
    admit(audit, "a", 9);
    audit.apply(op::Arrive{"b", tokens(9)});
    EXPECT_EQ(std::get<Hit>(audit.apply(op::Lookup{"b"}).result).hit_tokens, 8U);
    return !refused(audit.apply(allocate("b", 1, true)));
  };
  for_each_subject(blocks_of_four({{LayerKind::full, 4}}),
                   [&](Audit& audit) { EXPECT_TRUE(hits_in_the_step(audit)); });
  GroupConfig states{LayerKind::mamba, 4};
  states.mode = MambaMode::all;
  CacheConfig with_states = blocks_of_four({{LayerKind::full, 4}, states});
  with_states.profile = *find_profile("vllm-0.24");
  for_each_subject(with_states, [&](Audit& audit) {
    EXPECT_FALSE(hits_in_the_step(audit));
    audit.apply(op::Step{});
    EXPECT_FALSE(refused(audit.apply(allocate("b", 1, true))));
  });
}

// nano-vllm#30: the length counts the token that is to be computed, so a block begins at k*B+1.
TEST(NegativeControls, TheTokenAfterAFullBlockIsTheOneThatTakesANewBlock) {
  for_each_subject(blocks_of_four({{LayerKind::full, 4}}), [](Audit& audit) {
    admit(audit, "a", 7);
    for (const std::uint32_t length : {8U, 9U, 10U}) {
      audit.apply(op::Advance{"a", length - 1});
      audit.apply(op::Append{"a", {7}});
      const auto granted = std::get<Granted>(audit.apply(allocate("a", 1)).result);
      EXPECT_EQ(granted.blocks[0].size(), length % 4 == 1 ? 1U : 0U) << length;
    }
  });
}

// vllm-ascend#10394: a window gives up the head of its table.
TEST(NegativeControls, AWindowDropsItsHead) {
  GroupConfig window{LayerKind::sliding_window, 4};
  window.window = 5;
  for_each_subject(blocks_of_four({window}), [](Audit& audit) {
    admit(audit, "a", 16);
    audit.apply(op::Advance{"a", 16});
    audit.apply(op::Recycle{"a", 16});
    const std::vector<BlockId>& table = audit.state().find("a")->tables[0];
    EXPECT_EQ(std::vector<BlockId>(table.begin(), table.begin() + 3),
              std::vector<BlockId>(3, kNullBlock));
    EXPECT_NE(table[3], kNullBlock);
  });
}

// vllm#5543 and others: texts of a cold and a warm cache may differ by rounding. What is compared
// here are the bytes that each attends to, and those are the same.
TEST(NegativeControls, AWarmCacheReadsWhatAColdOneRead) {
  for_each_subject(blocks_of_four({{LayerKind::full, 4}}), [](Audit& audit) {
    admit(audit, "cold", 10);
    audit.apply(op::Advance{"cold", 10});
    const auto before = audit.state().find("cold")->tables[0];
    audit.apply(op::Finish{"cold"});
    audit.apply(op::Arrive{"warm", tokens(10)});
    audit.apply(op::Lookup{"warm"});
    audit.apply(allocate("warm", 2, true));
    const auto after = audit.state().find("warm")->tables[0];
    EXPECT_EQ(std::vector<BlockId>(after.begin(), after.begin() + 2),
              std::vector<BlockId>(before.begin(), before.begin() + 2));
    EXPECT_EQ(audit.counts().hits, 1U);
  });
}

}  // namespace
}  // namespace kvproof::properties
