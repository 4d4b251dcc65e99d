// SPDX-License-Identifier: Apache-2.0
// The gate's parts: the rank test against all sign patterns, the rule case by case, its files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "bench/gate/baseline.h"
#include "bench/gate/gate_report.h"
#include "bench/gate/verdict.h"
#include "bench/gate/wilcoxon.h"
#include "bench/instruments/callgrind.h"
#include "properties/sources/traces/test_files.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

/// Over all sign patterns of the ranked sizes, the share with at least this rank sum.
double brute_force(std::vector<double> values, double bound) {
  for (double& value : values) value -= bound;
  std::erase(values, 0.0);
  std::vector<double> ranks;
  for (const double v : values) {
    const auto less =
        std::ranges::count_if(values, [&](double w) { return std::abs(w) < std::abs(v); });
    const auto equal =
        std::ranges::count_if(values, [&](double w) { return std::abs(w) == std::abs(v); });
    ranks.push_back(static_cast<double>(less) + (static_cast<double>(equal) + 1) / 2);
  }
  double seen = 0;
  for (std::size_t i = 0; i < values.size(); ++i) seen += values[i] > 0 ? ranks[i] : 0;
  int as_large = 0;
  const int all = 1 << values.size();
  for (int signs = 0; signs < all; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += (signs >> i & 1) != 0 ? ranks[i] : 0;
    as_large += sum >= seen ? 1 : 0;
  }
  return static_cast<double>(as_large) / all;
}

TEST(RankTest, EqualsAllSignPatterns) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + random() % 10);
    for (double& v : values) v = static_cast<double>(random() % 9) - 4;  // with ties and zeros
    const double bound = static_cast<double>(random() % 3) - 1;
    if (std::ranges::all_of(values, [&](double v) { return v == bound; })) continue;
    EXPECT_NEAR(p_value_above(values, bound), brute_force(values, bound), 1e-12);
    std::vector<double> negated;
    for (const double v : values) negated.push_back(-v);
    EXPECT_NEAR(p_value_below(negated, -bound), brute_force(values, bound), 1e-12);
  }
}

TEST(RankTest, KnownValues) {
  const std::vector<double> ten(10, 1.0);
  EXPECT_DOUBLE_EQ(p_value_above(ten, 0), 1.0 / 1024);
  EXPECT_DOUBLE_EQ(p_value_below(ten, 0), 1.0);
  EXPECT_EQ(p_value_above(ten, 1), 1) << "nothing is left to rank";
  std::vector<double> many;
  for (int i = 1; i <= 30; ++i) many.push_back(i % 3 == 0 ? -i : i);
  const double exact = p_value_above(many, 0);
  many.push_back(-0.5);  // one more than is counted exactly, with the lowest rank
  EXPECT_NEAR(p_value_above(many, 0), exact, 0.02);
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
}

std::vector<double> noisy(std::mt19937& random, double ratio, double sigma) {
  std::normal_distribution<double> noise(std::log(ratio), sigma);
  std::vector<double> out(20);
  for (double& v : out) v = noise(random);
  return out;
}

TEST(TimeVerdict, NeverCallsNoiseWorse) {
  std::mt19937 random(7);
  const Rules rules;
  std::size_t wrong = 0;
  for (int round = 0; round < 4000; ++round) {
    const double sigma = 0.01 * (1 << round % 6);  // 1 % to 32 %
    const Verdict verdict = judge_time(noisy(random, 1, sigma), rules);
    wrong += verdict == Verdict::worse || verdict == Verdict::better ? 1 : 0;
  }
  EXPECT_LE(wrong, 4U) << "of 4000: at most one in a thousand, and only where noise is large";
}

TEST(TimeVerdict, SaysWhatIsThere) {
  std::mt19937 random(8);
  const Rules rules;
  EXPECT_EQ(judge_time(noisy(random, 1.15, 0.03), rules), Verdict::worse);
  EXPECT_EQ(judge_time(noisy(random, 0.85, 0.03), rules), Verdict::better);
  EXPECT_EQ(judge_time(noisy(random, 1.0, 0.01), rules), Verdict::same);
  EXPECT_EQ(judge_time(noisy(random, 1.0, 0.3), rules), Verdict::cannot_tell);
  EXPECT_NE(judge_time(noisy(random, 1.02, 0.001), rules), Verdict::worse) << "below the effect";
}

Counts counts_of(double instructions, double bytes, double hits) {
  Counts out;
  out[0] = instructions;
  out[4] = bytes;
  out[5] = hits;
  return out;
}

