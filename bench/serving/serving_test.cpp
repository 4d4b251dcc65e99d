// SPDX-License-Identifier: Apache-2.0
// The simulated engine does what its rules say, to the step, and notices what is not conserved.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/requests/listed_source.h"
#include "bench/requests/workloads.h"
#include "bench/serving/serving_test_support.h"
#include "bench/storage/storage_test_support.h"

namespace kvproof::bench {
namespace {

std::vector<Request> unlike(std::initializer_list<Request> requests) { return {requests}; }

TEST(Serving, OneRequestTakesTheStepsOfItsTokens) {
  // 20 tokens of input in one step, which brings the first of 3; then two steps of one token.
  const Simulation run = serve(unlike({{.input_tokens = 20, .output_tokens = 3}}), small_options());
  EXPECT_EQ(run.totals.steps, 3U);
  EXPECT_EQ(run.totals.computed_tokens, 22U);  // the last token is never an input
  EXPECT_EQ(run.totals.output_tokens, 3U);
  EXPECT_DOUBLE_EQ(run.totals.seconds, 22.0);
  EXPECT_DOUBLE_EQ(run.first_token.mean, 20.0);
  EXPECT_DOUBLE_EQ(run.per_token.mean, 1.0);
  EXPECT_DOUBLE_EQ(run.queueing.mean, 0.0);
}

TEST(Serving, LongPromptsAreComputedInChunksBesideThoseThatDecode) {
  // Step 1: 4 + 28 of 60; step 2: 1 + 31; step 3: 1 + 1, and so on: nobody waits for a prompt.
  const Simulation run = serve(
      unlike({{.input_tokens = 4, .output_tokens = 4}, {.input_tokens = 60, .output_tokens = 1}}),
      small_options());
  EXPECT_EQ(run.totals.steps, 4U);
  EXPECT_EQ(run.totals.computed_tokens, 4U + 3 + 60);
  EXPECT_DOUBLE_EQ(run.totals.seconds, 32.0 + 32 + 2 + 1);
}

TEST(Serving, AnEqualPrefixIsComputedOnceAndHeldOnce) {
  // The second comes when the first has just been computed, and shares 2 of its blocks.
  const Simulation run =
      serve({{.input_tokens = 40, .output_tokens = 5, .block_ids = {1, 2}},
             {.arrival_seconds = 33, .input_tokens = 40, .output_tokens = 1, .block_ids = {1, 2}}},
            small_options());
  EXPECT_EQ(run.totals.hit_tokens, 32U);
  EXPECT_DOUBLE_EQ(run.totals.hit_rate_tokens(), 32.0 / 80);
  EXPECT_EQ(run.totals.computed_tokens, 44U + 8);
  EXPECT_LT(run.peak.tokens, 32 + 16 + 16);  // not 32 twice
}

TEST(Serving, WhoFindsNoRoomTakesItFromTheLast) {
  // Two requests of 16 + 17 tokens in 4 blocks: both start, the first needs the fourth block's
  // successor, so the second starts over when the first has left.
  SimulationOptions options = small_options();
  options.capacity_blocks = 4;
  options.storage = "paged";
  const std::vector<Request> requests = {{.input_tokens = 16, .output_tokens = 18},
                                         {.input_tokens = 16, .output_tokens = 18}};
  const Simulation run = serve(requests, options);
  EXPECT_EQ(run.totals.preemptions, 1U);
  EXPECT_EQ(run.totals.recomputed_tokens, 32U);
  EXPECT_EQ(run.totals.computed_tokens, 2 * 33U + 32);
  EXPECT_EQ(run.totals.output_tokens, 36U);

  options.engine.swap = true;
  options.host_blocks = 4;
  const Simulation swapped = serve(requests, options);
  EXPECT_EQ(swapped.totals.swaps, swapped.totals.preemptions);
  EXPECT_GE(swapped.totals.swaps, 1U);
  EXPECT_EQ(swapped.totals.recomputed_tokens, 0U);
  EXPECT_EQ(swapped.totals.computed_tokens, 2 * 33U);
}

TEST(Serving, DraftsSaveStepsAndRejectedOnesCostThem) {
  SimulationOptions options = small_options();
  options.engine.drafts = 3;
  options.engine.acceptance = 1;
  const std::vector<Request> requests = {{.input_tokens = 16, .output_tokens = 9}};
  const Simulation all = serve(requests, options);
  EXPECT_EQ(all.totals.steps, 1U + 2);  // 1, then 4 and 4
  EXPECT_EQ(all.totals.accepted_drafts, all.totals.drafts);
  options.engine.acceptance = 0;
  const Simulation none = serve(requests, options);
  EXPECT_EQ(none.totals.steps, 9U);
  EXPECT_EQ(none.totals.accepted_drafts, 0U);
  EXPECT_EQ(none.totals.drafts, 3U * 5 + 2 + 1);  // never more than could be of use
  EXPECT_EQ(none.totals.output_tokens, all.totals.output_tokens);
}

TEST(Serving, WhatCanNeverRunIsRefusedAndWhatIsEmptyIsAnswered) {
  SimulationOptions options = small_options();
  options.capacity_blocks = 2;
  const Simulation run = serve(unlike({{.input_tokens = 33, .output_tokens = 1},
                                       {.input_tokens = 0, .output_tokens = 5},
                                       {.input_tokens = 30, .output_tokens = 2}}),
                               options);
  EXPECT_EQ(run.totals.requests, 3U);
  EXPECT_EQ(run.totals.refused, 1U);
  EXPECT_EQ(run.totals.empty, 1U);
  EXPECT_EQ(run.totals.output_tokens, 2U);
}

TEST(Serving, AnOpenLoopKeepsTheTimesAndAClosedOneTheNumberOfClients) {
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back({.arrival_seconds = 100.0 * i, .input_tokens = 10, .output_tokens = 1});
  }
  const Simulation open = serve(requests, small_options());
  EXPECT_DOUBLE_EQ(open.totals.seconds, 510.0);
  EXPECT_EQ(open.peak.running, 0.0);  // each was gone at the end of its only step
  EXPECT_DOUBLE_EQ(open.queueing.p99, 0.0);
  SimulationOptions options = small_options();
  options.clients = 2;
  const Simulation closed = serve(requests, options);
  EXPECT_DOUBLE_EQ(closed.totals.seconds, 60.0);
  EXPECT_EQ(closed.totals.steps, 3U);
}

TEST(Serving, ARequestWaitsForTheAnswersItNames) {
  // Its own time would be 1; the one it follows has its answer at 10 + 9.
  const Simulation run =
      serve({{.input_tokens = 10, .output_tokens = 10},
             {.arrival_seconds = 1, .input_tokens = 10, .output_tokens = 1, .after = {0}}},
            small_options());
  EXPECT_DOUBLE_EQ(run.totals.seconds, 19.0 + 10);
  EXPECT_DOUBLE_EQ(run.first_token.p99, 10.0);
}

TEST(Serving, TheWatermarkKeepsAdmissionsFromTheLastBlocks) {
  SimulationOptions options = small_options();
  options.capacity_blocks = 10;
  options.engine.token_budget = 256;
  const std::vector<Request> requests(4, {.input_tokens = 40, .output_tokens = 20});
  const Simulation greedy = serve(requests, options);
  options.watermark = 0.3;
  const Simulation careful = serve(requests, options);
  EXPECT_GT(greedy.totals.preemptions, 0U);
  EXPECT_EQ(careful.totals.preemptions, 0U);
  EXPECT_GT(greedy.peak.running, careful.peak.running);
}

TEST(Serving, ContiguousReservationsHoldWhatTheyAreNamedFor) {
  // 8 blocks of 16: one buffer of 128 tokens, or the buffers of what is there.
  SimulationOptions options = small_options();
  options.capacity_blocks = 8;
  options.engine.token_budget = 256;
  const std::vector<Request> requests(3, {.input_tokens = 30, .output_tokens = 6});
  std::uint32_t buffer = 128;  // [tokens]
  const auto peak_of = [&](std::string_view storage) {
    options.storage = storage;
    options.reserved_tokens = buffer;
    return serve(requests, options).peak;
  };
  EXPECT_EQ(peak_of("contiguous_max_length").running, 1);
  EXPECT_EQ(peak_of("contiguous_power_of_two").running, 3);
  EXPECT_EQ(peak_of("contiguous_oracle").running, 3);
  EXPECT_EQ(peak_of("contiguous_max_length").reserved, 128 - 30);
  EXPECT_EQ(peak_of("contiguous_oracle").reserved, 3 * 6);
  EXPECT_EQ(peak_of("contiguous_oracle").tail, 0);
  // Of buffers of 100 one fits, and the 28 tokens behind it are of use to nobody who waits.
  buffer = 100;
  EXPECT_EQ(peak_of("contiguous_max_length").stranded, 28);
  options.engine.swap = true;
  EXPECT_THROW((void)serve(requests, options), std::invalid_argument);
}

TEST(Serving, AFewOptionsOfEachKindGiveTheSameRunUnderEveryLaw) {
  const Workload* chat = find_workload("chat");
  const ReopenableSource source = chat->source(kWorkloadSeed, 12);
  SimulationOptions plain;
  plain.engine.time = second_per_token();
  plain.engine.time.card.flops_per_second = 4'000;
  plain.engine.token_budget = 512;
  plain.capacity_blocks = 160;
  SimulationOptions swap = plain;
  swap.engine.scheduler.steps_in_flight = 0;
  swap.engine.swap = true;
  swap.host_blocks = 128;
  SimulationOptions drafts = plain;
  drafts.engine.drafts = 2;
  drafts.watermark = 0.05;
  SimulationOptions bare = plain;
  bare.storage = "paged";
  bare.whole_sequence_must_fit = false;
  std::uint64_t preemptions = 0;
  for (SimulationOptions options : {plain, swap, drafts, bare}) {
    const Simulation direct = simulate(source, options);
    preemptions += direct.totals.preemptions;
    for (const char* subject : {"naive", "optimized-xxh3"}) {
      options.audited.subject = subject;
      Metrics audited = metrics_of(simulate(source, options));
      Metrics expected = metrics_of(direct);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (expected[i].first == "wall_seconds") continue;
        EXPECT_EQ(audited[i].second.value, expected[i].second.value)
            << expected[i].first << " on " << subject;
      }
    }
  }
  EXPECT_GT(preemptions, 0U) << "a run without any proves little";
}

