// SPDX-License-Identifier: Apache-2.0
// The eviction policies: each does what its name says, none is better than the optimum, none breaks
// a law, and LRU has the hit rates that are known of it.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <set>

#include "bench/hit_rate/bounds.h"
#include "bench/hit_rate/chosen_victims.h"
#include "bench/hit_rate/policies.h"
#include "bench/requests/listed_source.h"
#include "bench/requests/open_log.h"
#include "bench/requests/workloads.h"
#include "optimized/manager/capacity.h"
#include "optimized/manager_subject.h"
#include "optimized/pool/hashing.h"
#include "properties/check/check.h"
#include "properties/sources/traces/test_files.h"

namespace kvproof::bench {
namespace {

const EvictionPolicy& policy(std::string_view name) {
  return *std::ranges::find(kEvictionPolicies, name, &EvictionPolicy::name);
}

ReplayCounts replay(const ReopenableSource& source, std::uint64_t capacity,
                    const EvictionPolicy* policy) {
  ReplayOptions options;
  options.block_size = static_cast<std::uint32_t>(source.open()->info().ids_block_size);
  options.tokens = TokenMode::whole_blocks;
  options.capacity_blocks = static_cast<std::uint32_t>(capacity);
  options.policy = policy;
  return replay_prompts(source, options);
}

/// Prompts of the given ids, a minute apart. @param places beside the block of the last token
std::uint64_t hits(std::string_view name, std::uint64_t places,
                   const std::vector<std::vector<std::uint64_t>>& prompts) {
  std::vector<Request> requests;
  for (const auto& ids : prompts) {
    requests.push_back({.arrival_seconds = 60.0 * static_cast<double>(requests.size()),
                        .input_tokens = static_cast<std::int64_t>(16 * ids.size()),
                        .output_tokens = 1,
                        .block_ids = ids});
  }
  return replay(listed(requests), places + 1, &policy(name)).hit_blocks;
}

TEST(Policies, DifferWhereTheirNamesSaySo) {
  // 1 is hit, then a third comes into two places: LRU gives up 2, FIFO 1.
  EXPECT_EQ(hits("lru", 2, {{1}, {2}, {1}, {3}, {1}}), 2U);
  EXPECT_EQ(hits("fifo", 2, {{1}, {2}, {1}, {3}, {1}}), 1U);
  // Of one prompt the deepest block goes first, or the first: then nothing behind it is found.
  EXPECT_EQ(hits("lru", 2, {{1, 2}, {3}, {1, 2}}), 1U);
  EXPECT_EQ(hits("lru_first_block_first", 2, {{1, 2}, {3}, {1, 2}}), 0U);
  // A scan of new content passes what was hit, and throws it out of an LRU cache.
  EXPECT_EQ(hits("lfu", 2, {{1}, {1}, {2}, {3}, {4}, {1}}), 2U);
  EXPECT_EQ(hits("lru", 2, {{1}, {1}, {2}, {3}, {4}, {1}}), 1U);
}

TEST(Lfu, Ages) {
  // 1 was hit twice; 2 wins its place against it once 3, 4, 5 ... have made the cache old enough.
  std::vector<std::vector<std::uint64_t>> prompts = {{1}, {1}, {1}};
  for (std::uint64_t id = 10; id < 20; ++id) {
    prompts.push_back({id});
    prompts.push_back({id});
    prompts.push_back({id});
  }
  const std::uint64_t before = hits("lfu", 2, prompts);
  prompts.push_back({1});
  EXPECT_EQ(before, 22U);
  EXPECT_EQ(hits("lfu", 2, prompts), before) << "1 is kept for ever";
}

TEST(S3Fifo, LetsAScanPassAndRemembersWhatItGaveUp) {
  std::vector<std::vector<std::uint64_t>> prompts = {{1}, {1}, {1}};
  for (std::uint64_t id = 10; id < 40; ++id) prompts.push_back({id});
  prompts.push_back({1});
  EXPECT_EQ(hits("s3_fifo", 20, prompts), 3U);
  EXPECT_EQ(hits("lru", 20, prompts), 2U);
  // 10 was given up without a hit; when it comes again it enters main, and outlives a scan.
  prompts.push_back({10});
  for (std::uint64_t id = 40; id < 70; ++id) prompts.push_back({id});
  prompts.push_back({10});
  EXPECT_EQ(hits("s3_fifo", 20, prompts), 4U);
}

TEST(PriorityTtl, KeepsConversationsForFiveMinutes) {
  // The second request continues the first. New content passes, for five requests a minute apart.
  std::vector<std::vector<std::uint64_t>> prompts = {{1}, {1, 2}};
  for (std::uint64_t id = 10; id < 13; ++id) prompts.push_back({id});
  prompts.push_back({1, 2});
  EXPECT_EQ(hits("priority_ttl", 3, prompts), 3U);
  EXPECT_EQ(hits("lru", 3, prompts), 1U);
  prompts.pop_back();
  for (std::uint64_t id = 13; id < 20; ++id) prompts.push_back({id});
  prompts.push_back({1, 2});
  EXPECT_EQ(hits("priority_ttl", 3, prompts), 1U) << "kept beyond its time";
}

/// Prompts that grow out of each other, some far more often than others.
std::vector<Request> random_requests(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::uint64_t>> paths = {{0}};
  std::vector<Request> out;
  while (out.size() < 400) {
    const std::size_t recent = std::min<std::size_t>(paths.size(), 1 + random() % 64);
    std::vector<std::uint64_t> path = paths[paths.size() - 1 - random() % recent];
    if (random() % 4 == 0) path.resize(1 + random() % path.size());
    for (std::uint64_t grow = random() % 4; grow > 0; --grow) path.push_back(random());
    if (path.size() > 24) path.resize(2);
    paths.push_back(path);
    out.push_back({.arrival_seconds = static_cast<double>(out.size()),
                   .input_tokens = static_cast<std::int64_t>(16 * path.size()),
                   .output_tokens = 1,
                   .block_ids = path});
  }
  return out;
}

TEST(Policies, AreNeverBetterThanTheOptimum) {
  std::array<std::uint64_t, std::size(kEvictionPolicies)> sums{};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const ReopenableSource source = listed(random_requests(seed));
    const PromptFuture future(*source.open());
    const std::uint64_t infinite = future.optimum(future.distinct_blocks()).hit_blocks;
    for (const std::uint64_t capacity : {30U, 60U, 120U, 240U}) {
      const std::uint64_t best = future.optimum(capacity).hit_blocks;
      EXPECT_LE(best, infinite);
      for (std::size_t i = 0; i < std::size(kEvictionPolicies); ++i) {
        const auto counts = replay(source, capacity, &kEvictionPolicies[i]);
        EXPECT_LE(counts.hit_blocks, best) << kEvictionPolicies[i].name << " of " << capacity;
        EXPECT_EQ(counts.refused, 0U);
        sums[i] += counts.hit_blocks;
      }
    }
    ReplayOptions all;
    all.tokens = TokenMode::whole_blocks;
    EXPECT_EQ(replay_prompts(source, all).hit_blocks, infinite);
    EXPECT_EQ(replay_prompts(source, all).evictions, 0U);
  }
  EXPECT_EQ(std::set(sums.begin(), sums.end()).size(), sums.size()) << "two policies are the same";
  for (const std::uint64_t sum : sums) EXPECT_GT(sum, 10'000U);
}

// The pool asks a policy rightly: LRU with a clock and a heap is the free queue.
TEST(Policies, LruByTheClockIsTheAllocatorsOwn) {
  const EvictionPolicy by_the_clock = {
      "by the clock", "", true,
      [](std::uint32_t num_blocks, const Serving&) -> std::unique_ptr<VictimOrder> {
        return std::make_unique<Recency>(num_blocks);
      }};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const ReopenableSource source = listed(random_requests(seed));
    for (const std::uint64_t capacity : {30U, 60U, 120U, 240U}) {
      const auto own = replay(source, capacity, nullptr);
      const auto other = replay(source, capacity, &by_the_clock);
      EXPECT_EQ(own.hit_blocks, other.hit_blocks);
      EXPECT_EQ(own.evictions, other.evictions);
      EXPECT_GT(own.evictions, 0U);
    }
  }
}

/// Under audit by every law that safety asks for.
class Safety : public testing::TestWithParam<EvictionPolicy> {};

TEST_P(Safety, HoldsAfterEveryOperation) {
  const EvictionPolicy& row = GetParam();
  const Serving serving{.seconds = 0, .continues = true};
  std::vector<std::unique_ptr<ChosenVictims>> victims;  // outlive the subjects
  properties::Candidate candidate;
  candidate.name = row.name;
  candidate.open = [&](const CacheConfig& config) {
    properties::Opened out;
    out.demands.promises.level = properties::Level::safety;
    if (row.make != nullptr) {
      victims.push_back(std::make_unique<ChosenVictims>(config.num_blocks, row, serving));
    }
    out.subject = optimized::make_manager_subject<optimized::Xxh3Digest>(
        config, {.max_requests = 4096, .victims = row.make ? victims.back().get() : nullptr});
    return out;
  };
  properties::CheckOptions options;
  options.operations = 3000;
  options.profiles = {find_profile("vllm-0.24")};
  for (const char* name : {"full", "full_host", "full_window", "full_mamba_all", "prompt_tails"}) {
    options.rows.push_back(properties::find_configuration(name));
  }
  const properties::CheckReport report = check(candidate, options);
  EXPECT_FALSE(report.vacuous());
  EXPECT_GT(report.counts.evictions, 0U);
  EXPECT_GT(report.counts.revivals, 0U);
  if (report.failure())
    ADD_FAILURE() << report.failure()->where << "\n" << report.failure()->failure.text;
}

INSTANTIATE_TEST_SUITE_P(Listed, Safety, testing::ValuesIn(kEvictionPolicies),
                         [](const auto& row) { return std::string(row.param.name); });

struct KnownRate {
  std::uint64_t blocks;
  double lru, optimum;  // [percent of the blocks]
};

TEST(RealLog, HasItsKnownHitRates) {
  const std::string path = properties::shared_file("traces/mooncake_conversation_trace.jsonl.zst");
  if (path.empty()) GTEST_SKIP() << properties::kNoPublicLog;
  const ReopenableSource source = log_source(path);
  const PromptFuture future(*source.open());
  EXPECT_EQ(future.distinct_blocks(), 182'790U);
  // The sizes that are written as 0.5, 1, 2.6, 5.1, 10.2 and 25.6 million tokens.
  for (const KnownRate& known :
       {KnownRate{1'000, 4.45, 19.07}, KnownRate{2'000, 5.43, 25.50},
        KnownRate{5'000, 11.18, 34.12}, KnownRate{10'000, 21.16, 36.64},
        KnownRate{20'000, 28.78, 36.64}, KnownRate{50'000, 35.46, 36.64}}) {
    const double lru = 100 * replay(source, known.blocks, &policy("lru")).hit_rate_blocks();
    EXPECT_NEAR(lru, known.lru, 0.0051) << known.blocks;
    const double optimum = 100 * future.optimum(known.blocks).hit_rate_blocks();
    EXPECT_NEAR(optimum, known.optimum, 0.0051) << known.blocks;
  }
  EXPECT_NEAR(100 * future.optimum(future.distinct_blocks()).hit_rate_blocks(), 36.64, 0.01);
}

}  // namespace
}  // namespace kvproof::bench
