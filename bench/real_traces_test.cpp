// SPDX-License-Identifier: Apache-2.0
// The public traces, where they are at hand, load with the statistics that are known of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <unordered_set>
#include <vector>

#include "bench/trace_loaders.h"
#include "properties/traces/test_files.h"

namespace kvproof::bench {
namespace {

struct Known {
  std::string name;
  std::string file;
  std::string format;
  std::size_t requests;
  double mean_input, mean_output;                             // [tokens]
  std::int64_t p50_input, max_input, p50_output, max_output;  // [tokens]
  double requests_per_second;
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
};

double mean(const std::vector<std::int64_t>& values) {
  double sum = 0;
  for (const std::int64_t value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class RealTrace : public testing::TestWithParam<Known> {};

TEST_P(RealTrace, HasItsKnownStatistics) {
  const Known& known = GetParam();
  const std::string path = properties::shared_file("traces/" + known.file);
  if (path.empty()) GTEST_SKIP() << known.file << " is not in the folder of shared data";
  const auto start = std::chrono::steady_clock::now();
  const auto source = open_trace(path);
  EXPECT_EQ(source->info().format, known.format);
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> outputs;
  std::vector<std::uint64_t> ids;
  Request request;
  while (source->next(request)) {
    inputs.push_back(request.input_tokens);
    outputs.push_back(request.output_tokens);
    ids.insert(ids.end(), request.block_ids.begin(), request.block_ids.end());
  }
  const std::chrono::duration<double, std::milli> load = std::chrono::steady_clock::now() - start;
  RecordProperty("load_ms", std::to_string(load.count()));
  ASSERT_EQ(inputs.size(), known.requests);
  EXPECT_NEAR(mean(inputs), known.mean_input, known.mean_input >= 10'000 ? 0.5 : 0.051);
  EXPECT_NEAR(mean(outputs), known.mean_output, 0.051);
  EXPECT_EQ(median(inputs), known.p50_input);
  EXPECT_EQ(median(outputs), known.p50_output);
  EXPECT_EQ(*std::max_element(inputs.begin(), inputs.end()), known.max_input);
  EXPECT_EQ(*std::max_element(outputs.begin(), outputs.end()), known.max_output);
  EXPECT_NEAR(static_cast<double>(known.requests) / request.arrival_seconds,
              known.requests_per_second, 0.0051);
  EXPECT_EQ(ids.size(), known.total_ids);
  EXPECT_EQ(std::unordered_set<std::uint64_t>(ids.begin(), ids.end()).size(), known.distinct_ids);
}

INSTANTIATE_TEST_SUITE_P(Public, RealTrace, testing::ValuesIn(kKnown),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace kvproof::bench
