// SPDX-License-Identifier: Apache-2.0
// The formats beside Mooncake's and Azure's own: what good lines load as, which bad ones are named.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/requests/log_test_support.h"
#include "bench/requests/open_log.h"

namespace kvproof::bench {
namespace {

using properties::TemporaryFolder;
using Ids = std::vector<std::uint64_t>;

SourceInfo info_of(const std::string& path, LogOptions options = {}) {
  return open_log(path, options)->info();
}

TEST(LogFormats, RtpLlm) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", kRtp);
  EXPECT_EQ(info_of(path).format, "rtp_llm_jsonl");
  EXPECT_EQ(info_of(path).ids_block_size, 1024);
  EXPECT_FALSE(info_of(path).partial_tail);
  const auto requests = all_of(path);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].block_ids, (Ids{7580216758801619145U, 3}));
  EXPECT_EQ(requests[0].input_tokens, 2050);
  EXPECT_EQ(requests[1].output_tokens, 0);
  EXPECT_EQ(requests[1].arrival_seconds, 0.25);
  const auto with = [](const std::string& ids) {
    return R"({"ts": 400, "il": 1024, "ol": 0, "bh": )" + ids + "}";
  };
  expect_errors(kRtp, 3,
                {{with("[]"), "bh", "1 ids for the 1024 tokens of il in blocks of 1024, full"},
                 {with("[5]"), "bh", "an array of strings that spell integers below 2^64, found 5"},
                 {with("[\"\"]"), "bh", "found ''"},
                 {with("[\"-1\"]"), "bh", "found '-1'"},
                 {with("[\"0x1\"]"), "bh", "found '0x1'"},
                 {with("[\"18446744073709551616\"]"), "bh", "found '18446744073709551616'"},
                 {with("\"5\""), "bh", "found '5'"},
                 {R"({"ts": 400, "il": 0, "ol": 0})", "bh", "found no such field"},
                 {R"({"ts": 349.5, "il": 0, "ol": 0, "bh": []})", "ts", "previous line's 350, "}});
}

TEST(LogFormats, QwenBailianChainsIdsOfContent) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", kBailian);
  EXPECT_EQ(info_of(path).format, "qwen_bailian_jsonl");
  EXPECT_EQ(info_of(path).ids_block_size, 16);
  EXPECT_TRUE(info_of(path).partial_tail);
  const auto requests = all_of(path);
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[1].arrival_seconds, 0.25);
  const Ids& a = requests[0].block_ids;
  const Ids& b = requests[1].block_ids;
  EXPECT_NE(a[0], a[2]) << "the same content after another prefix is another block";
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_NE(a[2], b[2]);
  EXPECT_NE(requests[2].block_ids[0], a[1]);
}

TEST(LogFormats, QwenBailianOfFullBlocksOnly) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "log", R"({"chat_id":1,"timestamp":0,"input_length":40,"output_length":3,"hash_ids":[5,6]})");
  EXPECT_FALSE(info_of(path).partial_tail);
  EXPECT_EQ(all_of(path).size(), 1U);
  expect_errors(kBailian, 4,
                {{R"({"chat_id":1,"timestamp":62,"input_length":40,"output_length":3,)"
                  R"("hash_ids":[5,6]})",
                  "hash_ids", "3 ids for the 40 tokens"}});
}

TEST(LogFormats, LlmServingSimHashesTokens) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", kSim);
  EXPECT_EQ(info_of(path).format, "llm_serving_sim_jsonl");
  EXPECT_EQ(info_of(path).ids_block_size, 16);
  EXPECT_TRUE(all_of(path)[0].block_ids.empty()) << "no full block of 16";
  const auto requests = all_of(path, {.ids_block_size = 2});
  EXPECT_EQ(requests[1].arrival_seconds, 0.002);
  ASSERT_EQ(requests[0].block_ids.size(), 2U);
  ASSERT_EQ(requests[1].block_ids.size(), 2U);
  EXPECT_EQ(requests[0].block_ids[0], requests[1].block_ids[0]);
  EXPECT_NE(requests[0].block_ids[1], requests[1].block_ids[1]) << "order matters";
  expect_errors(
      kSim, 3,
      {{R"({"input_toks":2,"output_toks":1,"arrival_time_ns":2001000,"input_tok_ids":[1]})",
        "input_tok_ids", "2 tokens, as many as input_toks, found 1"}});
  EXPECT_EQ(error_of(folder.write("chain", R"({"session_id":"a","sub_requests":[]})"))->field(),
            "sub_requests");
}

