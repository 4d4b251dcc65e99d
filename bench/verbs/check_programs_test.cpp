// SPDX-License-Identifier: Apache-2.0
// kvproof-check, -selftest and -replay from outside: sound allocators pass, broken ones are named,
// and nothing that another's allocator does takes the check down.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "bench/instruments/program_test_support.h"

namespace kvproof::bench {
namespace {

class CheckPrograms : public ProgramTest {
 protected:
  Answer check(const std::string& arguments, const std::string& environment = "") {
    return run("check", arguments, environment);
  }
  Answer check_broken(const std::string& how) {
    const std::string limits = how == "hang" ? " --time-limit-seconds=1"
                                             : " --time-limit-seconds=600 --shrink-seconds=3600";
    return check(
        "--subject=" + plugin("broken_plugin") + " --operations=2000 --findings=1" + limits,
        "KVPROOF_BREAK=" + how);
  }

  static void expect_one_line(const Answer& answer) {
    EXPECT_EQ(std::ranges::count(answer.error, '\n'), 1) << answer.error;
  }
};

const std::string kAdapter =
    "--subject-command='python3 " KVPROOF_SOURCE_DIR "/properties/engines/kit/examples/adapter.py'";

TEST_F(CheckPrograms, HoldsForOurOwnAndWritesWhatItFound) {
  const Answer answer = check(
      "--subject=optimized-xxh3 --configuration=full_host --configuration=full_window_mamba "
      "--seed=3 --json=check.json");
  ASSERT_EQ(answer.exit_code, 0) << answer.out << answer.error;
  EXPECT_EQ(answer.error, "") << "progress is for terminals";
  expect_in("seed 3", answer.out);
  expect_in("operations: optimized-xxh3", answer.out);
  const json document = json::parse(text_of(folder_.path() / "check.json"));
  EXPECT_EQ(document.at("schema"), 1);
  const json& whole = document.at("results").back();
  EXPECT_EQ(whole.at("experiment"), "check");
  EXPECT_EQ(whole.at("parameters").at("verdict"), "holds");
  for (const char* counter : {"hits", "evictions", "refusals", "revivals", "swaps", "copies"}) {
    EXPECT_GT(whole.at("metrics").at(counter).at("value"), 0) << counter;
  }
}

TEST_F(CheckPrograms, HasTheSameOutcomeForTheSameSeed) {
  const auto counts = [&](const std::string& seed) {
    const Answer answer =
        check("--subject=naive --configuration=plain --operations=500 --seed=" + seed);
    return answer.out.substr(answer.out.find(" operations, ") - 8, 100);
  };
  EXPECT_EQ(counts("5"), counts("5"));
  EXPECT_NE(counts("5"), counts("6"));
}

TEST_F(CheckPrograms, GoesDeepSeedAfterSeedAndGoesOnWhereItEnded) {
  const std::string deep = "--deep=0.001 --configuration=plain --subject=";
  const auto next = [&] {
    const json document = json::parse(text_of(folder_.path() / "deep.json"));
    return document.at("results").at(0).at("parameters").at("next_seed").get<int>();
  };
  const Answer first = check(deep + "naive --resume=deep.json --seed=7");
  ASSERT_EQ(first.exit_code, 0) << first.out << first.error;
  EXPECT_EQ(next(), 8);
  const Answer second = check(deep + "naive --resume=deep.json");
  expect_in("seeds from 8", second.out);
  expect_in("2 seeds held", second.out);
  EXPECT_EQ(next(), 9);
  const Answer other = check(deep + "optimized-xxh3 --resume=deep.json");
  EXPECT_EQ(other.exit_code, 2);
  expect_in("deep.json: field results[0].parameters.what: expected optimized-xxh3", other.error);
  expect_one_line(other);
  EXPECT_EQ(next(), 9) << "a refused file is as it was";
}

TEST_F(CheckPrograms, ADeepRunThatFailsSaysHowToFindItAgain) {
  const std::string broken = "--subject=" + plugin("broken_plugin");
  const Answer deep = check(broken +
                                " --deep=1 --seed=3 --resume=deep.json --junit=deep.xml "
                                "--sarif=deep.sarif",
                            "KVPROOF_BREAK=leak");
  EXPECT_EQ(deep.exit_code, 1) << deep.out << deep.error;
  expect_in("found again by: ./kvproof check --subject=", deep.out);
  expect_in("--seed=3", deep.out);
  expect_in("the next seed is 3", deep.out);
  const std::string verdicts = text_of(folder_.path() / "deep.xml");
  expect_in("<failure message=\"broken: I2 queued iff unheld: block", verdicts);
  const json sarif = json::parse(text_of(folder_.path() / "deep.sarif"));
  const json& place =
      sarif.at(json::json_pointer("/runs/0/results/0/locations/0/physicalLocation"));
  EXPECT_EQ(place.at("artifactLocation").at("uri"), "kvproof-failure-3.jsonl");
}

// All laws, the content oracle and the model, over the text and back.
TEST_F(CheckPrograms, HoldsForOurOwnBehindThePipe) {
  const Answer answer =
      check("--subject-command='" KVPROOF_BINARY_DIR
            "/bin/kvproof-check --serve=naive' --operations=1000 --configuration=full "
            "--configuration=full_window_host --configuration=prompt_tails");
  EXPECT_EQ(answer.exit_code, 0) << answer.out << answer.error;
  expect_in("promises profile vllm-0.24", answer.out);
  EXPECT_EQ(answer.out.find("not demanded: it does not show"), std::string::npos) << answer.out;
  EXPECT_EQ(answer.out.find("not consulted"), std::string::npos) << answer.out;
}

TEST_F(CheckPrograms, APolicyWithoutAProfileIsTheOldOneAndTheNewOneIsOffered) {
  const std::string policy =
      "--subject-command=\"sh -c '" KVPROOF_BINARY_DIR
      "/bin/kvproof-check --serve=naive | sed -u s/profile:[a-z0-9.-]*/policy/'\""
      " --operations=300 --configuration=plain";
  const Answer assumed = check(policy);
  EXPECT_EQ(assumed.exit_code, 0) << assumed.out << assumed.error;
  expect_in("promises policy", assumed.out);
  expect_in("policy of vllm-0.24, as it names no profile: --profile=vllm-0.33 asks", assumed.out);
  const Answer named = check(policy + " --profile=vllm-0.33");
  EXPECT_EQ(named.exit_code, 0) << named.out << named.error;
  EXPECT_EQ(named.out.find("as it names no profile"), std::string::npos) << named.out;
}

TEST_F(CheckPrograms, AHashNamesTheManagerThatHasIt) {
  const Answer checked = check("--hash=vllm_sha256 --configuration=plain --operations=100");
  EXPECT_NE(checked.exit_code, 2) << checked.error;
  expect_in("subject optimized-vllm_sha256: ", checked.out);
  const Answer replayed =
      run("replay", KVPROOF_SOURCE_DIR
          "/properties/sources/traces/vectors/gates-vllm-0.24.jsonl --hash=sha256");
  EXPECT_EQ(replayed.exit_code, 0) << replayed.out << replayed.error;
  expect_in("by optimized-sha256", replayed.out);
}

TEST_F(CheckPrograms, DiffersAndBrokenAreTwoVerdictsOfARecording) {
  const std::string engines = KVPROOF_SOURCE_DIR "/properties/sources/traces/engines/";
  const Answer equal = run("replay", "--follow --idle=0.1 " + engines + "drafts.jsonl.zst");
  EXPECT_EQ(equal.exit_code, 0) << equal.out << equal.error;
  expect_in("36 laws hold", equal.out);
  const Answer differs = run("replay", "--judge " + engines + "convolutions.jsonl.zst");
  EXPECT_EQ(differs.exit_code, 1) << differs.error;
  expect_in("DIFFERS", differs.out);
  expect_in("36 laws hold", differs.out);
}

TEST_F(CheckPrograms, SaysWhenItWasTooShortToTell) {
  const Answer answer = check("--subject=naive --configuration=full_host --operations=1");
  EXPECT_EQ(answer.exit_code, 3) << answer.out;
  expect_in("vacuous: full_host", answer.out);
  expect_in("CANNOT TELL", answer.out);
}

TEST_F(CheckPrograms, TheExampleLibraryPasses) {
  const Answer answer = check("--subject=" + plugin("paged_pool"));
  EXPECT_EQ(answer.exit_code, 0) << answer.out << answer.error;
  expect_in("one group of full attention only: ", answer.out);
  expect_in("HOLDS", answer.out);
}

TEST_F(CheckPrograms, TheExampleProgramPasses) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  const Answer answer = check(kAdapter);
  EXPECT_EQ(answer.exit_code, 0) << answer.out << answer.error;
  expect_in("HOLDS", answer.out);
}

TEST_F(CheckPrograms, ReasonsAreToldAndCounted) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  const std::string text =
      text_of(KVPROOF_SOURCE_DIR "/properties/engines/kit/examples/adapter.py");
  const auto changed =
      std::regex_replace(text, std::regex("\"no connector\""), "'no connector', o['external'] % 2");
  const std::string command = "--subject-command='python3 mine.py' --operations=300";
  folder_.write("mine.py", changed);
  const Answer told = check(command);
  EXPECT_TRUE(std::regex_search(
      told.out,
      std::regex(R"(times: \('no connector', 0\) \(\d+\), \('no connector', 1\) \(\d+\))")))
      << told.out;
  expect_in(
      "3 of 36 configurations were run. Not a fault: 4 are beyond its operations and "
      "abilities, 29 it answers with unsupported, 0 were not asked for",
      told.out);
  EXPECT_EQ(told.out.find("warning"), std::string::npos) << told.out;
  folder_.write("mine.py", std::regex_replace(text, std::regex(", \"reason\": \"one[^\"]*\""), ""));
  expect_in("warning: 29 are unsupported without a reason", check(command).out);
}

