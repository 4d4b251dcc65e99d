// SPDX-License-Identifier: Apache-2.0
// Facts about vLLM 0.33.0: values, small differences, keys.
#include "properties/facts/facts_033.h"

#include <stdexcept>
#include <tuple>

namespace kvproof::properties {
namespace {

// ---- 0, 1: values and small differences ----

FACT033(0, ReleasedBlocksStandUnhashedFirstOrInFront) {
  Driver cached(way, pool(5, {full(4)}));
  cached.admit("r0", range(0, 5));
  cached.finish("r0");
  EXPECT_EQ(cached.queue(), (Blocks{2, 3, 4, 1}));
  Driver uncached(way, pool(5, {full(4)}, false));
  uncached.arrive("r0", range(0, 5));
  uncached.compute("r0", 5);
  uncached.finish("r0");
  EXPECT_EQ(uncached.queue(), (Blocks{2, 1, 3, 4}));
}

FACT033(1_1, APromptThatEndsInsideABlockGivesItAKey) {
  const auto keys = [&](std::uint32_t prompt_tokens) {
    Driver m(way, pool(20, {full(8), window(4, 8)}));
    m.admit("r0", range(0, prompt_tokens));
    Tokens first = stored(m, 0);
    m.append("r0", 16 - prompt_tokens);
    m.compute("r0", 16 - prompt_tokens);
    Tokens all = first;
    for (const std::uint32_t tokens : stored(m, 0)) all.push_back(tokens);
    std::ranges::sort(all);
    return std::pair(first, all);
  };
  for (const std::uint32_t tokens : {5U, 6U, 7U}) {
    EXPECT_EQ(keys(tokens), std::pair(Tokens{}, Tokens({4, 8, 16}))) << tokens;
  }
  EXPECT_EQ(keys(8), std::pair(Tokens({4, 8}), Tokens({4, 8, 16})));
  for (const std::uint32_t tokens : {9U, 10U, 11U, 12U}) {
    EXPECT_EQ(keys(tokens), std::pair(Tokens{8}, Tokens({8, 16}))) << tokens;
  }
}

FACT033(1_1, TheEventOfATailFollowsThatOfItsGroup) {
  Driver m(way, pool(30, {full(32), window(16, 32)}));
  m.admit("r0", range(0, 120));
  m.take_events();
  m.append("r0", 8);
  m.compute("r0", 8);
  const std::vector<Event> events = m.take_events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0], Event(stored_event(0, 96, 128, {{4, 128}})));
  EXPECT_EQ(events[1], Event(stored_event(0, 96, 112, {{4, 112}})));
  const auto& window_event = std::get<event::Stored>(events[2]);
  EXPECT_EQ(std::tuple(window_event.group, window_event.from, window_event.to),
            std::tuple(1U, 96U, 128U));
  EXPECT_EQ(m.num_keys(), 13U);
}

FACT033(1_1, ABlockLosesItsOwnKeyBeforeThatOfThePrompt) {
  Driver m(way, pool(20, {full(8), window(4, 8)}));
  m.admit("r0", range(0, 8));
  m.take_events();
  m.evict({1});
  EXPECT_EQ(m.take_events(),
            (std::vector<Event>{event::Removed{0, 1, 8}, event::Removed{0, 1, 4}}));
}

FACT033(1_2, AGroupThatDropsIsSearchedAsFarAsThereAreKeys) {
  const auto hits = [&](std::vector<GroupConfig> groups, std::uint32_t cached, Tokens lengths) {
    Driver m(way, pool(60, std::move(groups)));
    m.admit("r0", range(0, cached));
    Tokens out;
    for (const std::uint32_t n : lengths) out.push_back(m.probe(range(0, n)).hit_tokens);
    return out;
  };
  EXPECT_EQ(hits({full(2, true), window(2, 4, true)}, 8, {8, 9}), (Tokens{6, 6}));
  EXPECT_EQ(hits({full(4, true), window(2, 4)}, 16, {8, 9, 12, 13}), (Tokens{4, 4, 8, 8}));
  EXPECT_EQ(hits({full(2, true), window(2, 6, true)}, 4, {4}), Tokens{2});
  EXPECT_EQ(hits({full(2, true)}, 8, {8, 9}), (Tokens{4, 6}));
}

FACT033(1_4, NoPrefixIsCommon) {
  Driver m(way, pool(20, {full(4), window(4, 8)}));
  m.admit("r0", range(0, 9));
  EXPECT_EQ(m.common_prefix("r0"), (SharedBlocks{0, 0}));
}

