// SPDX-License-Identifier: Apache-2.0
// Data movement: every implementation against its reference, the references against known answers,
// and every check against an implementation that is wrong.
//
// KVPROOF_CASE=<seed>:<size> repeats one case. KVPROOF_CASES: how many are drawn (400), from
// KVPROOF_SEED (1).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>

#include "kernels/reshape_and_cache/quantise.h"
#include "properties/kernels/movement_checks.h"
#include "properties/kernels/random_cases.h"

namespace kvproof::properties {
namespace {

using kernels::Context;
using kernels::CopyBlocksParams;
using kernels::ElementType;
using kernels::GatherCacheParams;
using kernels::Refusal;
using kernels::ReshapeAndCacheParams;
using kernels::SlotMappingParams;
using kernels::SwapBlocksParams;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

TEST(MovementKernels, HoldOnRandomCases) {
  MovementTally tally;
  if (const std::string one = variable("KVPROOF_CASE", ""); !one.empty()) {
    const std::size_t colon = one.find(':');
    ASSERT_NE(colon, std::string::npos) << "KVPROOF_CASE: expected <seed>:<size>";
    const Finding f = movement_round(std::stoull(one), std::stoi(one.substr(colon + 1)), "", tally);
    ASSERT_FALSE(f) << *f;
    return;
  }
  const int cases = std::stoi(variable("KVPROOF_CASES", "400"));
  ASSERT_TRUE(holds_on_cases("data movement equals its reference", cases, [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const int size = *rc::gen::inRange(1, 101);
    if (const Finding f = movement_round(seed, size, "", tally)) RC_FAIL(*f);
  }));
  std::size_t num_rows = 0;
  const auto count = [&](auto rows) { num_rows += rows.size(); };
  count(kernels::reshape_and_cache());
  count(kernels::gather_cache());
  count(kernels::copy_blocks());
  count(kernels::swap_blocks());
  count(kernels::slot_mapping());
  ASSERT_EQ(tally.rows.size(), num_rows);
  for (const auto& [who, row] : tally.rows) {
    std::cout << who << ": ran " << row.ran << ", refused " << row.refused << " (" << row.reason
              << ")\n";
    // Some instructions are not everywhere; where they are not, the row says so each time.
    const bool may_lack = who.ends_with("cpu/streaming") || who.ends_with("cpu/avx2") ||
                          who.ends_with("cpu/avx512_vbmi");
    EXPECT_TRUE(row.ran > cases / 40 || (may_lack && row.ran == 0)) << who;
  }
}

TEST(MovementKernels, RefuseWhatIsBroken) {
  const Finding f = check_movement_refusals();
  ASSERT_FALSE(f) << *f;
}

/// Whether a check rejects an implementation within 300 seeds.
template <class Params>
bool is_rejected(MovementCheck<Params>* check, std::string_view name,
                 Refusal (*launch)(const Params&, const Context&)) {
  MovementTally tally;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    if (check(seed, 60, {name, launch}, tally)) return true;
  }
  return false;
}

TEST(MovementKernels, ChecksRejectBrokenWrites) {
  using P = ReshapeAndCacheParams;
  EXPECT_FALSE(is_rejected<P>(&check_reshape_and_cache, "ours", &kernels::reshape_and_cache_cpu));
  EXPECT_TRUE(is_rejected<P>(&check_reshape_and_cache, "does nothing",
                             [](const P&, const Context&) -> Refusal { return {}; }));
  EXPECT_TRUE(is_rejected<P>(&check_reshape_and_cache, "refuses/general",
                             [](const P&, const Context&) -> Refusal { return {"no"}; }));
  EXPECT_TRUE(is_rejected<P>(&check_reshape_and_cache, "writes/vector",
                             [](const P& p, const Context& c) -> Refusal {
                               static_cast<void>(kernels::reshape_and_cache_cpu(p, c));
                               return {"refuses after it has written"};
                             }));
  EXPECT_TRUE(is_rejected<P>(&check_reshape_and_cache, "changes its neighbour",
                             [](const P& p, const Context& c) -> Refusal {
                               if (p.key_layout.block_size > 1) {
                                 *static_cast<char*>(p.key_cache) ^= 1;
                               }
                               return kernels::reshape_and_cache_cpu(p, c);
                             }));
  EXPECT_TRUE(is_rejected<P>(&check_far_reshape_and_cache, "does nothing",
                             [](const P&, const Context&) -> Refusal { return {}; }));
}

TEST(MovementKernels, ChecksRejectBrokenGathers) {
  using P = GatherCacheParams;
  EXPECT_FALSE(is_rejected<P>(&check_gather_cache, "ours", &kernels::gather_cache_cpu));
  EXPECT_TRUE(is_rejected<P>(&check_gather_cache, "forgets the last token",
                             [](const P& p, const Context& c) -> Refusal {
                               P less = p;
                               less.num_tokens -= less.num_tokens > 0;
                               return kernels::gather_cache_cpu(less, c);
                             }));
  EXPECT_TRUE(is_rejected<P>(&check_gather_cache, "changes the cache",
                             [](const P& p, const Context& c) -> Refusal {
                               *static_cast<char*>(const_cast<void*>(p.cache)) ^= 1;
                               const Refusal refusal = kernels::gather_cache_cpu(p, c);
                               return refusal;
                             }));
  EXPECT_TRUE(is_rejected<P>(&check_far_gather_cache, "reads nothing",
                             [](const P&, const Context&) -> Refusal { return {}; }));
}

TEST(MovementKernels, ChecksRejectBrokenCopiesAndSlots) {
  using Copy = CopyBlocksParams;
  EXPECT_FALSE(is_rejected<Copy>(&check_copy_blocks, "ours", &kernels::copy_blocks_cpu));
  const auto one_byte_less = [](const Copy& p, const Context& c) -> Refusal {
    Copy less = p;
    less.block_bytes -= less.block_bytes > 0;
    return kernels::copy_blocks_cpu(less, c);
  };
  EXPECT_TRUE(is_rejected<Copy>(&check_copy_blocks, "one byte less", one_byte_less));
  EXPECT_TRUE(is_rejected<Copy>(&check_far_copy_blocks, "one byte less", one_byte_less));
  using Swap = SwapBlocksParams;
  EXPECT_FALSE(is_rejected<Swap>(&check_swap_blocks, "ours", &kernels::swap_blocks_cpu));
  const auto one_pair_less = [](const Swap& p, const Context& c) -> Refusal {
    Swap less = p;
    less.num_pairs -= less.num_pairs > 0;
    return kernels::swap_blocks_cpu(less, c);
  };
  EXPECT_TRUE(is_rejected<Swap>(&check_swap_blocks, "one pair less", one_pair_less));
  EXPECT_TRUE(is_rejected<Swap>(&check_far_swap_blocks, "one pair less", one_pair_less));
  using Slots = SlotMappingParams;
  EXPECT_FALSE(is_rejected<Slots>(&check_slot_mapping, "ours", &kernels::slot_mapping_cpu));
  EXPECT_TRUE(is_rejected<Slots>(&check_slot_mapping, "leaves the padding",
                                 [](const Slots& p, const Context& c) -> Refusal {
                                   Slots less = p;
                                   less.num_slots = less.num_tokens;
                                   return kernels::slot_mapping_cpu(less, c);
                                 }));
}

TEST(MovementReferences, SlotMappingKnowsTheColumnAndThePadding) {
  const std::vector<std::int32_t> table{7, 3, 9, 5, 5, 5}, starts{0, 3, 5};
  const std::vector<std::int64_t> positions{0, 5, 11, 4, 12};
  std::vector<SlotId> slots(7, 1234);
  SlotMappingParams p;
  p.block_tables = table.data();
  p.table_stride = p.table_width = 3;
  p.block_size = 4;
  p.query_starts = starts.data();
  p.positions = positions.data();
  p.num_seqs = 2;
  p.num_tokens = 5;
  p.slots = slots.data();
  p.num_slots = 7;
  ASSERT_FALSE(kernels::slot_mapping_reference(p, {}));
  EXPECT_EQ(slots, (std::vector<SlotId>{28, 13, 39, 20, -1, -1, -1}));
}

// A pad is -1, or any number below 0.

TEST(MovementReferences, SlotMappingKnowsPads) {
  const std::vector<std::int32_t> table{-1, 3, std::numeric_limits<std::int32_t>::min()};
  const std::vector<std::int32_t> starts{0, 3, 3, 6};  // the second sequence has no tokens
  const std::vector<std::int64_t> positions{0, 5, -1, -4, 5, 0};
  std::vector<SlotId> slots(6, 1234);
  SlotMappingParams p;
  p.block_tables = table.data();
  p.table_stride = 1;
  p.table_width = 1;
  p.block_size = 4;
  p.query_starts = starts.data();
  p.positions = positions.data();
  p.num_seqs = 3;
  p.num_tokens = p.num_slots = 6;
  p.slots = slots.data();
  ASSERT_FALSE(kernels::slot_mapping_reference(p, {}));
  EXPECT_EQ(slots, (std::vector<SlotId>{-1, -1, -1, -1, -1, -1}));
  p.table_stride = p.table_width = 2;
  p.num_seqs = 1;
  p.num_tokens = 3;
  ASSERT_FALSE(kernels::slot_mapping_reference(p, {}));
  EXPECT_EQ(slots, (std::vector<SlotId>{-1, 13, -1, -1, -1, -1}));
}

TEST(MovementReferences, WritesGathersAndCopiesKnowPads) {
  const std::vector<float> rows{1, 2, 3, 4};
  const std::vector<SlotId> slots{-1, 2, std::numeric_limits<SlotId>::min(), 0};
  std::vector<float> cache{10, 11, 12, 13};  // four blocks of one token
  ReshapeAndCacheParams w;
  w.key = w.value = rows.data();
  w.num_rows = w.num_tokens = 4;
  w.key_token_stride = w.value_token_stride = 1;
  w.key_cache = w.value_cache = cache.data();
  w.key_layout = w.value_layout = {1, 1, 1, 1};
  w.num_heads = w.head_size = w.value_head_size = 1;
  w.type = w.cache_type = ElementType::fp32;
  w.slot_mapping = slots.data();
  ASSERT_FALSE(kernels::reshape_and_cache_reference(w, {}));
  EXPECT_EQ(cache, (std::vector<float>{4, 11, 2, 13}));

  const std::vector<std::int32_t> table{-7, 1, -1, 3};  // the range begins behind the first
  const std::vector<std::int64_t> starts{0, 3};
  const std::int32_t first = 1;
  std::vector<float> out(4, 99);
  GatherCacheParams g;
  g.cache = cache.data();
  g.layout = w.key_layout;
  g.block_tables = table.data();
  g.table_stride = 4;
  g.first_positions = &first;
  g.starts = starts.data();
  g.num_seqs = g.num_heads = g.head_size = 1;
  g.num_tokens = 3;
  g.out = out.data();
  g.type = g.cache_type = ElementType::fp32;
  ASSERT_FALSE(kernels::gather_cache_reference(g, {}));
  EXPECT_EQ(out, (std::vector<float>{11, 0, 13, 99}));

  const std::vector<std::int64_t> pairs{-1, 0, 1, 2, 3, -1, -2, -2};
  void* const caches[] = {cache.data()};
  CopyBlocksParams c;
  c.caches = caches;
  c.num_caches = 1;
  c.pairs = pairs.data();
  c.num_pairs = 4;
  c.block_stride = c.block_bytes = 4;
  ASSERT_FALSE(kernels::copy_blocks_reference(c, {}));
  EXPECT_EQ(cache, (std::vector<float>{4, 11, 11, 13}));
}

TEST(MovementReferences, WriteAndGatherKnowSlotsLayoutsAndScales) {
  const std::vector<float> rows{1, 2, 3, 4, 5, 6, 7, 8};  // two tokens, two heads of two
  const std::vector<SlotId> slots{4, kPadSlotId};         // block 2, token 0
  std::vector<std::uint8_t> key(24, 0xEE), value(24, 0xEE);
  ReshapeAndCacheParams p;
  p.key = p.value = rows.data();
  p.num_rows = p.num_tokens = 2;
  p.key_token_stride = p.value_token_stride = 4;
  p.key_cache = key.data();
  p.value_cache = value.data();
  p.key_layout = p.value_layout = {8, 4, 2, 2};  // NHD: block 2 begins at element 16
  p.num_heads = 2;
  p.head_size = p.value_head_size = 2;
  p.type = ElementType::fp32;
  p.cache_type = ElementType::fp8_e4m3;
  p.key_scale = 0.5F;
  p.value_scale = 2.0F;
  p.slot_mapping = slots.data();
  ASSERT_FALSE(kernels::reshape_and_cache_reference(p, {}));
  // 1, 2, 3, 4 by 0.5 and by 2 in e4m3: exponent bias 7, three bits of mantissa.
  const std::vector<std::uint8_t> k{0x40, 0x48, 0x4C, 0x50}, v{0x30, 0x38, 0x3C, 0x40};
  EXPECT_TRUE(std::equal(k.begin(), k.end(), key.begin() + 16));
  EXPECT_TRUE(std::equal(v.begin(), v.end(), value.begin() + 16));
  EXPECT_EQ(std::count(key.begin(), key.begin() + 16, 0xEE), 16);

  const std::vector<std::int32_t> table{9, 2};
  const std::vector<std::int64_t> starts{0, 1};
  const std::int32_t first = 2;
  std::vector<float> out(4);
  GatherCacheParams g;
  g.cache = key.data();
  g.layout = p.key_layout;
  g.block_tables = table.data();
  g.table_stride = 2;
  g.first_positions = &first;
  g.starts = starts.data();
  g.num_seqs = 1;
  g.num_tokens = 1;
  g.out = out.data();
  g.num_heads = 2;
  g.head_size = 2;
  g.type = ElementType::fp32;
  g.cache_type = ElementType::fp8_e4m3;
  g.scale = 0.5F;
  ASSERT_FALSE(kernels::gather_cache_reference(g, {}));
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4}));
}

