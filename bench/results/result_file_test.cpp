// SPDX-License-Identifier: Apache-2.0
// Result files hold what was measured, exist only when complete, and print as they are meant to.
#include "bench/results/result_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/instruments/latency.h"
#include "bench/results/ci_files.h"
#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/shown.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "properties/sources/traces/test_files.h"

namespace kvproof::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const Parameters kEnvironment = {{"compiler", "gcc"}, {"cores", std::int64_t{2}}};

std::vector<Result> some_results() {
  return {{"operator_mutant",
           {{"operation", "touch"}, {"num_blocks", std::int64_t{65'536}}, {"share", 0.25}},
           {{"ns_per_block", {12.5, "ns", 12.0, 14.25}}, {"calls", {1e14, "count", {}, {}}}}},
          {"mutation_score", {}, {}}};
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

std::string why_not(const fs::path& path) {
  try {
    ResultFile file(path);
  } catch (const OutputError& error) {
    return error.what();
  }
  return "it can be written";
}

Result law_row(const char* verdict, const char* reason = "") {
  return {"check_law",
          {{"subject", "mine"},
           {"law", "I4"},
           {"name", "a < \"b\" & c"},
           {"verdict", verdict},
           {"reason", reason}},
          {}};
}

Result finding_row(const char* verdict, const char* known, const char* behind = "") {
  return {"check_finding",
          {{"subject", "mine"},
           {"law", "I4"},
           {"shape", "take"},
           {"verdict", verdict},
           {"reason", "r"},
           {"file", "./a b.jsonl"},
           {"line", std::int64_t{7}},
           {"known", known},
           {"behind", behind}},
          {}};
}

TEST(CiFormats, TellVerdictsAsJUnitDoes) {
  EXPECT_NE(
      junit_of(std::vector{law_row("holds")})
          .find(R"(classname="check_law.mine" name="I4 a &lt; &quot;b&quot; &amp; c"></testcase>)"),
      std::string::npos);
  EXPECT_NE(junit_of(std::vector{law_row("holds"), law_row("broken")})
                .find(R"(tests="2" failures="1" errors="0" skipped="0">)"),
            std::string::npos);
  EXPECT_EQ(junit_of(some_results()).find("<testcase"), std::string::npos) << "no verdicts";
  for (const VerdictRow& row : kVerdicts) {
    const std::string verdict(row.name);
    const std::string text = junit_of(std::vector{law_row(verdict.c_str(), "why")});
    const std::string element = row.exit_code == 1                                   ? "failure"
                                : row.exit_code == 3                                 ? "error"
                                : verdict.starts_with("not") || verdict == "skipped" ? "skipped"
                                                                                     : "";
    const std::string expected =
        element.empty() ? "" : "<" + element + " message=\"" + verdict + ": why\"/>";
    EXPECT_NE(text.find(">" + expected + "</testcase>"), std::string::npos) << text;
  }
  EXPECT_EQ(junit_of(std::vector{finding_row("broken", "", " --without-law=I2")}).find("<testcase"),
            std::string::npos)
      << "what may follow from others decides nothing";
  const std::string odd =
      junit_of(std::vector{law_row("broken", "]]>\x1b\xff \xEF\xBF\xBE\xEF\xBF\xBF")});
  EXPECT_NE(odd.find("broken: ]]> \uFFFD \uFFFD\uFFFD\"/>"), std::string::npos) << odd;
}

TEST(CiFormats, PointSarifAtFilesAndSuppressWhatIsKnown) {
  const std::vector<Result> rows = {law_row("broken"), finding_row("broken", ""),
                                    finding_row("known", "KVP-2026-7")};
  const json whole = json::parse(sarif_of({{"version", "1.2"}}, rows));
  EXPECT_EQ(whole.at("version"), "2.1.0");
  const json& run = whole.at("runs").at(0);
  EXPECT_EQ(run.at("tool").at("driver"), json::parse(R"({"name": "kvproof", "version": "1.2",
      "rules": [{"id": "I4", "name": "a < \"b\" & c"}]})"));
  const json first = json::parse(R"({"ruleId": "I4", "level": "error", "message": {"text": "r"},
      "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a%20b.jsonl"},
                                          "region": {"startLine": 7}}}]})");
  EXPECT_EQ(run.at("results").size(), 2U) << "the law is a rule, its findings are the results";
  EXPECT_EQ(run.at("results").at(0), first);
  EXPECT_EQ(run.at("results").at(1).at("level"), "note");
  EXPECT_EQ(run.at("results").at(1).at("suppressions"),
            json::parse(R"([{"kind": "external", "justification": "KVP-2026-7"}])"));
  const json laws = json::parse(sarif_of({}, std::vector{law_row("broken"), law_row("holds")}));
  EXPECT_EQ(laws.at("runs").at(0).at("results").size(), 1U) << "a verb without rows of findings";
}

