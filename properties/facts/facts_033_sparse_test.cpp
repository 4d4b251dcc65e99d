// SPDX-License-Identifier: Apache-2.0
// Facts about vLLM 0.33.0: retention, hits inside of blocks, checkpoints of prefills, other kinds.
#include <array>
#include <stdexcept>

#include "properties/facts/facts_033.h"
#include "reference/layer_rules.h"

namespace kvproof::properties {
namespace {

// ---- 3: retention ----

using Interval = std::optional<std::uint32_t>;

FACT033(3_1, AnIntervalIsAMultipleOfTheAlignmentAndSomethingForgets) {
  EXPECT_THROW(Driver(way, with_retention(pool(9, {full(4), window(4, 8)}), 6)),
               std::invalid_argument);
  EXPECT_THROW(Driver(way, with_retention(pool(9, {full(4)}), 4)), std::invalid_argument);
  EXPECT_THROW(Driver(way, with_retention(pool(9, {full(4), chunked(4, 8)}), 4)),
               std::invalid_argument);
  Driver none(way, with_retention(pool(9, {full(4)}), 0));
  EXPECT_EQ(none.num_free(), 8U);
}

TEST(Facts033, F3_2_BoundariesOfARequest) {
  const auto boundaries = [](bool drops, std::uint64_t prompt, std::uint64_t junction) {
    const Resumption rules{.drops = drops, .align = 4, .hit_align = 4, .unit = 4};
    return boundaries_of(rules, full(4, drops), prompt, junction).at;
  };
  EXPECT_EQ(boundaries(false, 17, 0), (std::array<std::int64_t, 4>{16, -1, -1, -1}));
  EXPECT_EQ(boundaries(false, 17, 12), (std::array<std::int64_t, 4>{16, -1, 12, -1}));
  EXPECT_EQ(boundaries(true, 16, 0), (std::array<std::int64_t, 4>{8, 12, -1, -1}));
  EXPECT_EQ(boundaries(true, 17, 8), (std::array<std::int64_t, 4>{12, 12, 8, 4}));
  EXPECT_EQ(boundaries(true, 3, 0), (std::array<std::int64_t, 4>{0, 0, -1, -1}));
}

/// A prompt of 17 tokens in full attention and a window, then a sibling that shares 12 of them.
Tokens stored_by_sibling(const Way& way, bool forgotten) {
  Driver m(way, with_retention(pool(60, {full(4), window(4, 8)}), 0));
  m.admit("r0", range(0, 17));
  m.arrive("r1", prompt(12, 1, 8));
  EXPECT_EQ(m.lookup("r1").hit_tokens, 0U);
  if (forgotten) {
    m.evict({1});
    EXPECT_EQ(m.lookup("r1").hit_tokens, 0U);
  }
  m.take_events();
  m.allocate("r1", {.new_tokens = 20, .use_lookup = true});
  return stored(m, 1);
}

FACT033(3_3, TheLastLookupSaysWherePromptsPart) {
  EXPECT_EQ(stored_by_sibling(way, false), (Tokens{8, 12, 16}));
  EXPECT_EQ(stored_by_sibling(way, true), (Tokens{12, 16})) << "nothing is shared any more";
}

/// The positions that a group beside full attention keeps, of eight.
Tokens positions_kept(const GroupConfig& group, Interval interval, std::int64_t boundary) {
  CacheConfig config = pool(9, {full(4), group});
  config.profile = *find_profile("vllm-0.33");
  const CacheMask mask = cache_mask(with_retention(config, interval), group);
  Tokens out;
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (mask.keeps(i, {{boundary, -1, -1, -1}})) out.push_back(i);
  }
  return out;
}

TEST(Facts033, F3_4_WhichBlocksOfAWindowAreKept) {
  GroupConfig group = window(4, 8);
  const auto kept = [&](Interval interval, std::int64_t boundary) {
    return positions_kept(group, interval, boundary);
  };
  EXPECT_EQ(kept({}, -1), (Tokens{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(kept(8, -1), (Tokens{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(kept(16, -1), (Tokens{2, 3, 6, 7}));
  EXPECT_EQ(kept(16, 23), (Tokens{2, 3, 4, 6, 7}));
  EXPECT_EQ(kept(0, 23), (Tokens{3, 4}));
  group.eagle = true;
  EXPECT_EQ(kept(16, -1), (Tokens{2, 3, 4, 6, 7})) << "the block beyond each segment";
  EXPECT_EQ(kept(0, 16), (Tokens{2, 3, 4}));
}

TEST(Facts033, F3_5_WhichStatesAreKept) {
  const auto kept = [](Interval interval, std::int64_t boundary) {
    return positions_kept(states(), interval, boundary);
  };
  EXPECT_EQ(kept({}, -1), (Tokens{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(kept(4, -1), (Tokens{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(kept(16, -1), (Tokens{3, 7}));
  EXPECT_EQ(kept(16, 22), (Tokens{3, 4, 7}));
  EXPECT_EQ(kept(0, 22), Tokens{4});
}

struct Retained {
  Interval interval;
  Tokens after_prompt;
  Tokens after_decode;
  Tokens hits;  // of the same prompt, of a sibling that shares part of it, and of a shorter one
};

FACT033(3_6, WhatAWindowKeepsAndWhoHitsIt) {
  const Tokens all = {4, 8, 12, 16, 20, 24, 28, 32};
  for (const Retained& row : {Retained{{}, {4, 8, 12, 16}, all, {16, 12, 12}},
                              {0, {12, 16}, {12, 16}, {16, 0, 0}},
                              {8, {4, 8, 12, 16}, all, {16, 12, 12}},
                              {16, {12, 16}, {12, 16, 28, 32}, {16, 0, 0}}}) {
    Driver m(way, with_retention(pool(60, {full(4), window(4, 8)}), row.interval));
    prefill(m, "r0", range(0, 17), {8, 8, 1});
    Tokens keys = stored(m, 1);
    EXPECT_EQ(keys, row.after_prompt);
    decode(m, "r0", 15);
    for (const std::uint32_t tokens : stored(m, 1)) keys.push_back(tokens);
    EXPECT_EQ(keys, row.after_decode);
    EXPECT_EQ(m.probe(range(0, 17)).hit_tokens, row.hits[0]);
    EXPECT_EQ(m.probe(prompt(12, 1, 8)).hit_tokens, row.hits[1]);
    EXPECT_EQ(m.probe(range(0, 16)).hit_tokens, row.hits[2]);
  }
}

FACT033(3_7, ASiblingPublishesWherePromptsPart) {
  Driver m(way, with_retention(pool(60, {full(4), window(4, 8)}), 0));
  m.admit("r0", range(0, 17));
  EXPECT_EQ(m.probe(prompt(12, 1, 8)).hit_tokens, 0U);
  m.take_events();
  m.admit("r1", prompt(12, 1, 8));
  const std::vector<Event> events = m.take_events();
  EXPECT_EQ(stored(events, 1), (Tokens{8, 12, 16}));
  const auto& last = std::get<event::Stored>(events.back());
  EXPECT_EQ(std::pair(last.from, last.to), std::pair(0U, 20U));
  EXPECT_EQ(m.probe(prompt(12, 2, 8)), (Hit{12, {{1, 2, 3}, {0, 17, 8}}}));
}

FACT033(3_8, AWindowAloneKeepsWhatABoundaryReads) {
  struct Row {
    Interval interval;
    std::uint32_t prompt_tokens;
    Tokens keys;
    std::uint32_t again;
    std::uint32_t longer;
  };
  for (const Row& row : {Row{0, 16, {8, 12}, 12, 12},
                         {0, 17, {12, 16}, 16, 16},
                         {0, 20, {12, 16}, 16, 16},
                         {{}, 20, {4, 8, 12, 16, 20}, 16, 20}}) {
    Driver m(way, with_retention(pool(30, {window(4, 8)}), row.interval));
    m.admit("r0", range(0, row.prompt_tokens));
    EXPECT_EQ(stored(m, 0), row.keys);
    EXPECT_EQ(m.probe(range(0, row.prompt_tokens)).hit_tokens, row.again);
    EXPECT_EQ(m.probe(range(0, row.prompt_tokens + 8)).hit_tokens, row.longer);
  }
}

FACT033(3_9, GroupsThatDropKeepABlockMore) {
  struct Row {
    std::uint32_t prompt_tokens;
    Tokens keys;
    std::uint32_t hit;
  };
  for (const Row& row : {Row{16, {4, 8, 12, 16}, 12},
                         {17, {8, 12, 16}, 12},
                         {19, {8, 12, 16}, 12},
                         {20, {8, 12, 16, 20}, 16}}) {
    Driver m(way, with_retention(pool(60, {full(4, true), window(4, 8, true)}), 0));
    m.admit("r0", range(0, row.prompt_tokens));
    decode(m, "r0", 12);
    EXPECT_EQ(stored(m, 1), row.keys) << row.prompt_tokens;
    EXPECT_EQ(m.probe(range(0, row.prompt_tokens)).hit_tokens, row.hit);
    EXPECT_EQ(m.probe(range(0, row.prompt_tokens + 8)).hit_tokens, row.hit);
  }
}

FACT033(3_10, WhichStatesAreKeptAndWhoHitsThem) {
  struct Row {
    Interval interval;
    Tokens keys;
    std::uint32_t sibling;
  };
  for (const Row& row : {Row{{}, {4, 8, 12, 16, 20, 24}, 8}, {0, {16}, 0}, {8, {8, 16, 24}, 8}}) {
    Driver m(way, with_retention(pool(60, {full(4), states()}), row.interval));
    prefill(m, "r0", range(0, 18), {4, 4, 4, 4, 2});
    decode(m, "r0", 7);
    EXPECT_EQ(stored(m, 1), row.keys);
    EXPECT_EQ(m.probe(range(0, 18)).hit_tokens, 16U);
    EXPECT_EQ(m.probe(prompt(8, 1, 10)).hit_tokens, row.sibling);
  }
}

FACT033(3_11, ASiblingPublishesTheStateWherePromptsPart) {
  Driver m(way, with_retention(pool(60, {full(4), states()}), 0));
  prefill(m, "r0", range(0, 18), {4, 4, 4, 4, 2});
  m.take_events();
  m.arrive("r1", prompt(8, 1, 10));
  EXPECT_EQ(m.lookup("r1").hit_tokens, 0U);
  m.allocate("r1", {.new_tokens = 8, .use_lookup = true});
  m.advance("r1", 8);
  m.step();
  for (const std::uint32_t chunk : {8U, 2U}) {
    m.compute("r1", chunk);
    m.step();
  }
  EXPECT_EQ(stored(m, 1), (Tokens{8, 16}));
  EXPECT_EQ(m.probe(prompt(8, 2, 10)).hit_tokens, 8U);
}

// ---- 4: hits inside of blocks ----

TEST(Facts033, F4_1_WhereHitsEndInsideOfBlocks) {
  const auto inside = [](CacheConfig config) {
    config.profile = *find_profile("vllm-0.33");
    return hits_inside_blocks(config);
  };
  EXPECT_TRUE(inside(pool(9, {full(2), states()})));
  EXPECT_TRUE(inside(with_unit(pool(9, {full(4), states()}), 2)));
  EXPECT_FALSE(inside(pool(9, {full(4), states()}))) << "equal sizes";
  EXPECT_FALSE(inside(pool(9, {full(2), states()}, false)));
  EXPECT_FALSE(inside(with_unit(pool(9, {states()}), 2))) << "one group";
  EXPECT_FALSE(inside(with_unit(pool(9, {full(2), window(4, 8), states()}), 2)));
  EXPECT_TRUE(inside(pool(9, {full(2), window(2, 8), states()})));
}

TEST(Facts033, F4_2_WhereAPromptLeavesItsState) {
  const auto at = [](std::uint64_t tokens, bool drops, std::uint32_t lookahead) {
    return state_boundary({.drops = drops, .unit = 2, .lookahead = lookahead}, tokens, 2);
  };
  EXPECT_EQ(at(7, false, 0), 6U);
  EXPECT_EQ(at(6, false, 0), 4U);
  EXPECT_EQ(at(7, false, 2), 4U);
  EXPECT_EQ(at(7, true, 0), 4U);
  EXPECT_EQ(at(1, true, 0), 0U);
}

/// A request that stands on the last boundary of its prompt, inside of a state's block.
Driver inside_a_block(const Way& way) {
  Driver m(way, pool(24, {full(2), states()}));
  prefill(m, "r0", range(0, 7), {6});
  return m;
}

FACT033(4_2, AForgottenStateIsPublishedAnewAtTheEndOfItsBlock) {
  Driver m(way, pool(20, {full(4), states()}));
  prefill(m, "r0", range(0, 9), {8, 1});
  m.evict({3});
  stored(m, 1);
  m.apply(op::Cache{"r0", 9});
  EXPECT_EQ(stored(m, 1), Tokens{8});
}

// The release publishes it, as the state that it was. Its scheduler never asks so late.
FACT033(4_2, AStateThatWentOnInsideItsBlockIsNotPublished) {
  Driver m(way, pool(20, {full(2), states()}));
  prefill(m, "r0", range(0, 7), {6, 1});
  stored(m, 1);
  m.apply(op::Cache{"r0", 6});
  EXPECT_EQ(stored(m, 1), Tokens{});
}

FACT033(4_3, TheStateInsideABlockHasAKey) {
  Driver m = inside_a_block(way);
  EXPECT_EQ(m.tables("r0"), (Tables{{1, 2, 3}, {0, 4}}));
  const std::vector<Event> events = m.take_events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0], Event(stored_event(0, 0, 6, {{1, 2}, {2, 4}, {3, 6}})));
  EXPECT_EQ(events[1], Event(stored_event(1, 0, 4, {})));
  EXPECT_EQ(events[2], Event(stored_event(1, 4, 6, {{4, 6}})));
  EXPECT_EQ(progress(m, "r0"), (Progress{3, 1}));
}

AllocateArgs of_a_hit(std::uint32_t new_tokens) {
  return {.new_tokens = new_tokens, .use_lookup = true};
}

FACT033(4_4, BothBlocksOfACopyAreHeldUntilTheStep) {
  Driver m = inside_a_block(way);
  m.admit("r1", prompt(6, 1, 3));
  EXPECT_EQ(m.state().copying, (Blocks{4, 7}));
  m.finish("r0");
  m.finish("r1");
  EXPECT_EQ(m.references({4, 7}), (std::vector<std::int64_t>{1, 1}));
  m.step();
  EXPECT_EQ(m.state().copying, Blocks{});
  EXPECT_EQ(m.num_free(), 23U);
}

FACT033(4_5, ASiblingCopiesTheStateThatItStartsFrom) {
  Driver m = inside_a_block(way);
  m.arrive("r1", prompt(6, 1, 3));
  EXPECT_EQ(m.lookup("r1"), (Hit{6, {{1, 2, 3}, {0, 4}}}));
  const Granted granted = grant(m, "r1", of_a_hit(3));
  EXPECT_EQ(granted.blocks, (Tables{{5, 6}, {7, 8}}));
  EXPECT_EQ(granted.copies, std::vector<Copy>{(Copy{4, 7})});
  EXPECT_EQ(m.tables("r1"), (Tables{{1, 2, 3, 5, 6}, {0, 7, 8}}));
  EXPECT_EQ(m.references({4, 7}), (std::vector<std::int64_t>{2, 2}));
  m.step();
  EXPECT_EQ(m.references({4, 7}), (std::vector<std::int64_t>{1, 1}));

  for (const std::uint32_t tokens : {1U, 2U}) {
    Driver shorter = inside_a_block(way);
    shorter.arrive("r1", prompt(6, 1, 3));
    shorter.lookup("r1");
    EXPECT_EQ(grant(shorter, "r1", of_a_hit(tokens)).blocks, (Tables{{5}, {6}}));
    EXPECT_EQ(shorter.tables("r1").at(1), (Blocks{0, 6}));
  }
}

FACT033(4_6, TheKeyOfAStateGoesToTheCopyThatItsOwnerLeaves) {
  Driver m = inside_a_block(way);
  m.admit("r1", prompt(6, 1, 3));
  m.step();
  m.take_events();
  EXPECT_EQ(m.hashed(1), (Blocks{4, 7})) << "7 is r1's, of eight tokens";
  const Granted granted = grant(m, "r0", {.new_tokens = 1});
  EXPECT_EQ(granted.blocks, (Tables{{9}, {}}));
  EXPECT_EQ(granted.copies, std::vector<Copy>{(Copy{4, 10})});
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{0, 4}));
  EXPECT_EQ(m.take_events(), std::vector<Event>{});
  EXPECT_EQ(m.hashed(1), (Blocks{7, 10}));
  EXPECT_EQ(m.references({4, 10}), (std::vector<std::int64_t>{2, 1}));
  m.step();
  EXPECT_EQ(m.references({4, 10}), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(m.queue().back(), 10U);
  EXPECT_EQ(m.hashed(1), (Blocks{7, 10}));
}

Driver inside_both(const Way& way) {
  Driver m(way, with_unit(pool(24, {full(4), states()}), 2));
  prefill(m, "r0", range(0, 7), {6});
  return m;
}

FACT033(4_7, FullAttentionIsCopiedToo) {
  Driver m = inside_both(way);
  const std::vector<Event> events = m.take_events();
  EXPECT_EQ(stored(events, 0), (Tokens{4, 6}));
  EXPECT_EQ(stored(events, 1), Tokens{6});
  m.arrive("r1", prompt(6, 1, 3));
  EXPECT_EQ(m.lookup("r1"), (Hit{6, {{1, 2}, {0, 3}}}));
  const Granted granted = grant(m, "r1", of_a_hit(3));
  EXPECT_EQ(granted.blocks, (Tables{{4, 5}, {6, 7}}));
  EXPECT_EQ(granted.copies, (std::vector<Copy>{{2, 4}, {3, 6}}));
  EXPECT_EQ(m.tables("r1"), (Tables{{1, 4, 5}, {0, 6, 7}}));
}

// The scheduler takes the copies of a step at its end, group by group.
FACT033(4_4, AStepEndsTheCopiesOfAllRequestsGroupByGroup) {
  Driver m = inside_both(way);
  prefill(m, "r1", range(100, 7), {6});
  m.finish("r0");
  m.finish("r1");
  m.admit("r2", prompt(6, 1, 3));
  m.admit("r3", range(100, 9));
  EXPECT_EQ(m.references({2, 3, 5, 6}), (std::vector<std::int64_t>{1, 1, 1, 1}));
  m.step();
  const Blocks& queue = m.state().queue;
  EXPECT_EQ(Blocks(queue.end() - 4, queue.end()), (Blocks{2, 5, 3, 6}));
}

FACT033(4_8, AKeyOfAPromptIsStoredAnewBehindThatOfItsBlock) {
  Driver m = inside_both(way);
  m.take_events();
  m.compute("r0", 1);
  m.step();
  decode(m, "r0", 1);
  const std::vector<Event> events = m.take_events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0], Event(event::Removed{0, 2, 6}));
  EXPECT_EQ(events[1], Event(stored_event(0, 4, 8, {{2, 8}})));
  EXPECT_EQ(events[2], Event(stored_event(0, 4, 6, {{2, 6}})));
  EXPECT_EQ(events[3], Event(stored_event(1, 4, 8, {{3, 8}})));
}

FACT033(4_9, AStateOfThisStepIsFoundAndNotGranted) {
  Driver m(way, pool(24, {full(2), states()}));
  m.arrive("r0", range(0, 7));
  m.compute("r0", 6);
  m.arrive("r1", prompt(6, 1, 3));
  EXPECT_EQ(m.lookup("r1").hit_tokens, 6U);
  EXPECT_FALSE(m.allocate("r1", of_a_hit(3)));
  m.step();
  EXPECT_TRUE(m.allocate("r1", of_a_hit(3)));
}

FACT033(4_10, AStateIsKeyedWhereAChunkEnds) {
  struct Row {
    std::uint32_t prompt_tokens;
    std::vector<std::uint32_t> chunks;
    Tokens keys;
    std::uint32_t hit;
  };
  for (const Row& row : {Row{8, {6, 2}, {6, 8}, 6},
                         {8, {8}, {8}, 0},
                         {9, {8, 1}, {8}, 8},
                         {7, {6, 1}, {6}, 6},
                         {11, {8, 2, 1}, {8, 10}, 10}}) {
    Driver m(way, pool(40, {full(2), states()}));
    prefill(m, "r0", range(0, row.prompt_tokens), row.chunks);
    EXPECT_EQ(stored(m, 1), row.keys) << row.prompt_tokens;
    EXPECT_EQ(m.probe(range(0, row.prompt_tokens)).hit_tokens, row.hit) << row.prompt_tokens;
  }
}

// ---- 5: checkpoints of prefills ----

Driver checkpointing(const Way& way, const GroupConfig& states, Interval interval) {
  return {way, with_retention(pool(40, {full(4), states}), interval)};
}

FACT033(5_1, OnlyStatesThatMoveHaveCheckpoints) {
  GroupConfig fixed = mamba(4, MambaMode::none);
  fixed.checkpoint_alignment = 1;
  EXPECT_THROW(Driver(way, pool(9, {full(4), fixed}, false)), std::invalid_argument);
}

FACT033(5_2, AChunkThatDoesNotEndThePrefillReservesNone) {
  Driver m = checkpointing(way, checkpointed(1), 0);
  prefill(m, "r0", range(0, 18), {8});
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{0, 3}));
  Driver dense = checkpointing(way, checkpointed(1), {});
  prefill(dense, "r0", range(0, 18), {8});
  EXPECT_EQ(dense.tables("r0").at(1), (Blocks{3, 4}));
}

FACT033(5_3, ACheckpointIsABlockMore) {
  for (const bool keeps : {true, false}) {
    for (const std::uint32_t usable : {6U, 7U}) {
      const std::vector<GroupConfig> groups = {full(4), keeps ? checkpointed(1) : states()};
      Driver m(way, with_retention(pool(usable + 1, groups), 0));
      m.arrive("r0", range(0, 18));
      EXPECT_EQ(m.allocate("r0", {.new_tokens = 18}).has_value(), !keeps || usable == 7);
    }
  }
}

FACT033(5_4, ACheckpointThatNobodyWantsHasNoKey) {
  for (const auto& [chunk, keys] : {std::pair(14U, Tokens{}), {18U, Tokens{16}}}) {
    Driver m = checkpointing(way, checkpointed(1), 8);
    prefill(m, "r0", range(0, 40), {chunk});
    EXPECT_EQ(stored(m, 1), keys);
    EXPECT_EQ(m.hashed(1).size(), keys.size());
    const Blocks table = m.tables("r0").at(1);
    EXPECT_NE(table.at(table.size() - 2), kNullBlock) << "it is reserved all the same";
  }
}

FACT033(5_5, TheChunkThatEndsAPrefillWritesTwoStates) {
  Driver m = checkpointing(way, checkpointed(1), 0);
  prefill(m, "r0", range(0, 18), {18});
  EXPECT_EQ(m.tables("r0"), (Tables{{1, 2, 3, 4, 5}, {0, 0, 0, 6, 7}}));
  EXPECT_EQ(m.hashed(1), Blocks{6});
  EXPECT_EQ(stored(m, 1), Tokens{16});
  decode(m, "r0", 1);
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{0, 0, 0, 0, 7}));
  const Hit hit{16, {{1, 2, 3, 4}, {0, 0, 0, 6}}};
  EXPECT_EQ(m.probe(range(0, 18)), hit);
  EXPECT_EQ(m.probe(range(0, 26)), hit);

  Driver without = checkpointing(way, states(), 0);
  prefill(without, "r0", range(0, 18), {18});
  EXPECT_EQ(without.tables("r0").at(1), (Blocks{0, 0, 0, 0, 6}));
  EXPECT_EQ(without.hashed(1), Blocks{});
  EXPECT_EQ(without.probe(range(0, 18)).hit_tokens, 0U);
}

FACT033(5_5, ThePrefillMayHaveBegunBefore) {
  Driver m = checkpointing(way, checkpointed(1), 0);
  prefill(m, "r0", range(0, 18), {8, 10});
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{0, 3, 0, 7, 8}));
  EXPECT_EQ(m.hashed(1), Blocks{7});
  Driver dense = checkpointing(way, checkpointed(1), {});
  prefill(dense, "r0", range(0, 18), {8});
  EXPECT_EQ(dense.tables("r0").at(1), (Blocks{3, 4}));
  EXPECT_EQ(stored(dense, 1), (Tokens{4, 8}));
  dense.compute("r0", 10);
  EXPECT_EQ(dense.tables("r0").at(1), (Blocks{0, 4, 0, 8, 9}));
  EXPECT_EQ(stored(dense, 1), Tokens{16});
}

FACT033(5_6, ACheckpointStandsBeforeTheRunningState) {
  for (const auto& [tokens, table, key, hit] :
       {std::tuple(19U, Blocks{0, 0, 0, 11, 12}, 18U, Blocks{0, 0, 0, 0, 11}),
        {16U, Blocks{0, 0, 9, 10}, 14U, Blocks{0, 0, 0, 9}}}) {
    Driver m(way, with_retention(pool(40, {full(2), checkpointed(1)}), 0));
    prefill(m, "r0", range(0, tokens), {tokens});
    EXPECT_EQ(m.tables("r0").at(1), table);
    const auto last = std::get<event::Stored>(m.take_events().back());
    EXPECT_EQ(last.blocks, (std::vector<StoredBlock>{{hit.back(), key}}));
    EXPECT_EQ(m.hashed(1), Blocks{hit.back()});
    const Hit found = m.probe(range(0, tokens));
    EXPECT_EQ(found.hit_tokens, key);
    EXPECT_EQ(found.blocks.at(1), hit);
  }
  const auto last_table = [&](std::vector<GroupConfig> groups, std::uint32_t tokens) {
    Driver m(way, with_retention(pool(40, std::move(groups)), 0));
    prefill(m, "r0", range(0, tokens), {tokens});
    return m.tables("r0").at(1);
  };
  EXPECT_EQ(last_table({full(4), checkpointed(1, 2)}, 18), (Blocks{0, 0, 0, 6, 7, 8, 9}));
  EXPECT_EQ(last_table({full(4), checkpointed(8)}, 18), (Blocks{0, 0, 0, 6, 7}));
  EXPECT_EQ(last_table({full(4), checkpointed(8)}, 21), (Blocks{0, 0, 0, 0, 0, 7}));

  Driver drops(way, with_retention(pool(40, {full(4, true), checkpointed(1)}), 0));
  prefill(drops, "r0", range(0, 18), {18});
  EXPECT_EQ(stored(drops, 1), Tokens{12});
  EXPECT_EQ(drops.tables("r0").at(1).at(3), 6U);
  const Hit found = drops.probe(range(0, 18));
  EXPECT_EQ(found.hit_tokens, 12U);
  EXPECT_EQ(found.blocks.at(1), (Blocks{0, 0, 6}));
}

// ---- 6: other kinds, and sizes ----

FACT033(6_1, TheWindowOfRswaSparesThePrompt) {
  Driver m(way, pool(20, {{.kind = LayerKind::rswa, .block_size = 4, .window = 8}}));
  prefill(m, "r0", range(0, 16), {16});
  decode(m, "r0", 24);
  EXPECT_EQ(m.table("r0"), (Blocks{1, 2, 3, 4, 0, 0, 0, 8, 9, 10}));
}

FACT033(6_2, ARingIsOneBlock) {
  Driver m(way, pool(20, {full(4), {.kind = LayerKind::ring, .block_size = 4}}));
  EXPECT_EQ(m.admit("r0", range(0, 17)).taken, (Tables{{1, 2, 3, 4, 5}, {6}}));
  m.append("r0", 4);
  EXPECT_EQ(m.compute("r0", 4), (Tables{{7}, {}}));
  m.arrive("r1", range(0, 17));
  EXPECT_EQ(m.lookup("r1"), (Hit{16, {{1, 2, 3, 4}, {}}}));
  EXPECT_EQ(m.allocate("r1", of_a_hit(1)), (Tables{{8}, {9}}));
}

// The load takes it, before any group takes blocks for what is computed; no answer lists loads.
FACT033(6_2, ALoadTakesTheRing) {
  Driver m(way, pool(20, {full(4), {.kind = LayerKind::ring, .block_size = 4}}));
  m.arrive("r0", range(0, 9));
  EXPECT_EQ(m.allocate("r0", {.new_tokens = 4, .external = 4}), (Tables{{3}, {}}));
  EXPECT_EQ(m.tables("r0"), (Tables{{1, 3}, {2}}));
}

// One kind beside a ring is searched again where its hit ends, without the block beyond. A window
// of one token then reads the block before, and needs it.
FACT033(6_2, AWindowBesideARingIsSearchedAgain) {
  Driver m(way, pool(20, {window(4, 1, true), {.kind = LayerKind::ring, .block_size = 4}}));
  m.admit("r0", range(0, 8));
  EXPECT_EQ(m.probe(range(0, 8)), (Hit{4, {{1}, {}}}));
  m.evict({1});
  EXPECT_EQ(m.probe(range(0, 8)), (Hit{0, {{}, {}}}));
}

TEST(Facts033, F6_5_TheMostBlocksOfAWindow) {
  CacheConfig config = pool(20, {window(4, 8)});
  config.profile = *find_profile("vllm-0.33");
  config.max_model_len = 64;
  config.max_in_flight_tokens = 16;
  EXPECT_EQ(admission_cap(config, config.groups[0]), 7U);
  config.max_in_flight_tokens = 32;
  EXPECT_EQ(admission_cap(config, config.groups[0]), 11U);
}

// A release that waits for steps in flight holds the blocks by a lease in the meantime.
FACT033(6_8, ADeferredReleaseGoesBlockByBlock) {
  Driver m(way, pool(21, {full(4), window(4, 8)}));
  m.admit("r0", range(0, 18));
  m.apply(op::Pin{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "deferred"});
  m.finish("r0");
  EXPECT_EQ(m.num_free(), 10U);
  m.apply(op::Unpin{"deferred"});
  EXPECT_EQ(m.queue(),
            (Blocks{10, 5, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 9, 8, 7, 6, 4, 3, 2, 1}));
}

FACT033(6_8, AReleaseGoesGroupByGroup) {
  Driver m(way, pool(21, {full(4), window(4, 8)}));
  m.admit("r0", range(0, 18));
  m.finish("r0");
  EXPECT_EQ(m.queue(),
            (Blocks{10, 5, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 4, 3, 2, 1, 9, 8, 7, 6}));
}

// ---- 10: defects ----

// The release takes six where it predicts five; ours predict what they take.
FACT033(10_1, LoadedStatesAreCounted) {
  for (const std::uint32_t usable : {5U, 6U}) {
    Driver m(way, pool(usable + 1, {full(4), states()}));
    m.arrive("r0", range(0, 13));
    EXPECT_EQ(m.lookup("r0").hit_tokens, 0U);
    const auto taken = m.allocate("r0", {.new_tokens = 5, .use_lookup = true, .external = 8});
    EXPECT_EQ(taken.has_value(), usable == 6);
    EXPECT_EQ(m.num_free(), usable == 6 ? 0U : 5U);
  }
}

FACT033(10_2, AHitIsNotLongerThanItsStates) {
  Driver m(way, pool(30, {full(2, true), mamba(2, MambaMode::align)}));
  prefill(m, "r0", range(0, 10), {2, 2, 2, 2, 2});
  EXPECT_EQ(m.probe(range(0, 10)), (Hit{8, {{1, 3, 5, 7}, {0, 0, 0, 8}}}));
}

}  // namespace
}  // namespace kvproof::properties
