// SPDX-License-Identifier: Apache-2.0
// Logs load as they are published; a malformed one is one InputError with its line and field.
#include "bench/requests/open_log.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/requests/log_test_support.h"

namespace kvproof::bench {
namespace {

using namespace std::string_literals;
using properties::gzip;
using properties::TemporaryFolder;
using properties::zstd;

TEST(LogLoaders, ReadMooncake) {
  const TemporaryFolder folder;
  for (const std::string& stored : {kMooncake, gzip(kMooncake), zstd(kMooncake)}) {
    const std::string path = folder.write("named.csv", stored);  // names mean nothing
    const auto source = open_log(path);
    EXPECT_EQ(source->info().name, path);
    EXPECT_EQ(source->info().format, "mooncake_jsonl");
    EXPECT_EQ(source->info().ids_block_size, 512);
    EXPECT_TRUE(source->info().partial_tail);
    Request request;
    ASSERT_TRUE(source->next(request));
    EXPECT_EQ(request.index, 0U);
    EXPECT_EQ(request.arrival_seconds, 0.0);
    EXPECT_EQ(request.input_tokens, 513);
    EXPECT_EQ(request.output_tokens, 9);
    EXPECT_EQ(request.block_ids, (std::vector<std::uint64_t>{0, 7}));
    ASSERT_TRUE(source->next(request));
    EXPECT_EQ(request.index, 1U);
    EXPECT_EQ(request.arrival_seconds, 0.25);
    EXPECT_EQ(request.block_ids, std::vector<std::uint64_t>{8});
    EXPECT_FALSE(source->next(request));
    EXPECT_EQ(source->fraction(), 1.0);
  }
}

TEST(LogLoaders, ReadMooncakeLinesThatAreOddButSound) {
  const std::vector<std::string> lines = {
      R"({"hash_ids":[18446744073709551615],"output_length":0,"input_length":9,"timestamp":5250})",
      R"( {"timestamp":5250,"input_length":0,"output_length":0,"hash_ids":[]} )",
      R"({"timestamp":5250,"input_length":0,"output_length":0,"hash_ids":[],"timestamps":[1.5,-2],)"
      R"("session":{"timestamp":"x","hash_ids":[[[]]]},"none":null,"text":"\u00e9\n"})",
      R"({"timestamp":9007199254740992,"input_length":0,"output_length":16777216,"hash_ids":[]})",
      "{\"timestamp\":5250,\"input_length\":0,\"output_length\":0,\"hash_ids\":[]}\r",
  };
  const TemporaryFolder folder;
  for (const std::string& line : lines) {
    const std::string path = folder.write("log", kMooncake + line + "\n");
    EXPECT_NO_THROW(EXPECT_EQ(all_of(path).size(), 3U)) << line;
  }
}

TEST(LogLoaders, ReadAzure) {
  const TemporaryFolder folder;
  const std::string without_newline = kAzure.substr(0, kAzure.size() - 1);  // as published
  for (const std::string& stored : {without_newline, gzip(kAzure), zstd(kAzure)}) {
    const auto source = open_log(folder.write("log.jsonl", stored));
    EXPECT_EQ(source->info().format, "azure_csv");
    EXPECT_EQ(source->info().ids_block_size, 0);
    Request request;
    request.block_ids = {1, 2};
    ASSERT_TRUE(source->next(request));
    EXPECT_EQ(request.arrival_seconds, 0.0);
    EXPECT_EQ(request.input_tokens, 374);
    EXPECT_EQ(request.output_tokens, 44);
    EXPECT_TRUE(request.block_ids.empty());
    ASSERT_TRUE(source->next(request));
    EXPECT_EQ(request.index, 1U);
    EXPECT_DOUBLE_EQ(request.arrival_seconds, 4.314579);
    EXPECT_FALSE(source->next(request));
  }
}

TEST(LogLoaders, ReadEverySpellingOfAnAzureTime) {
  const std::vector<std::pair<std::string, double>> times = {
      {"2024-02-28T23:59:59", 1},
      {"2024-02-28 23:59:58.5Z", 0.5},
      {"2024-02-29 00:00:00.25", 2.25},
      {"2024-03-01T00:00:00.0000001+00:00", 86402.0000001},
      {"9999-12-31 23:59:59", 251'693'136'001.0},
  };
  const TemporaryFolder folder;
  for (const auto& [time, seconds] : times) {
    const std::string path =
        folder.write("log",
                     "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2024-02-28 23:59:58,1,1"
                     "\r\n" +
                         time + ",0,16777216\r\n");
    std::vector<Request> requests;
    ASSERT_NO_THROW(requests = all_of(path)) << time;
    ASSERT_EQ(requests.size(), 2U);
    EXPECT_DOUBLE_EQ(requests[1].arrival_seconds, seconds) << time;
  }
}

/// A sound Mooncake line but for one field.
std::string mooncake_with(const std::string& field, const std::string& value) {
  std::string line = "{";
  for (const auto& [name, sound] :
       std::vector<std::pair<std::string, std::string>>{{"timestamp", "6000"},
                                                        {"input_length", "600"},
                                                        {"output_length", "5"},
                                                        {"hash_ids", "[1, 2]"}}) {
    if (name != field || !value.empty()) {
      line += (line.size() > 1 ? ", \"" : "\"") + name + "\": " + (name == field ? value : sound);
    }
  }
  return line + "}";
}

TEST(LogLoaders, NameTheFieldOfAMalformedMooncakeLine) {
  std::vector<Malformed> lines;
  for (const std::string field : {"timestamp", "input_length", "output_length", "hash_ids"}) {
    lines.push_back({mooncake_with(field, ""), field, "found no such field"});
    lines.push_back({mooncake_with(field, "null"), field, "found null"});
    lines.push_back({mooncake_with(field, "true"), field, "found a boolean"});
    lines.push_back({mooncake_with(field, "\"5\""), field, "found '5'"});
    lines.push_back({mooncake_with(field, "{\"a\": 1}"), field, "found an object"});
    lines.push_back({mooncake_with(field, "-1"), field, "found -1"});
    lines.push_back({mooncake_with(field, "-1.5"), field, "found -1.5"});
    if (field != "timestamp") {
      lines.push_back({mooncake_with(field, "1.0"), field, "found 1.0"});
      lines.push_back({mooncake_with(field, "1e3"), field, "found 1e3"});
    }
    lines.push_back({mooncake_with(field, "1e999"), field, "number overflow parsing '1e999'"});
    lines.push_back(
        {mooncake_with(field, "18446744073709551616"), field, "found 1844674407370955"});
    lines.push_back({mooncake_with(field, "NaN"), field, "valid JSON"});
    lines.push_back({mooncake_with(field, "1, \"" + field + "\": 1"), field,
                     field == "hash_ids" ? "an array" : "once, found it twice"});
  }
  for (const std::string field : {"timestamp", "input_length", "output_length"}) {
    lines.push_back({mooncake_with(field, "[1]"), field, "found an array"});
    lines.push_back({mooncake_with(field, "18446744073709551615"), field, "from 0 to"});
  }
  lines.push_back({mooncake_with("timestamp", "1e300"), "timestamp", "a number from 0 to 9007199"});
  lines.push_back({mooncake_with("input_length", "16777217"), "input_length", "to 16777216"});
  lines.push_back({mooncake_with("output_length", "16777217"), "output_length", "to 16777216"});
  lines.push_back({mooncake_with("timestamp", "5249"), "timestamp",
                   "a time not before the previous line's 5250, found 5249"});
  for (const std::string ids : {"[[1], 2]", "[1, -2]", "[1, 2.0]", "[1, \"2\"]", "[1, null]",
                                "[1, {}]", "[1, 18446744073709551616]", "[1, true]"}) {
    lines.push_back({mooncake_with("hash_ids", ids), "hash_ids",
                     "an array of non-negative integers below 2^64, found"});
  }
  lines.push_back({mooncake_with("hash_ids", "[]"), "hash_ids",
                   "2 ids for the 600 tokens of input_length in blocks of 512, the last may be "
                   "partial; found 0"});
  lines.push_back({mooncake_with("hash_ids", "[1, 2, 3]"), "hash_ids", "2 ids"});
  lines.push_back({mooncake_with("input_length", "0"), "hash_ids", "0 ids"});
  lines.push_back({mooncake_with("hash_ids", "[1, 2], \"hash_ids\": [1, 2]"), "hash_ids", "twice"});
  expect_errors(kMooncake, 3, lines);
}

TEST(LogLoaders, RefuseMooncakeLinesThatAreNotAnObject) {
  const std::string sound = mooncake_with("", "");
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "[";
  std::string many_ids = "[0";
  for (int i = 0; i < 40'000; ++i) many_ids += ",0";
  expect_errors(
      kMooncake, 3,
      {{"", "", "a JSON object, found an empty line"},
       {"   ", "", "found an empty line"},
       {"17", "", "a JSON object, found 17"},
       {"[1]", "", "a JSON object, found an array"},
       {"null", "", "a JSON object, found null"},
       {"\"text\"", "", "a JSON object, found 'text'"},
       {"{}", "input_length", "found no such field"},
       {"{\"timestamp\": 1", "", "valid JSON"},
       {"{\"timestamp\" 1}", "timestamp", "valid JSON"},
       {"{\"timestamp\": 01}", "", "valid JSON"},
       {sound + " x", "", "valid JSON"},
       {sound + sound, "", "valid JSON"},
       {sound.substr(0, sound.size() - 3), "hash_ids", "valid JSON"},
       {sound + "\0garbage"s, "", "a NUL byte"},
       {"\xff\xfe", "", "valid JSON"},
       {"{\"\xff\": 1}", "", "valid JSON"},
       {"{\"x\": " + deep, "", "at most 16 levels of nesting"},
       {mooncake_with("hash_ids", deep), "hash_ids", "found an array"},
       {mooncake_with("hash_ids", many_ids + "]"), "hash_ids", "at most 32768 elements"}});
}

TEST(LogLoaders, NameTheFieldOfAMalformedAzureLine) {
  std::vector<Malformed> lines = {
      {"", "", "3 columns, found 1"},
      {"2023-11-16 18:15:51,1", "", "3 columns, found 2"},
      {"2023-11-16 18:15:51,1,2,", "", "3 columns, found 4"},
      {",,", "TIMESTAMP", "found ''"},
      {"2023-11-16 18:15:50.9951689,1,2", "TIMESTAMP", "a time not before the previous line's"},
  };
  for (const std::string time : {"2023-11-16",
                                 "2023-11-16 18:15",
                                 "2023-13-16 18:15:51",
                                 "2023-00-16 18:15:51",
                                 "2023-02-29 18:15:51",
                                 "2023-11-31 18:15:51",
                                 "2023-11-16 24:00:00",
                                 "2023-11-16 18:60:00",
                                 "2023-11-16 18:15:60",
                                 "2023-11-16 18:15:51.",
                                 "2023-11-16 18:15:51.12345678",
                                 "2023-11-16 18:15:51+01:00",
                                 "2023-11-16 18:15:51Zx",
                                 "2023-11-16_18:15:51",
                                 "2023/11/16 18:15:51",
                                 " 2023-11-16 18:15:51",
                                 "2023-11-16 18:15:51 ",
                                 "23-11-16 18:15:51",
                                 "2023-11-16 1a:15:51",
                                 "+023-11-16 18:15:51",
                                 "-2023-11-16 18:15:51",
                                 "1700158551"}) {
    lines.push_back({time + ",1,2", "TIMESTAMP", "YYYY-MM-DD HH:MM:SS with up to 7 fractional"});
  }
  for (const std::string number : {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "abc",
                                   "16777217", "9223372036854775808", "99999999999999999999"}) {
    const std::string found = "an integer from 0 to 16777216, found '" + number + "'";
    lines.push_back({"2023-11-16 18:15:51," + number + ",2", "ContextTokens", found});
    lines.push_back({"2023-11-16 18:15:51,1," + number, "GeneratedTokens", found});
  }
  lines.push_back({"2023-11-16 18:15:51,1\0,2"s, "ContextTokens", "found '1?'"});
  expect_errors(kAzure, 4, lines);
}

TEST(LogLoaders, RefuseFilesThatAreNoLog) {
  const TemporaryFolder folder;
  const auto expect = [&folder](const std::string& bytes, std::uint64_t line,
                                const std::string& field, const std::string& expected) {
    const auto error = error_of(folder.write("log", bytes));
    ASSERT_TRUE(error.has_value()) << bytes;
    EXPECT_EQ(error->line(), line) << error->what();
    EXPECT_EQ(error->field(), field) << error->what();
    EXPECT_NE(error->expected().find(expected), std::string::npos) << error->what();
  };
  expect("", 0, "", "at least one request, found an empty file");
  expect("\n", 1, "", "a JSON object or a header such as TIMESTAMP,");
  expect("id,time\n1,2\n", 1, "", "found 'id,time'");
  expect(std::string(5000, '\0'), 1, "", "a JSON object or a header");
  expect("{\"schema\": 1}\n", 1, "", "bench/requests/formats/README.md, found the field 'schema'");
  expect("{}\n", 1, "input_length", "found no such field");
  expect("TIMESTAMP;ContextTokens;GeneratedTokens\n", 1, "", "TIMESTAMP,ContextTokens,");
  expect("TIMESTAMP,ContextTokens\n", 1, "header", "a column GeneratedTokens");
  expect("ContextTokens,GeneratedTokens\n", 1, "header", "a column TIMESTAMP");
  expect("TIMESTAMP,ContextTokens,GeneratedTokens\n", 1, "", "at least one request");
  EXPECT_TRUE(error_of((folder.path() / "missing").string()).has_value());
}

TEST(LogLoaders, TakeALowerLimitOfTokens) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of(folder.write("log", kMooncake), {.max_tokens = 512})->field(), "input_length");
  EXPECT_EQ(error_of(folder.write("log", kAzure), {.max_tokens = 395})->line(), 3U);
}

}  // namespace
}  // namespace kvproof::bench