TEST(CiFormats, TellNumbersAsBencherReadsThem) {
  std::vector<Result> rows = some_results();
  rows.push_back({"gate_measure",
                  {{"workload", "chat"}, {"measure", "instructions"}, {"verdict", "same"}},
                  {{"base", {9, "count", {}, {}}}, {"head", {8, "count", {}, {}}}}});
  rows.push_back({"gate_time",
                  {{"workload", "chat"}, {"verdict", "same"}},
                  {{"change_percent", {1.5, "percent", 1.0, 2.0}}}});
  EXPECT_EQ(json::parse(bmf_of(rows)), json::parse(R"({
    "operator_mutant operation=touch num_blocks=65536 share=0.25": {
      "ns_per_block": {"value": 12.5, "lower_value": 12.0, "upper_value": 14.25},
      "calls": {"value": 1e14}},
    "chat": {"instructions": {"value": 8},
             "time change_percent": {"value": 1.5, "lower_value": 1.0, "upper_value": 2.0}}})"));
}

TEST(ResultFileOnDisk, HoldsEveryFieldOfTheSchema) {
  const properties::TemporaryFolder folder;
  const fs::path path = folder.path() / "results.json";
  ResultFile(path).commit(kEnvironment, some_results());
  EXPECT_EQ(json::parse(bytes_of(path)), json::parse(R"({
    "schema": 1,
    "environment": {"compiler": "gcc", "cores": 2},
    "results": [
      {"experiment": "operator_mutant",
       "parameters": {"operation": "touch", "num_blocks": 65536, "share": 0.25},
       "metrics": {"ns_per_block": {"value": 12.5, "unit": "ns", "min": 12, "max": 14.25},
                   "calls": {"value": 100000000000000, "unit": "count"}}},
      {"experiment": "mutation_score", "parameters": {}, "metrics": {}}]})"));
}

TEST(ResultFileOnDisk, KeepsTheOrderOfParametersAndMetrics) {
  const std::string text = to_json({}, some_results());
  EXPECT_LT(text.find("operation\":\"touch"), text.find("num_blocks"));
  EXPECT_LT(text.find("num_blocks"), text.find("share"));
}

TEST(ResultFileOnDisk, ReplacesAnOlderOneOnlyWhenComplete) {
  const properties::TemporaryFolder folder;
  const fs::path path = folder.write("results.json", "older");
  {
    ResultFile abandoned(path);
    EXPECT_EQ(bytes_of(path), "older");
  }
  EXPECT_EQ(bytes_of(path), "older");
  EXPECT_EQ(files_in(folder.path()), 1U) << "an abandoned file was left behind";
  ResultFile file(path);
  file.commit(kEnvironment, {});
  EXPECT_EQ(bytes_of(path), to_json(kEnvironment, {}));
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(ResultFileOnDisk, IsReplacedBehindALink) {
  const properties::TemporaryFolder folder;
  const fs::path target = folder.write("target.json", "older");
  const fs::path link = folder.path() / "link.json";
  fs::create_symlink(target, link);
  ResultFile(link).commit(kEnvironment, {});
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(bytes_of(target), to_json(kEnvironment, {}));
}

TEST(ResultFileOnDisk, LeavesADeviceADevice) {
  ResultFile("/dev/null").commit(kEnvironment, some_results());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(ResultFileOnDisk, NamesAPathThatCannotBeWritten) {
  const properties::TemporaryFolder folder;
  const fs::path missing = folder.path() / "no" / "such" / "results.json";
  EXPECT_EQ(why_not(missing), missing.string() + ": cannot be written: No such file or directory");
  EXPECT_EQ(why_not(folder.path()),
            folder.path().string() + ": cannot be written: it is a directory");
  EXPECT_EQ(why_not(""), "--json: cannot be written: the path is empty");
  const fs::path below_file = fs::path(folder.write("file", "")) / "results.json";
  EXPECT_EQ(why_not(below_file), below_file.string() + ": cannot be written: Not a directory");
}

TEST(ResultFileOnDisk, RefusesWhatJsonCannotHold) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW((void)to_json({{"x", bad}}, {}), std::logic_error);
    const std::vector<Result> results = {{"e", {}, {{"m", {bad, "ns", {}, {}}}}}};
    EXPECT_THROW((void)to_json({}, results), std::logic_error);
  }
  // A file name may be any bytes: they are replaced, and the text stays JSON.
  EXPECT_TRUE(json::accept(to_json({{"source", std::string("a\xff"
                                                           "b")}},
                                   {})));
}

