// SPDX-License-Identifier: Apache-2.0
// Every implementation of attention on random cases; and that what judges them can say no.
//
// KVPROOF_SEED sets where the seeds start; KVPROOF_CASE=<seed>,<size> runs one case alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "kernels/paged_decode/paged_decode.h"
#include "kernels/typed.h"
#include "properties/kernels/attention_checks.h"
#include "properties/kernels/random_cases.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionShape;
using kernels::ElementType;

constexpr int kRounds = 20;  // of a decode, a prefill and a latent case
constexpr int kMostSize = 16;

void expect(const Finding& finding) { EXPECT_FALSE(finding) << *finding; }

/// A row that never ran has shown nothing, unless this processor cannot run it.
void expect_all_ran(const AttentionTally& tally) {
  for (const auto& [name, row] : tally.rows) {
    std::cout << name << ": ran " << row.ran << ", refused " << row.refused << " (" << row.reason
              << "), used " << row.most_used << " of its bound\n";
    if (row.ran == 0 && row.reason.find("processor") != std::string::npos) continue;
    EXPECT_GT(row.ran, 0) << name;
    const bool general = name.find("general") != std::string::npos;
    if (general || name.find("reference") != std::string::npos) {
      EXPECT_EQ(row.refused, 0) << name << ": " << row.reason;
    }
  }
}

TEST(AttentionKernels, EqualTheReferenceOnRandomCases) {
  const std::vector<AttentionRow> rows = attention_rows();
  AttentionTally tally;
  if (const char* one = std::getenv("KVPROOF_CASE")) {
    std::uint64_t seed = 0;
    int size = 0;
    ASSERT_EQ(std::sscanf(one, "%lu,%d", &seed, &size), 2) << "KVPROOF_CASE=<seed>,<size>";
    return expect(attention_round(seed, size, rows, tally));
  }
  std::string failure;  // RapidCheck shrinks; the last that fails is the smallest
  const bool held = holds_on_cases("attention equals its reference", kRounds, [&] {
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
    const int size = *rc::gen::inRange(0, kMostSize + 1);
    const Finding wrong = attention_round(seed, size, rows, tally);
    if (wrong) failure = say(*wrong, "\nagain: KVPROOF_CASE=", seed, ",", size);
    RC_ASSERT(!wrong);
  });
  ASSERT_TRUE(held) << failure;
  expect_all_ran(tally);
}

TEST(AttentionKernels, RunEveryRowOnOneSequence) {
  AttentionTally tally;
  expect(check_attention_grid(attention_rows(), tally));
  for (const auto& [name, row] : tally.rows) {
    if (name.find("mma") == std::string::npos) continue;
    EXPECT_EQ(row.ran, 9) << name << ": bf16, fp16 and e4m3 at 64, 128 and 256";
  }
}

TEST(AttentionKernels, PrefillSeveralTiles) {
  AttentionTally tally;
  expect(check_long_prefills(attention_rows("cuda/wgmma"), tally));
  for (const auto& [name, row] : tally.rows) EXPECT_EQ(row.refused, 0) << name << row.reason;
}

TEST(AttentionKernels, CutABatchOfLatentsByItsLengths) {
  AttentionTally tally;
  expect(check_latent_pieces(attention_rows("cuda/wgmma"), tally));
  EXPECT_EQ(tally.rows["mla_decode cuda/wgmma"].ran, 6);
}

TEST(AttentionKernels, MaskTheTilesThatNeedIt) {
  AttentionTally tally;
  expect(check_attention_tiles(attention_rows(), tally));
  expect_all_ran(tally);
}

TEST(AttentionKernels, ReachBlocksAndRowsBeyond32Bits) {
  AttentionTally tally;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    expect(check_attention(draw_plan(AttentionKind::far, seed, 0), attention_rows(), tally));
  }
  expect_all_ran(tally);
}

TEST(AttentionKernels, RefuseWhatIsBroken) { expect(check_attention_refusals()); }