TEST(LogFormats, MooncakeOfOtherTools) {
  const TemporaryFolder folder;
  const std::string sixteen =
      R"({"timestamp":46.5,"input_length":33,"output_length":0,"hash_ids":[0,1],"session":3})"
      "\n"
      R"({"timestamp":47.75,"input_length":0,"output_length":0,"hash_ids":[],"text_input":"a"})"
      "\n";
  const std::string path = folder.write("log", sixteen);
  EXPECT_EQ(info_of(path).format, "mooncake_jsonl");
  EXPECT_EQ(info_of(path).ids_block_size, 16);
  EXPECT_FALSE(info_of(path).partial_tail);
  EXPECT_EQ(all_of(path)[1].arrival_seconds, 0.00125);
  EXPECT_EQ(info_of(path, {.ids_block_size = 15}).ids_block_size, 15);
  EXPECT_EQ(error_of(path, {.ids_block_size = 64})->field(), "hash_ids");

  const std::string lengths = "{\"input_length\": 9, \"session_id\": \"a\"}\n";
  const SourceInfo info = info_of(folder.write("lengths", lengths));
  EXPECT_FALSE(info.timed);
  EXPECT_EQ(info.ids_block_size, 0);
  EXPECT_EQ(all_of(folder.write("lengths", lengths))[0].output_tokens, 0);
  expect_errors(lengths, 2,
                {{R"({"input_length": 9, "timestamp": 5})", "timestamp", "as on the first line"},
                 {R"({"text_input": "long"})", "input_length", "found no such field"}});
}

TEST(LogFormats, MooncakeInfersItsBlocksFromSeveralLines) {
  const TemporaryFolder folder;
  // 513 tokens and 2 ids: blocks of 512 with a partial tail, or full blocks of 256.
  const std::string first =
      "{\"timestamp\":0,\"input_length\":513,\"output_length\":1,\"hash_ids\":[0,1]}\n";
  EXPECT_EQ(info_of(folder.write("one", first)).ids_block_size, 512);
  const std::string second =
      "{\"timestamp\":0,\"input_length\":1100,\"output_length\":1,\"hash_ids\":[0,1,2,3]}\n";
  const SourceInfo info = info_of(folder.write("two", first + second));
  EXPECT_EQ(info.ids_block_size, 256);
  EXPECT_FALSE(info.partial_tail);
}

TEST(LogFormats, BurstGpt) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", kBurst);
  EXPECT_EQ(info_of(path).format, "burstgpt_csv");
  EXPECT_TRUE(info_of(path).timed);
  const auto requests = all_of(path);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[1].arrival_seconds, 40);
  EXPECT_EQ(requests[1].input_tokens, 1087);
  EXPECT_EQ(requests[1].output_tokens, 0);
  const std::string with_session =
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n5.5,,1.2,GPT-4,7,8,15,API log\n";
  EXPECT_EQ(all_of(folder.write("newer", with_session))[0].output_tokens, 8);
  const auto row = [](const std::string& time, const std::string& in, const std::string& out) {
    return time + ",GPT-4," + in + "," + out + ",0,API log";
  };
  expect_errors(kBurst, 4,
                {{row("44", "1", "1"), "Timestamp", "a time not before the previous line's"},
                 {row("x", "1", "1"), "Timestamp", "a number of seconds from 0 to 10^11"},
                 {row("", "1", "1"), "Timestamp", "found ''"},
                 {row("nan", "1", "1"), "Timestamp", "found 'nan'"},
                 {row("inf", "1", "1"), "Timestamp", "found 'inf'"},
                 {row("-1", "1", "1"), "Timestamp", "found '-1'"},
                 {row("1e12", "1", "1"), "Timestamp", "found '1e12'"},
                 {row("46", "1.5", "1"), "Request tokens", "found '1.5'"},
                 {row("46", "1", "-1"), "Response tokens", "found '-1'"},
                 {"46,GPT-4,1,1", "", "6 columns, found 4"},
                 {"", "", "6 columns, found 1"}});
}