TEST_F(CheckPrograms, ExamplesAreShort) {
  for (const char* file : {"paged_pool.cpp", "adapter.py"}) {
    const std::string text = text_of(
        std::filesystem::path(KVPROOF_SOURCE_DIR "/properties/engines/kit/examples") / file);
    EXPECT_GT(text.size(), 1000U);
    EXPECT_LT(std::ranges::count(text, '\n'), 120) << file;
  }
}

TEST_F(CheckPrograms, ABlockHandedOutTwiceIsShrunkDrawnAndReplayed) {
  const Answer answer = check_broken("double_hand_out");
  EXPECT_EQ(answer.exit_code, 1) << answer.error;
  expect_in("I6 references", answer.out);
  expect_in("BROKEN: 1 finding, ", answer.out);
  expect_in("  - request r", answer.out);
  expect_in("  + request r", answer.out);
  const std::string start = "run it again: ./kvproof replay ";
  expect_in(start, answer.out);
  const std::size_t from = answer.out.find(start) + start.size();
  const std::string options = answer.out.substr(from, answer.out.find('\n', from) - from);
  const Answer again = run("replay", options, "KVPROOF_BREAK=double_hand_out");
  EXPECT_EQ(again.exit_code, 1) << options << again.out << again.error;
  expect_in("I6 references", again.out);
  const Answer sound = run("replay", options, "KVPROOF_BREAK=no");
  EXPECT_EQ(sound.exit_code, 0) << sound.out << sound.error;
}

