// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/gate_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "bench/gate/wilcoxon.h"
#include "bench/results/table.h"

namespace kvproof::bench {
namespace {

std::string percent(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%+.*f %%", std::abs(value) < 10 ? 2 : 0, value);
  return text;
}

Result measure_row(const WorkloadReport& w, const Comparison& c, const Rules& rules) {
  const Measure& measure = kMeasures[c.measure];
  return {"gate_measure",
          {{"workload", w.workload},
           {"measure", std::string(measure.words)},
           {"verdict", std::string(to_string(c.verdict))}},
          {{"base", {c.base, "count", {}, {}}},
           {"head", {c.head, "count", {}, {}}},
           {"change_percent", {c.change_percent(), "percent", {}, {}}},
           {"threshold_percent", {rules.threshold_percent[c.measure], "percent", {}, {}}}}};
}

Result time_row(const WorkloadReport& w, const Rules& rules) {
  std::vector<double> ratios;
  for (const double log_ratio : w.time->log_ratios) ratios.push_back(100 * std::expm1(log_ratio));
  std::ranges::sort(ratios);
  const std::size_t tenth = ratios.size() / 10;
  return {
      "gate_time",
      {{"workload", w.workload}, {"verdict", std::string(to_string(w.time->verdict))}},
      {{"pairs", {static_cast<double>(ratios.size()), "count", {}, {}}},
       {"change_percent",
        {100 * (w.time->ratio() - 1), "percent", ratios[tenth], ratios[ratios.size() - 1 - tenth]}},
       {"threshold_percent", {rules.time_percent, "percent", {}, {}}}}};
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
    out += (out.empty() ? "" : ", ") + std::to_string(n) + " ";
    out += to_string(verdict);
  }
  return out;
}

}  // namespace

double TimeReport::ratio() const { return std::exp(median(log_ratios)); }

Verdict GateReport::verdict() const {
  for (const Verdict verdict : {Verdict::worse, Verdict::cannot_tell, Verdict::better}) {
    if (how_many(*this, verdict) > 0) return verdict;
  }
  return Verdict::same;
}

int exit_code(Verdict verdict) {
  return verdict == Verdict::worse ? 1 : verdict == Verdict::cannot_tell ? 3 : 0;
}

std::vector<Result> results_of(const GateReport& report, const Rules& rules) {
  std::vector<Result> out;
  for (const WorkloadReport& w : report.workloads) {
    out.push_back(
        {"gate",
         {{"workload", w.workload},
          {"verdict", std::string(to_string(w.verdict.verdict))},
          {"because", w.verdict.because},
          {"head", report.head},
          {"base", report.base}},
         {{"exit_code", {static_cast<double>(exit_code(w.verdict.verdict)), "count", {}, {}}}}});
  }
  for (const WorkloadReport& w : report.workloads) {
    for (const Comparison& c : w.counts) out.push_back(measure_row(w, c, rules));
  }
  for (const WorkloadReport& w : report.workloads) {
    if (w.time) out.push_back(time_row(w, rules));
  }
  return out;
}

void print_gate(std::ostream& out, const GateReport& report, const Rules& rules) {
  std::vector<Result> rows = results_of(report, rules);
  std::erase_if(rows, [](const Result& row) { return row.experiment == "gate"; });
  print_results(out, rows);
  for (const std::string& note : report.notes) out << "note: " << note << '\n';
  std::size_t widest = 0;
  for (const WorkloadReport& w : report.workloads) widest = std::max(widest, w.workload.size());
  for (const WorkloadReport& w : report.workloads) {
    out << w.workload << std::string(widest + 2 - w.workload.size(), ' ')
        << to_string(w.verdict.verdict) << ": " << w.verdict.because << '\n';
  }
  std::string verdict(to_string(report.verdict()));
  std::ranges::transform(verdict, verdict.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  });
  out << verdict << ": " << report.head << " against " << report.base << ": " << tally(report)
      << '\n';
}

std::string summary(const GateReport& report) {
  std::string out = "**kvproof gate: " + std::string(to_string(report.verdict())) + "** (`" +
                    report.head + "` against `" + report.base + "`: " + tally(report) + ")\n\n";
  out += "| workload | verdict | because | instructions | time |\n|---|---|---|---|---|\n";
  for (const WorkloadReport& w : report.workloads) {
    std::string instructions = "not counted";
    for (const Comparison& c : w.counts) {
      if (kMeasures[c.measure].key == "instructions_per_block") {
        instructions = percent(c.change_percent());
      }
    }
    out += "| " + w.workload + " | " + std::string(to_string(w.verdict.verdict)) + " | " +
           w.verdict.because + " | " + instructions + " | " +
           (w.time ? percent(100 * (w.time->ratio() - 1)) + " (" +
                         std::string(to_string(w.time->verdict)) + ")"
                   : "not timed") +
           " |\n";
  }
  for (const std::string& note : report.notes) out += "\nNote: " + note + "\n";
  return out;
}

std::string wrong_summary(const std::string& head, const std::string& what) {
  return "**kvproof gate: wrong** (`" + head + "` " + what + "; nothing was measured)\n";
}

}  // namespace kvproof::bench
