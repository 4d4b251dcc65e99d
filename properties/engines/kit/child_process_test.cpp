// SPDX-License-Identifier: Apache-2.0
// Programs that die, hang, flood and lie: each is told apart, in time, and nothing stays behind.
// Commands as they are printed for people.
#include "reference/support/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "reference/support/command_words.h"

namespace kvproof::properties {
namespace {

constexpr std::size_t kLimit = 10'000;  // [bytes]
constexpr double kEver = 600;           // [s] an answer comes, and this ends a hang

ChildProcess shell(const std::string& script) {
  return ChildProcess({.argv = {"/bin/sh", "-c", script}});
}

/// @return the kind of trouble, and what was said of it
std::pair<std::string, std::string> trouble(const std::string& script, double seconds = kEver,
                                            const std::string& line = "hello") {
  try {
    ChildProcess child = shell(script);
    return {"none", std::string(child.ask(line, seconds, kLimit))};
  } catch (const ChildTrouble& found) {
    return {found.kind(), found.what()};
  }
}

TEST(CommandWords, AreThoseOfTheCallerAndOfAShell) {
  unsetenv("KVPROOF_CALLED");
  setenv("PYTHONPATH", "/a b", 1);
  EXPECT_EQ(kvproof_command("replay x"), "./kvproof replay x");
  EXPECT_EQ(kvproof_command("check --subject-command='y'"),
            "PYTHONPATH='/a b' ./kvproof check --subject-command='y'");
  unsetenv("PYTHONPATH");
  setenv("KVPROOF_CALLED", "../it's/kvproof", 1);
  EXPECT_EQ(kvproof_command("check --beside-command=y"),
            "'../it'\\''s/kvproof' check --beside-command=y");
  EXPECT_EQ(shell_word("kvproof-failure-1.jsonl"), "kvproof-failure-1.jsonl");
  EXPECT_EQ(file_address("/a b/./%.html"), "file:///a%20b/%25.html");
  EXPECT_EQ(file_address("x"), file_address(std::filesystem::current_path() / "x"));
}

TEST(ChildProcess, AnswersLineByLine) {
  ChildProcess child = shell("while read -r line; do echo \"<$line>\"; done");
  EXPECT_EQ(child.ask("one", kEver, kLimit), "<one>");
  EXPECT_EQ(child.ask("two words", kEver, kLimit), "<two words>");
  const std::string longer(100'000, 'x');  // more than a pipe holds
  EXPECT_EQ(child.ask(longer, kEver, 200'000), "<" + longer + ">");
}

TEST(ChildProcess, ThatCannotBeStartedSaysWhy) {
  try {
    ChildProcess child({.argv = {"/no/such/program"}});
    FAIL() << "it was started";
  } catch (const ChildTrouble& found) {
    EXPECT_STREQ(found.what(), "cannot be started: No such file or directory");
  }
}

TEST(ChildProcess, ThatEndsIsToldWithItsLastWords) {
  const auto [kind, text] = trouble("read -r line; echo first >&2; echo 'last words' >&2; exit 3");
  EXPECT_EQ(kind, "crash");
  EXPECT_EQ(text, "it ended with exit code 3; its last words:\n    first\n    last words");
  const auto many =
      trouble("read -r line; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >&2; done");
  EXPECT_EQ(many.second.substr(many.second.find(':')),
            ":\n    3\n    4\n    5\n    6\n    7\n    8\n    9\n    10\n    11\n    12");
  EXPECT_EQ(trouble("read -r line; echo no >&2; exit 3").second,
            "it ended with exit code 3; its last words: no");
}

TEST(ChildProcess, ThatComplainsAndGoesOnIsHeardUntilItIsAskedAgain) {
  ChildProcess child = shell("while read -r line; do echo \"$line?\" >&2; echo; done");
  for (const char* word : {"one", "two"}) {
    EXPECT_EQ(child.ask(word, 5, kLimit), "");
    EXPECT_EQ(child.said_lately(), std::string(word) + "?\n");
  }
}

TEST(ChildProcess, ThatIsKilledIsToldWithTheSignal) {
  const auto [kind, text] = trouble("kill -SEGV $$");
  EXPECT_EQ(kind, "crash");
  EXPECT_EQ(text, "it was ended by signal 11 (Segmentation fault)");
}

TEST(ChildProcess, ThatDiesBeforeItReadsIsNoSignalForUs) {
  ChildProcess child = shell("exit 0");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_THROW(child.ask(std::string(1 << 20, 'x'), kEver, kLimit), ChildTrouble);
}

TEST(ChildProcess, ThatClosesItsOutputIsNotWaitedFor) {
  const auto [kind, text] = trouble("exec >&-; sleep 1000");
  EXPECT_EQ(kind, "crash");
  EXPECT_EQ(text, "it closed its output without an answer");
}

TEST(ChildProcess, ThatHangsIsLeftInTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(trouble("sleep 1000", 0.2).second, "no answer within 0.2 s");
  EXPECT_EQ(trouble("printf half; sleep 1000", 0.2).first, "hang");
  EXPECT_EQ(trouble("sleep 1000", 0.2, std::string(1 << 20, 'x')).first, "hang")
      << "it does not even read";
  EXPECT_EQ(trouble("exec 2>&-; sleep 1000", 0.2).first, "hang") << "without stderr";
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1000));
}

TEST(ChildProcess, ThatFloodsIsCutOff) {
  const auto [kind, text] = trouble("while :; do printf 0123456789; done");
  EXPECT_EQ(kind, "nonsense");
  EXPECT_EQ(text, "its answer has more than 10000 bytes");
  EXPECT_EQ(trouble("while :; do echo noise; done >&2", 0.5).first, "hang")
      << "what it complains is not an answer";
}

TEST(ChildProcess, ThatSaysMoreThanItWasAskedIsNotBelieved) {
  ChildProcess child = shell("read -r line; printf 'one\\ntwo\\n'; sleep 1000");
  EXPECT_EQ(child.ask("x", kEver, kLimit), "one");
  EXPECT_THROW(child.ask("y", kEver, kLimit), ChildTrouble);
}

TEST(ChildProcess, TakesWhatItStartedWithIt) {
  pid_t grandchild = 0;
  {
    ChildProcess child = shell("sleep 1000 & echo $!; wait");
    grandchild = std::atoi(std::string(child.ask("x", kEver, kLimit)).c_str());
    ASSERT_GT(grandchild, 1);
    EXPECT_EQ(kill(grandchild, 0), 0) << "it is not running";
  }
  bool gone = false;
  for (int i = 0; i < 60'000 && !gone; ++i) {  // its new parent may take a moment to bury it
    gone = kill(grandchild, 0) != 0;
    std::FILE* file = std::fopen(("/proc/" + std::to_string(grandchild) + "/stat").c_str(), "r");
    char state = 'Z';
    if (file != nullptr) {
      if (std::fscanf(file, "%*d %*s %c", &state) != 1) state = '?';
      std::fclose(file);
    }
    gone = gone || state == 'Z';
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace kvproof::properties
