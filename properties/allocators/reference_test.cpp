// SPDX-License-Identifier: Apache-2.0
// The specification against arithmetic that can be done by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "reference/attention.h"
#include "reference/cache_manager.h"
#include "reference/contiguous_cache.h"
#include "reference/kv_spec.h"
#include "reference/layout.h"

namespace kvproof {
namespace {

using reference::ContiguousCache;
using reference::Reservation;

TEST(KvSpec, Llama3_70BTakes327680BytesPerToken) {
  const KvSpec spec = KvSpec::full(80, 8, 128, DataType::fp16);
  EXPECT_EQ(spec.bytes_per_token(), 327'680U);
  EXPECT_EQ(spec.bytes_per_block(16), 5'242'880U);
  EXPECT_EQ(spec.paged_bytes(131'072, 16), 42'949'672'960U);  // 42.9 GB at 128k tokens
}

TEST(KvSpec, Llama3_8BTakes131072BytesPerToken) {
  EXPECT_EQ(KvSpec::full(32, 8, 128, DataType::bf16).bytes_per_token(), 131'072U);
}

TEST(KvSpec, MlaStoresOneLatentRowPerLayer) {
  EXPECT_EQ(KvSpec::mla(61, 512, 64, DataType::bf16).bytes_per_token(), 70'272U);  // DeepSeek-V3
}

TEST(KvSpec, GroupedHeadsCostInProportionToKvHeads) {
  const auto bytes = [](std::uint32_t kv_heads, DataType type) {
    return KvSpec::full(32, kv_heads, 128, type).bytes_per_token();
  };
  EXPECT_EQ(bytes(32, DataType::fp16), 4 * bytes(8, DataType::fp16));
  EXPECT_EQ(bytes(8, DataType::fp32), 4 * bytes(8, DataType::fp8_e4m3));
}

TEST(KvSpec, ARequestOccupiesWholeBlocks) {
  const KvSpec spec = KvSpec::full(1, 1, 1, DataType::int8);
  EXPECT_EQ(spec.paged_bytes(0, 16), 0U);
  EXPECT_EQ(spec.paged_bytes(1, 16), 16 * spec.bytes_per_token());
  EXPECT_EQ(spec.paged_bytes(16, 16), 16 * spec.bytes_per_token());
  EXPECT_EQ(spec.paged_bytes(17, 16), 32 * spec.bytes_per_token());
}

TEST(Layout, EveryElementHasItsOwnPlaceInBothOrders) {
  for (const LayoutOrder order : {LayoutOrder::nhd, LayoutOrder::hnd}) {
    const auto layout = CacheLayout::packed(order, 4, 3, 5);
    std::vector<int> hits(2 * 4 * 3 * 5);
    for (int block = 0; block < 2; ++block) {
      for (int token = 0; token < 4; ++token) {
        for (int head = 0; head < 3; ++head) {
          for (int i = 0; i < 5; ++i)
            ++hits.at(static_cast<std::size_t>(layout.row(block, token, head) + i));
          EXPECT_EQ(layout.row(block, token, head), layout.row_of_slot(block * 4 + token, head));
        }
      }
    }
    for (const int h : hits) EXPECT_EQ(h, 1);
  }
}

TEST(Layout, OffsetsGoBeyond32Bits) {
  const auto layout = CacheLayout::packed(LayoutOrder::nhd, 16, 8, 128);
  EXPECT_EQ(layout.row(1 << 20, 15, 7),
            (std::int64_t{1} << 20) * 16 * 8 * 128 + (15 * 8 + 7) * 128);
}

TEST(Layout, SlotsFollowTheBlockTable) {
  const BlockId table[] = {7, 3, 9};
  const SlotId expected[] = {28, 29, 30, 31, 12, 13, 14, 15, 36, 37};
  for (int p = 0; p < 10; ++p) EXPECT_EQ(slot_of(table, p, 4), expected[p]);
}

TEST(ContiguousCache, MaxLengthReservesForTheLongestRequest) {
  ContiguousCache cache(100, 40, Reservation::max_length);
  EXPECT_TRUE(cache.insert("a", 3, 10));
  EXPECT_TRUE(cache.insert("b", 1, 1));
  EXPECT_FALSE(cache.insert("c", 1, 1)) << "20 tokens are left, 40 are wanted";
  const auto usage = cache.usage();
  EXPECT_EQ(usage.reserved, 80U);
  EXPECT_EQ(usage.used, 4U);
  EXPECT_EQ(usage.internal_waste, 76U);
  EXPECT_EQ(usage.largest_free_run, 20U);
}

TEST(ContiguousCache, PowersOfTwoDoubleAndMove) {
  ContiguousCache cache(64, 32, Reservation::power_of_two);
  EXPECT_TRUE(cache.insert("a", 3, 32));
  EXPECT_TRUE(cache.insert("b", 4, 32));
  EXPECT_TRUE(cache.extend("a", 4));
  EXPECT_EQ(cache.usage().moved, 0U) << "four tokens were reserved";
  EXPECT_TRUE(cache.extend("a", 5));  // b stands behind it
  EXPECT_EQ(cache.usage().moved, 4U);
  EXPECT_EQ(cache.find("a")->offset, 8U);
  EXPECT_EQ(cache.find("a")->length, 8U);
}

TEST(ContiguousCache, GrowAndCopyGrowsInPlaceWhereItCan) {
  ContiguousCache cache(16, 16, Reservation::grow_and_copy);
  EXPECT_TRUE(cache.insert("a", 4, 16));
  EXPECT_TRUE(cache.extend("a", 6));
  EXPECT_EQ(cache.usage().moved, 0U);
  EXPECT_TRUE(cache.insert("b", 2, 2));
  EXPECT_TRUE(cache.extend("a", 7));
  EXPECT_EQ(cache.usage().moved, 6U);
  EXPECT_EQ(cache.last_move()->to.offset, 8U);
  EXPECT_FALSE(cache.extend("a", 12)) << "eight in place, six in front of b: no run of twelve";
  EXPECT_EQ(cache.find("a")->length, 7U) << "a refusal changes nothing";
}

TEST(ContiguousCache, FragmentationIsOneMinusLargestRunOverFree) {
  ContiguousCache cache(40, 10, Reservation::oracle);
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_TRUE(cache.insert(name, 1, 10));
  EXPECT_EQ(cache.usage().external_fragmentation(), 0.0) << "nothing is free";
  cache.erase("a");
  cache.erase("c");
  EXPECT_EQ(cache.usage().free, 20U);
  EXPECT_DOUBLE_EQ(cache.usage().external_fragmentation(), 0.5);
  cache.erase("b");  // joins both neighbours
  EXPECT_EQ(cache.usage().largest_free_run, 30U);
  EXPECT_EQ(cache.usage().external_fragmentation(), 0.0);
}

TEST(ContiguousCache, RandomRunsNeverOverlapAndNothingIsLost) {
  std::mt19937_64 random(1);
  for (const Reservation policy : {Reservation::max_length, Reservation::power_of_two,
                                   Reservation::oracle, Reservation::grow_and_copy}) {
    ContiguousCache cache(200, 30, policy);
    std::map<std::string, std::uint64_t> live;
    for (int step = 0; step < 5000; ++step) {
      const std::string name = std::to_string(random() % 12);
      if (!live.contains(name)) {
        const std::uint64_t tokens = 1 + random() % 30;
        if (cache.insert(name, tokens, 30)) live[name] = tokens;
      } else if (random() % 3 == 0) {
        cache.erase(name);
        live.erase(name);
      } else if (live[name] < 30 && cache.extend(name, live[name] + 1)) {
        ++live[name];
      }
      std::vector<int> owners(200);
      std::uint64_t used = 0;
      for (const auto& [owner, tokens] : live) {
        const auto run = cache.find(owner);
        ASSERT_TRUE(run && run->length >= tokens);
        for (std::uint64_t t = run->offset; t < run->offset + run->length; ++t) ++owners.at(t);
        used += tokens;
      }
      for (const int owner : owners) ASSERT_LE(owner, 1);
      ASSERT_EQ(cache.usage().used, used);
      ASSERT_EQ(cache.usage().reserved + cache.usage().free, 200U);
    }
    while (!live.empty()) {
      cache.erase(live.begin()->first);
      live.erase(live.begin());
    }
    EXPECT_EQ(cache.usage().largest_free_run, 200U) << "free runs must join again";
  }
}

TEST(Attention, EqualScoresAverageTheValues) {
  const double query[] = {0, 0}, key[] = {1, 2, 3, 4, 5, 6}, value[] = {1, 10, 100};
  const auto out = reference::attend({query, key, value, 3, 1, 1, 2, 1, 1.0});
  EXPECT_DOUBLE_EQ(out.rows[0], 37.0);
  EXPECT_DOUBLE_EQ(out.log_sum_exp[0], std::log(3.0));
}

TEST(Attention, ALargeScoreSelectsItsValueWithoutOverflow) {
  const double query[] = {1}, key[] = {0, 1e4, -1e4}, value[] = {1, 2, 3};
  const auto out = reference::attend({query, key, value, 3, 1, 1, 1, 1, 1.0});
  EXPECT_DOUBLE_EQ(out.rows[0], 2.0);
  EXPECT_DOUBLE_EQ(out.log_sum_exp[0], 1e4);
}

TEST(Attention, GroupedHeadsReadTheirKvHead) {
  const double query[] = {1, 1, 1, 1}, key[] = {0, 0}, value[] = {5, 7};  // one token, two KV heads
  const auto out = reference::attend({query, key, value, 1, 4, 2, 1, 1, 1.0});
  EXPECT_EQ(out.rows, (std::vector<double>{5, 5, 7, 7}));
}

TEST(Attention, NoTokensGiveZeroAndMinusInfinity) {
  const double query[] = {1};
  const auto out = reference::attend({query, nullptr, nullptr, 0, 1, 1, 1, 1, 1.0});
  EXPECT_EQ(out.rows[0], 0.0);
  EXPECT_EQ(out.log_sum_exp[0], -std::numeric_limits<double>::infinity());
}

TEST(CacheConfig, WhatIsNotSupportedIsRefusedWithTheReason) {
  CacheConfig config;
  config.num_blocks = 8;
  config.max_model_len = 64;
  config.hash_block_size = 4;
  const auto why = [&](std::vector<GroupConfig> groups) {
    config.groups = std::move(groups);
    return unsupported(config).has_value();
  };
  const GroupConfig full{.kind = LayerKind::full, .block_size = 4};
  GroupConfig window{.kind = LayerKind::sliding_window, .block_size = 4, .window = 8};
  EXPECT_FALSE(why({full}));
  EXPECT_FALSE(why({full, window}));
  EXPECT_TRUE(why({}));
  EXPECT_TRUE(why({{.kind = LayerKind::full, .block_size = 6}})) << "not of whole hash units";
  EXPECT_TRUE(why({{.kind = LayerKind::full, .block_size = 8}})) << "one group, two sizes";
  EXPECT_TRUE(why({{.kind = LayerKind::cross, .block_size = 4}}));
  EXPECT_TRUE(why({{.kind = LayerKind::mamba, .block_size = 4}})) << "no states are kept";
  EXPECT_TRUE(why({{.kind = LayerKind::chunked_local, .block_size = 4, .chunk = 6}}));
  EXPECT_FALSE(why({{.kind = LayerKind::chunked_local, .block_size = 4, .chunk = 8}}));
  window.window = 0;
  EXPECT_TRUE(why({full, window}));
  EXPECT_THROW(reference::CacheManager{config}, std::invalid_argument);
  config.enable_caching = false;
  EXPECT_FALSE(why({{.kind = LayerKind::cross, .block_size = 4}}));
}

}  // namespace
}  // namespace kvproof
