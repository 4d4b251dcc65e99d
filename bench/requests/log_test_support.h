// SPDX-License-Identifier: Apache-2.0
// Shared by tests of the log loaders: a small log of each format, all requests of a file, and the
// error that refuses a file.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/requests/open_log.h"
#include "properties/sources/traces/test_files.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {

// A small sound log of each format.
inline const std::string kMooncake =
    "{\"timestamp\": 5000, \"input_length\": 513, \"output_length\": 9, \"hash_ids\": [0, 7]}\n"
    "{\"timestamp\": 5250, \"input_length\": 1, \"output_length\": 0, \"hash_ids\": [8]}\n";
inline const std::string kAzure =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n";

inline const std::string kRtp =
    R"({"ts": 100, "il": 2050, "ol": 7, "cached": 0, "ttfb": 1.5, "bh": ["7580216758801619145", )"
    R"("3"], "shard": 9})"
    "\n"
    R"({"ts": 350, "il": 93, "ol": 0, "cached": 0, "ttfb": 1.5, "bh": [], "shard": 9})"
    "\n";
inline const std::string kBailian =
    R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.25, "input_length": 40, )"
    R"("output_length": 3, "type": "text", "turn": 1, "hash_ids": [5, 6, 5]})"
    "\n"
    R"({"chat_id": 2, "parent_chat_id": 1, "timestamp": 61.5, "input_length": 33, )"
    R"("output_length": 3, "type": "text", "turn": 2, "hash_ids": [5, 6, 7]})"
    "\n"
    R"({"chat_id": 3, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 16, )"
    R"("output_length": 3, "type": "text", "turn": 1, "hash_ids": [6]})"
    "\n";
inline const std::string kSim =
    R"({"input_toks": 5, "output_toks": 1, "arrival_time_ns": 1000, "input_tok_ids": [1,2,3,4,5], )"
    R"("output_tok_ids": [9]})"
    "\n"
    R"({"input_toks": 4, "output_toks": 1, "arrival_time_ns": 2001000, "input_tok_ids": [1,2,4,3]})"
    "\n";
inline const std::string kBurst =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,GPT-4,1087,0,1087,API log\n";
inline const std::string kVidur =
    "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.8\n2,1,3,2\n";

/// A session of its id and requests.
inline std::string session(const std::string& requests, const std::string& block_size = "64") {
  return R"({"id":"a","models":["m"],"block_size":)" + block_size +
         R"(,"hash_id_scope":"local","requests":[)" + requests +
         R"(],"totals":{"requests":[1]}})"
         "\n";
}
inline std::string asks(const std::string& time, const std::string& in, const std::string& ids) {
  return R"({"t":)" + time + R"(,"type":"n","in":)" + in + R"(,"out":5,"stop":"",)" + ids + "}";
}
// The main agent asks at 0, 1, 4 and 9; a sub-agent of it at 2 and 5, so 9 waits for it.
inline const std::string kSession =
    session(asks("0", "64", R"("hash_ids":[0])") + "," + asks("1", "200", R"("hash_ids":[0,1,2])") +
            R"(,{"requests":[)" + asks("0", "128", R"("runs":[7,2])") + "," +
            asks("3", "130", R"("runs":[7,1,3,1])") + R"(],"type":"subagent","t":2},)" +
            asks("4", "10", R"("hash_ids":[])") + "," + asks("9", "64", R"("hash_ids":[0])"));

inline std::vector<std::string> sample_logs() {
  return {kMooncake, kAzure, kRtp, kBailian, kSim, kBurst, kVidur, kSession};
}

inline std::vector<Request> all_of(const std::string& path, LogOptions options = {}) {
  const auto source = open_log(path, options);
  std::vector<Request> requests;
  for (Request request; source->next(request);) requests.push_back(request);
  return requests;
}

inline std::optional<InputError> error_of(const std::string& path, LogOptions options = {}) {
  try {
    static_cast<void>(all_of(path, options));
  } catch (const InputError& error) {
    return error;
  }
  return std::nullopt;
}

struct Malformed {
  std::string line;
  std::string field;
  std::string expected;  // a part of the message
};

/// Requires that each line is refused as line `number` of a file that begins with `head`, in every
/// compression.
inline void expect_errors(const std::string& head, std::uint64_t number,
                          const std::vector<Malformed>& lines) {
  const properties::TemporaryFolder folder;
  for (const Malformed& malformed : lines) {
    const std::string bytes = head + malformed.line + "\n" + head;
    for (const std::string& stored : {bytes, properties::gzip(bytes), properties::zstd(bytes)}) {
      const std::string path = folder.write("log", stored);
      const auto error = error_of(path);
      ASSERT_TRUE(error.has_value()) << malformed.line;
      EXPECT_EQ(error->file(), path);
      EXPECT_EQ(error->line(), number) << error->what();
      EXPECT_EQ(error->field(), malformed.field) << error->what();
      EXPECT_NE(error->expected().find(malformed.expected), std::string::npos)
          << error->what() << "\nhas no: " << malformed.expected;
    }
  }
}

}  // namespace kvproof::bench
