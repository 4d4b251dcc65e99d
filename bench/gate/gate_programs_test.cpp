// SPDX-License-Identifier: Apache-2.0
// kvproof-gate from outside, on the example's allocator as it is and with something changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "bench/instruments/program_test_support.h"

namespace kvproof::bench {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounts = false;  // a sanitized program keeps its own heap, and valgrind from it
#else
constexpr bool kCounts = true;
#endif

bool has_valgrind() { return std::system("valgrind --version >/dev/null 2>&1") == 0; }

#define NEEDS_VALGRIND() \
  if (!kCounts || !has_valgrind()) GTEST_SKIP() << "there is no valgrind that could count this"

class GatePrograms : public ProgramTest {
 protected:
  Answer run(const std::string& command) {
    Answer answer = shell("mkdir -p tmp && { " + command + "; }");
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "tmp")) << "left behind by " << command;
    return answer;
  }
  Answer gate(const std::string& arguments, const std::string& environment = "") {
    return run("TMPDIR=$PWD/tmp " + environment + " " KVPROOF_BINARY_DIR "/bin/kvproof-gate " +
               arguments);
  }
  Answer against_first(const std::string& head, const std::string& arguments) {
    return gate("--subject=" + plugin(head) + " --against=" + plugin("gate_first") +
                " --operations=200 --json=gate.json --summary=summary.md " + arguments);
  }
  /// The change of one measure in the last result file. [%]
  double change(const std::string& workload, const std::string& measure) {
    const json document = json::parse(text_of(folder_.path() / "gate.json"));
    for (const json& row : document.at("results")) {
      if (row.at("experiment") == "gate_measure" &&
          row.at("parameters").at("workload") == workload &&
          row.at("parameters").at("measure") == measure) {
        return row.at("metrics").at("change_percent").at("value");
      }
    }
    ADD_FAILURE() << "no " << measure << " of " << workload;
    return std::nan("");
  }
};

TEST_F(GatePrograms, TwoBuildsOfOneSourceAreTheSame) {
  NEEDS_VALGRIND();
  const Answer answer =
      against_first("gate_again", "--workload=short --workload=eviction --pairs=10");
  EXPECT_EQ(answer.exit_code, 0) << answer.out << answer.error;
  EXPECT_EQ(answer.error, "") << "progress is for terminals";
  for (const char* workload : {"short", "eviction"}) {
    for (const char* measure : {"instructions per block", "D1 misses per block",
                                "heap bytes per block", "allocations per block"}) {
      EXPECT_EQ(change(workload, measure), 0) << workload << ", " << measure;
    }
  }
  expect_in("gate_time", answer.out);
  expect_in("**kvproof gate: ", text_of(folder_.path() / "summary.md"));
}

TEST_F(GatePrograms, ThreePercentMoreInstructionsAreWorse) {
  NEEDS_VALGRIND();
  const Answer answer =
      against_first("gate_slower", "--workload=chat --workload=eviction --no-time");
  EXPECT_EQ(answer.exit_code, 1) << answer.out << answer.error;
  for (const char* workload : {"chat", "eviction"}) {
    EXPECT_NEAR(change(workload, "instructions per block"), 3, 1) << workload;
  }
  expect_in("WORSE: ", answer.out);
  const Answer allowed =
      against_first("gate_slower", "--workload=eviction --no-time --instructions-percent=10");
  EXPECT_EQ(allowed.exit_code, 0) << allowed.out;
}

TEST_F(GatePrograms, PaddedRecordsAreWorseWithoutATimer) {
  NEEDS_VALGRIND();
  const Answer answer = against_first("gate_padded", "--workload=eviction --no-time");
  EXPECT_EQ(answer.exit_code, 1) << answer.out << answer.error;
  EXPECT_GT(change("eviction", "heap bytes per block"), 100);
  EXPECT_GT(change("eviction", "D1 misses per block"), 5);
  EXPECT_GT(change("eviction", "LL misses per block"), 5);
  EXPECT_EQ(answer.out.find("gate_time"), std::string::npos);
}

TEST_F(GatePrograms, PaddedRecordsAreWorseWithoutValgrindToo) {
  if (!kCounts) GTEST_SKIP() << "a sanitized program keeps its own heap";
  const Answer answer =
      gate("--subject=" + plugin("gate_padded") + " --against=" + plugin("gate_first") +
               " --operations=200 --workload=short --no-time",
           "PATH=/nowhere");
  EXPECT_EQ(answer.exit_code, 1) << answer.out << answer.error;
  expect_in("heap bytes per block", answer.out);
  expect_in("valgrind does not run here", answer.out);
}

