// SPDX-License-Identifier: Apache-2.0
// The engine drives its memory as the scheduler of vLLM 0.33 does, rule by rule; each rule is
// switched off where a scheduler of another version has no such rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/serving/serving_test_support.h"
#include "bench/storage/storage_test_support.h"
#include "optimized/subjects.h"
#include "properties/sources/traces/test_files.h"
#include "reference/config.h"
#include "reference/recordings/golden.h"

namespace kvproof::bench {
namespace {

/// A call of the engine, as far as it is compared.
struct Call {
  std::string what;
  KvHandle request = 0;
  std::uint32_t tokens = 0;     // new, computed or generated ones
  std::uint32_t lookahead = 0;  // of start and grow
  std::uint32_t in_flight = 0;  // of grow
  bool beside = false;          // of start
  std::uint64_t free = 0;       // [tokens] afterwards
};

/// A memory that notes what it is asked for.
class NotingMemory final : public ForwardingMemory {
 public:
  explicit NotingMemory(const MemoryOptions& options)
      : ForwardingMemory(find_storage("paged_shared")->make(options)) {}
  void begin_step() override {
    ForwardingMemory::begin_step();
    note({.what = "step"});
  }
  bool start(KvHandle r, const Start& ask) override {
    const bool granted = ForwardingMemory::start(r, ask);
    note({.what = granted ? "start" : "refused start",
          .request = r,
          .tokens = ask.new_tokens,
          .lookahead = ask.lookahead,
          .beside = ask.has_scheduled});
    return granted;
  }
  bool grow(KvHandle r, std::uint32_t tokens, std::uint32_t lookahead,
            std::uint32_t in_flight) override {
    const bool granted = ForwardingMemory::grow(r, tokens, lookahead, in_flight);
    note({.what = granted ? "grow" : "refused grow",
          .request = r,
          .tokens = tokens,
          .lookahead = lookahead,
          .in_flight = in_flight});
    return granted;
  }
  void advance(KvHandle r, std::span<const TokenId> generated, std::uint32_t computed) override {
    ForwardingMemory::advance(r, generated, computed);
    if (!generated.empty()) {
      note(
          {.what = "output", .request = r, .tokens = static_cast<std::uint32_t>(generated.size())});
    }
  }
  void publish(KvHandle r, std::uint32_t computed) override {
    ForwardingMemory::publish(r, computed);
    note({.what = "publish", .request = r, .tokens = computed});
  }
  void preempt(KvHandle r) override {
    ForwardingMemory::preempt(r);
    note({.what = "preempt", .request = r});
  }
  void finish(KvHandle r) override {
    ForwardingMemory::finish(r);
    note({.what = "finish", .request = r});
  }
  void let_go() override {
    const std::uint64_t before = free_tokens();
    ForwardingMemory::let_go();
    if (free_tokens() != before) note({.what = "let go"});
  }

  std::vector<Call> calls;

