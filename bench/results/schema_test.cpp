// SPDX-License-Identifier: Apache-2.0
// Rows that an experiment does not allow are not written, and what was written can be read.
#include "bench/results/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/results/read_results.h"
#include "properties/sources/traces/test_files.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

Result law(const char* verdict = "holds", double evaluated = 5, const char* unit = "count") {
  return {"check_law",
          {{"subject", "naive"}, {"law", "I1"}, {"name", "a law"}, {"verdict", verdict}},
          {{"evaluated", {evaluated, unit, {}, {}}}, {"suspended", count(0)}}};
}

std::string why_refused(const Result& row) { return std::string(refused_column(row)); }

TEST(Schema, AllowsWhatAnExperimentStatesAndNothingElse) {
  EXPECT_EQ(why_refused(law()), "");
  Result more = law();
  more.metrics.emplace_back("others", Metric{-1, "any", {}, {}});
  EXPECT_EQ(why_refused(more), "");
  more.metrics.emplace_back("exempted", Metric{0.5, "count", {}, {}});
  EXPECT_EQ(why_refused(more), "exempted");
  EXPECT_NE(why_refused(law("HOLDS")).find("verdict"), std::string::npos);
  for (const Result& row : {law("holds", -1), law("holds", 1.5), law("holds", 1e17),
                            law("holds", 5, "ns"), Result{"check_law", law().parameters, {}}}) {
    EXPECT_NE(why_refused(row).find("evaluated"), std::string::npos);
  }
  EXPECT_NE(why_refused({"check_laws", {}, {}}).find("experiment"), std::string::npos);
  EXPECT_NE(why_refused({"known", {}, {}}).find("experiment"), 0U);
}

TEST(Schema, ReadsWordsAndNumbersOfOneParameter) {
  const auto share = [](const Value& value) {
    return why_refused({"prefix_hit_rate",
                        {{"source", "chat"},
                         {"block_size", std::int64_t{16}},
                         {"capacity_blocks", std::int64_t{8}},
                         {"capacity_share", value}},
                        {{"hit_rate_tokens", {0.5, "ratio", 0, 1}}}});
  };
  EXPECT_EQ(share(0.25), "");
  EXPECT_EQ(share("infinite"), "");
  EXPECT_NE(share("much"), "");
  EXPECT_NE(share(std::int64_t{0}), "");
}

TEST(Schema, IsPrintedWithTheEnvironmentAndEveryExperimentOnce) {
  const auto text = nlohmann::json::parse(schema_json({{"cpu", "a"}}));
  EXPECT_EQ(text.at("environment"), nlohmann::json({{"cpu", "a"}}));
  EXPECT_EQ(text.at("verdicts").at("cannot_tell"), 3);
  EXPECT_EQ(text.at("experiments").size(), experiments().size());
  const auto& eviction = text.at("experiments").at("eviction");
  EXPECT_EQ(eviction.at("parameters").at("policy"), nlohmann::json({{"kind", "text"}}));
  EXPECT_EQ(eviction.at("metrics").at("evictions"),
            nlohmann::json({{"kind", "amount"}, {"unit", "count"}, {"optional", true}}));
  EXPECT_EQ(text.at("experiments").at("paged_decode").at("parameters").at("layout").at("words"),
            nlohmann::json({"nhd", "hnd"}));
}

TEST(Schema, HoldsTheWriterOfResultFiles) {
  const properties::TemporaryFolder folder;
  const std::string path = folder.path() / "a.json";
  EXPECT_THROW(ResultFile(path).commit({}, std::vector{law("HOLDS")}), std::logic_error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ReadResults, ReturnsWhatWasWritten) {
  const properties::TemporaryFolder folder;
  const std::string path = folder.path() / "a.json";
  const Result row{"known",
                   {{"text", "a\n\"b\""}, {"whole", std::int64_t{-7}}, {"share", 0.25}},
                   {{"ns", {1.5, "ns", 1, 2.5}}}};
  ResultFile(path).commit({{"cpu", "c"}}, std::vector{row});
  const ResultDocument read = read_results(path);
  EXPECT_EQ(read.environment, (Parameters{{"cpu", "c"}}));
  ASSERT_EQ(read.results.size(), 1U);
  EXPECT_EQ(to_json({}, read.results), to_json({}, std::vector{row}));
}

TEST(ReadResults, NamesTheFieldOfAMistake) {
  const properties::TemporaryFolder folder;
  const auto mistake = [&](const std::string& text) -> std::string {
    try {
      (void)read_results(folder.write("bad.json", text));
    } catch (const InputError& error) {
      return error.field() + ": " + error.expected();
    }
    return "accepted: " + text;
  };
  const auto with = [&](const std::string& row) {
    return mistake(R"({"schema":1,"environment":{},"results":[)" + row + "]}");
  };
  EXPECT_NE(mistake("").find("empty"), std::string::npos);
  EXPECT_NE(mistake("{").find("valid JSON"), std::string::npos);
  EXPECT_TRUE(mistake("{}").starts_with("schema: "));
  EXPECT_TRUE(mistake(R"({"schema":1})").starts_with("environment: an object"));
  EXPECT_TRUE(mistake(R"({"schema":1,"environment":{}})").starts_with("results: a list"));
  EXPECT_TRUE(with("7").starts_with("results[0]: an object"));
  EXPECT_TRUE(with("{}").starts_with("results[0].experiment: a text"));
  EXPECT_TRUE(with(R"({"experiment":"a"})").starts_with("results[0].parameters: an object"));
  EXPECT_TRUE(with(R"({"experiment":"a","parameters":{"b":[]},"metrics":{}})")
                  .starts_with("results[0].parameters.b: a text or a number"));
  EXPECT_TRUE(with(R"({"experiment":"a","parameters":{},"metrics":{"b":{"value":1}}})")
                  .starts_with("results[0].metrics.b.unit: a text"));
  EXPECT_TRUE(with(R"({"experiment":"a","parameters":{},"metrics":{"b":{"unit":"c"}}})")
                  .starts_with("results[0].metrics.b.value: a number"));
  EXPECT_EQ(with(std::string(100'000, '[') + std::string(100'000, ']')),
            ": at most 16 brackets within each other");
}

TEST(ReadResults, KeepsANumberThatIsTooLarge) {
  const properties::TemporaryFolder folder;
  const auto read = read_results(folder.write(
      "a.json", R"({"schema":1,"environment":{"seed":18446744073709551615},"results":[]})"));
  EXPECT_EQ(read.environment, (Parameters{{"seed", "18446744073709551615"}}));
}

}  // namespace
}  // namespace kvproof::bench