TEST_F(GatePrograms, CannotTellWithoutValgrindAndTime) {
  const Answer answer =
      gate("--subject=" + plugin("paged_pool") + " --against=" + plugin("paged_pool") +
               " --operations=200 --workload=short --no-time",
           "PATH=/nowhere");
  EXPECT_EQ(answer.exit_code, 3) << answer.out << answer.error;
  expect_in("CANNOT TELL: ", answer.out);
  expect_in("has no direct section", answer.out);
}

TEST_F(GatePrograms, ABrokenLawFailsBeforeAnythingIsMeasured) {
  const Answer answer = against_first("gate_broken", "");
  EXPECT_EQ(answer.exit_code, 1) << answer.out << answer.error;
  expect_in("BROKEN: ", answer.out);
  expect_in("breaks I", answer.out);
  expect_in("nothing was measured", answer.out);
  EXPECT_EQ(answer.out.find("gate_measure"), std::string::npos);
  expect_in("**kvproof gate: broken**", text_of(folder_.path() / "summary.md"));
  const json document = json::parse(text_of(folder_.path() / "gate.json"));
  EXPECT_EQ(document.at("results").at(0).at("experiment"), "check_finding");
  EXPECT_EQ(document.at("results").back().at("parameters").at("verdict"), "broken");
}

TEST_F(GatePrograms, WhatIsMeasuredMustBeWhatWasChecked) {
  const Answer answer =
      gate("--subject=" + plugin("gate_liar") + " --against=" + plugin("gate_first") +
               " --operations=200 --workload=chat --no-time",
           "PATH=/nowhere");
  EXPECT_EQ(answer.exit_code, 1) << answer.out << answer.error;
  expect_in("its direct section answers otherwise than what was checked", answer.out);
}

TEST_F(GatePrograms, ARecordIsABaseline) {
  NEEDS_VALGRIND();
  const std::string workload = " --operations=200 --workload=eviction";
  const Answer record =
      gate("--subject=" + plugin("gate_first") + " --record=base.json" + workload);
  ASSERT_EQ(record.exit_code, 0) << record.out << record.error;
  const std::string baseline = " --baseline=base.json";
  const Answer same = gate("--subject=" + plugin("gate_again") + baseline + workload);
  EXPECT_EQ(same.exit_code, 0) << same.out << same.error;
  EXPECT_EQ(same.out.find("gate_time"), std::string::npos) << "times are of one machine";
  const Answer slower = gate("--subject=" + plugin("gate_slower") + baseline + workload);
  EXPECT_EQ(slower.exit_code, 1) << slower.out << slower.error;
  const Answer missing = gate("--subject=" + plugin("gate_again") + baseline + " --operations=1");
  EXPECT_EQ(missing.exit_code, 2);
  expect_in("no record of the workload decode", missing.error);
}

// Without valgrind a comparison that is made cannot tell.
TEST_F(GatePrograms, OnlyBuildsOfOneProfileAreCompared) {
  const std::string first =
      "--subject=" + plugin("gate_first") + " --operations=1 --workload=short ";
  const auto compared = [&](const std::string& arguments) {
    const Answer answer = gate(first + arguments, "PATH=/nowhere");
    EXPECT_EQ(answer.exit_code, 3) << arguments << answer.out << answer.error;
    expect_in("gate_measure", answer.out);
  };
  const auto refused = [&](const std::string& arguments, const std::string& expected) {
    const Answer answer = gate(arguments, "PATH=/nowhere");
    EXPECT_EQ(answer.exit_code, 2) << arguments << answer.out << answer.error;
    expect_in(expected, answer.error);
    EXPECT_EQ(std::ranges::count(answer.error, '\n'), 1) << arguments << answer.error;
  };
  const auto record = gate(first + "--profile=vllm-0.22 --record=base.json", "PATH=/nowhere");
  ASSERT_EQ(record.exit_code, 0) << record.error;
  compared("--baseline=base.json --profile=vllm-0.22");
  refused(first + "--baseline=base.json --profile=vllm-0.33",
          "--baseline=base.json: expected the profile of the head, vllm-0.33, found vllm-0.22");

  std::string old = text_of(folder_.path() / "base.json");
  const std::string field = "\"profile\":\"vllm-0.22\",";
  ASSERT_NE(old.find(field), std::string::npos) << old;
  folder_.write("old.json", old.erase(old.find(field), field.size()));
  compared("--baseline=old.json --profile=vllm-0.24");
  refused(first + "--baseline=old.json --profile=vllm-0.22",
          "--baseline=old.json: expected the profile of the head, vllm-0.22, found vllm-0.24");

  const std::string older = plugin("gate_older"), against = "--against=" + older;  // is vllm-0.22
  compared("--no-time --profile=vllm-0.22 " + against);
  refused(first + "--profile=vllm-0.24 " + against,
          against + ": expected the profile of the head, vllm-0.24, found vllm-0.22");
  refused("--subject=" + older + " --baseline=old.json",
          "--baseline=old.json: expected the profile of the head, vllm-0.22, found vllm-0.24");
  refused("--subject=" + older + " --profile=vllm-0.24 --against=naive",
          "--profile: expected the profile of the head, vllm-0.22, found vllm-0.24");
  refused(first + "--profile=vllm-0.33 --no-time --against=" + plugin("gate_picky"),
          "no manager of the profile vllm-0.33");
}