TEST_F(CheckPrograms, ALeakIsNoticed) {
  const Answer answer = check_broken("leak");
  EXPECT_EQ(answer.exit_code, 1);
  expect_in("I5 conservation", answer.out);
  const std::string leak = text_of(path("kvproof-failure-1.jsonl"));
  for (int i = 0; i < 2; ++i) {  // another failure has a name of its own, and the same one no other
    expect_in(" ./kvproof-failure-1-2.jsonl\n", check_broken("double_hand_out").out);
    EXPECT_EQ(text_of(path("kvproof-failure-1.jsonl")), leak);
  }
  EXPECT_FALSE(std::filesystem::exists(path("kvproof-failure-1-3.jsonl")));
  EXPECT_TRUE(std::filesystem::exists(path("kvproof-failure-1-2.html")));
}

TEST_F(CheckPrograms, ALensIsWholeOrThereIsNone) {
  const std::string trace = KVPROOF_SOURCE_DIR "/properties/sources/regressions/stale-hit.jsonl";
  const Answer whole = run("lens", trace + " --output=whole.html");
  ASSERT_EQ(whole.exit_code, 0) << whole.error;
  const std::string page = text_of(path("whole.html"));
  EXPECT_EQ(page.substr(page.size() - 8), "</html>\n");
}

TEST_F(CheckPrograms, AReplayDrawsEachState) {
  const Answer drawn =
      run("replay", KVPROOF_SOURCE_DIR "/properties/sources/regressions/stale-hit.jsonl --draw");
  EXPECT_EQ(drawn.exit_code, 1) << drawn.error;
  expect_in("operation 0\n    queue        11 free: head 1 > 2", drawn.out);
  expect_in("    block   1    refs 1  key A of 2 tokens  in r0 [0]\n", drawn.out);
  expect_in("operation 6\n", drawn.out);
}