TEST(LogFormats, VidurWithAndWithoutTimes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", kVidur);
  EXPECT_EQ(info_of(path).format, "vidur_csv");
  EXPECT_FALSE(info_of(path).timed);
  EXPECT_EQ(all_of(path)[0].input_tokens, 3772);
  EXPECT_EQ(all_of(path)[1].output_tokens, 1);
  EXPECT_EQ(all_of(path)[1].arrival_seconds, 0);
  const std::string timed = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,1,2\n4.75,3,4\n";
  EXPECT_TRUE(info_of(folder.write("timed", timed)).timed);
  EXPECT_EQ(all_of(folder.write("timed", timed))[1].arrival_seconds, 4.25);
  expect_errors(kVidur, 4, {{"1,x,2,3", "num_decode_tokens", "found 'x'"}});
}

TEST(LogFormats, Azure2024) {
  const TemporaryFolder folder;
  const auto requests = all_of(folder.write("log",
                                            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                            "2024-05-10 00:00:00.009930+00:00,2162,5\n"
                                            "2024-05-10 00:00:01+00:00,2399,6\n"));
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_DOUBLE_EQ(requests[1].arrival_seconds, 0.99007);
}

TEST(LogFormats, SessionsWithSubAgents) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", kSession + kSession);
  EXPECT_EQ(info_of(path).format, "kv_cache_tester_sessions");
  EXPECT_EQ(info_of(path).ids_block_size, 64);
  EXPECT_TRUE(info_of(path).sessions);
  const auto requests = all_of(path);
  ASSERT_EQ(requests.size(), 12U);
  const std::vector<double> times = {0, 1, 2, 4, 5, 9, 9, 10, 11, 13, 14, 18};
  const std::vector<std::uint32_t> agents = {0, 0, 1, 0, 1, 0};
  const std::vector<Ids> after = {{}, {0}, {1}, {1}, {2}, {3, 4}};
  const std::vector<Ids> ids = {{0}, {0, 1, 2}, {7, 8}, {}, {7, 3}, {0}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint64_t second = i / 6;
    EXPECT_EQ(requests[i].arrival_seconds, times[i]) << i;
    EXPECT_EQ(requests[i].session, second) << i;
    EXPECT_EQ(requests[i].agent, agents[i % 6]) << i;
    Ids expected = after[i % 6];
    for (std::uint64_t& index : expected) index += 6 * second;
    EXPECT_EQ(requests[i].after, expected) << i;
    expected = ids[i % 6];
    for (std::uint64_t& id : expected) id += 9 * second;
    EXPECT_EQ(requests[i].block_ids, expected) << "ids are a session's own, " << i;
  }
}

TEST(LogFormats, SessionsAtOnce) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", kSession + kSession + kSession);
  const auto requests = all_of(path, {.sessions_at_once = 2});
  ASSERT_EQ(requests.size(), 18U);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(requests[i].session, i % 2) << i;
  EXPECT_EQ(requests[11].arrival_seconds, 9);
  EXPECT_EQ(requests[12].session, 2U);
  EXPECT_EQ(requests[12].arrival_seconds, 9);
  EXPECT_EQ(requests[3].after, Ids{1});
  EXPECT_EQ(requests[17].arrival_seconds, 18);
}

TEST(LogFormats, SubAgentsOfSubAgents) {
  const TemporaryFolder folder;
  const std::string inner = R"({"t":1,"requests":[)" + asks("1", "1", R"("runs":[])") + "]}";
  const auto requests = all_of(
      folder.write("log", session(asks("0", "1", R"("runs":[])") + R"(,{"t":1,"requests":[)" +
                                  asks("0", "1", R"("runs":[])") + "," + inner + "," +
                                  asks("5", "1", R"("runs":[])") + "]}")));
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_EQ(requests[2].arrival_seconds, 3);
  EXPECT_EQ(requests[1].after, Ids{0});
  EXPECT_EQ(requests[2].after, Ids{1}) << "spawned by the outer sub-agent";
  EXPECT_EQ(requests[3].after, (Ids{1, 2})) << "who joins it";
  EXPECT_NE(requests[2].agent, requests[1].agent);
}

