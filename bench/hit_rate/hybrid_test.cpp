// SPDX-License-Identifier: Apache-2.0
// Prompts replayed on hybrids, against what paper and pencil give, and against the replay of full
// attention.
#include <gtest/gtest.h>

#include "bench/hit_rate/replay_prompts.h"
#include "bench/requests/listed_source.h"
#include "bench/requests/open_log.h"
#include "bench/requests/workloads.h"
#include "properties/sources/traces/test_files.h"

namespace kvproof::bench {
namespace {

CacheConfig full_and(GroupConfig other) {
  CacheConfig out;
  out.profile = *find_profile("vllm-0.33");
  out.hash_block_size = other.block_size;
  out.groups = {{.block_size = other.block_size}, other};
  out.max_in_flight_tokens = 64;
  return out;
}
CacheConfig full_and_window(std::optional<std::uint32_t> retention) {
  CacheConfig out = full_and({.kind = LayerKind::sliding_window, .block_size = 16, .window = 32});
  out.retention = retention;
  return out;
}
/// @param unit [tokens] per hash: hits end on its multiples
CacheConfig full_and_states(std::uint32_t unit) {
  CacheConfig out =
      full_and({.kind = LayerKind::mamba, .block_size = 32, .mode = MambaMode::align});
  out.hash_block_size = unit;
  out.retention = 0;
  return out;
}

/// One prompt of 16 tokens for each id, and one token of its own.
ReopenableSource prompts(const std::vector<std::vector<std::uint64_t>>& all) {
  std::vector<Request> requests;
  for (const auto& ids : all) {
    requests.push_back({.input_tokens = static_cast<std::int64_t>(16 * ids.size() + 1),
                        .output_tokens = 1,
                        .block_ids = ids});
  }
  return listed(requests);
}

TEST(ReplayHybrid, WindowsFindWhatTheirRetentionKept) {
  // A hit reads the two window blocks before it. The second prompt is the first; the third and the
  // fourth share three ids with it.
  const ReopenableSource source = prompts({{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 5}, {1, 2, 3, 6}});
  const ReplayCounts dense = replay_hybrid(source, full_and_window(std::nullopt));
  EXPECT_EQ(dense.input_tokens, 4 * 65U);
  EXPECT_EQ(dense.hit_tokens, 64 + 48 + 48U);
  EXPECT_EQ(dense.kept_blocks, 2 * (4 + 1 + 1U));
  // The first keeps its third and fourth window block. The third prompt needs the second one, finds
  // nothing, and computes all its blocks; it keeps what a hit there would have read.
  const ReplayCounts boundaries = replay_hybrid(source, full_and_window(0));
  EXPECT_EQ(boundaries.hit_tokens, 64 + 0 + 48U);
  EXPECT_EQ(boundaries.kept_blocks, (4 + 4 + 1) + (2 + 3 + 1U));
  // Two of two blocks are all, two of four are again the third and the fourth.
  EXPECT_EQ(replay_hybrid(source, full_and_window(32)).hit_tokens, dense.hit_tokens);
  EXPECT_EQ(replay_hybrid(source, full_and_window(64)).hit_tokens, boundaries.hit_tokens);
  EXPECT_EQ(dense.evictions + boundaries.evictions + dense.refused + boundaries.refused, 0U);
}

TEST(ReplayHybrid, WhatIsNotKeptMakesRoom) {
  // In a dense pool of 16 the first two prompts keep eight blocks each, of which two are window
  // blocks that no hit will read. The third prompt takes four: two without content, and two of the
  // first prompt. Without those window blocks there are four without content.
  const ReopenableSource source = prompts({{1, 2, 3, 4}, {5, 6, 7, 8}, {9}, {1, 2, 3, 4}});
  CacheConfig dense = full_and_window(std::nullopt);
  CacheConfig boundaries = full_and_window(0);
  dense.num_blocks = boundaries.num_blocks = 17;
  EXPECT_EQ(replay_hybrid(source, boundaries).hit_tokens, 64U);
  EXPECT_LT(replay_hybrid(source, dense).hit_tokens, 64U);
  EXPECT_LT(replay_hybrid(source, boundaries).evictions, replay_hybrid(source, dense).evictions);
  boundaries.num_blocks = 10;  // five blocks in each group are one too many
  EXPECT_EQ(replay_hybrid(source, boundaries).refused, 3U);
}

TEST(ReplayHybrid, StatesAreFoundWhereChunksEnded) {
  // Each prompt stops at its last whole block. The third shares one block and an id with the first:
  // no state lies there, so it stops there, and the fourth finds the block. The last goes on.
  const ReopenableSource source = prompts(
      {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {1, 2, 3, 9, 8}, {1, 2, 7, 7, 7}, {1, 2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(replay_hybrid(source, full_and_states(32)).hit_tokens, 64 + 0 + 32 + 64U);
  // With hits on every id the end of a prompt is found, too, though it lies inside a block.
  EXPECT_EQ(replay_hybrid(source, full_and_states(16)).hit_tokens, 80 + 0 + 32 + 80U);
}

/// The tokens of each chunk of a prompt that nobody has sent before.
std::vector<std::uint32_t> chunks(const CacheConfig& config, std::uint32_t prompt,
                                  std::uint32_t junction = 0) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t done = 0; done < prompt;) {
    const std::uint32_t end =
        chunk_end(config, done, prompt, *config.max_in_flight_tokens, junction);
    out.push_back(end - done);
    done = end;
  }
  return out;
}

TEST(ChunkEnd, IsWhereTheSchedulerOf033Stops) {
  using Chunks = std::vector<std::uint32_t>;
  EXPECT_EQ(chunks(full_and_window(0), 150), (Chunks{64, 64, 22}));
  EXPECT_EQ(chunks(full_and_states(32), 81), (Chunks{64, 17}));
  EXPECT_EQ(chunks(full_and_states(32), 96), (Chunks{64, 32}));  // its last token is computed anew
  EXPECT_EQ(chunks(full_and_states(32), 81, 32), (Chunks{32, 32, 17}));
  EXPECT_EQ(chunks(full_and_states(32), 150), (Chunks{64, 64, 22}));
  EXPECT_EQ(chunks(full_and_states(16), 81), (Chunks{64, 16, 1}));
  // From inside a block to its end.
  EXPECT_EQ(chunk_end(full_and_states(16), 48, 150, 64, 0), 64U);
  CacheConfig budget = full_and_states(32);
  budget.max_in_flight_tokens = 50;  // a chunk that ends no prompt ends a block
  EXPECT_EQ(chunks(budget, 81), (Chunks{32, 32, 17}));
}

TEST(ReplayHybrid, OneGroupOfFullAttentionIsReplayPrompts) {
  const ReopenableSource chat = find_workload("chat")->source(kWorkloadSeed, 200);
  for (const std::uint32_t blocks : {400U, 1'000U, 3'000U}) {
    ReplayOptions options;
    options.capacity_blocks = blocks;
    const ReplayCounts expected = replay_prompts(chat, options);
    CacheConfig config = full_and({});
    config.groups.pop_back();
    config.num_blocks = blocks + 1;
    const ReplayCounts counts = replay_hybrid(chat, config);
    EXPECT_EQ(counts.hit_tokens, expected.hit_tokens) << blocks;
    EXPECT_EQ(counts.evictions, expected.evictions) << blocks;
    EXPECT_EQ(counts.kept_blocks, expected.kept_blocks) << blocks;
    EXPECT_GT(counts.hit_tokens, 0U);
  }
}

TEST(ReplayHybrid, ADenseWindowFindsWhatIsKnownOfARealLog) {
  const std::string path = properties::shared_file("traces/mooncake_conversation_trace.jsonl.zst");
  if (path.empty()) GTEST_SKIP() << properties::kNoPublicLog;
  CacheConfig config =
      full_and({.kind = LayerKind::sliding_window, .block_size = 512, .window = 1'024});
  config.max_in_flight_tokens = 8'192;
  // Of the infinite cache of full attention; the last block of a prompt, which it counts, is rare.
  const ReplayCounts counts = replay_hybrid(log_source(path, {.max_tokens = 1 << 20}), config);
  EXPECT_NEAR(counts.hit_rate_tokens(), 0.3736, 0.001);
}

}  // namespace
}  // namespace kvproof::bench
