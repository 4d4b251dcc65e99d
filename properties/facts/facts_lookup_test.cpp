// SPDX-License-Identifier: Apache-2.0
// Facts about full attention: what is hit, what is handed out, and in which order blocks are lost.
#include "properties/facts/facts.h"
#include "reference/operations.h"
#include "reference/prefix_cache.h"

namespace kvproof::properties {
namespace {

/// Two requests that share three blocks of sixteen tokens.
Driver two_sharing(const Way& way) {
  Driver m(way, pool(11, {full(16)}));
  m.admit("r0", prompt(48, 1, 7));
  m.admit("r1", prompt(48, 2, 5));
  return m;
}

Driver two_left(const Way& way) {
  Driver m = two_sharing(way);
  m.finish("r0");
  m.finish("r1");
  return m;
}

FACT(01, PrefillTakesAndPublishesWholeBlocks) {
  Driver m(way, pool(11, {full(16)}));
  const auto r0 = m.admit("r0", prompt(48, 1, 7));
  EXPECT_EQ(r0.hit.hit_tokens, 0U);
  EXPECT_EQ(r0.taken, (Tables{{1, 2, 3, 4}}));
  EXPECT_EQ(m.table("r0"), (Blocks{1, 2, 3, 4}));
  EXPECT_EQ(m.hashed(), (Blocks{1, 2, 3}));
  EXPECT_EQ(m.references({1, 2, 3, 4}), (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(m.num_free(), 6U);
}

FACT(02, ASecondRequestSharesThePrefix) {
  Driver m(way, pool(11, {full(16)}));
  m.admit("r0", prompt(48, 1, 7));
  const auto r1 = m.admit("r1", prompt(48, 2, 5));
  EXPECT_EQ(r1.hit, (Hit{48, {{1, 2, 3}}}));
  EXPECT_EQ(r1.taken, (Tables{{5}}));
  EXPECT_EQ(m.references({1, 2, 3}), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(m.num_free(), 5U);
  EXPECT_DOUBLE_EQ(m.state().usage, 0.5);
}

FACT(03, TheFirstToLeaveGivesBackWhatItAloneHolds) {
  Driver m = two_sharing(way);
  m.finish("r0");
  EXPECT_EQ(m.queue(), way.is_old() ? (Blocks{6, 7, 8, 9, 10, 4}) : (Blocks{4, 6, 7, 8, 9, 10}));
}

FACT(04, TheLastToLeaveQueuesThePrefixDeepestFirst) {
  Driver m = two_left(way);
  EXPECT_EQ(m.queue(), way.is_old() ? (Blocks{6, 7, 8, 9, 10, 4, 5, 3, 2, 1})
                                    : (Blocks{5, 4, 6, 7, 8, 9, 10, 3, 2, 1}));
}

FACT(05, AThirdRequestRevivesThePrefix) {
  Driver m = two_left(way);
  m.arrive("r2", prompt(48, 3, 6));
  EXPECT_EQ(m.lookup("r2"), (Hit{48, {{1, 2, 3}}}));
  const auto taken = m.allocate("r2", {.new_tokens = 5, .use_lookup = true});
  EXPECT_EQ(taken, (Tables{{BlockId(way.is_old() ? 6U : 5U)}}));
  EXPECT_EQ(m.num_free(), 6U);
}

FACT(06, ARequestThatFillsThePoolTakesTheWholeQueueInOrder) {
  Driver m = two_left(way);
  m.admit("r2", prompt(48, 3, 5));
  m.finish("r2");
  const auto all = m.admit("r3", range(500'000, 160));
  EXPECT_EQ(all.taken, way.is_old() ? (Tables{{7, 8, 9, 10, 4, 5, 6, 3, 2, 1}})
                                    : (Tables{{5, 4, 6, 7, 8, 9, 10, 3, 2, 1}}));
  EXPECT_EQ(m.num_free(), 0U);
  EXPECT_EQ(m.queue(), Blocks{});
  EXPECT_EQ(m.state().queue_backward, Blocks{});
}

/// Two requests without a common prefix, gone one after the other.
Driver two_apart(const Way& way) {
  Driver m(way, pool(11, {full(16)}));
  EXPECT_EQ(m.admit("r0", range(0, 87)).taken->at(0).size(), 6U);
  EXPECT_EQ(m.admit("r1", range(87, 48)).taken->at(0).size(), 3U);
  EXPECT_EQ(m.num_free(), 1U);
  return m;
}

FACT(07, EvictionOrderOfTwoRequests) {
  Driver m = two_apart(way);
  m.finish("r0");
  Blocks expected = way.is_old() ? Blocks{10, 6, 5, 4, 3, 2, 1} : Blocks{6, 10, 5, 4, 3, 2, 1};
  EXPECT_EQ(m.queue(), expected);
  m.finish("r1");
  expected.insert(expected.end(), {9, 8, 7});
  EXPECT_EQ(m.queue(), expected);
}

FACT(08, APrefixOfTheFirstIsRevived) {
  Driver m = two_apart(way);
  m.finish("r0");
  m.finish("r1");
  const auto again = m.admit("again", range(0, 35));
  EXPECT_EQ(again.hit.blocks, (Tables{{1, 2}}));
  EXPECT_EQ(again.taken, (Tables{{BlockId(way.is_old() ? 10U : 6U)}}));
  EXPECT_EQ(m.num_free(), 7U);
}

FACT(11, ABlockThatIsHandedOutAgainLosesItsKey) {
  Driver m(way, pool(2, {full(16)}));
  m.admit("r0", range(0, 16));
  EXPECT_EQ(m.hashed(), Blocks{1});
  m.finish("r0");
  EXPECT_EQ(m.admit("r1", range(0, 15)).taken, (Tables{{1}}));
  EXPECT_EQ(m.hashed(), Blocks{});
  EXPECT_EQ(m.num_keys(), 0U);
}

FACT(12, AHitBlockIsNotEvictedForTheSameRequest) {
  Driver m(way, pool(3, {full(16)}));
  EXPECT_EQ(m.admit("r0", range(0, 16)).taken, (Tables{{1}}));
  EXPECT_EQ(m.admit("r1", range(16, 16)).taken, (Tables{{2}}));
  m.finish("r0");
  m.finish("r1");
  const auto both = m.admit("r2", range(0, 32));
  EXPECT_EQ(both.hit.blocks, (Tables{{1}}));
  EXPECT_EQ(both.taken, (Tables{{2}}));
}

FACT(13, HitsThatStandInTheQueueAreNotFree) {
  Driver m(way, pool(11, {full(16)}));
  EXPECT_EQ(m.admit("r0", prompt(48, 0, 0)).taken, (Tables{{1, 2, 3}}));
  const auto r1 = m.admit("r1", range(0, 96));
  EXPECT_EQ(r1.hit.blocks.at(0).size(), 3U);
  EXPECT_EQ(r1.taken, (Tables{{4, 5, 6}}));
  m.finish("r1");
  EXPECT_EQ(m.admit("r2", range(500'000, 32)).taken, (Tables{{7, 8}}));
  EXPECT_EQ(m.num_free(), 5U);
  const auto r3 = m.admit("r3", prompt(96, 3, 48));
  EXPECT_EQ(r3.hit.hit_tokens, 96U);
  EXPECT_FALSE(r3.taken) << "three that are free and hit, three new ones: six of five";
  EXPECT_EQ(m.references({1, 2, 3, 4, 5, 6}), (std::vector<std::int64_t>{1, 1, 1, 0, 0, 0}));
}

FACT(14, ADecodingRequestGrowsAndPublishesBlockByBlock) {
  Driver m(way, pool(11, {full(16)}));
  EXPECT_EQ(m.admit("r0", prompt(48, 1, 7)).taken->at(0).size(), 4U);
  m.append("r0", 4);
  EXPECT_EQ(m.compute("r0", 4), (Tables{{}}));
  EXPECT_EQ(m.hashed(), (Blocks{1, 2, 3})) << "the last block is not complete";
  m.append("r0", 19);
  EXPECT_EQ(m.compute("r0", 19)->at(0).size(), 1U);
  EXPECT_EQ(m.hashed(), (Blocks{1, 2, 3, 4})) << "the last but one is";
}

FACT(15, ARequestThatSkipsTheLookupMakesDuplicates) {
  Driver m = two_left(way);
  m.apply(op::Arrive{.req = "r2", .tokens = prompt(48, 3, 6), .skip_lookup = true});
  EXPECT_EQ(m.lookup("r2"), (Hit{0, {{}}}));
  const auto taken = m.allocate("r2", {.new_tokens = 54, .use_lookup = true});
  EXPECT_EQ(taken, way.is_old() ? (Tables{{6, 7, 8, 9}}) : (Tables{{5, 4, 6, 7}}));
  const Blocks copies = way.is_old() ? Blocks{6, 7, 8} : Blocks{5, 4, 6};
  ASSERT_EQ(m.num_keys(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(m.state().index[i].blocks, (Blocks{static_cast<BlockId>(i + 1), copies[i]}));
  }
}

FACT(16, OfTwoEqualBlocksTheOlderIsServedUntilItIsEvicted) {
  Driver m(way, pool(9, {full(4)}));
  for (const char* name : {"r0", "r1"}) {
    m.apply(op::Arrive{.req = name, .tokens = range(0, 8), .skip_lookup = true});
    m.compute(name, 8);
  }
  EXPECT_EQ(m.table("r0"), (Blocks{1, 2}));
  EXPECT_EQ(m.table("r1"), (Blocks{3, 4}));
  ASSERT_EQ(m.num_keys(), 2U);
  EXPECT_EQ(m.state().index[0].blocks, (Blocks{1, 3}));
  EXPECT_EQ(m.state().index[1].blocks, (Blocks{2, 4}));
  EXPECT_EQ(m.probe(range(0, 9)).blocks, (Tables{{1, 2}}));
  m.finish("r0");
  m.finish("r1");
  EXPECT_EQ(m.queue(), (Blocks{5, 6, 7, 8, 2, 1, 4, 3}));
  m.evict({1});
  EXPECT_EQ(m.probe(range(0, 9)).blocks, (Tables{{3, 2}}));
  EXPECT_EQ(m.queue(), (Blocks{5, 6, 7, 8, 2, 1, 4, 3}));
}

FACT(19, AnEvictedBlockOfARunningRequestStaysItsOwn) {
  Driver m(way, pool(10, {full(4)}));
  EXPECT_EQ(m.admit("r0", range(0, 9)).taken, (Tables{{1, 2, 3}}));
  EXPECT_EQ(m.num_keys(), 2U);
  m.evict({1});
  EXPECT_EQ(m.num_keys(), 1U);
  EXPECT_EQ(m.references({1, 2, 3}), (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_EQ(m.probe(range(0, 9)).hit_tokens, 0U);
  m.finish("r0");
  EXPECT_EQ(m.queue(), way.is_old() ? (Blocks{4, 5, 6, 7, 8, 9, 3, 2, 1})
                                    : (Blocks{3, 1, 4, 5, 6, 7, 8, 9, 2}));
}

FACT(29, BlocksArePublishedOnceTheyAreComplete) {
  Driver m(way, pool(10, {full(4)}));
  m.arrive("r0", range(0, 14));
  m.allocate("r0", {.new_tokens = 14, .delay_cache = true});
  EXPECT_EQ(m.num_keys(), 0U);
  m.apply(op::Cache{"r0", 8});
  EXPECT_EQ(m.num_keys(), 2U);
  m.apply(op::Cache{"r0", 12});
  EXPECT_EQ(m.num_keys(), 3U);
}

const ExtraKeys kThreeImages{.lora = {},
                             .salt = {},
                             .layout = {},
                             .mm = {{"aaa", 11, 10}, {"bbb", 30, 18}, {"ccc", 48, 7}},
                             .embeds = {}};

TEST(Facts, Fact_35_ImagesEnterTheKeysOfTheBlocksThatTheyOverlap) {
  const auto entries = [](std::uint32_t block) {
    return reference::unit_extra(kThreeImages, 16 * block, 16 * block + 16);
  };
  EXPECT_EQ(entries(0), (std::vector<std::string>{"mm:11:aaa"}));
  EXPECT_EQ(entries(1), (std::vector<std::string>{"mm:-5:aaa", "mm:14:bbb"}));
  EXPECT_EQ(entries(2), (std::vector<std::string>{"mm:-2:bbb"}));
  EXPECT_EQ(entries(3), (std::vector<std::string>{"mm:0:ccc"}));
}

FACT(35, AnotherImageEndsTheHitInFrontOfItsBlock) {
  Driver m(way, pool(11, {full(16)}));
  m.admit("r0", range(0, 64), kThreeImages);
  EXPECT_EQ(m.probe(range(0, 65), kThreeImages).hit_tokens, 64U);
  EXPECT_EQ(m.probe(range(0, 65)).hit_tokens, 0U);
  const std::uint32_t blocks_in_front[] = {0, 1, 3};
  for (std::size_t item = 0; item < 3; ++item) {
    ExtraKeys other = kThreeImages;
    other.mm[item].id = "ddd";
    EXPECT_EQ(m.probe(range(0, 65), other).hit_tokens, 16 * blocks_in_front[item]);
  }
}

FACT(36, ASaltSeparatesWholeChains) {
  const ExtraKeys salt1{.lora = {}, .salt = "salt1", .layout = {}, .mm = {}, .embeds = {}};
  const ExtraKeys salt2{.lora = {}, .salt = "salt2", .layout = {}, .mm = {}, .embeds = {}};
  EXPECT_EQ(reference::unit_extra(salt1, 0, 16), (std::vector<std::string>{"salt:salt1"}));
  EXPECT_EQ(reference::unit_extra(salt1, 16, 32), std::vector<std::string>{});
  Driver m(way, pool(11, {full(16)}));
  m.admit("r0", prompt(48, 1, 11), salt1);
  EXPECT_EQ(m.probe(prompt(48, 2, 5), salt1).hit_tokens, 48U);
  EXPECT_EQ(m.probe(prompt(48, 2, 5), salt2).hit_tokens, 0U);
  EXPECT_EQ(m.probe(prompt(48, 2, 5)).hit_tokens, 0U);
}

FACT(85, CommonPrefixIsWhatAllHoldersShare) {
  Driver m(way, pool(20, {full(4)}));
  m.admit("r0", range(0, 12));
  m.admit("r1", prompt(8, 1, 4));
  const bool counts = way.profile->counts_common_prefix;  // 0.33 answers 0
  EXPECT_EQ(m.common_prefix("r0"), SharedBlocks{counts ? 2U : 0U});
  m.admit("r2", range(500'000, 4));
  EXPECT_EQ(m.common_prefix("r0"), SharedBlocks{0});

  Driver hybrid(way, pool(20, {full(4), window(4, 8)}));
  hybrid.admit("r0", range(0, 12));
  hybrid.admit("r1", prompt(8, 1, 4));
  EXPECT_EQ(hybrid.common_prefix("r0"), (SharedBlocks{counts ? 2U : 0U, 0}))
      << "a window counts none";
}

FACT(86, AHitMakesAPrefixTheYoungest) {
  Driver m(way, pool(13, {full(4)}));
  for (const TokenId family : {1, 2, 3}) {
    m.admit("r" + std::to_string(family), prompt(0, family, 8));
  }
  for (const char* name : {"r1", "r2", "r3"}) m.finish(name);
  EXPECT_EQ(m.queue(), (Blocks{7, 8, 9, 10, 11, 12, 2, 1, 4, 3, 6, 5}));
  const auto again = m.admit("again", prompt(0, 1, 9));
  EXPECT_EQ(again.hit.hit_tokens, 8U);
  EXPECT_EQ(again.taken, (Tables{{7}}));
  m.finish("again");
  EXPECT_EQ(m.queue(), way.is_old() ? (Blocks{8, 9, 10, 11, 12, 4, 3, 6, 5, 7, 2, 1})
                                    : (Blocks{7, 8, 9, 10, 11, 12, 4, 3, 6, 5, 2, 1}));
}

}  // namespace
}  // namespace kvproof::properties