/// Every bf16 pattern, a NaN among its neighbours and none, over scales of all kinds.
void expect_quotients(kernels::QuantiseVectors way) {
  std::vector<kernels::Bf16> from;
  for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
    from.push_back({static_cast<std::uint16_t>(bits)});
  }
  for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
    if ((bits & 0x7FFF) <= 0x7F80) from.push_back({static_cast<std::uint16_t>(bits)});
  }
  std::vector<kernels::Fp8E4M3> to(from.size() + 1);
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const float unit = 1 + (i % 3 == 0 ? static_cast<float>(i) / 512 : std::abs(random.unit()));
    const float scale = std::ldexp(unit, i % 50 == 7 ? 90 - i : random.between(-62, 62));
    const kernels::Quantiser by = kernels::quantiser_for(scale);
    const std::size_t row = i % 2 == 0 ? 80 : 1024;
    const auto odd = static_cast<std::size_t>(i / 2 % 2);  // where stores past the caches cannot go
    const auto whole = static_cast<std::int64_t>(row);
    const std::size_t rest = from.size() % (2 * row);  // two rows at a time, then these
    for (std::size_t x = 0; x + rest < from.size(); x += 2 * row) {
      kernels::quantise(way, {&from[x], to.data() + odd + x, whole, 2, whole}, by);
    }
    const std::size_t last = from.size() - rest;
    kernels::quantise(
        way, {&from[last], to.data() + odd + last, static_cast<std::int64_t>(rest), 1, 0}, by);
    for (std::size_t x = 0; x < from.size(); ++x) {
      const auto want = kernels::from_float<kernels::Fp8E4M3>(to_float(from[x]) / scale);
      ASSERT_EQ(to[x + odd].bits, want.bits) << from[x].bits << " by " << scale;
    }
  }
}

TEST(Quantise, Avx2EqualsTheQuotientOnEveryPattern) {
  if (kernels::quantise_avx2() == nullptr) GTEST_SKIP() << "this processor has no AVX2";
  expect_quotients(kernels::quantise_avx2());
}

TEST(Quantise, Avx512VbmiEqualsTheQuotientOnEveryPattern) {
  if (kernels::quantise_avx512_vbmi() == nullptr) GTEST_SKIP() << "this processor has no VBMI";
  expect_quotients(kernels::quantise_avx512_vbmi());
}

TEST(SwapBlocks, TransfersAreTheFewestThatKeepTheOrder) {
  const std::vector<std::int64_t> pairs{3, 0, 4, 1, 5, 2, 7, 3, 8, 5, 9, 6, 9, 7};
  std::vector<std::vector<std::int64_t>> runs;
  kernels::for_each_run(pairs.data(), 7, [&](kernels::BlockRun run) {
    runs.push_back({run.from, run.to, run.count});
  });
  EXPECT_EQ(runs,
            (std::vector<std::vector<std::int64_t>>{{3, 0, 3}, {7, 3, 1}, {8, 5, 2}, {9, 7, 1}}));
}

}  // namespace
}  // namespace kvproof::properties
