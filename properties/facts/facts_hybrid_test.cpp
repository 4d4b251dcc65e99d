// SPDX-License-Identifier: Apache-2.0
// Facts about several layer groups: full attention beside windows of equal and unequal block size,
// EAGLE, Mamba, cross attention.
#include "properties/facts/facts.h"
#include "reference/operations.h"
#include "reference/prefix_search.h"

namespace kvproof::properties {
namespace {

FACT(34, EventsOfAMaskedGroupSpanAllTokens) {
  Driver m(way, pool(30, {full(32), window(8, 8)}));
  m.admit("r0", range(0, 128));
  const std::vector<Event> events = m.take_events();
  const bool tail = way.profile->prompt_tail != PromptTail::none;  // of full attention, 120 tokens
  ASSERT_EQ(events.size(), tail ? 3U : 2U);
  for (GroupId group = 0; group < 2; ++group) {
    const auto& stored = std::get<event::Stored>(group == 0 ? events.front() : events.back());
    EXPECT_EQ(stored.group, group);
    EXPECT_EQ(stored.blocks.size(), 4U);
    EXPECT_EQ(stored.to - stored.from, 128U);
  }
}

/// What a later request of `tokens` hits in full attention after these blocks were evicted.
std::size_t blocks_hit(Driver m, const std::vector<TokenId>& tokens, Blocks evicted) {
  m.evict(std::move(evicted));
  return m.probe(tokens).blocks.at(0).size();
}

Driver two_windows(const Way& way) {
  Driver m(way, pool(21, {full(16), window(16, 32), window(16, 32)}));
  EXPECT_EQ(m.admit("r0", prompt(48, 1, 7)).taken,
            (Tables{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}));
  const auto r1 = m.admit("r1", prompt(48, 2, 5));
  EXPECT_EQ(r1.hit, (Hit{48, {{1, 2, 3}, {0, 6, 7}, {0, 10, 11}}}));
  EXPECT_EQ(r1.taken, (Tables{{13}, {14}, {15}}));
  return m;
}

FACT(37, ASiblingSkipsWhatTheWindowsDoNotRead) { EXPECT_EQ(two_windows(way).num_free(), 5U); }

FACT(38, EvictionOrderOfAHybrid) {
  Driver m = two_windows(way);
  m.finish("r0");
  m.finish("r1");
  EXPECT_EQ(m.queue(),
            way.is_old()
                ? (Blocks{16, 17, 18, 19, 20, 4, 8, 5, 12, 9, 13, 3, 2, 1, 14, 7, 6, 15, 11, 10})
                : (Blocks{15, 14, 13, 12, 8, 4, 16, 17, 18, 19, 20, 5, 9, 3, 2, 1, 7, 6, 11, 10}));
}

FACT(39, EvictionProbesOfAHybrid) {
  struct Probe {
    Blocks evicted;
    std::size_t hit;
  };
  const Probe probes[] = {{{5, 9}, 3},      // the first of both windows
                          {{1}, 0},         // the first of full attention
                          {{3, 7, 11}, 2},  // the last of all
                          {{3}, 2},         // of full attention
                          {{7}, 2},         // of one window
                          {{11}, 2},        // of the other
                          {{3, 5, 9}, 0}};  // of full attention, with the first of both windows
  for (const Probe& probe : probes) {
    EXPECT_EQ(blocks_hit(two_windows(way), prompt(48, 3, 5), probe.evicted), probe.hit);
  }
}

// ---- EAGLE ----

Driver two_eagle_windows(const Way& way) {
  Driver m(way, pool(31, {full(16, true), window(16, 48, true), window(16, 48, true)}));
  EXPECT_EQ(
      m.admit("r0", prompt(96, 1, 7)).taken,
      (Tables{{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14}, {15, 16, 17, 18, 19, 20, 21}}));
  const auto r1 = m.admit("r1", prompt(96, 2, 5));
  EXPECT_EQ(r1.hit, (Hit{80, {{1, 2, 3, 4, 5}, {0, 0, 10, 11, 12}, {0, 0, 17, 18, 19}}}));
  EXPECT_EQ(r1.taken, (Tables{{22, 23}, {24, 25}, {26, 27}}));
  EXPECT_EQ(m.num_free(), 3U);
  return m;
}

FACT(40, EagleDropsABlockInAllGroups) {
  struct Probe {
    Blocks evicted;
    std::size_t hit;
  };
  // The block that r1 dropped has two copies: r0's and the one that r1 computed again.
  const Probe probes[] = {{{8, 15}, 5},                  // the first of both windows
                          {{1}, 0},                      // the first of full attention
                          {{6, 22, 13, 24, 20, 26}, 4},  // the last of all
                          {{6, 22}, 4},                  // of full attention
                          {{12}, 3},                     // the last that is hit, of one window
                          {{19}, 3},                     // of the other
                          {{6, 22, 8, 15}, 4}};  // of full attention, with the windows' first
  for (const Probe& probe : probes) {
    EXPECT_EQ(blocks_hit(two_eagle_windows(way), prompt(96, 3, 5), probe.evicted), probe.hit);
  }
}

FACT(41, EagleOverFourSharedBlocks) {
  Driver m(way, pool(31, {full(16, true), window(16, 32, true)}));
  m.admit("r0", prompt(64, 1, 7));
  EXPECT_EQ(m.probe(prompt(64, 2, 5)).hit_tokens, 3U * 16);
}

FACT(42, EagleDropsTheLastBlockOfFullAttention) {
  const std::pair<std::uint32_t, std::uint32_t> rows[] = {{48, 1}, {37, 1}, {49, 2}};
  for (const auto& [tokens, blocks] : rows) {
    Driver m(way, pool(10, {full(16, true)}));
    m.admit("r0", range(0, tokens));
    EXPECT_EQ(m.probe(range(0, tokens)).hit_tokens, 16 * blocks) << tokens;
  }
}

TEST(Facts, Fact_43_EagleOverAWindowOfOneBlockNeedsTwo) {
  const auto hit = [](bool first) {
    return reference::longest_hit(window(16, 16, true), {36, 16, true},
                                  [&](std::uint64_t end) { return end > 16 || first; });
  };
  EXPECT_EQ(hit(true).read.size(), 1U);
  EXPECT_EQ(hit(false).read.size(), 0U);
}

FACT(43, EagleOverAWindowInAManager) {
  Driver m(way, pool(10, {window(16, 16, true)}));
  m.admit("r0", range(0, 37));
  EXPECT_EQ(m.probe(range(0, 37)).blocks.at(0).size(), 1U);
  m.evict({m.table("r0").front()});
  EXPECT_EQ(m.probe(range(0, 37)).hit_tokens, 0U);
}

// ---- unequal block sizes ----

FACT(44, UnequalBlockSizesHitOnTheLargerOne) {
  Driver m(way, pool(100, {full(32), window(16, 32)}));
  m.arrive("r0", range(0, 160));
  EXPECT_EQ(m.compute("r0", 112), (Tables{{1, 2, 3, 4}, {5, 6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(m.hashed(0).size(), 3U);
  EXPECT_EQ(m.hashed(1).size(), 6U);
  EXPECT_EQ(m.probe(range(0, 113)), (Hit{96, {{1, 2, 3}, {0, 0, 0, 0, 9, 10}}}));
  EXPECT_EQ(m.probe(range(0, 97)).hit_tokens, 96U);
  EXPECT_EQ(m.probe(range(0, 96)).hit_tokens, 64U);
  m.evict({9, 10});  // the fifth and the sixth of the window
  EXPECT_EQ(m.probe(range(0, 113)).hit_tokens, 64U);
}

/// Table positions of a request in a group whose blocks carry a key.
std::vector<std::uint32_t> cached_positions(const Driver& m, const std::string& name,
                                            GroupId group) {
  std::vector<std::uint32_t> out;
  const Blocks table = m.tables(name).at(group);
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    if (m.state().blocks.at(table[i]).hashed) out.push_back(i);
  }
  return out;
}

using Positions = std::vector<std::uint32_t>;

FACT(45, AWindowCachesOnlyTheTailOfEachAlignedLength) {
  Driver m(way, pool(30, {full(32), window(8, 8)}));
  m.arrive("r0", range(0, 128));
  m.compute("r0", 64);
  EXPECT_EQ(cached_positions(m, "r0", 1), (Positions{3, 7}));

  Driver whole(way, pool(30, {full(32), window(8, 8)}));
  whole.admit("r0", range(0, 128));
  EXPECT_EQ(cached_positions(whole, "r0", 1), (Positions{3, 7, 11, 15}));
  whole.finish("r0");
  EXPECT_EQ(whole.queue(), way.is_old()
                               ? (Blocks{21, 22, 23, 24, 25, 26, 27, 28, 29, 4, 3, 2, 1, 20, 19,
                                         18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5})
                               : (Blocks{19, 18, 17, 15, 14, 13, 11, 10, 9, 7, 6,  5,  21, 22, 23,
                                         24, 25, 26, 27, 28, 29, 4,  3,  2, 1, 20, 16, 12, 8}));
}

FACT(46, AnEagleWindowCachesTheBlockBeyondEachAlignedLength) {
  Driver m(way, pool(40, {full(32), window(8, 8, true)}));
  m.admit("r0", range(0, 128));
  EXPECT_EQ(cached_positions(m, "r0", 1),
            way.is_old() ? (Positions{3, 7, 11, 15}) : (Positions{3, 4, 7, 8, 11, 12, 15}));
  EXPECT_EQ(m.probe(range(0, 128)).hit_tokens, way.is_old() ? 0U : 96U);
}

FACT(47, AnEagleGroupPublishesOneBlockBeyondTheAlignedLength) {
  if (way.is_old()) return;
  Driver m(way, pool(40, {full(32), window(8, 8, true)}));
  m.admit("r0", range(0, 40));
  EXPECT_EQ(cached_positions(m, "r0", 1), (Positions{3, 4}));
  EXPECT_EQ(m.probe(range(0, 41)).hit_tokens, 32U);

  // Groups that are alike are looked up together, so what one needs both cache.
  for (const bool both : {true, false}) {
    Driver two(way, pool(40, {full(32), window(8, 8, true), window(8, 8, both)}));
    two.admit("r0", range(0, 72));
    for (GroupId group = 1; group < 3; ++group) {
      const Positions cached = cached_positions(two, "r0", group);
      EXPECT_EQ(std::count(cached.begin(), cached.end(), 4U), 1) << "group " << group;
      EXPECT_EQ(std::count(cached.begin(), cached.end(), 8U), 1) << "group " << group;
    }
    EXPECT_EQ(two.probe(range(0, 73)).hit_tokens, 64U);
  }
}

FACT(65, AHybridLifeWithUnhashedTails) {
  Driver m(way, pool(21, {full(4), window(4, 8)}));
  EXPECT_EQ(m.admit("r0", range(0, 18)).taken, (Tables{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}));
  m.finish("r0");
  EXPECT_EQ(m.queue(),
            way.is_old()
                ? (Blocks{11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 5, 4, 3, 2, 1, 10, 9, 8, 7, 6})
                : (Blocks{10, 5, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 4, 3, 2, 1, 9, 8, 7, 6}));
  EXPECT_EQ(m.probe(range(0, 19)), (Hit{16, {{1, 2, 3, 4}, {0, 0, 8, 9}}}));
}

// ---- Mamba ----

FACT(73, RunningStatesMoveAlong) {
  Driver m(way, pool(30, {full(4), mamba(4, MambaMode::align)}));
  m.arrive("r0", range(0, 22));
  const std::pair<std::uint32_t, Blocks> steps[] = {
      {8, {0, 3}}, {8, {0, 3, 0, 6}}, {4, {0, 0, 0, 6, 8}}, {2, {0, 0, 0, 0, 8, 10}}};
  for (const auto& [tokens, states] : steps) {
    m.compute("r0", tokens);
    EXPECT_EQ(m.tables("r0").at(1), states);
  }
  m.finish("r0");
  m.step();
  const Hit again = m.probe(range(0, 22));
  EXPECT_EQ(again.hit_tokens, 20U);
  EXPECT_EQ(again.blocks.at(1), (Blocks{0, 0, 0, 0, 8}));
}

FACT(73, StatesOfDraftsMoveAlongToo) {
  Driver m(way, pool(30, {full(4), mamba(4, MambaMode::align, 2)}));
  m.arrive("r0", range(0, 22));
  const std::pair<std::uint32_t, Blocks> steps[] = {{8, {0, 4, 5, 6}},
                                                    {8, {0, 4, 0, 6, 5, 9}},
                                                    {4, {0, 0, 0, 6, 5, 9, 11}},
                                                    {2, {0, 0, 0, 0, 5, 9, 11, 12}}};
  for (const auto& [tokens, states] : steps) {
    m.compute("r0", tokens, 2);
    EXPECT_EQ(m.tables("r0").at(1), states);
  }
}

FACT(74, AStateOfThisStepIsNotHitYet) {
  Driver m(way, pool(30, {full(4), mamba(4, MambaMode::align)}));
  m.admit("r0", range(0, 8));
  m.arrive("r1", range(0, 12));
  EXPECT_EQ(m.lookup("r1").hit_tokens, 8U);
  const AllocateArgs rest{.new_tokens = 4, .use_lookup = true};
  EXPECT_FALSE(m.allocate("r1", rest));
  m.step();
  EXPECT_EQ(m.allocate("r1", rest), (Tables{{4}, {5}}));
}

// ---- cross attention ----

FACT(83, CrossAttentionHasABlockPerSixteenEncoderTokens) {
  const std::pair<std::uint32_t, std::size_t> rows[] = {{500, 32}, {1000, 63}, {200, 13}, {0, 0},
                                                        {1, 1},    {15, 1},    {16, 1},   {17, 2},
                                                        {160, 10}, {161, 11},  {1500, 94}};
  for (const auto& [encoder_tokens, blocks] : rows) {
    Driver m(way, pool(200, {full(16), {.kind = LayerKind::cross, .block_size = 16}}, false));
    m.apply(op::Arrive{.req = "r0",
                       .tokens = range(0, 20),
                       .skip_lookup = false,
                       .encoder_tokens = encoder_tokens});
    EXPECT_EQ(m.compute("r0", 10)->at(1).size(), blocks) << encoder_tokens;
    EXPECT_EQ(m.compute("r0", 10)->at(1).size(), 0U) << "they are allocated once";
    EXPECT_EQ(m.tables("r0").at(1).size(), blocks);
    m.finish("r0");
    EXPECT_EQ(m.num_free(), 199U);
  }
}

}  // namespace
}  // namespace kvproof::properties