TEST(ResultFileOnDisk, FindsByName) {
  const Result result = some_results().front();
  ASSERT_NE(result.metric("ns_per_block"), nullptr);
  EXPECT_EQ(result.metric("ns_per_block")->value, 12.5);
  EXPECT_EQ(result.metric("none"), nullptr);
  ASSERT_NE(result.parameter("num_blocks"), nullptr);
  EXPECT_EQ(*result.parameter("num_blocks"), Value(std::int64_t{65'536}));
}

TEST(Environment, SaysWhatMakesANumberAdmissible) {
  const char* const argv[] = {"kvproof-bench", "--filter=a b", "--json=it's"};
  const Parameters environment = describe_environment(3, argv, 7);
  const auto value = [&](std::string_view name) {
    const auto found = std::ranges::find(environment, name, &std::pair<std::string, Value>::first);
    return found == environment.end() ? Value("absent") : found->second;
  };
  for (const char* name :
       {"version", "commit", "compiler", "build_type", "flags", "profile", "cpu", "cores",
        "cache_l1d_bytes", "cache_l2_bytes", "cache_l3_bytes", "memory_bytes", "kernel",
        "page_bytes", "transparent_huge_pages", "date"}) {
    EXPECT_NE(value(name), Value("absent")) << name;
  }
  EXPECT_EQ(value("command"), Value("kvproof-bench '--filter=a b' '--json=it'\\''s'"));
  EXPECT_EQ(value("seed"), Value(std::int64_t{7}));
  const Parameters large = describe_environment(3, argv, ~std::uint64_t{0});
  EXPECT_EQ(large.back().second, Value("18446744073709551615"));
}

TEST(Table, HasUnitsInItsHeadingAndOneTableForEachSetOfColumns) {
  std::ostringstream out;
  print_results(out, some_results());
  EXPECT_EQ(out.str(),
            "operator_mutant\n"
            "  operation  num_blocks  share      ns_per_block            calls\n"
            "      touch       65536   0.25  12.5 [12, 14.25]  100000000000000\n"
            "\n"
            "mutation_score\n\n\n\n");
}

std::string printed(const std::vector<Result>& rows) {
  std::ostringstream out;
  print_results(out, rows);
  return out.str();
}

TEST(Table, HasNoControlCharacters) {
  EXPECT_EQ(printed({{"a", {{"text", "\x1b[2J \u009bJ\x7f \u00e9"}}, {}}}),
            "a\n          text\n  ?[2J ?J? \u00e9\n\n");
}

TEST(Table, ShowsAnExperimentAsItIsStated) {
  const auto law = [](const char* id, const char* verdict, const char* reason, std::uint64_t n) {
    return Result{
        "check_law",
        {{"subject", "mine"}, {"law", id}, {"name", "n"}, {"verdict", verdict}, {"reason", reason}},
        {{"evaluated", count(n)}, {"suspended", count(0)}}};
  };
  EXPECT_EQ(printed({law("I1", "not_evaluated", "", 0), law("I2", "not_applicable", "x", 0),
                     law("I3", "not_applicable", "x", 0), law("I4", "holds", "", 12)}),
            "laws of mine\n"
            "  law  name  evaluated  verdict\n"
            "  I1   n             0  not evaluated\n"
            "  I4   n            12  holds\n"
            "\n"
            "not demanded, for x: I2, I3\n");
}

TEST(Table, ShowsRowsOfAnEarlierVersionInTheirOwnColumns) {
  const Result today{"check_law",
                     {{"subject", "s"},
                      {"law", "I1"},
                      {"name", "n"},
                      {"verdict", "not_applicable"},
                      {"reason", "x"}},
                     {{"evaluated", count(0)}, {"suspended", count(0)}}};
  const Result earlier{"check_law",
                       {{"subject", "s"}, {"law", "I1"}, {"name", "n"}, {"verdict", "holds"}},
                       {{"checked", count(7)}, {"suspended", count(0)}, {"worded", count(0)}}};
  EXPECT_EQ(printed({{"liars", {}, {{"cells", count(3)}}}}),  // its verdict was a number, or absent
            "liars\n  cells\n      3\n\n");
  EXPECT_EQ(printed({today, earlier}),
            "not demanded, for x: I1\n"
            "\n"
            "check_law\n"
            "  subject  law  name  verdict  checked  suspended  worded\n"
            "        s   I1     n    holds        7          0       0\n"
            "\n");
}

TEST(Table, FillsTexts) {
  const Result row{
      "e",
      {{"a", "x\ny"}, {"none", ""}, {"zero", std::int64_t{0}}, {"verdict", "cannot_tell"}},
      {{"many", count(1234)}, {"one", count(1)}, {"no", count(0)}}};
  EXPECT_EQ(filled("{many}, {one step}, {no step}", row), "1,234, 1 step, 0 steps");
  EXPECT_EQ(filled("[{none}!][{no}!][{absent}!][{zero}!]", row), "0!");
  EXPECT_EQ(filled("[{!none}{?many}b][{!many}c][{?none}d]", row), "b");
  EXPECT_EQ(filled("  is: {a}", row), "  is: x\n      y");
  EXPECT_EQ(filled("{verdict}, {VERDICT}, {{{one}}", row), "cannot tell, CANNOT TELL, {1}");
  for (const Shown& shown : kShown) {
    EXPECT_EQ(std::ranges::count(shown.text, '['), std::ranges::count(shown.text, ']'))
        << shown.text;
  }
}

TEST(ProgressBar, EstimatesWhatIsLeft) {
  EXPECT_EQ(Progress::line(0.25, 10, "sorting"),
            "[######..................]  25 %, 0:30 left  sorting");
  EXPECT_EQ(Progress::line(0.5, 7'200, "x"), "[############............]  50 %, 2:00:00 left  x");
  EXPECT_EQ(Progress::line(0, 100, "x"), "[........................]   0 %  x");
  EXPECT_EQ(Progress::line(7, 0.1, "x"), "[########################] 100 %  x");
}

TEST(ProgressBar, IsSilentWhereNobodyLooks) {
  testing::internal::CaptureStderr();
  {
    Progress hidden(false);
    hidden.update(0.5, "x");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  {
    Progress visible(true);
    visible.update(0.5, "x");
  }
  const std::string drawn = testing::internal::GetCapturedStderr();
  EXPECT_NE(drawn.find("50 %"), std::string::npos);
  EXPECT_TRUE(drawn.ends_with("\r\033[K")) << "the bar is still there";
}

TEST(Latency, PercentilesAreSamples) {
  std::vector<int> sorted;
  for (int i = 1; i <= 100; ++i) sorted.push_back(i);
  EXPECT_EQ(percentile(sorted, 0.5), 50);
  EXPECT_EQ(percentile(sorted, 0.99), 99);
  EXPECT_EQ(percentile(sorted, 1.0), 100);
  EXPECT_EQ(percentile(sorted, 0.0), 1);
  EXPECT_EQ(percentile(std::vector<int>{7}, 0.99), 7);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(Latency, AClockTakesItsOwnCostOffAndNeverSaysNothing) {
  const CallClock clock;
  EXPECT_GT(clock.step_ns(), 0);
  EXPECT_EQ(clock.net_ns(0), clock.step_ns());
  // Twice the ticks are twice the time, less one cost instead of two.
  const double million = clock.net_ns(1'000'000);
  const double two_millions = clock.net_ns(2'000'000);
  EXPECT_GE(two_millions, 2 * million);
  EXPECT_LT(two_millions, 2.01 * million);
}

TEST(Latency, SamplesBeyondTheCapacityAreNotKept) {
  CallSamples samples(2);
  samples.add(5);
  EXPECT_FALSE(samples.full());
  samples.add(6);
  samples.add(1'000'000'000);
  EXPECT_TRUE(samples.full());
  EXPECT_EQ(samples.size(), 2U);
  const CallClock clock;
  EXPECT_EQ(samples.summary(clock).worst_ns, clock.net_ns(6));
}

}  // namespace
}  // namespace kvproof::bench
