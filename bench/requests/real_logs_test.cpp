// SPDX-License-Identifier: Apache-2.0
// The public logs, where they are at hand, load with the statistics that are known of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/hit_rate/replay_prompts.h"
#include "bench/requests/open_log.h"
#include "bench/serving/simulate.h"
#include "properties/sources/traces/test_files.h"

namespace kvproof::bench {
namespace {

struct Known {
  std::string name;
  std::string file;
  std::string format;
  std::size_t requests;
  double mean_input, mean_output;                       // [tokens]
  double p50_input, max_input, p50_output, max_output;  // [tokens]
  double requests_per_second;                           // 0 = it has no times of its own
  std::size_t total_ids, distinct_ids;
};

void PrintTo(const Known& known, std::ostream* out) { *out << known.name; }

const std::vector<Known> kKnown = {
    {"mooncake", "mooncake_conversation_trace.jsonl.zst", "mooncake_jsonl", 12'031, 12'035, 342.6,
     6'909, 126'195, 350, 2'000, 3.40, 288'500, 182'790},
    {"azure_conv", "AzureLLMInferenceTrace_conv.csv.zst", "azure_csv", 19'366, 1'154.7, 211.1,
     1'020, 14'050, 129, 1'000, 5.53, 0, 0},
    {"azure_code", "AzureLLMInferenceTrace_code.csv.zst", "azure_csv", 8'819, 2'047.8, 27.9, 1'469,
     7'437, 13, 1'899, 2.57, 0, 0},
    {"rtp_llm", "rtp_llm_trace_30min.jsonl.zst", "rtp_llm_jsonl", 8'332, 6'068.1, 492.6, 2'925,
     31'971, 131, 20'000, 10.46, 45'497, 35'346},
    {"sharegpt_300", "sharegpt_llama31_300_16tok_hash.jsonl.zst", "mooncake_jsonl", 300, 857.5,
     652.5, 731.5, 3'998, 632, 1'021, 10.30, 15'942, 14'722},
    {"vidur_arxiv", "vidur_arxiv_summarization_llama2.csv.zst", "vidur_csv", 28'257, 2'588.1, 291.4,
     2'730, 4'054, 167, 4'056, 0, 0, 0},
    {"kvct", "kvct_sessions_runs.jsonl.zst", "kv_cache_tester_sessions", 49'334, 122'379, 440.1,
     103'659, 894'371, 216, 18'195, 0, 94'310'647, 3'450'959},
};

double mean(const std::vector<std::int64_t>& values) {
  double sum = 0;
  for (const std::int64_t value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

/// Between the two in the middle where their number is even.
double median(std::vector<std::int64_t> values) {
  const std::size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return static_cast<double>(values[half] + values[values.size() - 1 - half]) / 2;
}

class RealLog : public testing::TestWithParam<Known> {};

TEST_P(RealLog, HasItsKnownStatistics) {
  const Known& known = GetParam();
  const std::string path = properties::shared_file("traces/" + known.file);
  if (path.empty()) GTEST_SKIP() << properties::kNoPublicLog;
  const auto start = std::chrono::steady_clock::now();
  const auto source = open_log(path);
  EXPECT_EQ(source->info().format, known.format);
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> outputs;
  std::size_t total_ids = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> parents;  // of each id, one
  Request request;
  while (source->next(request)) {
    inputs.push_back(request.input_tokens);
    outputs.push_back(request.output_tokens);
    total_ids += request.block_ids.size();
    std::uint64_t parent = ~std::uint64_t{0};
    for (const std::uint64_t id : request.block_ids) {
      ASSERT_EQ(parents.try_emplace(id, parent).first->second, parent) << "ids are not chained";
      parent = id;
    }
  }
  const std::chrono::duration<double, std::milli> load = std::chrono::steady_clock::now() - start;
  RecordProperty("load_ms", std::to_string(load.count()));
  ASSERT_EQ(inputs.size(), known.requests);
  EXPECT_NEAR(mean(inputs), known.mean_input, known.mean_input >= 10'000 ? 0.5 : 0.051);
  EXPECT_NEAR(mean(outputs), known.mean_output, 0.051);
  EXPECT_EQ(median(inputs), known.p50_input);
  EXPECT_EQ(median(outputs), known.p50_output);
  EXPECT_EQ(static_cast<double>(*std::ranges::max_element(inputs)), known.max_input);
  EXPECT_EQ(static_cast<double>(*std::ranges::max_element(outputs)), known.max_output);
  if (known.requests_per_second > 0) {
    EXPECT_NEAR(static_cast<double>(known.requests) / request.arrival_seconds,
                known.requests_per_second, 0.0051);
  }
  EXPECT_EQ(total_ids, known.total_ids);
  EXPECT_EQ(parents.size(), known.distinct_ids);
}

INSTANTIATE_TEST_SUITE_P(Public, RealLog, testing::ValuesIn(kKnown),
                         [](const auto& row) { return row.param.name; });

struct HitRates {
  std::string name;
  std::string file;
  double infinite;
  std::vector<double> of_distinct;  // with 1, 5, 10, 25 and 50 % of the distinct ids as capacity
};

void PrintTo(const HitRates& known, std::ostream* out) { *out << known.name; }

class RealLogReplay : public testing::TestWithParam<HitRates> {};

TEST_P(RealLogReplay, HasItsKnownHitRates) {
  const HitRates& known = GetParam();
  const std::string path = properties::shared_file("traces/" + known.file);
  if (path.empty()) GTEST_SKIP() << properties::kNoPublicLog;
  const ReopenableSource source = log_source(path);
  const auto row = std::ranges::find(kKnown, known.file, &Known::file);
  ASSERT_NE(row, kKnown.end());
  ReplayOptions options;
  options.tokens = TokenMode::whole_blocks;
  options.block_size = static_cast<std::uint32_t>(source.open()->info().ids_block_size);
  EXPECT_NEAR(replay_prompts(source, options).hit_rate_tokens(), known.infinite, 0.0005);
  const std::vector<double> shares = {0.01, 0.05, 0.10, 0.25, 0.50};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    options.capacity_blocks =
        static_cast<std::uint32_t>(shares[i] * static_cast<double>(row->distinct_ids));
    EXPECT_NEAR(replay_prompts(source, options).hit_rate_tokens(), known.of_distinct[i], 0.001)
        << shares[i];
  }
}

// In simulated time a prompt may come before an equal one is computed; with room for everything
// that is rare.
TEST_P(RealLogReplay, HasThemWhenItIsServed) {
  const HitRates& known = GetParam();
  const std::string path = properties::shared_file("traces/" + known.file);
  if (path.empty()) GTEST_SKIP() << properties::kNoPublicLog;
  const ReopenableSource source = log_source(path);
  SimulationOptions options;
  options.engine.tokens = TokenMode::whole_blocks;
  options.block_size = static_cast<std::uint32_t>(source.open()->info().ids_block_size);
  const Simulation run = simulate(source, options);
  EXPECT_NEAR(run.totals.hit_rate_tokens(), known.infinite, 0.001);
  EXPECT_EQ(run.totals.preemptions, 0U);
}

// Those of the Mooncake conversation log are in studies_test.cpp.
INSTANTIATE_TEST_SUITE_P(Public, RealLogReplay,
                         testing::Values(HitRates{"rtp_llm",
                                                  "rtp_llm_trace_30min.jsonl.zst",
                                                  0.2056,
                                                  {0.0790, 0.1425, 0.1609, 0.1869, 0.2009}},
                                         HitRates{"sharegpt_300",
                                                  "sharegpt_llama31_300_16tok_hash.jsonl.zst",
                                                  0.0759,
                                                  {0.0020, 0.0085, 0.0141, 0.0411, 0.0678}}),
                         [](const auto& row) { return row.param.name; });

// 145 M prompt tokens in blocks of 16: the same hit rate as in blocks of 512.
TEST(RealLogServed, MooncakeInSmallBlocksHitsAsMuch) {
  const std::string path = properties::shared_file("traces/" + kKnown.front().file);
  if (path.empty()) GTEST_SKIP() << properties::kNoPublicLog;
  const Simulation run = simulate(log_source(path), {});
  EXPECT_EQ(run.totals.requests, 12'031U);
  EXPECT_NEAR(run.totals.hit_rate_tokens(), 0.3736, 0.001);
  RecordProperty("wall_seconds", std::to_string(run.wall_seconds));
}

}  // namespace
}  // namespace kvproof::bench
