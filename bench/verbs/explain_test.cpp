// SPDX-License-Identifier: Apache-2.0
// kvproof-explain from outside: a log that is counted by hand, what replay hits, and bad input.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bench/instruments/program_test_support.h"

namespace kvproof::bench {
namespace {

class ExplainProgram : public ProgramTest {
 protected:
  static double value(const json& result, const std::string& metric) {
    return result.at("metrics").at(metric).at("value");
  }
  json results(const std::string& name) {
    return json::parse(text_of(folder_.path() / name)).at("results");
  }
  /// The row of the sums.
  json total(const std::string& name) {
    for (const json& row : results(name)) {
      if (row.at("experiment") == "explain") return row;
    }
    throw std::runtime_error("no sums in " + name);
  }
  std::size_t lookups(const std::string& name) {
    const json rows = results(name);
    return static_cast<std::size_t>(std::ranges::count_if(
        rows, [](const json& row) { return row.at("experiment") == "explain_lookup"; }));
  }
  void expect_bad(const std::string& arguments, const std::string& part) {
    const Answer answer = run("explain", arguments);
    EXPECT_EQ(answer.exit_code, 2) << answer.out << answer.error;
    EXPECT_EQ(std::ranges::count(answer.error, '\n'), 1) << answer.error;
    expect_in(part, answer.error);
    EXPECT_EQ(answer.out, "");
  }
};

const std::string kLog = "--trace=" KVPROOF_SOURCE_DIR "/bench/verbs/explained.jsonl";
const std::string kTrace = KVPROOF_SOURCE_DIR "/properties/story/explained.jsonl";

// A prompt has a block for each id and one for a token behind them. Of 4 blocks, the queue after
// request 3 is: its last block, [1, 3], [1], [3]; request 4 takes all.
TEST_F(ExplainProgram, CountsALogAsWeDoByHand) {
  const Answer answer = run("explain", kLog + " --capacity-blocks=4 --json=log.json");
  ASSERT_EQ(answer.exit_code, 0) << answer.error;
  for (const char* line : {
           "request 0: hit 0 of 32 tokens; never computed: block 0 (tokens 0 to 15)\n",
           "request 1: hit 32 of 32 tokens; last-token rule: no more than 32 tokens may hit\n",
           "request 2: hit 16 of 32 tokens; never computed: block 1 (tokens 16 to 31)\n",
           "request 3: hit 0 of 16 tokens; key differs: block 0 (tokens 0 to 15) has tokens that "
           "stand under another parent, in request 2: block 0 is the first that differs\n",
           "request 4: hit 0 of 48 tokens; never computed: block 0 (tokens 0 to 15)\n",
           "request 5: hit 0 of 32 tokens; evicted: block 0 (tokens 0 to 15) at request 4, "
           "6 blocks after its last use\n",
           "request 6: hit 0 of 64 tokens; refused: it has 65 tokens\n",
           "A pool of twice the size: 64 tokens more would have been hit\n",
           "The offline optimum of the same size: 32 tokens more would have been hit\n",
       }) {
    expect_in(line, answer.out);
  }
  const json total = this->total("log.json");
  EXPECT_EQ(total.at("parameters").at("verdict"), "holds");
  EXPECT_EQ(value(total, "prompt_tokens"), 256);
  EXPECT_EQ(value(total, "hit_tokens"), 48);
  EXPECT_EQ(value(total, "lost_tokens_last_token"), 0);
  EXPECT_EQ(value(total, "lost_tokens_key_differs"), 16);
  EXPECT_EQ(value(total, "lost_tokens_never_computed"), 96);
  EXPECT_EQ(value(total, "lost_tokens_evicted"), 32);
  EXPECT_EQ(value(total, "lost_tokens_refused"), 64);
  EXPECT_EQ(value(total, "kept_by_twice_the_pool"), 64);
  EXPECT_EQ(value(total, "kept_by_the_optimum"), 32);
  EXPECT_EQ(lookups("log.json"), 7U);
}

TEST_F(ExplainProgram, HitsWhatReplayHitsAndLosesTheRest) {
  for (const char* options : {"--block-size=16 --capacity-blocks=3000", "--block-size=48",
                              "--block-size=16 --capacity-blocks=40"}) {
    const std::string log = std::string("--trace=chat --requests=500 ") + options;
    ASSERT_EQ(run("replay", log + " --json=replay.json").exit_code, 0);
    ASSERT_EQ(run("explain", log + " --json=explain.json").exit_code, 0);
    const json total = this->total("explain.json");
    EXPECT_EQ(value(total, "hit_tokens"), value(results("replay.json").at(0), "hit_tokens"));
    EXPECT_EQ(value(total, "prompt_tokens"), value(results("replay.json").at(0), "input_tokens"));
    double sum = value(total, "hit_tokens");
    for (const auto& [name, metric] : total.at("metrics").items()) {
      if (name.starts_with("lost_tokens_")) sum += metric.at("value").get<double>();
    }
    EXPECT_EQ(sum, value(total, "prompt_tokens")) << options;
    EXPECT_EQ(value(total, "lost_tokens_unexplained"), 0) << options;
  }
}

TEST_F(ExplainProgram, ListsOneRequestAndSaysWhatItCannotTell) {
  const Answer one = run("explain", kTrace + " --request=b --json=b.json");
  EXPECT_EQ(one.exit_code, 0) << one.error;
  expect_in("vllm-0.33 full: operation 20, b: hit 4 of 9 tokens; evicted", one.out);
  EXPECT_EQ(one.out.find("operation 1, a"), std::string::npos) << one.out;
  EXPECT_EQ(lookups("b.json"), 4U);
  const Answer run_of_engine =
      run("explain", KVPROOF_SOURCE_DIR "/properties/shadow/runs/sound.jsonl");
  EXPECT_EQ(run_of_engine.exit_code, 0) << run_of_engine.error;
  expect_in("line 53, c: hit 0 of 10 tokens; evicted", run_of_engine.out);
  std::string text = text_of(kTrace);
  const std::string asked = R"({"op":"lookup","req":"e"})";
  ASSERT_NE(text.find(asked), std::string::npos);
  const std::string answered = R"({"op":"lookup","req":"e","out":{"hit_tokens":4,"blocks":[[1]]}})";
  folder_.write("other.jsonl", text.replace(text.find(asked), asked.size(), answered));
  const Answer other = run("explain", "other.jsonl");
  EXPECT_EQ(other.exit_code, 3) << "its subject answers otherwise from there on";
  expect_in("Not explained to the end: vllm-0.33 full: the subject answers", other.out);
}

TEST_F(ExplainProgram, RefusesWhatItCannotRead) {
  folder_.write("cut.jsonl", "{\"kvproof_trace\":1,");
  expect_bad("cut.jsonl", "cut.jsonl: line 1: expected");
  expect_bad(kTrace + " --request=nobody", "--request: expected a request that is looked up");
  expect_bad(kLog + " --capacity-blocks=4 --request=7", "--request: expected");
  folder_.write("run.jsonl", "{\"kvproof_run\":1}\n");
  expect_bad("run.jsonl", "run.jsonl: line 1: field groups: expected");
  expect_bad("none.jsonl", "none.jsonl: expected");
  expect_bad("", "expected traces, recorded runs or --trace=FILE");
  expect_bad(kTrace + " --capacity-blocks=4", "--capacity-blocks");
}

}  // namespace
}  // namespace kvproof::bench