FACT033(1_5, AHitMayBeGrantedWithoutNewTokens) {
  Driver m(way, pool(10, {full(4)}));
  m.admit("r0", range(0, 8));
  m.arrive("r1", range(0, 9));
  EXPECT_EQ(m.lookup("r1").hit_tokens, 8U);
  EXPECT_EQ(m.allocate("r1", {.use_lookup = true}), Tables{{}});
  EXPECT_EQ(m.table("r1"), (Blocks{1, 2}));
  EXPECT_EQ(progress(m, "r1"), Progress{2});
  m.arrive("r2", range(50, 9));
  EXPECT_EQ(m.lookup("r2").hit_tokens, 0U);
  const Result nothing = m.apply(op::Allocate{"r2", {.use_lookup = true}}).result;
  EXPECT_TRUE(is_undone(nothing));
}

FACT033(1_6, NullIsNeitherTouchedNorReleased) {
  Driver m(way, pool(20, {full(4), window(4, 4)}));
  m.admit("r0", range(0, 17));
  m.admit("r1", range(0, 18));
  decode(m, "r1", 4);
  m.finish("r0");
  m.finish("r1");
  EXPECT_EQ(m.references({0}), std::vector<std::int64_t>{0});
  EXPECT_EQ(m.num_free(), 19U);
}

FACT033(1_7, LeadingNullsAreNotReleased) {
  Driver m(way, pool(8, {window(4, 4)}));
  prefill(m, "r0", range(0, 20), {16, 4});
  EXPECT_EQ(m.table("r0"), (Blocks{0, 0, 0, 4, 5}));
  EXPECT_EQ(m.queue(), (Blocks{6, 7, 3, 2, 1}));
  m.finish("r0");
  EXPECT_EQ(m.queue(), (Blocks{6, 7, 3, 2, 1, 5, 4}));
}

FACT033(1_8, WhatStepsInFlightReadIsKept) {
  Driver m(way, pool(8, {window(4, 4)}));
  prefill(m, "r0", range(0, 20), {16});
  EXPECT_TRUE(m.allocate("r0", {.new_tokens = 4, .in_flight = 8}).has_value());
  EXPECT_EQ(m.table("r0"), (Blocks{0, 2, 3, 4, 5}));
  m.apply(op::Advance{"r0", 20});
  m.apply(op::Append{"r0", {0, 0, 0, 0}});
  EXPECT_TRUE(m.allocate("r0", {.new_tokens = 4}).has_value());
  EXPECT_EQ(m.table("r0"), (Blocks{0, 0, 0, 0, 5, 6}));
  EXPECT_EQ(m.queue(), (Blocks{7, 1, 4, 3, 2}));
}

FACT033(1_8, DraftStatesAreRecycledAsOthersAre) {
  Driver m(way, pool(12, {full(4), mamba(4, MambaMode::none, 2)}, false));
  prefill(m, "r0", range(0, 6), {6});
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{3, 4, 5, 6}));
  decode(m, "r0", 1);
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{0, 4, 5, 6}));
  decode(m, "r0", 2);
  const BlockId fifth = m.tables("r0").at(1).back();
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{0, 4, 5, 6, fifth}));
  decode(m, "r0", 1);
  EXPECT_EQ(m.tables("r0").at(1), (Blocks{0, 0, 5, 6, fifth}));
}

FACT033(1_9, WhatHasNoHashYetIsNotRegistered) {
  Driver m(way, with_lookahead(pool(10, {full(4)}), 1));
  m.admit("r0", range(0, 8));
  EXPECT_EQ(progress(m, "r0"), Progress{1});
  EXPECT_EQ(m.hashed(), Blocks{1});
}

FACT033(1_10, CachedStatesNeedModeAlign) {
  for (const MambaMode mode : {MambaMode::none, MambaMode::all}) {
    EXPECT_THROW(Driver(way, pool(10, {full(4), mamba(4, mode)})), std::invalid_argument);
  }
  Driver align(way, pool(10, {full(4), states()}));
  EXPECT_EQ(align.num_free(), 9U);
}

FACT033(1_11, TwoAlikeGroupsAreAHybrid) {
  Driver m(way, pool(10, {full(4), full(4)}));
  m.admit("r0", range(0, 9));
  EXPECT_EQ(m.probe(range(0, 9)), (Hit{8, {{1, 2}, {4, 5}}}));
}

FACT033(1_13, ALookupMayBeBounded) {
  Driver m(way, pool(20, {full(4), window(4, 8)}));
  m.admit("r0", range(0, 18));
  m.arrive("r1", range(0, 18));
  for (const auto& [bound, hit] : {std::pair(16U, 16U), std::pair(15U, 12U), std::pair(0U, 0U)}) {
    const Result found = m.apply(op::Lookup{"r1", bound}).result;
    EXPECT_EQ(std::get<Hit>(found).hit_tokens, hit) << bound;
  }
  EXPECT_EQ(m.lookup("r1").hit_tokens, 16U);
}

// ---- 2: keys ----

