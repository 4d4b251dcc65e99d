// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/check_report.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <numeric>
#include <ostream>

#include "properties/check/candidate.h"
#include "properties/check/drawing.h"
#include "properties/laws.h"
#include "properties/random/shrink.h"
#include "reference/trace_names.h"

namespace kvproof::bench {
namespace {

using properties::CheckReport;
using properties::Counts;
using properties::LawReport;
using properties::RunReport;

struct Counter {
  const char* name;
  std::uint64_t Counts::*value;
};

constexpr Counter kCounters[] = {
    {"operations", &Counts::operations},
    {"grants", &Counts::grants},
    {"hits", &Counts::hits},
    {"evictions", &Counts::evictions},
    {"refusals", &Counts::refusals},
    {"revivals", &Counts::revivals},
    {"preemptions", &Counts::preemptions},
    {"rejections", &Counts::rejections},
    {"recycled", &Counts::recycled},
    {"forks", &Counts::forks},
    {"copies", &Counts::copies},
    {"truncations", &Counts::truncations},
    {"leases", &Counts::leases},
    {"swaps", &Counts::swaps},
    {"failed_swaps", &Counts::failed_swaps},
    {"skipped", &Counts::skipped},
};

std::string verdict_text(const LawReport& law) {
  if (law.broken) return "BROKEN";
  if (!law.demanded) return "not demanded: " + law.left_out;
  if (law.checked == 0) return law.promised ? "VACUOUS: never had a say" : "no run was about it";
  return law.left_out.empty() ? "holds" : "holds; in part not demanded: " + law.left_out;
}

void print_laws(std::ostream& out, const CheckReport& report) {
  out << "law   name                        checked   suspended  verdict\n";
  for (std::size_t i = 0; i < report.laws.size(); ++i) {
    const LawReport& law = report.laws[i];
    const properties::Law& row = properties::kLaws[i];
    out << std::left << std::setw(6) << row.id << std::setw(24) << row.name << std::right
        << std::setw(11) << law.checked << std::setw(12) << law.suspended << "  "
        << verdict_text(law) << '\n';
  }
  const auto oracle = [&](const char* name, bool consulted, const char* why) {
    const bool broken = report.failure && report.failure->failure.names(name);
    out << std::left << std::setw(6) << "" << std::setw(47) << name << std::right << "  "
        << (broken      ? "BROKEN"
            : consulted ? "holds"
                        : why)
        << '\n';
  };
  oracle("content", report.content, "not consulted: it shows no block ids");
  oracle("model", report.model, "not consulted: it promises no profile, or does not show enough");
  out << '\n';
}

/// Each reason once, with the runs that it prevented.
void print_not_run(std::ostream& out, const CheckReport& report) {
  std::map<std::string, std::vector<std::string>> names;
  for (const RunReport& run : report.runs) {
    if (run.not_run.empty()) continue;
    std::vector<std::string>& list = names[run.not_run];
    if (std::ranges::find(list, run.name) == list.end()) list.push_back(run.name);
  }
  for (const auto& [reason, list] : names) {
    out << "not run, because " << reason << ":";
    for (const std::string& name : list) out << (name == list.front() ? " " : ", ") << name;
    out << '\n';
  }
}

void print_vacuous(std::ostream& out, const CheckReport& report) {
  for (const RunReport& run : report.runs) {
    if (run.vacuous.empty()) continue;
    out << "vacuous: " << run.name << " as " << run.profile << " promises these, and saw none:";
    for (const std::string& name : run.vacuous) out << ' ' << name;
    out << '\n';
  }
}

/// What it declined, and how often.
void print_declined(std::ostream& out, const CheckReport& report) {
  for (std::size_t i = 0; i < properties::kNumOperations; ++i) {
    if (report.counts.declined[i] == 0) continue;
    out << "declined: " << kOperationNames[i] << ' ' << report.counts.declined[i] << " of "
        << report.counts.asked[i] << " times: " << report.declined[i] << '\n';
  }
}

/// "; not exercised: allocate": what the verdict does not cover, because it was mostly declined.
std::string not_exercised(const CheckReport& report) {
  std::string out;
  for (const std::string_view name : report.not_exercised()) {
    out.append(out.empty() ? "; not exercised: " : ", ").append(name);
  }
  return out;
}

Metric metric(std::uint64_t value, const char* unit = "count") {
  return {static_cast<double>(value), unit, {}, {}};
}

std::string level_text(const properties::Promises& promises) {
  switch (promises.level) {
    case properties::Level::safety: return "safety";
    case properties::Level::policy: return "policy";
    default: return "profile " + promises.profile;
  }
}

}  // namespace

properties::CheckOptions own_check() {
  properties::CheckOptions out;
  out.operations = 6'000;
  out.vectors = properties::vectors_folder();
  return out;
}

CheckVerdict verdict_of(const CheckReport& report) {
  if (report.failure) return CheckVerdict::violated;
  return report.vacuous() ? CheckVerdict::vacuous : CheckVerdict::holds;
}

void print_report(std::ostream& out, const CheckReport& report, double seconds) {
  std::uint64_t runs = 0;
  std::size_t configurations = 0;
  for (const RunReport& run : report.runs) {
    runs += run.runs;
    configurations += run.not_run.empty() ? 1 : 0;
  }
  out << "subject " << report.subject << ": promises " << level_text(report.promises) << "; shows "
      << properties::names_of(report.shown) << '\n';
  out << runs << " runs in " << configurations << " sets, " << std::fixed << std::setprecision(1)
      << seconds << " s\n"
      << std::defaultfloat;
  print_not_run(out, report);
  out << '\n';
  print_laws(out, report);
  std::string line;
  for (const Counter& counter : kCounters) {
    const std::uint64_t value = report.counts.*counter.value;
    line += (line.empty() ? "" : ", ") + std::to_string(value) + ' ' + counter.name;
  }
  out << line << '\n';
  print_depth(out, report.pairs);
  print_vacuous(out, report);
  print_declined(out, report);
  if (report.errors.count > 0) {
    out << "errors: " << report.errors.count << " of " << report.errors.calls
        << " valid calls were answered by one if the check goes on; the first was "
        << report.errors.first << '\n';
  }
  const CheckVerdict verdict = verdict_of(report);
  out << (verdict == CheckVerdict::violated  ? "VIOLATED"
          : verdict == CheckVerdict::vacuous ? "CANNOT TELL: some of it was vacuous"
                                             : "HOLDS")
      << ": " << report.subject << not_exercised(report) << "\n\n";
}

void print_depth(std::ostream& out, const properties::FeaturePairs& pairs) {
  const std::vector<std::uint64_t> each = pairs.operations();
  if (each.back() == 0) return;  // there were no random runs
  const std::vector<std::string> missing = pairs.missing();
  out << pairs.reached() << " of " << each.size()
      << " pairs of features; operations of each: " << each.front() << " at least, "
      << each[each.size() / 2] << " in the median, " << each.back() << " at most\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(missing.size(), 3); ++i) {
    out << (i == 0 ? "absent: " : ", ") << missing[i];
  }
  if (missing.size() > 3) out << ", and " << missing.size() - 3 << " more";
  if (!missing.empty()) out << '\n';
}

