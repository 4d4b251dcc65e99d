// SPDX-License-Identifier: Apache-2.0
// Facts about sliding windows and chunks: what is skipped, needed, given back and hit.
#include "optimized/manager/layer_group.h"
#include "properties/facts/facts.h"
#include "reference/layer_group.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"
#include "reference/prefix_search.h"

namespace kvproof::properties {
namespace {

FACT(33, EventsOfAWindowSpanWhatItHasLeft) {
  Driver m(way, pool(20, {window(4, 8)}));
  m.arrive("r0", range(0, 40));
  std::uint32_t from = 0;
  const std::pair<std::uint32_t, std::size_t> chunks[] = {{12, 3}, {12, 3}, {12, 3}, {4, 1}};
  for (const auto& [tokens, hashes] : chunks) {
    m.compute("r0", tokens);
    const std::vector<Event> events = m.take_events();
    ASSERT_EQ(events.size(), 1U);
    const auto& stored = std::get<event::Stored>(events[0]);
    EXPECT_EQ(stored.blocks.size(), hashes);
    EXPECT_EQ(stored.from, from) << "a parent from the second on";
    EXPECT_EQ(stored.to - stored.from, tokens);
    from += tokens;
  }
}

// ---- which patterns of cached blocks hit ----

std::vector<bool> pattern(const std::string& text) {
  std::vector<bool> out;
  for (const char c : text) out.push_back(c == 'T');
  return out;
}

/// Blocks of the hit on exactly these cached positions of two tokens each, with `tail` tokens more.
std::size_t search(const GroupConfig& group, const std::vector<bool>& cached, std::uint32_t tail) {
  return reference::longest_hit(group, {2 * cached.size() + tail, 2, false},
                                [&](std::uint64_t end) { return cached.at(end / 2 - 1); })
      .read.size();
}

/// The same through a manager: everything is cached, and what is not in the pattern is evicted.
std::size_t manage(const Way& way, const GroupConfig& group, const std::vector<bool>& cached,
                   std::uint32_t tail) {
  const auto blocks = static_cast<std::uint32_t>(cached.size());
  Driver m(way, pool(blocks + 2, {group}));
  m.arrive("r0", range(0, 2 * blocks));
  m.compute("r0", 2 * blocks);  // a lookup would skip earlier chunks
  Blocks lost;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (!cached[i]) lost.push_back(m.table("r0")[i]);
  }
  m.evict(lost);
  return m.probe(range(0, 2 * blocks + tail + 1)).blocks.at(0).size();
}

struct PatternRow {
  const char* cached;
  std::uint32_t tail;
  std::size_t hit;
};

constexpr PatternRow kWindowHits[] = {
    {"T", 0, 1},           {"TF", 0, 1},           {"TTTF", 0, 3}, {"TTFTFFTTFTTT", 0, 12},
    {"TTFTFFTTFFF", 0, 8}, {"TTFTFFTTFFFT", 0, 8},
};

TEST(Facts, Fact_57_PatternsThatAWindowOfTwoBlocksHits) {
  for (const PatternRow& row : kWindowHits) {
    EXPECT_EQ(search(window(2, 4), pattern(row.cached), row.tail), row.hit) << row.cached;
  }
}

FACT(57, PatternsThatAWindowHitsInAManager) {
  for (const PatternRow& row : kWindowHits) {
    EXPECT_EQ(manage(way, window(2, 4), pattern(row.cached), row.tail), row.hit) << row.cached;
  }
}

// The eight blocks of earlier chunks may be cached or not.
constexpr PatternRow kChunkHits[] = {
    {"TF", 0, 2},        {"TTT", 0, 3},       {"TFTTFFTFT", 1, 9},   {"FFFFFFFFT", 1, 9},
    {"TFTTFFTFF", 1, 8}, {"TTTTTTTTF", 1, 8}, {"TFTTFFTFFF", 0, 10}, {"TTTTTTTTFF", 0, 10},
};

TEST(Facts, Fact_58_PatternsThatChunksOfTwoBlocksHit) {
  for (const PatternRow& row : kChunkHits) {
    EXPECT_EQ(search(chunked(2, 4), pattern(row.cached), row.tail), row.hit) << row.cached;
  }
}

FACT(58, PatternsThatChunksHitInAManager) {
  for (const PatternRow& row : kChunkHits) {
    EXPECT_EQ(manage(way, chunked(2, 4), pattern(row.cached), row.tail), row.hit) << row.cached;
  }
}

FACT(59, BlocksThatAreNotReadAnyMoreBecomeNull) {
  const auto nulls = [&](const GroupConfig& group, std::vector<std::uint32_t> processed) {
    Driver m(way, pool(12, {group}));
    m.arrive("r0", range(0, 22));
    EXPECT_EQ(m.compute("r0", 22)->at(0).size(), 11U);
    std::vector<std::ptrdiff_t> out;
    for (const std::uint32_t n : processed) {
      m.recycle("r0", n);
      const Blocks table = m.table("r0");
      out.push_back(std::count(table.begin(), table.end(), kNullBlock));
    }
    return out;
  };
  EXPECT_EQ(nulls(window(2, 4), {0, 4, 5, 6, 7, 11}),
            (std::vector<std::ptrdiff_t>{0, 0, 1, 1, 2, 4}));
  EXPECT_EQ(nulls(chunked(2, 4), {0, 4, 6, 12}), (std::vector<std::ptrdiff_t>{0, 2, 2, 6}));
}

// ---- how many blocks are needed ----

using FastPool = optimized::BlockPool<optimized::Key128>;
using FastGroup = optimized::LayerGroup<optimized::Key128>;

struct Asked {
  std::uint64_t tokens = 0;
  bool starts = false;
  bool capped = false;
};

/// What both managers of a layer group say that a request without blocks needs.
std::int64_t need(const CacheConfig& config, const Blocks& hit, const Asked& asked) {
  const reference::BlockPool naive(config.num_blocks, FreeOrder::append);
  const FastPool fast(config.num_blocks, {});
  const std::int64_t out = reference::LayerGroup(config, 0).need(
      {}, hit,
      {.slots = asked.tokens, .main = asked.tokens, .starts = asked.starts, .capped = asked.capped},
      naive);
  optimized::Demand demand{};
  demand.slots = demand.main = asked.tokens;
  demand.starts = asked.starts;
  demand.capped = asked.capped;
  EXPECT_EQ(FastGroup(config, 0).need({}, hit, demand, fast), out);
  return out;
}

TEST(Facts, Fact_60_FreeHitsCountNullOnesDoNot) {
  const CacheConfig config = pool(30, {window(2, 4)});
  const Blocks free_hits = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const Blocks half_null = {0, 0, 0, 0, 0, 6, 7, 8, 9, 10};
  EXPECT_EQ(need(config, free_hits, {.tokens = 40, .starts = true}), 20);
  EXPECT_EQ(need(config, half_null, {.tokens = 40, .starts = true}), 15);
}

FACT(61, AFreeHitIsNeededButNotTaken) {
  EXPECT_EQ(need(pool(3, {window(2, 4)}), {1}, {.tokens = 4, .starts = true}), 2);
  Driver m(way, pool(3, {window(2, 4)}));
  m.admit("r0", range(0, 2));
  m.finish("r0");
  EXPECT_EQ(m.admit("r1", range(0, 4)).taken->at(0).size(), 1U);
  EXPECT_EQ(m.num_free(), 0U);

  Driver full_pool(way, pool(3, {window(2, 4)}));
  full_pool.admit("r0", range(0, 2));
  full_pool.finish("r0");
  full_pool.apply(op::Take{1});
  EXPECT_FALSE(full_pool.admit("r1", range(0, 4)).taken) << "one is free, and it is the hit";
}

TEST(Facts, Fact_62_WithoutTheCapWhatIsNeededIsTaken) {
  CacheConfig config = pool(20, {window(2, 8)});
  config.max_model_len = 6;
  ASSERT_EQ(admission_cap(config, config.groups[0]), 4U);
  const reference::LayerGroup group(config, 0);
  const FastGroup fast_group(config, 0);
  reference::BlockPool naive(config.num_blocks, FreeOrder::append);
  FastPool fast(config.num_blocks, {});
  reference::GroupTable table;
  optimized::GroupTable fast_table{};
  Blocks storage(16);
  fast_table.blocks = storage.data();
  fast_table.capacity = 16;
  for (const std::uint64_t tokens : {4U, 8U, 12U, 16U}) {
    const reference::Demand demand{.slots = tokens, .main = tokens};
    const std::int64_t needed = group.need(table, {}, demand, naive);
    EXPECT_EQ(needed, 2);
    EXPECT_EQ(std::ssize(group.allocate(table, demand, naive).blocks), needed);
    optimized::Demand fast_demand{};
    fast_demand.slots = fast_demand.main = tokens;
    EXPECT_EQ(fast_group.need(fast_table, {}, fast_demand, fast), needed);
    optimized::TailCopy none;
    EXPECT_EQ(fast_group.allocate(fast_table, fast_demand, fast, none), needed);
  }
}

FACT(71, TheCapOfAWindowIsWhatRecyclingLeaves) {
  CacheConfig config = pool(8, {window(4, 8)});
  config.max_in_flight_tokens = 16;
  config.max_model_len = 64;
  const std::uint64_t tokens[] = {4, 20, 24, 28, 64};
  const std::int64_t uncapped[] = {1, 5, 6, 7, 16};
  const std::int64_t capped[] = {1, 5, 6, 7, 7};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(need(config, {}, {.tokens = tokens[i]}), uncapped[i]);
    EXPECT_EQ(need(config, {}, {.tokens = tokens[i], .capped = true}), capped[i]);
  }
  EXPECT_EQ(admission_cap(config, chunked(4, 8)), 6U);