// A stranger's repository: its script, with a base commit and a change on top.
TEST_F(GatePrograms, TheExampleRepositoryGatesItself) {
  if (!kCounts) GTEST_SKIP() << "a sanitized program keeps its own heap";
  if (std::system("git --version >/dev/null 2>&1 && cmake --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "there is no git, or no cmake";
  }
  folder_.write(
      "run", "#!/bin/sh\nverb=$1; shift\nexec " KVPROOF_BINARY_DIR "/bin/kvproof-$verb \"$@\"\n");
  const Answer made = run("chmod +x run && cp -r " KVPROOF_SOURCE_DIR
                          "/bench/gate/example repository && "
                          "cd repository && git init -q && git add . && "
                          "git -c user.name=a -c user.email=a@b commit -q -m base");
  ASSERT_EQ(made.exit_code, 0) << made.error;
  const auto script = [&](const std::string& revision) {
    return run(
        "cd repository && TMPDIR=$PWD/../tmp CMAKE_BUILD_TYPE=Debug KVPROOF_RUN=../run "
        "KVPROOF_GATE_OPTIONS='--workload=short --no-time' sh gate.sh " KVPROOF_SOURCE_DIR " " +
        revision + " ../summary.md");
  };
  const Answer nothing = script("no-such-revision");
  EXPECT_EQ(nothing.exit_code, 2) << nothing.out << nothing.error;
  const Answer changed =
      run("sed -i 's/^struct Block {/struct alignas(128) Block {/' repository/mine.cpp && "
          "cd repository && ! git diff --quiet");
  ASSERT_EQ(changed.exit_code, 0) << changed.error;
  const Answer padded = script("HEAD");
  EXPECT_EQ(padded.exit_code, 1) << padded.out << padded.error;
  expect_in("HOLDS", padded.out);
  expect_in("**kvproof gate: worse**", text_of(folder_.path() / "summary.md"));
  const std::string workflow = text_of(folder_.path() / "repository/workflow.yml");
  expect_in("run: sh gate.sh kvproof ", workflow);
}

// direct_manager.h is compiled against the headers of any revision; in this one, ids were integers.
// The two builds take about two minutes of processor time.
TEST_F(GatePrograms, ComparesWithARevisionWhoseIdsWereIntegers) {
  if (!kCounts) GTEST_SKIP() << "a sanitized program keeps its own heap";
  const std::string revision = "f256161285b8";
  if (run("git -C " KVPROOF_SOURCE_DIR " cat-file -e " + revision + "^{commit}").exit_code != 0) {
    GTEST_SKIP() << "there is no git, or this checkout does not reach back to " << revision;
  }
  const Answer answer = gate("--against=" + revision + " --profile=vllm-0.24" +
                             " --workload=short --no-time --operations=50 --json=gate.json");
  EXPECT_NE(answer.exit_code, 2) << answer.out << answer.error;
  EXPECT_EQ(answer.out.find("WRONG"), std::string::npos) << answer.out;
  EXPECT_EQ(answer.error, "");
  EXPECT_LT(std::abs(change("short", "heap bytes per block")), 50) << answer.out;
}

}  // namespace
}  // namespace kvproof::bench
