// SPDX-License-Identifier: Apache-2.0
// Two allocators side by side, from outside: equal ones hold, and a changed rule is found, shrunk
// and replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "bench/instruments/program_test_support.h"

namespace kvproof::bench {
namespace {

class Beside : public ProgramTest {
 protected:
  void SetUp() override {
    if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
    folder_.write("mine.py", kExample);
    folder_.write("theirs.py", kExample);
  }

  /// The example with other words in the place of some.
  void change(const std::string& words, const std::string& others) {
    std::string text = kExample;
    ASSERT_NE(text.find(words), std::string::npos) << words;
    folder_.write("theirs.py", text.replace(text.find(words), words.size(), others));
  }

  Answer check(const std::string& options, const std::string& environment = "") {
    return run("check", options + " --operations=300 --shrink-seconds=3600", environment);
  }

  const std::string kExample =
      text_of(KVPROOF_SOURCE_DIR "/properties/engines/kit/examples/adapter.py");
  const std::string kBoth =
      "--subject-command='python3 mine.py' --beside-command='python3 theirs.py'";
  const std::string kLastOut = "list(self.free)[::-1][:count]";  // instead of the first
};

TEST_F(Beside, EqualOnesHoldWhateverTheirKeysAre) {
  change("repr((", "'another' + repr((");
  const Answer answer = check(kBoth + " --json=out.json");
  EXPECT_EQ(answer.exit_code, 0) << answer.out << answer.error;
  expect_in("operations: python3 mine.py beside python3 theirs.py", answer.out);
  const json whole = json::parse(text_of(path("out.json"))).at("results").back();
  EXPECT_EQ(whole.at("parameters").at("beside"), "python3 theirs.py");
  const Answer own = check("--subject=naive --beside=optimized-sha256");
  EXPECT_EQ(own.exit_code, 0) << own.out << own.error;
  expect_in("keys, the index, hashes, progress, events, usage, the host tier", own.out);
  expect_in("36 of 36 configurations", own.out);
}

TEST_F(Beside, AChangedRuleDiffersInFewOperations) {
  struct Row {
    std::string words, others, difference;
    std::ptrdiff_t most;  // [operations]
  };
  const Row kRows[] = {
      {"list(self.free)[:count]", kLastOut,
       R"(the answer is {"out":{"blocks":[[1]]}}, in python3 theirs.py {"out":{"blocks":[[10]]}})",
       2},
      {"self.keys(r, end))", "self.keys(r, r['computed']))", "block 1 carries a key, unlike in", 2},
      {"list(pool.key_of.items())", "[[b, 1] for b in pool.key_of]", "there are keys, in", 6},
      {"raise NotImplementedError(\"no connector\")", "pass", "no connector", 2},
  };
  for (const Row& row : kRows) {
    change(row.words, row.others);
    const Answer answer = check(kBoth + " --findings=1");
    EXPECT_EQ(answer.exit_code, 1) << row.words << answer.out << answer.error;
    expect_in("broken: differs\ndiffers: at operation ", answer.out);
    expect_in(row.difference, answer.out);
    expect_in("run it again: ./kvproof replay " + kBoth, answer.out);
    const std::string findings = answer.out.substr(0, answer.out.find("\nsubject "));
    EXPECT_TRUE(check(kBoth + " --findings=1").out.starts_with(findings)) << "the same seed";
    const std::string file = text_of(path("kvproof-failure-1.jsonl"));
    EXPECT_LE(std::ranges::count(file, '\n') - 2, row.most) << file;
    EXPECT_EQ(run("replay", kBoth + " kvproof-failure-1.jsonl").exit_code, 1) << row.words;
    folder_.write("theirs.py", kExample);
    EXPECT_EQ(run("replay", kBoth + " kvproof-failure-1.jsonl").exit_code, 0) << row.words;
    std::filesystem::remove(path("kvproof-failure-1.jsonl"));
  }
}

TEST_F(Beside, CountsLeaveOutWhichBlocksTheyAre) {
  change("list(self.free)[:count]", kLastOut);
  const Answer answer = check(kBoth + " --beside-counts --findings=1");
  EXPECT_EQ(answer.exit_code, 1) << answer.out;
  expect_in("\"hit_tokens\":0,", answer.out);  // what was evicted differs, and so do hits
}

TEST_F(Beside, TheLawsJudgeTheFirstAndADeathIsItsOwn) {
  const auto broken = [](const char* option) { return option + plugin("broken_plugin"); };
  const auto sound = [](const char* option) { return option + plugin("paged_pool"); };
  const std::string ours = broken("--findings=1 --subject=") + sound(" --beside=");
  const std::string theirs = sound("--findings=1 --subject=") + broken(" --beside=");
  expect_in("broken: I2+I5+I23", check(ours, "KVPROOF_BREAK=leak").out);
  expect_in("broken: differs", check(theirs, "KVPROOF_BREAK=leak").out);
  expect_in(broken("broken: crash\nin ") + ", crash: ", check(theirs, "KVPROOF_BREAK=crash").out);
}

TEST_F(Beside, OnlyWhatBothHaveIsAsked) {
  const std::string header = "\"promises\": \"safety\",";
  const Answer answer = check("--subject=naive --beside-command='python3 mine.py'");
  expect_in("not asked, for only one of the two declares them: recycle, cache, ", answer.out);
  change(header, header + " \"abilities\": {\"chunks\": False, \"block_sizes\": [4]},");
  const Answer sized = check(kBoth);
  EXPECT_EQ(sized.exit_code, 0) << sized.out;
  expect_in("not asked, for one of the two lacks such abilities:\n  prompts that are", sized.out);
  change(header, header + " \"traits\": {\"lookup\": \"within_allocate\"},");
  const Answer other = check(kBoth);
  EXPECT_EQ(other.exit_code, 2) << other.out;
  expect_in("only one looks up within an allocation", other.error);
}

}  // namespace
}  // namespace kvproof::bench