  const auto gate = [&](std::uint32_t num_blocks, const GroupConfig& group) {
    config.num_blocks = num_blocks;
    config.groups = {group};
    Driver m(way, config);
    m.arrive("r0", range(0, 64));
    return m.allocate("r0", {.new_tokens = 4, .full_sequence_must_fit = true}).has_value();
  };
  EXPECT_TRUE(gate(1 + 7, window(4, 8)));
  EXPECT_FALSE(gate(1 + 6, window(4, 8)));
  EXPECT_TRUE(gate(1 + 6, chunked(4, 8)));
  EXPECT_FALSE(gate(1 + 5, chunked(4, 8)));
}

// ---- a life ----

FACT(64, AWindowMovesOverThePromptChunkByChunk) {
  Driver m(way, pool(20, {window(4, 8)}));
  m.arrive("r0", range(0, 40));
  EXPECT_EQ(m.compute("r0", 12), (Tables{{1, 2, 3}}));
  EXPECT_EQ(m.table("r0"), (Blocks{1, 2, 3}));
  EXPECT_EQ(m.compute("r0", 12), (Tables{{4, 5, 6}}));
  EXPECT_EQ(m.table("r0"), (Blocks{0, 2, 3, 4, 5, 6}));
  EXPECT_EQ(m.queue(), (Blocks{7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 1}));
  EXPECT_EQ(m.compute("r0", 12), (Tables{{7, 8, 9}}));
  EXPECT_EQ(m.table("r0"), (Blocks{0, 0, 0, 0, 5, 6, 7, 8, 9}));
  EXPECT_EQ(m.queue(), (Blocks{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 1, 4, 3, 2}));
  EXPECT_EQ(m.compute("r0", 4), (Tables{{10}}));
  EXPECT_EQ(m.table("r0"), (Blocks{0, 0, 0, 0, 0, 0, 0, 8, 9, 10}));
  EXPECT_EQ(m.queue(), (Blocks{11, 12, 13, 14, 15, 16, 17, 18, 19, 1, 4, 3, 2, 7, 6, 5}));
  m.finish("r0");
  EXPECT_EQ(m.queue(), (Blocks{11, 12, 13, 14, 15, 16, 17, 18, 19, 1, 4, 3, 2, 7, 6, 5, 10, 9, 8}));
  EXPECT_EQ(m.probe(range(0, 40)), (Hit{36, {{0, 0, 0, 0, 0, 0, 0, 8, 9}}}));
}

FACT(66, ARefusedRequestHasGivenBackWhatItDoesNotRead) {
  Driver m(way, pool(6, {window(4, 4)}));
  m.arrive("r0", range(0, 60));
  m.compute("r0", 20);
  EXPECT_FALSE(m.compute("r0", 40));
  EXPECT_EQ(m.table("r0"), (Blocks{0, 0, 0, 0, 5}));
  EXPECT_EQ(m.queue(), (Blocks{4, 3, 2, 1}));
}

FACT(67, ChunksBeforeTheLastAreHitUnseen) {
  Driver m(way, pool(20, {chunked(4, 8)}));
  m.arrive("r0", range(0, 20));
  m.compute("r0", 20);
  EXPECT_EQ(m.probe(range(0, 20)), (Hit{16, {{0, 0, 0, 0}}}));
  EXPECT_EQ(m.probe(range(0, 16)), (Hit{12, {{0, 0, 3}}}));
  EXPECT_EQ(m.probe(range(0, 17)).hit_tokens, 16U);
}

}  // namespace
}  // namespace kvproof::properties