TEST_F(CheckPrograms, ACrashAHangAndNonsenseAreVerdictsInTime) {
  const std::pair<std::string, std::string> kCases[] = {
      {"crash", "crash: asked {\"op\":\"allocate\""},
      {"hang", "no answer within 1 s"},
      {"nonsense", "nonsense: to {\"op\":\"allocate\""},
      {"null", "nonsense: to {\"op\":\"allocate\""},
      {"flood", "its answer has more than"},
  };
  for (const auto& [how, expected] : kCases) {
    const auto start = std::chrono::steady_clock::now();
    const Answer answer = check_broken(how);
    EXPECT_EQ(answer.exit_code, 1) << how << answer.out << answer.error;
    expect_in(expected, answer.out);
    expect_in("which was not answered", answer.out);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1000)) << how;
  }
}

// To say no is no way out: what was not declared is a violation, what was declared is told.
TEST_F(CheckPrograms, WhoSaysNoIsJudged) {
  struct Case {
    const char* how;
    int exit_code;
    const char* said;
  };
  for (const Case& c : {Case{"full", 1,
                             "valid calls were answered by one if the check goes on; "
                             "the first was arrive: full"},
                        Case{"declared_full", 0, "HOLDS"}, Case{"moods", 1, "C12 rejection has"},
                        Case{"declared_moods", 0, "declined: append "},
                        Case{"says_unsupported", 1, "asked the same once more"},
                        Case{"never_appends", 0, "; not exercised: append"}}) {
    const Answer answer = check_broken(c.how);
    EXPECT_EQ(answer.exit_code, c.exit_code) << c.how << answer.out << answer.error;
    expect_in(c.said, answer.out);
  }
}

TEST_F(CheckPrograms, SelftestTakesWhatBelongsTogether) {
  struct Case {
    std::string mode, options;
    int exit_code;
  };
  const std::string lie = " --lie=refuses --lie-about=fork --operations=100 --seed=3";
  const std::string two = " --mutant=B001 --mutant=P01 --seed=2";
  const Case cases[] = {
      {"--mutants", two, 0},
      {"--mutants", " --operations=1 --mutant=P61", 1},
      {"--liars", lie, 0},
      {"--liars", " --subject=naive", 2},
      {"--mutants", " --liars", 2},
      {"--mutation-score", " --draw=0", 2},
      {"--mutation-score", " --draw 5x", 2},
      {"--mutation-score", " --seed=x", 2},
      {"--mutation-score", " --all --only=m1", 2},
  };
  for (const auto& [mode, options, exit_code] : cases) {
    const Answer answer = run("selftest", mode + options);
    EXPECT_EQ(answer.exit_code, exit_code) << mode << options << answer.out << answer.error;
  }
  const Answer none = run("selftest", "--seed=1");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.error, "kvproof selftest: expected --mutants, --liars or --mutation-score\n");
}

TEST_F(CheckPrograms, ReplaySaysWhatItsFiltersLeaveOut) {
  folder_.write("trace",
                "Timestamp,Request tokens,Response tokens\n1,64,8\n2,64,0\n3,9000,8\n4,32,8\n");
  const Answer answer =
      run("replay", "--trace=trace --max-context=500 --skip-zero-output --json=result.json");
  EXPECT_EQ(answer.exit_code, 0) << answer.error;
  const json metrics =
      json::parse(text_of(folder_.path() / "result.json")).at("results").at(0).at("metrics");
  EXPECT_EQ(metrics.at("requests").at("value"), 2);
  EXPECT_EQ(metrics.at("left_out_zero_output").at("value"), 1);
  EXPECT_EQ(metrics.at("left_out_over_context").at("value"), 1);
  EXPECT_EQ(metrics.at("left_out_zero_input").at("value"), 0);
}