FACT033(2_1, AdaptersSaltsAndPathsStayApart) {
  Driver m(way, pool(30, {full(4)}));
  m.admit("adapter", range(0, 8), {.lora = "x", .lora_path = "p"});
  EXPECT_EQ(m.probe(range(0, 9), {.lora = "x", .lora_path = "p"}).hit_tokens, 8U);
  EXPECT_EQ(m.probe(range(0, 9), {.lora = "x", .lora_path = "q"}).hit_tokens, 0U);
  EXPECT_EQ(m.probe(range(0, 9), {.salt = "x"}).hit_tokens, 0U);
  EXPECT_EQ(m.probe(range(0, 9)).hit_tokens, 0U);
  m.admit("image", range(50, 8), {.mm = {{"i", 1, 1}}});
  EXPECT_EQ(m.probe(range(50, 9), {.mm = {{"i", 1, 1}}}).hit_tokens, 8U);
  EXPECT_EQ(m.probe(range(50, 9), {.mm = {{"i", 2, 1}}}).hit_tokens, 0U);
}

Tokens lookahead_hits(const Way& way, std::uint32_t lookahead, bool drops) {
  Driver m(way, with_lookahead(pool(20, {full(4, drops)}), lookahead));
  m.admit("r0", range(0, 13));
  Tokens out;
  for (const std::uint32_t n : {8U, 9U, 10U, 12U, 13U, 14U}) {
    out.push_back(m.probe(range(0, n)).hit_tokens);
  }
  return out;
}

FACT033(2_2, KeysCoverTheTokensBehindTheirUnit) {
  EXPECT_EQ(lookahead_hits(way, 0, true), (Tokens{0, 4, 4, 4, 8, 8}));
  for (const bool marked : {false, true}) {
    EXPECT_EQ(lookahead_hits(way, 1, marked), (Tokens{4, 8, 8, 8, 12, 12})) << marked;
    EXPECT_EQ(lookahead_hits(way, 2, marked), (Tokens{4, 4, 8, 8, 8, 8})) << marked;
  }
  for (const auto& [lookahead, keys] : {std::pair(1U, Tokens{4, 8, 12}), {2U, Tokens{4, 8}}}) {
    Driver m(way, with_lookahead(pool(20, {full(4)}), lookahead));
    m.admit("r0", range(0, 13));
    EXPECT_EQ(stored(m, 0), keys);
  }
  Driver m(way, with_lookahead(pool(20, {full(4)}), 1));
  m.admit("r0", range(0, 13));
  EXPECT_EQ(m.probe(prompt(8, 1, 5)).hit_tokens, 4U) << "another ninth token";
}

FACT033(2_2, AKeyComesWithTheTokenThatItWaitsFor) {
  Driver m(way, with_lookahead(pool(20, {full(4)}), 1));
  m.admit("r0", range(0, 12));
  EXPECT_EQ(stored(m, 0), (Tokens{4, 8}));
  EXPECT_EQ(progress(m, "r0"), Progress{2});
  decode(m, "r0", 1);
  EXPECT_EQ(m.take_events(), std::vector<Event>{stored_event(0, 8, 12, {{3, 12}})});

  Driver hybrid(way, with_lookahead(pool(20, {full(4), window(4, 8)}), 1));
  hybrid.admit("r0", range(0, 17));
  EXPECT_EQ(hybrid.probe(range(0, 17)), (Hit{16, {{1, 2, 3, 4}, {0, 0, 8, 9}}}));
  EXPECT_EQ(hybrid.probe(range(0, 16)).hit_tokens, 12U);
}

FACT033(2_4, AllItemsOfAUnitAreInItsKey) {
  const ExtraKeys extra{.mm = {{"i", 8, 1}, {"j", 9, 1}}};
  Driver m(way, pool(20, {full(8)}));
  m.arrive("r0", range(0, 10), extra);
  m.append("r0", 6);
  m.compute("r0", 16);
  std::vector<TokenId> whole = range(0, 10);
  for (const TokenId token : range(90'000'000, 6)) whole.push_back(token);
  whole.push_back(7);
  EXPECT_EQ(m.probe(whole, extra).hit_tokens, 16U);
  EXPECT_EQ(m.probe(whole, {.mm = {{"j", 9, 1}}}).hit_tokens, 0U + 8U);
}

FACT033(2_5, TheKeyOfABlockIsItsLastHash) {
  Driver m(way, pool(20, {full(8), window(4, 8)}));
  m.admit("r0", range(0, 16));
  const RequestState& r0 = *m.state().find("r0");
  EXPECT_EQ(m.state().blocks[r0.tables[0][0]].key, r0.hashes[1]);
  EXPECT_EQ(m.state().blocks[r0.tables[0][1]].key, r0.hashes[3]);
}

}  // namespace
}  // namespace kvproof::properties
