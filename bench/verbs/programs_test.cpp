// SPDX-License-Identifier: Apache-2.0
// The programs kvproof-bench, kvproof-plan and kvproof-study from outside: what they write, print
// and answer.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "bench/instruments/program_test_support.h"
#include "bench/studies/studies.h"
#include "reference/model_presets.h"

namespace kvproof::bench {
namespace {

class Programs : public ProgramTest {
 protected:
  void expect_schema(const json& document) {
    EXPECT_EQ(document.at("schema"), 1);
    EXPECT_TRUE(document.at("environment").is_object());
    ASSERT_FALSE(document.at("results").empty());
    for (const json& result : document.at("results")) {
      EXPECT_TRUE(result.at("experiment").is_string());
      for (const auto& [name, value] : result.at("parameters").items()) {
        EXPECT_TRUE(value.is_string() || value.is_number()) << name;
      }
      for (const auto& [name, metric] : result.at("metrics").items()) {
        EXPECT_TRUE(metric.at("value").is_number()) << name;
        EXPECT_TRUE(metric.at("unit").is_string()) << name;
        if (!metric.contains("min")) continue;
        EXPECT_LE(metric.at("min").get<double>(), metric.at("value").get<double>()) << name;
        EXPECT_GE(metric.at("max").get<double>(), metric.at("value").get<double>()) << name;
      }
    }
  }
};

TEST_F(Programs, BenchSmokesEveryCase) {
  const Answer answer = run("bench", "--smoke --json=" + path("bench.json"));
  ASSERT_EQ(answer.exit_code, 0) << answer.error;
  EXPECT_EQ(answer.error, "") << "progress is for terminals";
  const json document = json::parse(text_of(path("bench.json")));
  expect_schema(document);
  std::set<std::string> operations;
  for (const json& result : document.at("results")) {
    if (result.at("experiment") != "pool_operation") continue;
    operations.insert(result.at("parameters").at("operation"));
    for (const char* name : {"ns_per_block", "call_p50", "call_p99", "call_worst"}) {
      EXPECT_GT(result.at("metrics").at(name).at("value").get<double>(), 0) << name;
    }
    EXPECT_GE(result.at("metrics").at("call_worst").at("value").get<double>(),
              result.at("metrics").at("call_p99").at("value").get<double>());
  }
  EXPECT_EQ(operations, (std::set<std::string>{"evict", "evict_batch", "free_request", "lookup_hit",
                                               "lookup_miss", "publish", "take_release", "touch"}));
}

TEST_F(Programs, BenchChecksumsDependOnTheSeedAlone) {
  const auto checksum = [&](const std::string& seed) {
    const std::string file = path("seed.json");
    const Answer answer =
        run("bench",
            "--smoke --filter=16384/batch:16/order:shuffled --seed=" + seed + " --json=" + file);
    EXPECT_EQ(answer.exit_code, 0) << answer.error;
    const json results = json::parse(text_of(file)).at("results");
    return results.at(0).at("metrics").at("checksum").at("value").get<double>();
  };
  EXPECT_EQ(checksum("5"), checksum("5"));
  EXPECT_NE(checksum("5"), checksum("6"));
}

TEST_F(Programs, BenchListsWhatItCanMeasure) {
  const Answer answer = run("bench", "--list");
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_NE(answer.out.find("\nlife_cycle/xxh3_64k\n"), std::string::npos);
  EXPECT_NE(answer.out.find("pool_operation/free_request/num_blocks:1048576"), std::string::npos);
}

TEST_F(Programs, PlanPrintsWhatFitsAndWritesIt) {
  const std::string file = path("plan.json");
  const Answer answer = run(
      "plan", "--model=llama-3-70b --memory-gib=60 --max-len=32768 --mean-len=500 --json=" + file);
  EXPECT_EQ(answer.exit_code, 0) << answer.error;
  EXPECT_EQ(answer.error, "");
  for (const char* said : {"327,680 B", "12288", "10 GiB", "worst_case_requests"}) {
    EXPECT_NE(answer.out.find(said), std::string::npos) << said << '\n' << answer.out;
  }
  const json document = json::parse(text_of(file));
  expect_schema(document);
  std::map<int, double> expected;  // block size -> requests
  std::set<std::string> models;
  for (const json& result : document.at("results")) {
    const json& parameters = result.at("parameters");
    if (result.at("experiment") == "memory_of_models") {
      models.insert(parameters.at("model").get<std::string>());
    } else {
      EXPECT_EQ(result.at("experiment"), "plan");
      expected[parameters.at("block_size")] =
          result.at("metrics").at("expected_requests").at("value");
    }
  }
  EXPECT_EQ(models.size(), std::size(kModelPresets));
  ASSERT_EQ(expected.size(), 7U);
  EXPECT_DOUBLE_EQ(expected.at(1), 196'607.0 / 500);
  EXPECT_DOUBLE_EQ(expected.at(16), 12'287.0 / 32);
}

TEST_F(Programs, PlanSaysWhenTheLongestRequestDoesNotFit) {
  const Answer answer = run("plan", "--model=llama-3-8b --memory-gib=1 --block-size=16");
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_EQ(answer.error, "");
  EXPECT_NE(answer.out.find("longest request that fits: 8,176 tokens"), std::string::npos);
  EXPECT_NE(answer.out.find("131,072 tokens does not fit"), std::string::npos) << answer.out;
}

TEST_F(Programs, PlanListsTheModelsWithTheirSources) {
  const Answer answer = run("plan", "--list");
  EXPECT_EQ(answer.exit_code, 0);
  for (const ModelPreset& preset : kModelPresets) {
    EXPECT_NE(answer.out.find(preset.name), std::string::npos) << preset.name;
    EXPECT_NE(answer.out.find(preset.source), std::string::npos) << preset.name;
    const Answer plan = run("plan", "--memory-gib=60 --model=" + std::string(preset.name));
    EXPECT_EQ(plan.exit_code, 0) << preset.name << plan.error;
  }
}

TEST_F(Programs, StudySmokesEveryStudyAndRepeatsItself) {
  const auto results = [&](const char* name) {
    const Answer answer = run("study", std::string("--smoke --json=") + path(name));
    EXPECT_EQ(answer.exit_code, 0) << answer.error;
    EXPECT_EQ(answer.error, "");
    const json document = json::parse(text_of(path(name)));
    expect_schema(document);
    return document.at("results");
  };
  const json once = results("one.json");
  EXPECT_EQ(once, results("two.json"));
  std::set<std::string> experiments;
  for (const json& result : once) experiments.insert(result.at("experiment"));
  for (const Study& study : kStudies) {
    const std::string name(study.name);
    EXPECT_TRUE(experiments.contains(name) || experiments.contains(name + "_run")) << name;
  }
}

TEST_F(Programs, StudyNamesALogByItsFile) {
  const std::string row = R"({"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,1]})"
                          "\n";
  const std::string trace = folder_.write("tiny.jsonl", row + row);
  const Answer answer =
      run("study", "prefix_hit_rate --smoke --trace=" + trace + " --json=" + path("tiny.json"));
  ASSERT_EQ(answer.exit_code, 0) << answer.error;
  bool found = false;
  const json document = json::parse(text_of(path("tiny.json")));
  for (const json& result : document.at("results")) {
    const json& parameters = result.at("parameters");
    if (parameters.at("source") != "tiny.jsonl" || parameters.at("capacity_share") != "infinite") {
      continue;
    }
    found = true;  // the second request has both blocks of the first: half of all tokens
    EXPECT_EQ(result.at("metrics").at("hit_rate_tokens").at("value"), 0.5);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace kvproof::bench