void print_failure(std::ostream& out, const CheckReport& report, std::uint64_t seed,
                   const std::string& replay_options) {
  const properties::FailureReport& f = *report.failure;
  out << "In " << f.where << ", after " << f.found_after << " operations, shrunk to "
      << f.failure.trace.size() << ":\n"
      << keep_failure(f.failure, seed, ".", replay_options);
  if (f.after) {
    out << "the last operation was answered " << f.answer << '\n'
        << "the state, with - before and + after it:\n"
        << properties::draw_change(f.before, *f.after);
  } else {
    out << "the state before the last operation, which was not answered:\n"
        << properties::draw_state(f.before);
  }
  out << '\n';
}

std::vector<Result> results_of(const CheckReport& report, std::uint64_t seed, double seconds) {
  std::vector<Result> out;
  const std::uint64_t declined =
      std::accumulate(report.counts.declined.begin(), report.counts.declined.end(), 0ULL);
  const std::vector<std::uint64_t> each = report.pairs.operations();
  Result whole{"check",
               {{"subject", report.subject},
                {"promises", level_text(report.promises)},
                {"seed", static_cast<std::int64_t>(seed)},
                {"broken", std::string()}},
               {{"verdict", metric(static_cast<std::uint64_t>(verdict_of(report)))},
                {"seconds", {seconds, "s", {}, {}}},
                {"operations_per_second",
                 {static_cast<double>(report.counts.operations) / seconds, "1/s", {}, {}}},
                {"pairs_of_features", metric(report.pairs.reached())},
                {"pairs_possible", metric(each.size())},
                {"operations_per_pair_least", metric(each.front())},
                {"operations_per_pair_median", metric(each[each.size() / 2])},
                {"declined", metric(declined)},
                {"errors", metric(report.errors.count)}}};
  if (report.failure) {
    std::string broken;
    for (const std::string& id : report.failure->failure.breaches) {
      broken.append(broken.empty() ? "" : " ").append(id);
    }
    whole.parameters.back().second = broken;
    whole.metrics.emplace_back("trace_operations", metric(report.failure->failure.trace.size()));
  }
  for (const Counter& c : kCounters)
    whole.metrics.emplace_back(c.name, metric(report.counts.*c.value));
  out.push_back(std::move(whole));
  for (std::size_t i = 0; i < report.laws.size(); ++i) {
    const LawReport& law = report.laws[i];
    out.push_back({"check_law",
                   {{"subject", report.subject},
                    {"law", std::string(properties::kLaws[i].id)},
                    {"name", std::string(properties::kLaws[i].name)},
                    {"verdict", verdict_text(law)}},
                   {{"checked", metric(law.checked)}, {"suspended", metric(law.suspended)}}});
  }
  for (const RunReport& run : report.runs) {
    Result row{"check_run",
               {{"subject", report.subject},
                {"configuration", run.name},
                {"profile", run.profile},
                {"not_run", run.not_run}},
               {{"runs", metric(run.runs)}}};
    for (const Counter& c : kCounters)
      row.metrics.emplace_back(c.name, metric(run.counts.*c.value));
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace kvproof::bench