TEST(CountVerdict, NeedsMoreThanItsThresholdAndItsFloor) {
  const Rules rules;
  const auto verdict = [&](const Counts& base, const Counts& head, std::size_t measure) {
    for (const Comparison& c : compare(base, head, rules)) {
      if (c.measure == measure) return c.verdict;
    }
    return Verdict::cannot_tell;
  };
  const Counts base = counts_of(1000, 48, 0.5);
  EXPECT_EQ(verdict(base, counts_of(1009, 48, 0.5), 0), Verdict::same);
  EXPECT_EQ(verdict(base, counts_of(1011, 48, 0.5), 0), Verdict::worse);
  EXPECT_EQ(verdict(base, counts_of(989, 48, 0.5), 0), Verdict::better);
  EXPECT_EQ(verdict(base, counts_of(1000, 128, 0.5), 4), Verdict::worse);
  EXPECT_EQ(verdict(base, counts_of(1000, 48, 0.4), 5), Verdict::worse) << "fewer hits";
  EXPECT_EQ(verdict(base, counts_of(1000, 48, 0.6), 5), Verdict::better);
  EXPECT_EQ(verdict(counts_of(1, 48, 0), counts_of(1.4, 48, 0), 0), Verdict::same) << "the floor";
  EXPECT_EQ(verdict(base, base, 1), Verdict::cannot_tell) << "what nobody measured";
}

TEST(WorkloadRule, CountsDecideFirst) {
  const Rules rules;
  const Counts base = counts_of(1000, 48, 0.5);
  const auto same = compare(base, base, rules);
  const auto worse = compare(base, counts_of(1100, 48, 0.5), rules);
  const auto better = compare(base, counts_of(900, 48, 0.5), rules);
  const auto mixed = compare(base, counts_of(900, 128, 0.5), rules);
  const auto of = [](const std::vector<Comparison>& counts, bool counted,
                     std::optional<Verdict> time) {
    return combine(counts, counted, time, 1.1).verdict;
  };
  EXPECT_EQ(of(same, true, {}), Verdict::same);
  EXPECT_EQ(of(same, true, Verdict::cannot_tell), Verdict::same);
  EXPECT_EQ(of(same, true, Verdict::worse), Verdict::worse);
  EXPECT_EQ(of(same, true, Verdict::better), Verdict::better);
  EXPECT_EQ(of(same, false, {}), Verdict::cannot_tell);
  EXPECT_EQ(of(same, false, Verdict::cannot_tell), Verdict::cannot_tell);
  EXPECT_EQ(of(same, false, Verdict::same), Verdict::same);
  EXPECT_EQ(of(worse, true, Verdict::better), Verdict::worse);
  EXPECT_EQ(of(better, true, Verdict::cannot_tell), Verdict::better);
  EXPECT_EQ(of(better, true, Verdict::worse), Verdict::worse);
  EXPECT_EQ(of(mixed, true, {}), Verdict::worse);
  EXPECT_NE(combine(mixed, true, {}, 1).because.find("better: instructions per block -10 %"),
            std::string::npos)
      << combine(mixed, true, {}, 1).because;
}

GateReport report_of(std::vector<Verdict> verdicts) {
  GateReport out{"head", "base", {}, {}};
  for (const Verdict v : verdicts) out.workloads.push_back({"w", {}, {}, {v, "because"}});
  return out;
}

TEST(GateVerdict, TheWorstWorkloadDecides) {
  using enum Verdict;
  EXPECT_EQ(exit_code_of(report_of({same, better}).verdict()), 0);
  EXPECT_EQ(exit_code_of(report_of({same, cannot_tell, better}).verdict()), 3);
  EXPECT_EQ(exit_code_of(report_of({cannot_tell, worse}).verdict()), 1);
  const std::string text = summary(report_of({same, worse}));
  EXPECT_TRUE(text.starts_with("**kvproof gate: worse** (`head` against `base`: 1 worse, 1 same)"))
      << text;
  EXPECT_NE(text.find("| w | same | because | not counted | not timed |"), std::string::npos);
}

TEST(Callgrind, ReadsTotals) {
  const auto counts = parse_callgrind(
      "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nfn=x\n1 2\n"
      "summary: 100 40 20 1 7 3 1 2\ntotals: 100 40 20 1 7 3 1 2\n");
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->instructions, 100U);
  EXPECT_EQ(counts->d1_misses, 10U);
  EXPECT_EQ(counts->ll_misses, 2U) << "trailing zeros are left out";
  EXPECT_FALSE(parse_callgrind("events: Ir\nsummary: 0\n")) << "nothing was collected";
  EXPECT_FALSE(parse_callgrind("nonsense"));
}

const Parameters kEnvironment = {{"commit", std::string("c0ffee")},
                                 {"profile", std::string("vllm-0.22")}};

