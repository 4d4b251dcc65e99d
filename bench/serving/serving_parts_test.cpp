// SPDX-License-Identifier: Apache-2.0
// The parts of the serving simulation by themselves: the roofline, the recorder, the size of a
// source.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/requests/listed_source.h"
#include "bench/requests/log_size.h"
#include "bench/serving/recorder.h"
#include "bench/serving/step_time.h"
#include "reference/model_presets.h"

namespace kvproof::bench {
namespace {

TEST(StepTime, IsTheSlowestOfMemoryArithmeticAndLink) {
  StepTime time;
  time.card = {"round", 1e12, 1e15, 1e9, "ours"};
  time.model = {"round", 1e9, 2e9, 1'000, 1e5};
  // Decode of one token over 10,000: 2e9 + 10,001 x 1e5 bytes at 1e12 a second.
  EXPECT_DOUBLE_EQ(time.seconds({.tokens = 1, .attended_pairs = 10'001, .context_tokens = 10'000}),
                   (2e9 + 10'001e5) / 1e12);
  // A prompt of 10,000: 2 x 1e9 operations a token, 4 x 1,000 a pair.
  const std::uint64_t pairs = 10'000ULL * 10'001 / 2;
  EXPECT_DOUBLE_EQ(time.seconds({.tokens = 10'000, .attended_pairs = pairs}),
                   (2e9 * 10'000 + 4e3 * static_cast<double>(pairs)) / 1e15);
  EXPECT_DOUBLE_EQ(time.seconds({.swapped_tokens = 100}), 1e7 / 1e9);
  EXPECT_DOUBLE_EQ(time.seconds({.moved_tokens = 100}), 2 * 1e7 / 1e12);
  time.bandwidth_share = 0.5;
  time.overhead_seconds = 1;
  EXPECT_DOUBLE_EQ(time.seconds({.moved_tokens = 100}), 1 + 4 * 1e7 / 1e12);
}

TEST(StepTime, RowsAreFoundAndCacheWhatTheirPresetSays) {
  EXPECT_EQ(find_card("abacus"), nullptr);
  EXPECT_EQ(find_served_model("abacus"), nullptr);
  for (const Card& card : kCards) EXPECT_EQ(find_card(card.name), &card);
  for (const ServedModel& model : kServedModels) {
    EXPECT_EQ(find_served_model(model.name), &model);
    const ModelPreset* preset = find_model_preset(model.name);
    if (preset == nullptr) continue;  // served, and not among those whose memory is planned
    EXPECT_EQ(static_cast<double>(preset->spec().bytes_per_token()), model.kv_bytes_per_token);
  }
}

TEST(Recorder, AveragesByTimeAndKeepsPeaks) {
  Recorder recorder;
  recorder.add_step(3, 1, 0, {.tokens = 10, .free = 90}, 0);
  recorder.add_step(1, 5, 2, {.tokens = 50, .tail = 2, .free = 48}, 48);
  const ServingMoment average = recorder.average();
  EXPECT_DOUBLE_EQ(average.running, 2);
  EXPECT_DOUBLE_EQ(average.waiting, 0.5);
  EXPECT_DOUBLE_EQ(average.tokens, 20);
  EXPECT_DOUBLE_EQ(average.stranded, 12);
  EXPECT_DOUBLE_EQ(recorder.peak().tokens, 50);
  EXPECT_DOUBLE_EQ(recorder.peak().free, 90);
  EXPECT_DOUBLE_EQ(recorder.totals.seconds, 4);
}

TEST(Recorder, KeepsSamplesEvenlyHoweverManyStepsThereAre) {
  for (const std::uint64_t steps : {1U, 511U, 512U, 100'000U}) {
    Recorder recorder;
    for (std::uint64_t i = 0; i < steps; ++i) recorder.add_step(1, i, 0, {}, 0);
    const auto& samples = recorder.samples();
    ASSERT_LT(samples.size(), Recorder::kMaxSamples);
    EXPECT_GE(samples.size(), std::min<std::size_t>(steps, Recorder::kMaxSamples / 2));
    for (std::size_t i = 1; i < samples.size(); ++i) {
      EXPECT_EQ(samples[i].running - samples[i - 1].running, samples[1].running);
    }
  }
}

TEST(Recorder, QuantilesAreOfThoseThatWereAnswered) {
  Recorder recorder;
  for (int i = 0; i <= 100; ++i) {
    recorder.finish({.arrived = 0, .admitted = 1.0 * i, .first_token = -1});
  }
  recorder.finish(
      {.arrived = 1, .admitted = 1, .first_token = 3, .finished = 7, .output_tokens = 5});
  EXPECT_DOUBLE_EQ(recorder.queueing().p99, 99);  // of 0, 0, 1, 2 ... 100
  EXPECT_DOUBLE_EQ(recorder.first_token().mean, 2);
  EXPECT_DOUBLE_EQ(recorder.per_token().p50, 1);
  EXPECT_DOUBLE_EQ(Recorder().queueing().p99, 0);
}

TEST(SourceSize, CountsEachEqualPrefixOnce) {
  // Ids of 16 tokens. Of the second, two ids are known; of the third none, although 2 is known:
  // what follows an unknown id is not a prefix.
  const auto source = listed({{.input_tokens = 40, .output_tokens = 8, .block_ids = {1, 2}},
                              {.input_tokens = 50, .output_tokens = 20, .block_ids = {1, 2, 3}},
                              {.input_tokens = 32, .output_tokens = 1, .block_ids = {9, 2}}})
                          .open();
  const SourceSize size = size_of(*source, 16, TokenMode::as_recorded);
  EXPECT_EQ(size.requests, 3U);
  EXPECT_EQ(size.prompt_blocks, 3U + 2 + 2);
  EXPECT_EQ(size.output_blocks, 0U + 1 + 1);
  EXPECT_EQ(size.max_prompt_tokens, 50U);
  EXPECT_EQ(size.max_tokens, 70U);
  EXPECT_EQ(size.output_tokens, 29U);
}

}  // namespace
}  // namespace kvproof::bench
