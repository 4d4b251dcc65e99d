// SPDX-License-Identifier: Apache-2.0
// Facts about admission: gates, external tokens, lookahead, and the shortage that makes a scheduler
// preempt.
#include "properties/facts/facts.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

FACT(55, TheWholeSequenceGateCountsAWindowOnce) {
  const auto admitted = [&](std::uint32_t num_blocks, std::uint32_t tokens) {
    CacheConfig config = pool(num_blocks, {full(16), window(16, 64)});
    config.max_in_flight_tokens = 128;
    Driver m(way, config);
    m.arrive("r0", range(0, tokens));
    return m.allocate("r0", {.new_tokens = 16, .full_sequence_must_fit = true}).has_value();
  };
  EXPECT_TRUE(admitted(78, 512)) << "32 + 13 of 77";
  EXPECT_TRUE(admitted(1 + 32 + 13, 512));
  EXPECT_FALSE(admitted(32 + 13, 512));
  EXPECT_FALSE(admitted(5, 256));
}

FACT(56, WithoutTheGateTheFirstChunkIsEnough) {
  Driver m(way, pool(11, {full(16)}));
  m.arrive("r0", range(0, 161));
  EXPECT_FALSE(m.allocate("r0", {.new_tokens = 16, .full_sequence_must_fit = true}));
  EXPECT_EQ(m.allocate("r0", {.new_tokens = 16}), (Tables{{1}}));
}

FACT(68, LoadedTokensHaveBlocksOnlyWhereTheyAreRead) {
  Driver m(way, pool(20, {full(4), window(4, 8)}));
  m.arrive("r0", range(0, 33));
  EXPECT_EQ(m.lookup("r0").hit_tokens, 0U);
  ASSERT_TRUE(m.allocate("r0", {.use_lookup = true, .external = 32, .delay_cache = true}));
  EXPECT_EQ(m.tables("r0"), (Tables{{1, 2, 3, 4, 5, 6, 7, 8}, {0, 0, 0, 0, 0, 0, 9, 10}}));
  const auto progress = m.state().find("r0")->progress;
  EXPECT_EQ(progress, (std::vector<std::optional<std::uint32_t>>{0, 6}));
  m.apply(op::Cache{"r0", 32});
  EXPECT_EQ(m.hashed(0).size(), 8U);
  EXPECT_EQ(m.hashed(1).size(), 2U);
  m.advance("r0", 32);
  EXPECT_EQ(m.compute("r0", 1), (Tables{{11}, {12}}));
}

FACT(69, LocalAndLoadedAndNewTokens) {
  Driver m(way, pool(12, {full(4)}));
  m.admit("r0", range(0, 8));
  m.arrive("r1", prompt(8, 1, 17));
  EXPECT_EQ(m.lookup("r1").blocks, (Tables{{1, 2}}));
  EXPECT_EQ(m.allocate("r1", {.new_tokens = 9, .use_lookup = true, .external = 8}),
            (Tables{{5, 6, 7}}));
  EXPECT_EQ(m.table("r1"), (Blocks{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(m.num_keys(), 6U);
  EXPECT_EQ(m.queue().front(), 8U);
}

FACT(70, LookaheadHasSlotsAndNoKeys) {
  const auto taken = [&](std::uint32_t tokens, std::uint32_t lookahead) {
    Driver m(way, pool(12, {full(4)}));
    m.arrive("r0", range(0, tokens));
    const auto blocks = m.allocate("r0", {.new_tokens = tokens, .lookahead = lookahead});
    EXPECT_EQ(m.num_keys(), tokens / 4);
    return blocks->at(0);
  };
  EXPECT_EQ(taken(3, 2).size(), 2U);
  EXPECT_EQ(taken(3, 4).size(), 2U);
  EXPECT_EQ(taken(6, 3), (Blocks{1, 2, 3}));

  CacheConfig short_model = pool(12, {full(4)});
  short_model.max_model_len = 10;
  Driver m(way, short_model);
  m.arrive("r0", range(0, 8));
  EXPECT_EQ(m.allocate("r0", {.new_tokens = 8, .lookahead = 8})->at(0).size(), 3U);

  Driver drafts(way, pool(12, {full(4)}));
  drafts.arrive("r0", range(0, 6));
  drafts.allocate("r0", {.new_tokens = 8});  // two more than there are tokens
  EXPECT_EQ(drafts.hashed(), Blocks{1}) << "a draft was published";
}

FACT(72, WatermarkAndReservedBlocks) {
  const auto granted = [&](std::uint32_t num_blocks, std::uint32_t blocks, AllocateArgs args) {
    CacheConfig config = pool(num_blocks, {full(16)});
    config.watermark = 0.1;
    Driver m(way, config);
    m.arrive("r0", range(0, 16 * blocks));
    args.new_tokens = 16 * blocks;
    return m.allocate("r0", args).has_value();
  };
  EXPECT_EQ(granted(101, 91, {.has_scheduled = true}), way.is_old()) << "no gates before 0.24";
  EXPECT_TRUE(granted(101, 90, {.has_scheduled = true}));
  EXPECT_TRUE(granted(101, 100, {.has_scheduled = false}));
  EXPECT_EQ(granted(11, 7, {.reserved = 4}), way.is_old());
  EXPECT_TRUE(granted(11, 6, {.reserved = 4}));
}

FACT(77, ASixthBlockIsThereOnceTheOtherRequestIsPreempted) {
  Driver m(way, pool(11, {full(16)}));
  EXPECT_EQ(m.admit("r0", range(0, 80)).taken->at(0).size(), 5U);
  EXPECT_EQ(m.admit("r1", range(500'000, 80)).taken->at(0).size(), 5U);
  m.append("r0", 1);
  EXPECT_FALSE(m.compute("r0", 1));
  m.free("r1");
  EXPECT_EQ(m.compute("r0", 1)->at(0).size(), 1U);
}

FACT(79, APreemptedRequestKeepsItsTokens) {
  Driver m(way, pool(5, {full(16)}));
  m.admit("low", range(0, 30));
  m.append("low", 1);
  m.compute("low", 1);
  m.admit("high", range(500'000, 32));
  m.append("low", 1);
  m.append("high", 1);
  EXPECT_FALSE(m.compute("high", 1)) << "four usable blocks are in use";
  m.free("low");
  EXPECT_TRUE(m.compute("high", 1));
  const RequestState& low = *m.state().find("low");
  EXPECT_EQ(low.num_tokens, 32U);
  EXPECT_EQ(low.computed, 0U);
  EXPECT_EQ(low.tables, Tables{{}});
}

// Tokens that are being loaded promise blocks for the rest of their request: A holds four and will
// want four more.
FACT(80, BlocksPromisedToALoadAreNotGivenToAnother) {
  Driver m(way, pool(10, {full(16)}));
  m.arrive("a", range(0, 128));
  ASSERT_TRUE(m.allocate("a", {.external = 64, .delay_cache = true}));
  m.arrive("b", range(500'000, 80));
  const Snapshot before = m.state();
  const bool granted =
      m.allocate("b", {.external = 64, .delay_cache = true, .reserved = 4}).has_value();
  EXPECT_EQ(granted, way.is_old()) << "no reservation before 0.24";
  EXPECT_EQ(m.state() == before, !granted) << "a waiting request holds nothing";
}

}  // namespace
}  // namespace kvproof::properties
