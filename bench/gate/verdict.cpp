// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/verdict.h"

#include <cmath>
#include <cstdio>

#include "bench/gate/wilcoxon.h"

namespace kvproof::bench {
namespace {

std::string percent_text(double percent) {
  char text[40];
  constexpr double kTenfold = 1000;  // a larger change reads better as a factor
  if (percent >= kTenfold) {
    std::snprintf(text, sizeof text, "x %.0f", 1 + percent / 100);
    return text;
  }
  std::snprintf(text, sizeof text, "%+.*f %%", std::abs(percent) < 10 ? 2 : 0, percent);
  return text;
}

std::string plain_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// The changes of those with this verdict, in words.
std::string named(const std::vector<Comparison>& counts, Verdict verdict) {
  std::string out;
  for (const Comparison& c : counts) {
    if (c.verdict != verdict) continue;
    out.append(out.empty() ? "" : ", ").append(kMeasures[c.measure].words);
    out += c.base != 0 ? " " + percent_text(c.change_percent())
                       : " from none to " + plain_text(c.head);
  }
  return out;
}

}  // namespace

Rules::Rules() {
  for (std::size_t i = 0; i < kNumMeasures; ++i)
    threshold_percent[i] = kMeasures[i].threshold_percent;
}

double Comparison::change_percent() const {
  const double whole = base != 0 ? base : kMeasures[measure].floor;
  return 100 * (head - base) / whole;
}

std::vector<Comparison> compare(const Counts& base, const Counts& head, const Rules& rules) {
  std::vector<Comparison> out;
  for (std::size_t i = 0; i < kNumMeasures; ++i) {
    if (!base[i] || !head[i]) continue;
    Comparison c{i, *base[i], *head[i], Verdict::same};
    const double difference = std::abs(c.head - c.base);
    if (difference > kMeasures[i].floor &&
        difference > rules.threshold_percent[i] / 100 * std::abs(c.base)) {
      const bool more = c.head > c.base;
      c.verdict = more == kMeasures[i].more_is_better ? Verdict::better : Verdict::worse;
    }
    out.push_back(c);
  }
  return out;
}

Verdict judge_time(const std::vector<double>& log_ratios, const Rules& rules) {
  const double effect = std::log1p(rules.time_percent / 100);
  if (p_value_above(log_ratios, effect) < rules.significance) return Verdict::worse;
  if (p_value_below(log_ratios, -effect) < rules.significance) return Verdict::better;
  if (p_value_below(log_ratios, effect) < rules.significance &&
      p_value_above(log_ratios, -effect) < rules.significance) {
    return Verdict::same;
  }
  return Verdict::cannot_tell;
}

WorkloadVerdict combine(const std::vector<Comparison>& counts, bool complete,
                        std::optional<Verdict> time, double time_ratio) {
  const std::string worse = named(counts, Verdict::worse);
  const std::string better = named(counts, Verdict::better);
  const std::string time_text = "time " + percent_text(100 * (time_ratio - 1));
  if (!worse.empty()) {
    return {Verdict::worse, worse + (better.empty() ? "" : "; better: " + better)};
  }
  if (time == Verdict::worse) {
    return {Verdict::worse, time_text + (better.empty() ? "" : "; better: " + better)};
  }
  if (!better.empty()) return {Verdict::better, better};
  if (time == Verdict::better) return {Verdict::better, time_text};
  if (complete) return {Verdict::same, "no count differs by more than its threshold"};
  if (time == Verdict::same) return {Verdict::same, time_text};
  return {Verdict::cannot_tell, time ? "nothing was counted by valgrind, and the time is too noisy"
                                     : "nothing was counted by valgrind, and nothing was timed"};
}

}  // namespace kvproof::bench