/// Sequences of one token: K has one element that is not 0, which is the score and the log-sum-exp;
/// V is the output, as it stands.
TEST(AttentionKernels, ReadEveryPatternOfFp8) {
  constexpr std::int32_t kPatterns = 256;
  std::vector<std::uint8_t> key(kPatterns * kPatterns), value(kPatterns * kPatterns);
  std::vector<std::int32_t> table, lens(kPatterns, 1);
  for (std::int32_t i = 0; i < kPatterns; ++i) {
    table.push_back(i);
    key[static_cast<std::size_t>(i * kPatterns + i)] = static_cast<std::uint8_t>(i);
    value[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);  // of the first sequence
  }
  const std::vector<kernels::Bf16> query(kPatterns * kPatterns, kernels::Bf16{0x3F80});
  std::vector<kernels::Bf16> output(query.size());
  std::vector<float> lse(kPatterns);
  kernels::PagedDecodeParams p;
  p.shape.num_heads = p.shape.num_kv_heads = 1;
  p.shape.head_size = p.shape.value_head_size = kPatterns;
  p.kv.key = key.data();
  p.kv.value = value.data();
  p.kv.key_layout = p.kv.value_layout = CacheLayout::packed(LayoutOrder::nhd, 1, 1, kPatterns);
  p.kv.block_tables = table.data();
  p.kv.table_stride = 1;
  p.num_seqs = p.num_query_tokens = kPatterns;
  p.seq_lens = lens.data();
  p.query = query.data();
  p.output = output.data();
  p.query_token_stride = p.output_token_stride = kPatterns;
  p.log_sum_exp = lse.data();
  p.lse_token_stride = 1;
  const auto expect_all = [&](std::string_view who, auto type) {
    using T = decltype(type);
    for (std::size_t i = 0; i < kPatterns; ++i) {
      const float want = to_float(T{static_cast<std::uint8_t>(i)});
      const float v = to_float(output[i]);
      EXPECT_TRUE(v == want || (std::isnan(v) && std::isnan(want))) << who << ": V " << i;
      const bool score = std::abs(lse[i] - want) <= 1e-6F * std::abs(want);
      EXPECT_TRUE(score || !std::isfinite(want)) << who << ": K " << i;
      EXPECT_EQ(std::isfinite(lse[i]), std::isfinite(want)) << who << ": K " << i;
    }
  };
  for (const auto& row : kernels::paged_decode()) {
    if (!row.name.starts_with("cpu/")) continue;
    p.shape.cache_type = ElementType::fp8_e4m3;
    if (row.launch(p, {})) continue;  // this processor lacks something
    expect_all(row.name, kernels::Fp8E4M3{});
    p.shape.cache_type = ElementType::fp8_e5m2;
    ASSERT_FALSE(row.launch(p, {}));
    expect_all(row.name, kernels::Fp8E5M2{});
  }
}

/// Any number of splits, up to more than there are tiles, and the merge of nothing.
TEST(AttentionKernels, GiveTheSameWithAnyNumberOfSplits) {
  AttentionTally tally;
  AttentionShape s;
  s.type = s.cache_type = ElementType::bf16;
  s.num_heads = 2;
  s.num_kv_heads = 1;
  s.head_size = s.value_head_size = 64;
  for (const std::int32_t len : {0, 1, 300}) {
    for (const std::int32_t splits : {1, 2, 3, 7, 12, 40}) {
      for (const std::int32_t window : {0, 5, 100}) {
        s.window = window;
        AttentionPlan plan = plain_plan(s, 16, len);
        plan.num_splits = splits;
        expect(check_attention(plan, attention_rows("cuda/"), tally));
      }
    }
  }
}

/// A scale of 0 weighs all tokens alike; one below 0 turns their order around.
TEST(AttentionKernels, TakeAnyScale) {
  AttentionTally tally;
  AttentionShape s;
  s.type = ElementType::bf16;
  s.num_heads = 4;
  s.num_kv_heads = 1;
  for (const std::int32_t head_size : {64, 256}) {
    s.head_size = s.value_head_size = head_size;
    for (const float scale : {-0.3F, 0.0F, 0.3F}) {
      s.scale = scale;
      for (const float soft_cap : {0.0F, 5.0F}) {
        s.soft_cap = soft_cap;
        for (const ElementType cache : {ElementType::bf16, ElementType::fp8_e4m3}) {
          s.cache_type = cache;
          AttentionPlan plan = plain_plan(s, 16, 100);
          plan.query_gap = head_size == 64 ? 0 : 5;
          expect(check_attention(plan, attention_rows("cuda/"), tally));
        }
      }
    }
  }
}

// What judges must reject what is wrong.

/// A problem whose output is the exact one, rounded.
AttentionProblem solved(ElementType type) {
  AttentionShape s;
  s.type = s.cache_type = type;
  s.num_heads = 2;
  s.num_kv_heads = 1;
  s.head_size = s.value_head_size = 128;
  s.scale = 0.088F;
  AttentionProblem problem(plain_plan(s, 16, 128));
  EXPECT_FALSE(kernels::attention_reference(problem.paged(false), {}));
  return problem;
}