TEST(LogFormats, NameTheFieldOfAMalformedSession) {
  const auto with = [](const std::string& request) { return session(request); };
  const std::string none = R"("hash_ids":[])";
  std::string deep = asks("0", "1", none);
  std::string deepest = "requests[0]";
  for (int i = 0; i < 15; ++i) deepest += ".requests[0]";
  for (int i = 0; i < 20; ++i) deep = R"({"t":0,"requests":[)" + deep + "]}";
  expect_errors(
      kSession, 2,
      {{R"({"requests":[]})", "block_size", "found no such field"},
       {session("", "0"), "block_size", "at least one token"},
       {session("", "32"), "block_size", "64 as on the lines before, found 32"},
       {R"({"block_size":64})", "requests", "an array of objects, found no such field"},
       {R"({"block_size":64,"requests":{}})", "requests", "found an object"},
       {with("5"), "requests", "an array of objects, found 5"},
       {with("[]"), "requests", "found an array"},
       {with(asks("0", "1", none) + "," + asks("-1", "1", none)), "requests[1].t", "found -1"},
       {with(asks("0", "1.5", none)), "requests[0].in", "found 1.5"},
       {with(R"({"t":0,"requests":[)" + asks("\"0\"", "1", none) + "]}"),
        "requests[0].requests[0].t", "found '0'"},
       {with(R"({"in":1,"out":2,"runs":[]})"), "requests[0].t", "found no such field"},
       {with(R"({"t":1,"in":2,"runs":[]})"), "requests[0]", "found neither"},
       {with(R"({"t":1,"in":2,"out":2})"), "requests[0]", "one field hash_ids or runs"},
       {with(asks("0", "1", R"("hash_ids":[],"runs":[])")), "requests[0]", "hash_ids or runs"},
       {with(asks("0", "64", R"("runs":[1])")), "requests[0]", "found 1 numbers"},
       {with(asks("0", "64", R"("runs":[4294967294,2])")), "requests[0]", "below 2^32 - 1"},
       {with(asks("0", "64", R"("hash_ids":[4294967295])")), "requests[0].hash_ids", "found 4294"},
       {with(asks("0", "64", none)), "requests", "1 ids for the 64 tokens of in in blocks of 64"},
       {with(deep), deepest, "at most 16 levels"}});
}

TEST(LogFormats, FiltersCountWhatTheyLeaveOut) {
  const TemporaryFolder folder;
  const auto left_out = [&](const std::string& bytes, LogOptions options) {
    const auto source = open_log(folder.write("log", bytes), options);
    std::uint64_t kept = 0;
    for (Request request; source->next(request); ++kept) EXPECT_EQ(request.index, kept);
    return std::pair(kept, source->left_out());
  };
  auto [kept, counts] = left_out(kRtp, {.skip_zero_output = true});
  EXPECT_EQ(kept, 1U);
  EXPECT_EQ(counts.zero_output, 1U);
  std::tie(kept, counts) = left_out(kBurst, {.max_context = 1000});
  EXPECT_EQ(kept, 1U);
  EXPECT_EQ(counts.over_context, 1U);
  std::tie(kept, counts) = left_out(kSession, {.max_context = 133});
  EXPECT_EQ(kept, 4U);
  EXPECT_EQ(counts.total(), 2U);
  const auto requests = all_of(folder.write("log", kSession), {.max_context = 133});
  EXPECT_EQ(requests[1].after, Ids{0}) << "the one that spawned it is left out: the one before it";
  EXPECT_EQ(requests[2].after, (Ids{0, 1})) << "its sub-agent has asked its last that is kept";
  const auto error = error_of(folder.write("log", kRtp), {.max_context = 1});
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->expected().find("that the filters keep, found 2"), std::string::npos);
}

}  // namespace
}  // namespace kvproof::bench
