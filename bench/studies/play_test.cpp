// SPDX-License-Identifier: Apache-2.0
// Storages hold what their definitions say, and a play on them loses nothing and notices who does.
#include "bench/studies/play.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bench/requests/listed_source.h"
#include "bench/requests/workloads.h"
#include "bench/studies/storage.h"
#include "properties/traces/input_error.h"

namespace kvproof::bench {
namespace {

TEST(Storage, ReservesWhatItsDefinitionSaysAtEveryLength) {
  constexpr std::uint32_t kMax = 8'192;
  for (const StorageRow& row : kStorages) {
    const auto storage = row.make({kMax, 16, 1, kMax});
    const TokenId token = 0;
    const Storage::Handle request = storage->start({&token, 1}, kMax);
    for (std::uint64_t tokens = 1; tokens <= kMax; ++tokens) {
      if (tokens > 1) storage->grow(request);
      const StorageUsage usage = storage->usage();
      ASSERT_EQ(usage.live_tokens, tokens) << row.name;
      ASSERT_EQ(usage.reserved_tokens, reserved_for(row.name, tokens, kMax, kMax)) << row.name;
    }
    EXPECT_EQ(storage->usage().moved_tokens, 0U) << row.name << ": nobody was in the way";
    storage->end(request);
    EXPECT_EQ(storage->usage().reserved_tokens, 0U) << row.name;
    EXPECT_EQ(storage->usage().live_tokens, 0U) << row.name;
  }
}

TEST(Storage, SharedPrefixesAreHeldOnce) {
  std::vector<TokenId> prompt(64);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i);
  for (const char* name : {"paged", "paged_shared"}) {
    const auto storage = storage_row(name).make({64, 16, 2, 128});
    (void)storage->start(prompt, 64);
    (void)storage->start(prompt, 64);
    // The last token is always computed anew, and with it its block: 3 of 4 blocks are shared.
    const std::uint64_t held = std::string_view(name) == "paged" ? 128 : 64 + 16;
    EXPECT_EQ(storage->usage().reserved_tokens, held) << name;
    EXPECT_EQ(storage->usage().live_tokens, 128U) << name;
  }
}

TEST(Storage, RefusalIsAMistakeOfTheStudy) {
  const std::vector<TokenId> prompt(17);
  for (const StorageRow& row : kStorages) {
    const auto storage = row.make({32, 16, 2, 16});
    EXPECT_THROW((void)storage->start(prompt, 17), std::logic_error) << row.name;
  }
}

TEST(Plan, CutsAndSkipsAndCountsBoth) {
  const StudySource source = listed({{0, 0.0, 10, 3, {}},
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
  EXPECT_THROW((void)plan_play(source, 16, limits), properties::InputError);
}

TEST(Play, AStorageThatIsJustLargeEnoughPlaysAsARoomyOne) {
  const StudySource source =
      workload_source("long_tail", {.smoke = true, .seed = kWorkloadSeed, .traces = {}});
  const PlayPlan plan = plan_play(source, 16, {});
  const auto nothing = [](double) {};
  for (const StorageRow& row : kStorages) {
    StorageSize size{plan.max_length, 16, plan.peak_requests, plan.peak_tokens};
    if (row.contiguous) size.capacity_tokens = std::uint64_t{1} << 62;
    const auto roomy = row.make(size);
    const auto before = play(source, plan, *roomy, 100, nothing);
    size.capacity_tokens = roomy->usage().top_tokens;
    const auto exact = row.make(size);
    const auto after = play(source, plan, *exact, 100, nothing);
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(before[i].usage.reserved_tokens, after[i].usage.reserved_tokens) << row.name;
      ASSERT_EQ(before[i].usage.moved_tokens, after[i].usage.moved_tokens) << row.name;
    }
    // Where requests never move, a little less is not enough.
    if (row.name == "contiguous_grow_and_copy" || row.name == "contiguous_power_of_two") continue;
    size.capacity_tokens -= row.contiguous ? 1 : 16;
    const auto tight = row.make(size);
    EXPECT_THROW((void)play(source, plan, *tight, 2, nothing), std::logic_error) << row.name;
  }
}

/// Forgets one token of every second request.
class LeakyStorage final : public Storage {
 public:
  explicit LeakyStorage(std::unique_ptr<Storage> inner) : inner_(std::move(inner)) {}
  Handle start(std::span<const TokenId> prompt, std::uint32_t final_tokens) override {
    lost_ += ++started_ % 2;
    return inner_->start(prompt, final_tokens);
  }
  void grow(Handle request) override { inner_->grow(request); }
  void end(Handle request) override { inner_->end(request); }
  [[nodiscard]] StorageUsage usage() const override {
    StorageUsage usage = inner_->usage();
    usage.live_tokens -= std::min(usage.live_tokens, lost_);
    return usage;
  }

 private:
  std::unique_ptr<Storage> inner_;
  std::uint64_t started_ = 0;
  std::uint64_t lost_ = 0;
};

TEST(Play, NoticesAStorageThatLosesTokens) {
  const StudySource source = listed({{0, 0.0, 20, 30, {}}});
  const PlayPlan plan = plan_play(source, 16, {});
  LeakyStorage leaky(storage_row("paged").make({64, 16, 1, 64}));
  EXPECT_THROW((void)play(source, plan, leaky, 10, [](double) {}), std::logic_error);
}

TEST(Play, SamplesEveryTickOfAShortPlayOnce) {
  const StudySource source = listed({{0, 0.0, 20, 3, {}}});
  const PlayPlan plan = plan_play(source, 16, {});
  const auto storage = storage_row("paged").make({64, 16, 1, 64});
  std::vector<std::uint64_t> live;
  for (const PlaySample& sample : play(source, plan, *storage, 200, [](double) {})) {
    live.push_back(sample.usage.live_tokens);
  }
  EXPECT_EQ(live, (std::vector<std::uint64_t>{20, 21, 22, 23, 0}));
}

}  // namespace
}  // namespace kvproof::bench