 private:
  void note(Call call) {
    call.free = free_tokens();
    calls.push_back(std::move(call));
  }
};

EngineOptions engine_033(std::optional<std::uint32_t> steps_in_flight = {}) {
  EngineOptions out = small_options().engine;
  out.scheduler = *find_scheduler("vllm-0.33");
  if (steps_in_flight) out.scheduler.steps_in_flight = *steps_in_flight;
  out.acceptance = 1;
  return out;
}

/// Serves the requests from so many blocks of 16. @param noted gets the calls
ServingTotals serve_noted(std::vector<Request> requests, const EngineOptions& options,
                          std::vector<Call>& noted, std::uint32_t blocks = 64,
                          double watermark = 0) {
  NotingMemory memory({.capacity_tokens = std::uint64_t{blocks} * 16,
                       .max_tokens = blocks * 16,
                       .max_requests = options.max_running + 1,
                       .watermark = watermark,
                       .profile = *find_profile(options.scheduler.profile)});
  const auto source = listed(std::move(requests)).open();
  Arrivals arrivals(*source, 0);
  Recorder recorder;
  RunWriter run;
  Engine engine(options, source->info(), arrivals, memory, recorder, run);
  while (engine.step()) {
  }
  noted = memory.calls;
  return recorder.totals;
}

std::vector<Call> only(const std::vector<Call>& calls, std::string_view what) {
  std::vector<Call> out;
  std::ranges::copy_if(calls, std::back_inserter(out),
                       [&](const Call& call) { return call.what == what; });
  return out;
}

std::vector<std::string> names(const std::vector<Call>& calls, KvHandle request) {
  std::vector<std::string> out;
  for (const Call& call : calls) {
    if (call.request == request && call.what != "step") out.push_back(call.what);
  }
  return out;
}

TEST(Scheduler, EveryProfileHasOne) {
  for (const Profile& profile : kProfiles) {
    ASSERT_NE(find_scheduler(profile.name), nullptr) << profile.name;
    EXPECT_LE(find_scheduler(profile.name)->steps_in_flight, kMostStepsInFlight);
  }
  EXPECT_EQ(find_scheduler("vllm-9"), nullptr);
}

TEST(Scheduler, AStepIsGrantedWhileOneRuns) {
  // The step of the prompt runs from 0 to 20; the second token is granted at 0, the third at 20.
  std::vector<Call> calls;
  const ServingTotals totals =
      serve_noted({{.input_tokens = 20, .output_tokens = 3}}, engine_033(), calls);
  EXPECT_EQ(totals.steps, 3U) << "nothing is granted to an answer that a step in flight completes";
  EXPECT_EQ(totals.seconds, 22.0);
  EXPECT_EQ(calls.front().what, "step");
  EXPECT_EQ(only(calls, "step").size(), 4U) << "the last has nothing to grant";
  const std::vector<Call> grown = only(calls, "grow");
  ASSERT_EQ(grown.size(), 2U);
  EXPECT_EQ(grown[0].in_flight, 20U);
  EXPECT_EQ(grown[1].in_flight, 1U);
  serve_noted({{.input_tokens = 20, .output_tokens = 3}}, engine_033(0), calls);
  for (const Call& call : only(calls, "grow")) EXPECT_EQ(call.in_flight, 0U);
}

TEST(Scheduler, WhoComesDuringAStepWaitsForTheOneThatIsGrantedToo) {
  SimulationOptions options = small_options();
  const std::vector<Request> requests = {
      {.input_tokens = 20, .output_tokens = 5},
      {.arrival_seconds = 1, .input_tokens = 10, .output_tokens = 1}};
  // Its prompt is computed from 20 to 31, beside a token of the other.
  EXPECT_DOUBLE_EQ(serve(requests, options).first_token.p99, 30.0);
  options.engine = engine_033();
  // From 21 to 32: the step from 20 to 21 was granted at 0.
  EXPECT_DOUBLE_EQ(serve(requests, options).first_token.p99, 31.0);
}

TEST(Scheduler, ChunksInFlightCountAsComputed) {
  std::vector<Call> calls;
  serve_noted({{.input_tokens = 80, .output_tokens = 1}}, engine_033(), calls);
  const std::vector<Call> grown = only(calls, "grow");
  ASSERT_EQ(grown.size(), 2U);  // 32 + 32 + 16
  EXPECT_EQ(grown[0].in_flight, 32U);
  EXPECT_EQ(grown[1].tokens, 16U);
  EXPECT_EQ(grown[1].in_flight, 32U);
}

TEST(Scheduler, OutputsArePublishedWhenTheyArrive) {
  std::vector<Call> calls;
  const std::vector<Request> requests = {{.input_tokens = 20, .output_tokens = 3}};
  const auto published = [&] {
    std::vector<std::uint32_t> out;
    for (const Call& call : only(calls, "publish")) out.push_back(call.tokens);
    return out;
  };
  serve_noted(requests, engine_033(), calls);
  EXPECT_EQ(published(), (std::vector<std::uint32_t>{20, 21, 22}));  // without what is in flight
  serve_noted(requests, engine_033(0), calls);
  EXPECT_TRUE(published().empty()) << "the next grant does it";
  EngineOptions drafts = engine_033(0);
  drafts.drafts = 1;
  serve_noted(requests, drafts, calls);
  EXPECT_EQ(published(), (std::vector<std::uint32_t>{20, 22}));
  drafts.scheduler = *find_scheduler("vllm-0.24");
  serve_noted(requests, drafts, calls);
  EXPECT_TRUE(published().empty());
}

TEST(Scheduler, APreemptedRequestGetsTheOutputThatIsInFlight) {
  // Two requests of 16 + 18 tokens in 4 blocks, as in Serving.WhoFindsNoRoomTakesItFromTheLast. The
  // second has 33 tokens when it is preempted, of which the step in flight brings the last.
  std::vector<Call> calls;
  const std::vector<Request> requests(2, {.input_tokens = 16, .output_tokens = 18});
  const ServingTotals totals = serve_noted(requests, engine_033(), calls, 4);
  ASSERT_EQ(totals.preemptions, 1U);
  EXPECT_EQ(totals.output_tokens, 36U);
  const KvHandle victim = only(calls, "preempt").front().request;
  const std::vector<std::string> all = names(calls, victim);
  const auto preempted = std::ranges::find(all, "preempt");
  ASSERT_NE(preempted + 1, all.end());
  EXPECT_EQ(preempted[1], "output");
  const Call again = only(calls, "start").back();
  EXPECT_EQ(again.request, victim);
  EXPECT_EQ(again.tokens, 17U) << "16 of the prompt are found, 17 of the answer are known";
}

/// The second request is the last to be admitted, and waits for its last token, when the first
/// needs its third and last block.
const std::vector<Request> kTwoInThreeBlocks = {{.input_tokens = 31, .output_tokens = 10},
                                                {.input_tokens = 10, .output_tokens = 2}};

TEST(Scheduler, APreemptedRequestMayEndWhileItWaits) {
  std::vector<Call> calls;
  EngineOptions options = engine_033();
  options.token_budget = 64;
  const ServingTotals totals = serve_noted(kTwoInThreeBlocks, options, calls, 3);
  ASSERT_EQ(totals.preemptions, 1U);
  EXPECT_EQ(totals.recomputed_tokens, 0U);
  EXPECT_EQ(totals.computed_tokens, 31U + 9 + 10 + 1);
  EXPECT_EQ(names(calls, only(calls, "preempt").front().request),
            (std::vector<std::string>{"start", "grow", "output", "publish", "preempt", "output",
                                      "finish"}));
}

TEST(Scheduler, WithDeferredFreesNobodyIsPreemptedWhoseBlocksAStepMayWrite) {
  std::vector<Call> calls;
  EngineOptions options = engine_033();
  options.token_budget = 64;
  options.defer_frees = true;
  const ServingTotals totals = serve_noted(kTwoInThreeBlocks, options, calls, 3);
  EXPECT_EQ(only(calls, "refused grow").size(), 1U);
  EXPECT_EQ(totals.preemptions, 0U);
  // Where the block does not come free in the meantime, it is preempted one step later; it has room
  // for its own next token, and is not granted it before.
  std::vector<Request> requests = kTwoInThreeBlocks;
  requests[1].output_tokens = 6;
  EXPECT_EQ(serve_noted(requests, options, calls, 3).preemptions, 1U);
  EXPECT_EQ(only(calls, "refused grow").size(), 2U);
  for (std::size_t i = 0; i + 1 < calls.size(); ++i) {
    if (calls[i].what != "refused grow") continue;
    EXPECT_NE(calls[i + 1].what, "grow") << i;
  }
}

TEST(Scheduler, WithDeferredFreesTheBlocksOfAnAnswerAreFreeOneStepLater) {
  // Its last four tokens come in one step, which nobody could know when the next was granted.
  std::vector<Call> calls;
  EngineOptions options = engine_033();
  options.drafts = 3;
  const std::vector<Request> requests = {{.input_tokens = 16, .output_tokens = 5}};
  EXPECT_EQ(serve_noted(requests, options, calls, 8).steps, 3U);
  EXPECT_EQ(only(calls, "finish").front().free, 8U * 16);
  options.defer_frees = true;
  EXPECT_EQ(serve_noted(requests, options, calls, 8).steps, 3U);
  ASSERT_EQ(calls.back().what, "let go");
  EXPECT_EQ(calls.back().free, 8U * 16);
  EXPECT_LT(only(calls, "finish").front().free, 8U * 16);
}

TEST(Scheduler, DraftsAreWholeAndHaveTheirSlotsAlways) {
  std::vector<Call> calls;
  EngineOptions options = engine_033(0);
  options.drafts = 3;
  const std::vector<Request> requests = {{.input_tokens = 40, .output_tokens = 2}};
  EXPECT_EQ(serve_noted(requests, options, calls).drafts, 3U);
  for (const Call& call : calls) {
    if (call.what != "start" && call.what != "grow") continue;
    EXPECT_EQ(call.lookahead, 3U);
  }
  options.scheduler = *find_scheduler("vllm-0.24");
  EXPECT_EQ(serve_noted(requests, options, calls).drafts, 0U) << "one token is left";
  EXPECT_EQ(only(calls, "start").front().lookahead, 0U);
}

TEST(Scheduler, DraftsInFlightHaveSlotsAndAreNotComputed) {
  // Three steps of 1 + 3 tokens, of which all drafts are rejected. When the third is granted, 17
  // tokens are known, 4 slots are in flight, and it asks for slots behind those.
  std::vector<Call> calls;
  EngineOptions options = engine_033();
  options.drafts = 3;
  options.acceptance = 0;
  const ServingTotals totals =
      serve_noted({{.input_tokens = 16, .output_tokens = 5}}, options, calls);
  EXPECT_EQ(totals.output_tokens, 5U);
  EXPECT_EQ(totals.accepted_drafts, 0U);
  const std::vector<Call> grown = only(calls, "grow");
  ASSERT_GE(grown.size(), 2U);
  EXPECT_EQ(grown[0].tokens, 1U + 3);
  EXPECT_EQ(grown[0].in_flight, 16U);
  EXPECT_EQ(grown[1].tokens, 3U + 1 + 3);
  EXPECT_EQ(grown[1].in_flight, 1U);
}

TEST(Scheduler, ARefusedAdmissionIsTriedInEachStep) {
  // The second needs 4 of 4 blocks, and the first keeps 2 for 10 steps.
  const std::vector<Request> requests = {{.input_tokens = 16, .output_tokens = 10},
                                         {.input_tokens = 60, .output_tokens = 1}};
  std::vector<Call> calls;
  EXPECT_EQ(serve_noted(requests, engine_033(0), calls, 4).refused_admissions, 10U);
  EngineOptions options = engine_033(0);
  options.scheduler = *find_scheduler("vllm-0.24");
  EXPECT_LT(serve_noted(requests, options, calls, 4).refused_admissions, 10U);
}

TEST(Scheduler, TheWatermarkAppliesBesideARequestThatOnlyWaitsForItsToken) {
  // The budget is gone with the first prompt; when the second is admitted, the first has no work.
  EngineOptions options = engine_033();
  options.token_budget = 10;
  std::vector<Call> calls;
  const std::vector<Request> requests(2, {.input_tokens = 10, .output_tokens = 1});
  serve_noted(requests, options, calls);
  EXPECT_FALSE(only(calls, "start")[0].beside);
  EXPECT_TRUE(only(calls, "start")[1].beside);
  options.scheduler.watermark_beside_running = false;
  serve_noted(requests, options, calls);
  EXPECT_FALSE(only(calls, "start")[1].beside);
}

TEST(Scheduler, WhatDoesNotGoTogetherIsRefused) {
  SimulationOptions options = small_options();
  options.engine = engine_033();
  options.host_blocks = 8;
  options.engine.swap = true;
  EXPECT_THROW((void)serve({}, options), std::invalid_argument);
  options.engine = engine_033(0);
  options.engine.defer_frees = true;
  EXPECT_THROW((void)serve({}, options), std::invalid_argument);
  options.engine = engine_033();
  options.engine.defer_frees = true;
  options.storage = "contiguous_oracle";
  EXPECT_THROW((void)serve({}, options), std::invalid_argument);
  std::ostringstream run;
  options.run = &run;
  options.engine = engine_033();
  EXPECT_THROW((void)serve({}, options), std::invalid_argument);
  options.storage = "paged_shared";
  options.engine = engine_033(0);
  options.engine.swap = true;
  EXPECT_THROW((void)serve({}, options), std::invalid_argument);
  options.run = nullptr;
  options.engine.aborts = 0.1;
  EXPECT_THROW((void)serve({}, options), std::invalid_argument);
  options.engine = engine_033(kMostStepsInFlight + 1);
  EXPECT_THROW((void)serve({}, options), std::invalid_argument);
}

/// Requests that share the beginnings of their prompts, and do not fit at once.
std::vector<Request> crowded() {
  std::vector<Request> out;
  for (std::uint64_t i = 0; i < 24; ++i) {
    out.push_back({.arrival_seconds = static_cast<double>(20 * i),
                   .input_tokens = static_cast<std::int64_t>(33 + 7 * i % 29),
                   .output_tokens = static_cast<std::int64_t>(1 + 11 * i % 37),
                   .block_ids = {i % 3, 10 + i % 5}});
  }
  return out;
}

/// As the release has it by default, in turn, with drafts, and with deferred frees.
std::vector<SimulationOptions> options_033() {
  SimulationOptions plain = small_options();
  plain.engine = engine_033();
  plain.capacity_blocks = 10;
  SimulationOptions in_turn = plain;
  in_turn.engine.scheduler.steps_in_flight = 0;
  SimulationOptions drafts = plain;
  drafts.engine.drafts = 2;
  drafts.engine.acceptance = 0.6;
  drafts.watermark = 0.1;
  SimulationOptions deferred = drafts;
  deferred.engine.defer_frees = true;
  return {plain, in_turn, drafts, deferred};
}

TEST(Scheduler, ARunIsTheSameUnderEveryLawAndItsRecordingReplays) {
  const ReopenableSource source = listed(crowded());
  const properties::TemporaryFolder folder;
  for (SimulationOptions options : options_033()) {
    const Simulation direct = simulate(source, options);
    EXPECT_GT(direct.totals.preemptions, 0U) << "a run without any proves little";
    EXPECT_GT(direct.totals.hit_tokens, 0U);
    for (const char* subject : {"naive", "optimized-xxh3"}) {
      std::ostringstream recording;
      options.audited.subject = subject;
      options.recording = &recording;
      const Metrics audited = metrics_of(simulate(source, options));
      const Metrics expected = metrics_of(direct);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (expected[i].first == "wall_seconds") continue;
        EXPECT_EQ(audited[i].second.value, expected[i].second.value)
            << expected[i].first << " on " << subject;
      }
      EXPECT_EQ(recording.str().find("unpin") != std::string::npos, options.engine.defer_frees);
      const std::string path = folder.write("recording.jsonl", recording.str());
      for (const char* replayed : {"naive", "optimized-xxh3"}) {
        properties::GoldenReader reader(path);
        const auto verdict = reader.next([&](const TraceHeader& header) {
          return optimized::find_subject(replayed)->make(header.config);
        });
        ASSERT_TRUE(verdict);
        EXPECT_EQ(verdict->header.config.profile.name, "vllm-0.33");
        EXPECT_GT(verdict->recorded, 1'000U);
        EXPECT_EQ(verdict->rejected, 0U);
        EXPECT_FALSE(verdict->difference) << verdict->difference->what;
      }
    }
  }
}

}  // namespace
}  // namespace kvproof::bench