Recorded sample() {
  Recorded out{"mine.so", "c0ffee", "vllm-0.22", CallStyle::direct, 5, "valgrind-3.19.0", {}};
  for (std::size_t i = 0; i < std::size(kGateWorkloads); ++i) {
    Counts counts = counts_of(100.25 + static_cast<double>(i), 48, 0.5);
    for (std::optional<double>& count : counts) count = count.value_or(3);
    out.counts.emplace_back(Counted{counts, i + 7});
  }
  return out;
}

TEST(Baseline, ComesBackAsItWasWritten) {
  const properties::TemporaryFolder folder;
  const auto path = folder.path() / "base.json";
  ResultFile(path).commit(kEnvironment, results_of(sample()));
  const Recorded back = read_baseline(path);
  EXPECT_EQ(back.subject, "mine.so");
  EXPECT_EQ(back.profile, "vllm-0.22");
  EXPECT_EQ(back.seed, 5U);
  EXPECT_EQ(back.way, CallStyle::direct);
  ASSERT_EQ(back.counts.size(), std::size(kGateWorkloads));
  EXPECT_EQ(back.counts[1]->counts[0], 101.25);
  EXPECT_EQ(back.counts[1]->checksum, 8U);
  EXPECT_EQ(back.counts[1]->counts[1], 3);
}

TEST(Baseline, AnOldFileWithoutItsProfileIsOfTheDefaultOfThen) {
  const properties::TemporaryFolder folder;
  const std::string path =
      folder.write("old.json", to_json({{"commit", std::string("c")}}, results_of(sample())));
  EXPECT_EQ(read_baseline(path).profile, "vllm-0.24");
}

/// Where a text of JSON has its values and members, as pointers.
std::vector<nlohmann::json::json_pointer> places_in(const nlohmann::json& document) {
  std::vector<nlohmann::json::json_pointer> out;
  const nlohmann::json flat = document.flatten();
  for (const auto& [place, value] : flat.items()) {
    out.emplace_back(place);
    for (auto parent = out.back().parent_pointer(); !parent.empty();
         parent = parent.parent_pointer()) {
      if (std::ranges::find(out, parent) == out.end()) out.push_back(parent);
    }
  }
  return out;
}

TEST(Baseline, WithoutAFieldOrWithNonsenseInItIsRefusedByName) {
  using nlohmann::json;
  const properties::TemporaryFolder folder;
  const json good = json::parse(to_json(kEnvironment, results_of(sample())));
  std::size_t refused = 0;
  const auto why_not = [&](const json& document) -> std::string {
    try {
      (void)read_baseline(folder.write("bad.json", document.dump()));
      return "";
    } catch (const InputError& error) {
      ++refused;
      return error.what();
    }
  };
  for (const auto& place : places_in(good)) {
    const std::string name = place.back();
    if (name == "unit") continue;  // for people
    const bool row = name.find_first_not_of("0123456789") == std::string::npos;
    for (const json& nonsense : {json(), json("x\ud7ff"), json(-1), json(1.8e19), json::array()}) {
      json damaged = good;
      damaged[place] = nonsense;
      const bool text = nonsense.is_string() && (name == "subject" || name == "counted_with" ||
                                                 name == "commit" || name == "experiment");
      if (text) continue;
      EXPECT_NE(why_not(damaged), "") << place << " = " << nonsense;
    }
    if (row || name == "profile") continue;  // a workload that was not recorded, or an old file
    json lacking = good;
    lacking[place.parent_pointer()].erase(name);
    const std::string why = why_not(lacking);
    EXPECT_NE(why.find(name == "value" ? "value" : name), std::string::npos)
        << place << ": " << why;
  }
  EXPECT_GT(refused, 300U);
}

TEST(Baseline, RefusesWhatItIsNot) {
  const properties::TemporaryFolder folder;
  const std::string good = to_json({{"commit", std::string("c")}}, results_of(sample()));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    const std::size_t at = out.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return out.replace(at, from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("no json"), std::string("[]"), good.substr(0, good.size() / 2),
        with("\"schema\":1", "\"schema\":2"), with("gate_record", "other").substr(0, 20),
        with("\"stream\":\"8192", "\"stream\":\"8193"), with("\"value\":100.25", "\"value\":-1"),
        with("\"value\":100.25", "\"value\":\"x\""),
        with("\"checksum\":\"7\"", "\"checksum\":\"\""), with("\"seed\":5", "\"seed\":null"),
        std::string(R"({"schema":1,"environment":{"commit":"c"},"results":[]})"),
        std::string(R"({"schema":1,"environment":{"commit":"c"},"results":[7]})")}) {
    const std::string path = folder.write("bad.json", text);
    try {
      (void)read_baseline(path);
      ADD_FAILURE() << "accepted: " << text.substr(0, 100);
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)read_baseline(folder.path()), InputError);
  EXPECT_THROW((void)read_baseline(folder.path() / "none"), InputError);
}

}  // namespace
}  // namespace kvproof::bench
