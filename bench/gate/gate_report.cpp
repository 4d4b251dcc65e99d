// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/gate_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/gate/wilcoxon.h"

namespace kvproof::bench {
namespace {

std::string percent(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%+.*f %%", std::abs(value) < 10 ? 2 : 0, value);
  return text;
}

std::string text_of(Verdict verdict) { return std::string(name_of(verdict)); }

/// As a text for people.
std::string in_words(Verdict verdict) {
  return verdict == Verdict::cannot_tell ? "cannot tell" : text_of(verdict);
}

Result measure_row(const WorkloadReport& w, const Comparison& c, const Rules& rules) {
  const Measure& measure = kMeasures[c.measure];
  return {"gate_measure",
          {{"workload", w.workload},
           {"measure", std::string(measure.words)},
           {"verdict", text_of(c.verdict)}},
          {{"base", metric(c.base, "count")},
           {"head", metric(c.head, "count")},
           {"change_percent", metric(c.change_percent(), "percent")},
           {"threshold_percent", metric(rules.threshold_percent[c.measure], "percent")}}};
}

Result time_row(const WorkloadReport& w, const Rules& rules) {
  std::vector<double> ratios;
  for (const double log_ratio : w.time->log_ratios) ratios.push_back(100 * std::expm1(log_ratio));
  std::ranges::sort(ratios);
  const std::size_t tenth = ratios.size() / 10;
  return {
      "gate_time",
      {{"workload", w.workload}, {"verdict", text_of(w.time->verdict)}},
      {{"pairs", count(ratios.size())},
       {"change_percent",
        {100 * (w.time->ratio() - 1), "percent", ratios[tenth], ratios[ratios.size() - 1 - tenth]}},
       {"threshold_percent", metric(rules.time_percent, "percent")}}};
}

std::size_t how_many(const GateReport& report, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count_if(
      report.workloads, [&](const WorkloadReport& w) { return w.verdict.verdict == verdict; }));
}

/// "2 worse, 4 same"
std::string tally(const GateReport& report) {
  std::string out;
  for (const Verdict verdict :
       {Verdict::worse, Verdict::cannot_tell, Verdict::better, Verdict::same}) {
    const std::size_t n = how_many(report, verdict);
    if (n == 0) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(n) + " " + in_words(verdict);
  }
  return out;
}

}  // namespace

double TimeReport::ratio() const { return std::exp(median(log_ratios)); }

Verdict GateReport::verdict() const {
  std::vector<Verdict> all;
  for (const WorkloadReport& w : workloads) all.push_back(w.verdict.verdict);
  return deciding(all);
}

std::vector<Result> results_of(const GateReport& report, const Rules& rules) {
  std::vector<Result> out;
  for (const WorkloadReport& w : report.workloads) {
    for (const Comparison& c : w.counts) out.push_back(measure_row(w, c, rules));
  }
  for (const WorkloadReport& w : report.workloads) {
    if (w.time) out.push_back(time_row(w, rules));
  }
  for (const std::string& note : report.notes) out.push_back({"gate_note", {{"note", note}}, {}});
  const auto row = [&](const char* experiment, const std::string& workload, Verdict verdict,
                       const std::string& reason) {
    out.push_back({experiment,
                   {{"workload", workload},
                    {"verdict", text_of(verdict)},
                    {"reason", reason},
                    {"head", report.head},
                    {"base", report.base}},
                   {{"exit_code", count(static_cast<std::uint64_t>(exit_code_of(verdict)))}}});
  };
  for (const WorkloadReport& w : report.workloads) {
    row("gate", w.workload, w.verdict.verdict, w.verdict.because);
  }
  row("gate_total", "all", report.verdict(), tally(report));
  return out;
}

std::string summary(const GateReport& report) {
  std::string out = "**kvproof gate: " + in_words(report.verdict()) + "** (`" + report.head +
                    "` against `" + report.base + "`: " + tally(report) + ")\n\n";
  out += "| workload | verdict | because | instructions | time |\n|---|---|---|---|---|\n";
  for (const WorkloadReport& w : report.workloads) {
    std::string instructions = "not counted";
    for (const Comparison& c : w.counts) {
      if (kMeasures[c.measure].key == "instructions_per_block") {
        instructions = percent(c.change_percent());
      }
    }
    out += "| " + w.workload + " | " + in_words(w.verdict.verdict) + " | " + w.verdict.because +
           " | " + instructions + " | " +
           (w.time ? percent(100 * (w.time->ratio() - 1)) + " (" + in_words(w.time->verdict) + ")"
                   : "not timed") +
           " |\n";
  }
  for (const std::string& note : report.notes) out += "\nNote: " + note + "\n";
  return out;
}

std::string broken_summary(const std::string& head, const std::string& what) {
  return "**kvproof gate: broken** (`" + head + "` " + what + "; nothing was measured)\n";
}

}  // namespace kvproof::bench