TEST(Serving, TheSameRunTwiceIsTheSame) {
  const Workload* mix = find_workload("long_tail");
  SimulationOptions options;
  options.capacity_blocks = 1'000;
  options.engine.drafts = 3;
  const auto run = [&] {
    Metrics out = metrics_of(simulate(mix->source(3, 200), options));
    std::erase_if(out, [](const auto& metric) { return metric.first == "wall_seconds"; });
    return out;
  };
  const Metrics first = run();
  const Metrics second = run();
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].second.value, second[i].second.value) << first[i].first;
  }
}

/// A memory that does its work, and lies about it.
class LyingMemory final : public ForwardingMemory {
 public:
  explicit LyingMemory(MemoryUse lie)
      : ForwardingMemory(
            find_storage("paged_shared")
                ->make({.capacity_tokens = 128, .max_tokens = 128, .max_requests = 4})),
        lie_(lie) {}
  MemoryUse use() const override {
    MemoryUse out = ForwardingMemory::use();
    out.tokens += lie_.tokens;
    out.tail += lie_.tail;
    out.free += lie_.free;
    return out;
  }

 private:
  MemoryUse lie_;
};

void serve_on(KvMemory& memory) {
  const ReopenableSource source = listed({{.input_tokens = 20, .output_tokens = 2}});
  const auto requests = source.open();
  Arrivals arrivals(*requests, 0);
  Recorder recorder;
  RunWriter run;
  Engine engine({.time = second_per_token()}, requests->info(), arrivals, memory, recorder, run);
  while (engine.step()) {
  }
}

TEST(Serving, WhatIsNotConservedIsNoticed) {
  LyingMemory honest({});
  EXPECT_NO_THROW(serve_on(honest));
  LyingMemory forgetful({.free = 16});  // memory out of nothing
  EXPECT_THROW(serve_on(forgetful), std::logic_error);
  const auto minus = [](std::uint64_t tokens) { return ~tokens + 1; };
  LyingMemory inventive({.tokens = 16, .free = minus(16)});  // tokens that nobody computed
  EXPECT_THROW(serve_on(inventive), std::logic_error);
  LyingMemory hiding({.tokens = minus(1), .tail = 1});  // a token that nobody holds
  EXPECT_THROW(serve_on(hiding), std::logic_error);
}

}  // namespace
}  // namespace kvproof::bench
