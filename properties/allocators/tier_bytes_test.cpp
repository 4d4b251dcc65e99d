// SPDX-License-Identifier: Apache-2.0
// Content survives sharing, drafts, eviction and swaps bit for bit, whether transfers fail or not;
// and the test that says so notices a single copy that went wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "properties/allocators/byte_world.h"
#include "properties/random/random_run.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

constexpr int kOperations = 2000;

struct Layers {
  std::string name;
  std::vector<GroupConfig> groups;
  bool caching = true;
};

std::vector<Layers> layers() {
  GroupConfig mla = full(4);
  mla.kind = LayerKind::mla;
  return {{"full", {full(4)}},
          {"full, no caching", {full(4)}, false},
          {"window", {window(4, 9)}},
          {"chunks", {chunked(4, 8)}},
          {"full and window", {full(4), window(4, 8)}},
          {"unequal block sizes, EAGLE", {full(8, true), window(4, 9, true)}},
          {"mla and two windows", {mla, window(4, 5), window(4, 12)}},
          {"full and states", {full(4), mamba(4, MambaMode::align)}}};
}

CacheConfig config_of(const Way& way, const Layers& row) {
  CacheConfig config = pool(row.groups.size() == 1 ? 28 : 56, row.groups, row.caching);
  config.profile = *way.profile;
  config.max_model_len = 72;
  config.num_host_blocks = config.num_blocks / 2;
  return config;
}

TEST(TierBytes, EveryRequestReadsItsOwnBytes) {
  std::cout << "KVPROOF_SEED=" << seed_of_runs() << "\n";
  ByteWorld::Counts sum;
  for (const Way& way : ways()) {
    for (const Layers& row : layers()) {
      SCOPED_TRACE(way.name() + ", " + row.name);
      const CacheConfig config = config_of(way, row);
      ByteWorld world(way.subject->make(config), config);
      RandomRun run(world, config, seed_of_runs());
      for (int i = 0; i < kOperations && !world.wrong(); ++i) {
        run.next();
        ASSERT_FALSE(world.wrong()) << "operation " << i << ": " << *world.wrong();
      }
      run.wind_up();
      ASSERT_FALSE(world.wrong()) << "at the end: " << *world.wrong();
      EXPECT_EQ(world.state().num_free, config.num_blocks - 1);
      EXPECT_EQ(world.state().host.num_free, config.num_host_blocks - 1);
      // A run in which these never happened has shown nothing about them.
      const ByteWorld::Counts& counts = world.counts();
      EXPECT_GT(counts.checked_rows, 50'000U);
      for (const std::uint64_t n :
           {counts.swaps_out, counts.swaps_in, counts.failed_out, counts.failed_in}) {
        EXPECT_GT(n, 0U);
      }
      EXPECT_EQ(counts.twins > 0, row.caching);
      const bool forks = row.groups.back().kind != LayerKind::mamba;
      EXPECT_TRUE(counts.shared_copies > 0 || !forks);
      sum.checked_rows += counts.checked_rows;
      sum.shared_copies += counts.shared_copies;
      sum.swaps_out += counts.swaps_out;
      sum.swaps_in += counts.swaps_in;
      sum.failed_out += counts.failed_out;
      sum.failed_in += counts.failed_in;
      sum.refused_swaps += counts.refused_swaps;
    }
  }
  EXPECT_GT(sum.refused_swaps, 0U);
  std::cout << sum.checked_rows << " rows read, " << sum.shared_copies << " blocks copied, "
            << sum.swaps_out << " swaps out and " << sum.failed_out << " failed, " << sum.swaps_in
            << " in and " << sum.failed_in << " failed\n";
}

class CopyFaults : public testing::TestWithParam<CopyFault> {};

TEST_P(CopyFaults, OneWrongCopyIsNoticed) {
  for (const Layers& row : layers()) {
    const bool forks = row.groups.back().kind != LayerKind::mamba;
    if (!forks && GetParam() <= CopyFault::shared_late) continue;  // states are not forked
    SCOPED_TRACE(row.name);
    const Way way = ways().front();
    const CacheConfig config = config_of(way, row);
    ByteWorld world(way.subject->make(config), config, GetParam());
    RandomRun run(world, config, seed_of_runs());
    for (int i = 0; i < kOperations && !world.wrong(); ++i) run.next();
    ASSERT_TRUE(world.wrong()) << "nothing was noticed";
    EXPECT_NE(world.wrong()->find("reads other bytes"), std::string::npos) << *world.wrong();
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, CopyFaults,
                         testing::Values(CopyFault::shared_skipped, CopyFault::shared_reversed,
                                         CopyFault::shared_late, CopyFault::out_skipped,
                                         CopyFault::out_reversed, CopyFault::in_skipped,
                                         CopyFault::in_reversed));

/// What a failed transfer must leave as it was: all but the order of the queues and the content of
/// blocks that nobody holds.
struct Holdings {
  std::uint32_t num_free = 0;
  std::uint32_t host_free = 0;
  std::vector<RequestState> requests;
  bool operator==(const Holdings&) const = default;
};

Holdings holdings(const ByteWorld& world) {
  return {world.state().num_free, world.state().host.num_free, world.state().requests};
}

TEST(TierBytes, AFailedTransferLeavesBothSidesAsTheyWere) {
  for (const Way& way : ways()) {
    for (const Layers& row : layers()) {
      SCOPED_TRACE(way.name() + ", " + row.name);
      const CacheConfig config = config_of(way, row);
      ByteWorld world(way.subject->make(config), config);
      world.apply(op::Arrive{.req = "a", .tokens = range(0, 18), .extra = {}});
      world.apply(op::Allocate{"a", {.new_tokens = 18}});
      world.apply(op::Advance{"a", 18});
      const Holdings here = holdings(world);
      world.apply(op::SwapOut{"a", "t"});
      EXPECT_EQ(world.state().num_free, here.num_free) << "the device keeps its blocks";
      EXPECT_LT(world.state().host.num_free, here.host_free);
      world.apply(op::Complete{"t", false});
      EXPECT_TRUE(holdings(world) == here);

      world.apply(op::SwapOut{"a", "t"});
      world.apply(op::Complete{"t", true});
      const Holdings there = holdings(world);
      EXPECT_EQ(there.num_free, config.num_blocks - 1);
      world.apply(op::SwapIn{"a", "t"});
      EXPECT_EQ(world.state().host.num_free, there.host_free) << "the host keeps its blocks";
      EXPECT_LT(world.state().num_free, there.num_free);
      world.apply(op::Complete{"t", false});
      EXPECT_TRUE(holdings(world) == there);

      world.apply(op::SwapIn{"a", "t"});
      world.apply(op::Complete{"t", true});
      EXPECT_EQ(world.state().num_free, here.num_free);
      EXPECT_EQ(world.state().host.num_free, config.num_host_blocks - 1);
      EXPECT_FALSE(world.wrong()) << *world.wrong();
    }
  }
}

}  // namespace
}  // namespace kvproof::properties
