// SPDX-License-Identifier: Apache-2.0
// What fits, against sums worked by hand and against the real allocator.
#include "bench/studies/plan.h"

#include <gtest/gtest.h>

#include "bench/requests/workloads.h"
#include "bench/studies/play.h"

namespace kvproof::bench {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

PlanInput input_of(std::string_view model, std::uint64_t memory_bytes, std::uint64_t max_tokens) {
  PlanInput input;
  input.preset = find_model_preset(model);
  input.model = input.preset->spec();
  input.dtype = "bf16";
  input.memory_bytes = memory_bytes;
  input.limits = {.max_tokens = max_tokens, .in_flight_tokens = 2'048};
  input.block_sizes = {16};
  input.lengths = {"listed", {100, 200, 40'000}};
  return input;
}

double planned(const Result& result, std::string_view name) { return result.metric(name)->value; }

TEST(Plan, IsTheSumDoneByHand) {
  PlanInput input = input_of("llama-3-70b", 60 * kGiB, 32'768);
  input.block_sizes = {16, 64};
  const std::vector<Result> results = plan(input);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(std::get<std::int64_t>(*results[1].parameter("block_size")), 64);
  EXPECT_EQ(planned(results[0], "block_bytes"), 5'242'880);
  EXPECT_EQ(planned(results[0], "num_blocks"), 12'288);
  EXPECT_EQ(planned(results[1], "num_blocks"), 3'072);
  EXPECT_EQ(planned(results[0], "contiguous_requests"), 6);  // 10 GiB each
  EXPECT_EQ(planned(results[0], "worst_case_requests"), 5);  // the null block is in the way
  EXPECT_EQ(planned(results[0], "max_concurrency"), 6);
  EXPECT_EQ(planned(results[0], "longest_request_tokens"), 131'072);  // fits, and the context ends
  const double mean_blocks = (7 + 13 + 2'048) / 3.0;  // 40,000 tokens are cut to 32,768
  EXPECT_DOUBLE_EQ(planned(results[0], "expected_requests"), 12'287 / mean_blocks);
  EXPECT_DOUBLE_EQ(planned(results[0], "gain"), 12'287 / mean_blocks / 6);
}

TEST(Plan, CountsAWindowOnceAsARingAndOnceInPages) {
  const PlanInput input = input_of("mistral-7b-v0.1", 10 * kGiB, 32'768);
  const Result result = plan(input).front();
  EXPECT_EQ(planned(result, "num_blocks"), 5'120);        // 2 MiB each
  EXPECT_EQ(planned(result, "contiguous_requests"), 13);  // 6,143 rows of 128 KiB
  EXPECT_EQ(planned(result, "worst_case_requests"), 13);  // 384 + 1 blocks
  EXPECT_DOUBLE_EQ(planned(result, "expected_requests"), 5'119 / ((7 + 13 + 256) / 3.0));
}

TEST(Plan, HasNoGainWhereNothingContiguousFits) {
  const Result result = plan(input_of("llama-3-8b", kGiB, 131'072)).front();
  EXPECT_EQ(planned(result, "contiguous_requests"), 0);
  EXPECT_EQ(planned(result, "worst_case_requests"), 0);
  EXPECT_EQ(planned(result, "longest_request_tokens"), 511 * 16);
  EXPECT_EQ(result.metric("gain"), nullptr);
  const Result none = plan(input_of("llama-3-8b", 1'000, 131'072)).front();
  EXPECT_EQ(planned(none, "num_blocks"), 0);
  EXPECT_EQ(planned(none, "expected_requests"), 0);
  EXPECT_EQ(planned(none, "longest_request_tokens"), 0);
}

// The plan's blocks per request are those that the paged allocator hands out.
TEST(Plan, ExpectsWhatTheAllocatorHolds) {
  const PlanInput input = input_of("llama-3-8b", kGiB, 8'192);
  const PoolLayout layout = lay_out(input.model, 16);
  const auto memory = find_storage("paged")->make(
      {.block_size = 16, .capacity_tokens = 600, .max_tokens = 600, .max_requests = 1});
  const TokenId first = 0;
  PlayedRequest request(*memory, {&first, 1}, 600);
  for (std::uint64_t tokens = 1; tokens <= 600; ++tokens) {
    ASSERT_EQ(memory->use().table_entries, layout.blocks_held(tokens)) << tokens;
    if (tokens < 600) request.grow();
  }
  request.end();
}

TEST(Lengths, AreThoseOfTheWorkload) {
  const Lengths lengths = lengths_of_workload("lognormal");
  EXPECT_EQ(lengths.tokens.size(), 100U);
  EXPECT_NEAR(lengths.mean(), 191.6, 0.05);  // as bench/requests/workloads.h states
}

}  // namespace
}  // namespace kvproof::bench