TEST_F(CheckPrograms, ReplaySimulatesAndWritesWhatScriptsRead) {
  const Answer answer =
      run("replay",
          "--trace=long_tail --requests=9000 --simulate --block-size=16 --capacity-blocks=2000 "
          "--over-time --json=result.json");
  EXPECT_EQ(answer.exit_code, 0) << answer.error;
  EXPECT_EQ(answer.error, "") << "progress is for terminals";
  const json results = json::parse(text_of(folder_.path() / "result.json")).at("results");
  const json& metrics = results.at(0).at("metrics");
  EXPECT_EQ(results.at(0).at("experiment"), "serving");
  EXPECT_EQ(metrics.at("requests").at("value"), 9'000);
  EXPECT_EQ(metrics.at("hit_rate_tokens").at("value"), 0) << "its requests are unlike";
  EXPECT_GT(metrics.at("preemptions").at("value"), 0);
  EXPECT_GT(metrics.at("wall_seconds").at("value"), 0);
  EXPECT_GT(metrics.at("peak_rss_bytes").at("value"), 1e6);
  EXPECT_GT(results.size(), 100U);
  EXPECT_EQ(results.at(1).at("experiment"), "serving_over_time");
}

TEST_F(CheckPrograms, ReplayServesFromAnothersAllocatorAndCatchesABrokenOne) {
  std::string requests = "Timestamp,Request tokens,Response tokens\n";
  for (int i = 0; i < 20; ++i) requests += std::to_string(i / 4) + ",40,12\n";
  folder_.write("trace", requests);
  const std::string options = "--trace=trace --simulate --capacity-blocks=12 --json=result.json";
  const Answer ours = run("replay", options + " --subject=" + plugin("paged_pool"));
  EXPECT_EQ(ours.exit_code, 0) << ours.error;
  const Answer sound = run("replay", options + " --subject=" + plugin("broken_plugin"));
  EXPECT_EQ(sound.exit_code, 0) << sound.error;
  const Answer broken = run("replay", options + " --subject=" + plugin("broken_plugin"),
                            "KVPROOF_BREAK=double_hand_out");
  EXPECT_EQ(broken.exit_code, 1);
  expect_in("I6 references", broken.error);
}

TEST_F(CheckPrograms, ASimulationWritesARunThatLiveHoldsForSound) {
  const std::string options = "--trace=chat --requests=20 --simulate --capacity-blocks=200";
  for (const char* file : {" --run=run.jsonl", " --run=again.jsonl"}) {
    EXPECT_EQ(run("replay", options + file).exit_code, 0);
  }
  EXPECT_EQ(text_of(folder_.path() / "run.jsonl"), text_of(folder_.path() / "again.jsonl"));
  const Answer judged = run("live", "run.jsonl");
  EXPECT_EQ(judged.exit_code, 0) << judged.out;
  expect_in("run.jsonl: holds", judged.out);
}

TEST_F(CheckPrograms, LiveTellsWhatHoldsFromWhatIsBrokenAndWhatCannotBeTold) {
  std::vector<std::string> lines;
  std::ifstream sound(KVPROOF_SOURCE_DIR "/properties/shadow/runs/sound.jsonl");
  for (std::string line; std::getline(sound, line);) lines.push_back(line);
  const auto judged = [&](std::size_t most, const std::string& last) {
    std::ofstream out(folder_.path() / "run.jsonl");
    for (std::size_t i = 0; i < most; ++i) out << lines.at(i) << '\n';
    out << last << std::flush;
    return run("live", "run.jsonl --json=live.json").exit_code;
  };
  EXPECT_EQ(judged(lines.size(), ""), 0);
  EXPECT_EQ(judged(lines.size() - 1, ""), 0) << "it is judged up to there";
  EXPECT_EQ(judged(2, ""), 3) << "no step ran";
  const json document = json::parse(text_of(folder_.path() / "live.json"));
  const json& whole = document.at("results").back();
  EXPECT_EQ(whole.at("experiment"), "live_run");
  EXPECT_EQ(whole.at("parameters").at("verdict"), "cannot_tell");
  EXPECT_EQ(whole.at("metrics").at("requests").at("value"), 1);
  EXPECT_FALSE(std::filesystem::exists(path("run.html"))) << "there is nothing to look at";
  EXPECT_EQ(judged(2, R"({"op":"raised","what":"AssertionError"})"), 1);
  EXPECT_TRUE(std::filesystem::exists(path("run.html")));
  EXPECT_EQ(judged(2, R"({"op":"raised"})"), 2);
  EXPECT_EQ(judged(lines.size() - 1, R"({"op":"lost","what":"the queue was full"})"), 3);
}

TEST_F(CheckPrograms, WhatIsKnownIsNoFailureNeitherOfALawNorOfContents) {
  const std::string words = "--subject=" + plugin("kit_pool_seeded") +
                            " --operations=300 --shrink-seconds=0 --junit=junit.xml";
  EXPECT_EQ(check(words + " --json=first.json").exit_code, 1);
  expect_in("name=\"content\"><failure", text_of(folder_.path() / "junit.xml"));
  folder_.write("known.jsonl", run("describe", "first.json --known-rows").out);
  EXPECT_EQ(check(words + " --known=known.jsonl").exit_code, 0);
  EXPECT_EQ(text_of(folder_.path() / "junit.xml").find("<failure"), std::string::npos);
}

TEST_F(CheckPrograms, LiveTellsWhatIsKnownFromWhatIsNew) {
  folder_.write("run.jsonl",
                R"({"kvproof_run":1,"engine":"mine 0.10.1","tiers":[{"name":"device","blocks":9}],)"
                R"("groups":[{"block_size":4}],"patience":9})"
                "\n"
                R"({"op":"raised","what":"KeyError: 7 of 9"})"
                "\n");
  const auto judged = [&](const std::string& row) {
    folder_.write("known.jsonl", R"({"id":"A","law":"L4"})"
                                 "\n" +
                                     row);
    return run("live", "run.jsonl --known=known.jsonl --json=live.json");
  };
  for (const std::string row :
       {R"({"id":"B","law":"S16","engine":"other"})", R"({"id":"B","law":"S16","last":"0.9"})",
        R"({"id":"B","law":"S1"})", R"({"id":"B","law":"S16","says":"IndexError"})"}) {
    EXPECT_EQ(judged(row).exit_code, 1) << row;
  }
  const Answer known =
      judged(R"({"id":"B","law":"S1+S16","engine":"mine","first":"0.9","says":"KeyError 8 of"})");
  EXPECT_EQ(known.exit_code, 3) << "no step ran";
  expect_in("known, and did not occur: L4: A", known.out);
  const json document = json::parse(text_of(folder_.path() / "live.json"));
  for (const json& row : document.at("results")) {
    if (row.at("experiment") != "live_finding") continue;
    EXPECT_EQ(row.at("parameters").at("verdict"), "known");
    EXPECT_EQ(row.at("parameters").at("known"), "B");
  }
  const Answer refused = judged(R"({"id":"B","law":7})");
  EXPECT_EQ(refused.exit_code, 2);
  expect_in("known.jsonl: line 2: field law: expected a string", refused.error);
  EXPECT_EQ(run("live", "run.jsonl --json=live.json").exit_code, 1);
  const std::string rows = run("describe", "live.json --known-rows").out;
  EXPECT_EQ(json::parse(rows).at("law"), "S16");
  folder_.write("known.jsonl", rows);
  EXPECT_EQ(run("live", "run.jsonl --known=known.jsonl").exit_code, 3) << "all is known";
}

TEST_F(CheckPrograms, LiveJudgesAPipeAsItIsWritten) {
  const std::string live = KVPROOF_BINARY_DIR "/bin/kvproof-live ";
  const std::string sound = " " KVPROOF_SOURCE_DIR "/properties/shadow/runs/sound.jsonl ";
  // The rest is written if the finding has been told.
  const Answer told = shell("mkfifo run; " + live + "run >told & { head -n 3" + sound +
                            R"(; echo '{"op":"raised","what":"x"}'; for i in $(seq 12000); do
         grep -q S16 told && break; sleep 0.05; done; grep -q S16 told && tail -n +4)" +
                            sound + ";} >run; wait $!; echo $?; cat told");
  EXPECT_TRUE(told.out.starts_with("1\nS16 raised, line 4")) << told.out;
  expect_in("102 lines)", told.out);
  const auto end = [&](const std::string& head) {
    return shell("head -c " + head + sound + "|" + live + "-");
  };
  EXPECT_EQ(end("-5").exit_code, 0);
  expect_in("-: holds, judged up to its last line, which is broken off", end("-5").out);
  expect_in("-: holds (", end("-1").out);
  EXPECT_EQ(shell("head -c -5" + sound + ">cut; " + live + "cut").exit_code, 2);
  EXPECT_EQ(shell("{ cat" + sound + "; echo '{'; } |" + live + "-").exit_code, 2);
  // A run that cannot be read loses no other's verdict.
  const Answer several = shell(live + "cut --json=several.json" + sound);
  EXPECT_EQ(several.exit_code, 2);
  expect_one_line(several);
  const json kept = json::parse(text_of(folder_.path() / "several.json"));
  EXPECT_EQ(kept.at("results").back().at("parameters").at("verdict"), "holds");
}

}  // namespace
}  // namespace kvproof::bench
