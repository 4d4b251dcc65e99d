// SPDX-License-Identifier: Apache-2.0
// Memories hold what their definitions say, and a play on them loses nothing and notices who does.
#include "bench/studies/play.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bench/requests/listed_source.h"
#include "bench/requests/workloads.h"
#include "bench/storage/storage_test_support.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

/// @param size of the memory, or of the pool [tokens]. Its blocks have 16.
MemoryOptions options_for(std::uint32_t max_tokens, std::uint32_t requests, std::uint64_t size) {
  return {.block_size = 16,
          .capacity_tokens = size,
          .max_tokens = max_tokens,
          .max_requests = requests};
}

TEST(Storage, ReservesWhatItsDefinitionSaysAtEveryLength) {
  constexpr std::uint32_t kMax = 8'192;
  for (const StorageRow& row : kStorages) {
    const auto memory = row.make(options_for(kMax, 1, kMax));
    const TokenId token = 0;
    PlayedRequest request(*memory, {&token, 1}, kMax);
    for (std::uint64_t tokens = 1; tokens <= kMax; ++tokens) {
      if (tokens > 1) request.grow();
      const MemoryUse use = memory->use();
      ASSERT_EQ(use.known, tokens) << row.name;
      ASSERT_EQ(use.held(), reserved_for(row.name, tokens, kMax, kMax)) << row.name;
    }
    EXPECT_EQ(memory->moved_tokens(), 0U) << row.name << ": nobody was in the way";
    request.end();
    EXPECT_EQ(memory->use().held(), 0U) << row.name;
    EXPECT_EQ(memory->use().known, 0U) << row.name;
  }
}

TEST(Storage, SharedPrefixesAreHeldOnce) {
  std::vector<TokenId> prompt(64);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i);
  for (const char* name : {"paged", "paged_shared"}) {
    const auto memory = find_storage(name)->make(options_for(64, 2, 128));
    const PlayedRequest first(*memory, prompt, 64);
    const PlayedRequest second(*memory, prompt, 64);
    // The last token is always computed anew, and with it its block: 3 of 4 blocks are shared.
    const std::uint64_t held = std::string_view(name) == "paged" ? 128 : 64 + 16;
    EXPECT_EQ(memory->use().held(), held) << name;
    EXPECT_EQ(memory->use().known, 128U) << name;
  }
}

TEST(Storage, RefusalIsAMistakeOfTheStudy) {
  const std::vector<TokenId> prompt(17);
  for (const StorageRow& row : kStorages) {
    const auto memory = row.make(options_for(32, 2, 16));
    EXPECT_THROW(PlayedRequest(*memory, prompt, 17), std::logic_error) << row.name;
  }
}

TEST(Plan, CutsAndSkipsAndCountsBoth) {
  const ReopenableSource source = listed({{0, 0.0, 10, 3, {}},
                                          {0, 0.1, 0, 5, {}},  // nothing to store
                                          {0, 0.2, 100, 0, {}},
                                          {0, 9.0, 10, 1, {}},  // too late
                                          {0, 9.0, 10, 1, {}}});
  PlayLimits limits;
  limits.seconds = 9;
  const PlayPlan plan = plan_play(source, 16, limits);
  EXPECT_EQ(plan.num_read, 3U);
  EXPECT_EQ(plan.num_skipped, 1U);
  EXPECT_EQ(plan.num_cut, 2U);
  EXPECT_EQ(plan.num_played(), 2U);
  EXPECT_EQ(plan.max_length, 128U);
  EXPECT_EQ(plan.peak_requests, 1U);  // the first is gone at tick 4, the third starts at tick 8
  EXPECT_EQ(plan.peak_tokens, 112U);
  EXPECT_EQ(plan.last_tick, 9);

  limits.grown_tokens = 2;
  EXPECT_EQ(plan_play(source, 16, limits).num_cut, 5U);
  limits = {};
  limits.requests = 1;
  EXPECT_EQ(plan_play(source, 16, limits).num_cut, 4U);
  limits = {};
  limits.live_tokens = 111;
  EXPECT_THROW((void)plan_play(source, 16, limits), InputError);
}

TEST(Play, AMemoryThatIsJustLargeEnoughPlaysAsARoomyOne) {
  const ReopenableSource source =
      workload_source("long_tail", {.smoke = true, .seed = kWorkloadSeed, .logs = {}});
  const PlayPlan plan = plan_play(source, 16, {});
  const auto nothing = [](double) {};
  for (const StorageRow& row : kStorages) {
    MemoryOptions options = options_for(plan.max_length, plan.peak_requests,
                                        row.contiguous ? std::uint64_t{1} << 62 : plan.peak_tokens);
    const auto roomy = row.make(options);
    const auto before = play(source, plan, *roomy, 100, nothing);
    options.capacity_tokens = roomy->top_tokens();
    const auto exact = row.make(options);
    const auto after = play(source, plan, *exact, 100, nothing);
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(before[i].use.held(), after[i].use.held()) << row.name;
      ASSERT_EQ(before[i].moved_tokens, after[i].moved_tokens) << row.name;
    }
    // Where requests never move, a little less is not enough.
    if (row.name == "contiguous_grow_and_copy" || row.name == "contiguous_power_of_two") continue;
    options.capacity_tokens -= row.contiguous ? 1 : 16;
    const auto tight = row.make(options);
    EXPECT_THROW((void)play(source, plan, *tight, 2, nothing), std::logic_error) << row.name;
  }
}

/// Forgets one token of every second request.
class LeakyMemory final : public ForwardingMemory {
 public:
  using ForwardingMemory::ForwardingMemory;
  KvHandle arrive(std::span<const TokenId> prompt, std::uint32_t most) override {
    lost_ += ++arrived_ % 2;
    return ForwardingMemory::arrive(prompt, most);
  }
  MemoryUse use() const override {
    MemoryUse use = ForwardingMemory::use();
    use.known -= std::min(use.known, lost_);
    return use;
  }

 private:
  std::uint64_t arrived_ = 0;
  std::uint64_t lost_ = 0;
};

TEST(Play, NoticesAMemoryThatLosesTokens) {
  const ReopenableSource source = listed({{0, 0.0, 20, 30, {}}});
  const PlayPlan plan = plan_play(source, 16, {});
  LeakyMemory leaky(find_storage("paged")->make(options_for(64, 1, 64)));
  EXPECT_THROW((void)play(source, plan, leaky, 10, [](double) {}), std::logic_error);
}

TEST(Play, SamplesEveryTickOfAShortPlayOnce) {
  const ReopenableSource source = listed({{0, 0.0, 20, 3, {}}});
  const PlayPlan plan = plan_play(source, 16, {});
  const auto memory = find_storage("paged")->make(options_for(64, 1, 64));
  std::vector<std::uint64_t> live;
  for (const PlaySample& sample : play(source, plan, *memory, 200, [](double) {})) {
    live.push_back(sample.use.known);
  }
  EXPECT_EQ(live, (std::vector<std::uint64_t>{20, 21, 22, 23, 0}));
}

}  // namespace
}  // namespace kvproof::bench