TEST(AttentionBound, RejectsAnErrorOfAFewBounds) {
  for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::bf16}) {
    const AttentionProblem problem = solved(type);
    const ExactAttention exact(problem);
    double used = 0;
    EXPECT_FALSE(exact.compare(problem, {}, used));
    const auto params = problem.paged(false);
    const kernels::ExactRow row = kernels::attend_exactly(params, 0);
    const BoundInput in{.type = type,
                        .rounds = {},
                        .head_size = 128,
                        .num_visible = 128,
                        .score_sum = row.score_sum[0],
                        .most_value = 1};
    const double bound = output_bound(in, row.magnitude[5], row.out.rows[5]);
    const auto off = static_cast<float>(row.out.rows[5] + 3 * bound);
    store_element(params.output, 5, type, off);
    EXPECT_TRUE(exact.compare(problem, {}, used)) << kernels::name_of(type);
  }
}

TEST(AttentionBound, IsWhatItsDerivationSays) {
  const AttentionProblem problem = solved(ElementType::fp32);
  const kernels::ExactRow row = kernels::attend_exactly(problem.paged(false), 0);
  const BoundInput in{.type = ElementType::fp32,
                      .rounds = {},
                      .head_size = 128,
                      .num_visible = 128,
                      .score_sum = row.score_sum[0],
                      .most_value = 1};
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_LT(output_bound(in, row.magnitude[i], row.out.rows[i]), 6e-6);
  }
  EXPECT_NEAR(row.score_sum[0], 3, 0.6);
}

TEST(AttentionBound, RejectsAWrongLogSumExp) {
  const AttentionProblem problem = solved(ElementType::bf16);
  const ExactAttention exact(problem);
  problem.paged(false).log_sum_exp[1] += 1e-4F;
  double used = 0;
  EXPECT_TRUE(exact.compare(problem, {}, used));
}

/// An implementation that is wrong in one way, as a row.
template <class Spoil>
Finding judged(const Spoil& spoil, const AttentionPlan& plan) {
  AttentionRow row{"paged_prefill", "test/broken", false, false, {}};
  row.launch = [&](const AttentionProblem& problem) {
    const auto params = problem.paged(true);
    const kernels::Refusal refusal = kernels::attention_reference(params, {});
    return spoil(problem, params) ? kernels::Refusal{"spoilt"} : refusal;
  };
  AttentionTally tally;
  return check_attention(plan, {row}, tally);
}

AttentionPlan small_plan() {
  AttentionShape s;
  s.num_heads = 2;
  s.num_kv_heads = 1;
  s.head_size = s.value_head_size = 64;
  AttentionPlan plan = plain_plan(s, 16, 20);
  plan.kind = AttentionKind::prefill;
  return plan;
}

TEST(AttentionChecks, RejectWhatWritesBesideItsRows) {
  AttentionPlan plan = small_plan();
  plan.output_gap = 2;
  EXPECT_FALSE(judged([](const auto&, const auto&) { return false; }, plan));
  const Finding beside = judged(
      [](const auto&, const auto& p) {
        static_cast<std::uint16_t*>(p.output)[64] = 0;
        return false;
      },
      plan);
  ASSERT_TRUE(beside);
  EXPECT_NE(beside->find("outside of its rows"), std::string::npos) << *beside;
  const Finding refused = judged([](const auto&, const auto&) { return true; }, plan);
  ASSERT_TRUE(refused) << "a refusal that wrote";
}

TEST(AttentionChecks, RejectWhatReadsUnseenBytes) {
  AttentionPlan plan = small_plan();
  int found = 0;
  for (plan.seed = 0; plan.seed < 8; ++plan.seed) {
    const Finding wrong = judged(
        [](const AttentionProblem&, const auto& p) {
          const auto unseen = p.kv.value_row(0, 20, 0);  // behind the length
          const auto element = load_element(p.kv.value, unseen, ElementType::bf16);
          p.log_sum_exp[0] += 1e-6F * (element > 10 ? 1.0F : 0.0F);
          return false;
        },
        plan);
    if (!wrong) continue;
    ++found;
    EXPECT_NE(wrong->find("no query sees"), std::string::npos) << *wrong;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace kvproof::properties
