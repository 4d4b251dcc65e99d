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
#include "properties/lens/beside.h"
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
  properties::Parts seen_in = 0;  // what must be shown so that it can move
};

constexpr Counter kCounters[] = {
    {"operations", &Counts::operations},
    {"grants", &Counts::grants},
    {"hits", &Counts::hits},
    {"evictions", &Counts::evictions, properties::kEvents},
    {"refusals", &Counts::refusals},
    {"revivals", &Counts::revivals, properties::kCached | properties::kReferences},
    {"preemptions", &Counts::preemptions},
    {"rejections", &Counts::rejections},
    {"recycled", &Counts::recycled, properties::kIds},
    {"forks", &Counts::forks},
    {"copies", &Counts::copies},
    {"truncations", &Counts::truncations},
    {"leases", &Counts::leases},
    {"swaps", &Counts::swaps},
    {"failed_swaps", &Counts::failed_swaps},
    {"skipped", &Counts::skipped},
    {"positions_read", &Counts::positions_read, properties::kContents},
};

std::string with_commas(std::uint64_t n) {
  std::string out = std::to_string(n);
  for (std::size_t at = out.size(); at > 3;) out.insert(at -= 3, 1, ',');
  return out;
}

std::string verdict_text(const LawReport& law) {
  if (law.broken) return law.known ? "broken, as is known" : "BROKEN";
  if (!law.demanded) return "not demanded: " + law.left_out;
  if (law.checked == 0) {
    return law.promised ? "VACUOUS: never evaluated" : "not evaluated: no run was about it";
  }
  std::string out = "holds";
  if (law.worded > 0) out += ", " + std::to_string(law.worded) + " times exempted by a trait";
  return law.left_out.empty() ? out : out + "; in part not demanded: " + law.left_out;
}

/// A row for each law that is demanded, and a line for each reason why others are not.
void print_laws(std::ostream& out, const CheckReport& report) {
  std::map<std::string, std::string> not_demanded;
  out << "law   name                        checked   suspended  verdict\n";
  for (std::size_t i = 0; i < report.laws.size(); ++i) {
    const LawReport& law = report.laws[i];
    const properties::Law& row = properties::kLaws[i];
    if (!law.demanded && !law.broken) {
      std::string& ids = not_demanded[law.left_out];
      ids.append(ids.empty() ? "" : ", ").append(row.id);
      continue;
    }
    out << std::left << std::setw(6) << row.id << std::setw(24) << row.name << std::right
        << std::setw(11) << law.checked << std::setw(12) << law.suspended << "  "
        << verdict_text(law) << '\n';
  }
  const auto oracle = [&](const char* name, bool consulted, const char* why) {
    const bool broken = std::ranges::any_of(
        report.findings, [&](const auto& finding) { return finding.failure.names(name); });
    out << std::left << std::setw(6) << "" << std::setw(47) << name << std::right << "  "
        << (broken      ? "BROKEN"
            : consulted ? "holds"
                        : why);
  };
  const std::uint64_t read = report.counts.positions_read;
  oracle("content", report.content || read > 0, "not consulted: it shows no block ids");
  if (read > 0) out << "; " << with_commas(read) << " positions were read back from its tensors";
  out << '\n';
  const bool promised = report.promises.level == properties::Level::profile;
  oracle("model", report.model,
         promised ? "not consulted: it does not show enough"
                  : "not consulted: it promises no profile");
  out << '\n';
  for (const auto& [reason, ids] : not_demanded) {
    out << "not demanded, for " << reason << ": " << ids << '\n';
  }
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

/// Whether those configurations that were not run are a reason to worry.
void print_coverage(std::ostream& out, const CheckReport& report) {
  std::size_t declared = 0;
  std::size_t answered = 0;
  std::size_t silent = 0;
  for (const properties::Configuration& row : properties::kConfigurations) {
    const auto run = std::ranges::find(report.runs, row.name, &RunReport::name);
    if (run == report.runs.end() || run->runs > 0 || run->not_run.empty()) continue;
    ++(run->not_run.starts_with(properties::kItSays) ? answered : declared);
    silent += run->not_run.ends_with(properties::kNoReason) ? 1 : 0;
  }
  const std::size_t all = std::size(properties::kConfigurations);
  const std::size_t others = all - report.rows_run() - declared - answered;
  if (report.rows_run() == all) return;
  out << report.rows_run() << " of " << all << " configurations were run. Not a fault: " << declared
      << " are beyond its operations and abilities, " << answered
      << " it answers with unsupported, " << others
      << (report.stopped ? " were not reached, because the check stops after its findings\n"
                         : " were not asked for\n");
  if (silent == 0) return;
  out << "warning: " << silent
      << " are unsupported without a reason, which tells a limit from a mistake\n";
}

/// What it declined, how often, and why.
void print_declined(std::ostream& out, const CheckReport& report) {
  for (std::size_t i = 0; i < properties::kNumOperations; ++i) {
    if (report.counts.declined[i] == 0) continue;
    out << "declined: " << kOperationNames[i] << ' ' << report.counts.declined[i] << " of "
        << report.counts.asked[i] << " times: ";
    const auto& reasons = report.declined[i];
    for (auto at = reasons.begin(); at != reasons.end(); ++at) {
      out << (at == reasons.begin() ? "" : ", ") << at->first;
      if (reasons.size() > 1) out << " (" << at->second << ')';
    }
    out << '\n';
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
    case properties::Level::hits: return "hits";
    case properties::Level::policy: return "policy";
    default: return "profile " + (promises.profile.empty() ? "any" : promises.profile);
  }
}

void print_counters(std::ostream& out, const CheckReport& report) {
  std::string line;
  std::string unseen;
  for (const Counter& counter : kCounters) {
    if (counter.seen_in == properties::kContents) continue;  // it stands beside its oracle
    if ((counter.seen_in & ~report.shown) != 0) {
      unseen.append(unseen.empty() ? "not shown: " : ", ").append(counter.name);
      continue;
    }
    const std::uint64_t value = report.counts.*counter.value;
    line += (line.empty() ? "" : ", ") + std::to_string(value) + ' ' + counter.name;
  }
  out << line << '\n' << unseen << (unseen.empty() ? "" : "\n");
}

void print_beside(std::ostream& out, const properties::Beside& beside) {
  if (beside.name.empty()) return;
  out << "beside " << beside.name << ": compared are answers, tokens, how many blocks are free"
      << (beside.compared == 0 ? "" : ", ") << properties::names_of(beside.compared) << '\n';
  if (beside.left_out.empty()) return;
  out << "not asked, for only one of the two declares them: " << beside.left_out << '\n';
}

/// Its traits, and what its abilities leave out.
void print_abilities(std::ostream& out, const CheckReport& report) {
  const std::string traits = traits_text(report.promises.traits);
  if (!traits.empty()) out << "judged with its traits: " << traits << '\n';
  const std::string who = report.beside.name.empty() ? "it has no" : "one of the two lacks";
  const std::vector<std::string> left_out = left_out_by(report.promises.abilities);
  if (!left_out.empty()) out << "not asked, for " << who << " such abilities:\n";
  for (const std::string& words : left_out) out << "  " << words << '\n';
  for (const RunReport& run : report.runs) {
    if (run.cut.empty()) continue;
    out << "fewer operations than asked for in " << run.name << ": " << run.counts.operations
        << ", because " << run.cut << '\n';
  }
}

void print_known(std::ostream& out, const CheckReport& report) {
  for (const auto& finding : report.findings) {
    if (!finding.known) continue;
    out << "known: " << finding.laws() << ", " << finding.seen
        << " times: " << finding.known->text() << '\n';
  }
  for (const auto& known : report.gone) {
    out << "known, and did not occur: " << known.law() << ": " << known.text() << '\n';
  }
}

std::string count_of(std::uint64_t n, const std::string& thing) {
  return with_commas(n) + ' ' + thing + (n == 1 ? "" : "s");
}

/// "HOLDS: 13 of 42 laws evaluated, 2 of 35 configurations, 49,431 operations: naive"
void print_verdict(std::ostream& out, const CheckReport& report) {
  const CheckVerdict verdict = verdict_of(report);
  const std::size_t known = report.num_known();
  const std::size_t behind = report.num_behind();
  const std::size_t unknown = report.findings.size() - known - behind;
  out << (verdict == CheckVerdict::violated  ? "VIOLATED: "
          : verdict == CheckVerdict::vacuous ? "CANNOT TELL: some of it was vacuous, "
                                             : "HOLDS: ");
  if (unknown > 0) out << count_of(unknown, "finding") << ", ";
  if (known > 0) out << count_of(known, "known finding") << ", ";
  if (behind > 0) out << behind << " more that may follow from them, ";
  for (const std::string& id : report.silent) out << id << " was required and not evaluated, ";
  out << report.laws_spoke() << " of " << report.laws.size() << " laws evaluated, "
      << report.rows_run() << " of " << std::size(properties::kConfigurations)
      << " configurations, " << count_of(report.counts.operations, "operation") << ": "
      << report.subject << (report.beside.name.empty() ? "" : " beside " + report.beside.name)
      << not_exercised(report) << "\n\n";
}

}  // namespace

properties::CheckOptions own_check() {
  properties::CheckOptions out;
  out.operations = 6'000;
  out.vectors = properties::vectors_folder();
  out.regressions = properties::regressions_folder();
  return out;
}

CheckVerdict verdict_of(const CheckReport& report) {
  if (report.failure() != nullptr) return CheckVerdict::violated;
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
  print_beside(out, report.beside);
  if (!report.assumed_profile.empty()) {
    out << "policy of " << report.assumed_profile
        << ", as it names no profile: --profile=" << kDefaultProfile.name
        << " asks for that of the newest release\n";
  }
  out << runs << " runs in " << configurations << " sets, " << std::fixed << std::setprecision(1)
      << seconds << " s\n"
      << std::defaultfloat;
  print_not_run(out, report);
  print_coverage(out, report);
  out << '\n';
  print_laws(out, report);
  print_counters(out, report);
  print_depth(out, report.pairs);
  print_vacuous(out, report);
  print_declined(out, report);
  print_abilities(out, report);
  if (report.errors.count > 0) {
    out << "errors: " << report.errors.count << " of " << report.errors.calls
        << " valid calls were answered by one if the check goes on; the first was "
        << report.errors.first << '\n';
  }
  print_known(out, report);
  print_verdict(out, report);
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

namespace {

properties::Show shows(const properties::Candidate& candidate) {
  return [&candidate](const CacheConfig& config) {
    properties::Opened opened = candidate.open(config);
    return properties::Shown{std::move(opened.subject), opened.demands.shown};
  };
}

void print_failure(std::ostream& out, const properties::FailureReport& f, std::uint64_t number,
                   const properties::Candidate& candidate) {
  out << "In " << f.where << ", after " << f.found_after << " operations, shrunk to "
      << f.failure.trace.size() << (f.seen > 1 ? ", and " + std::to_string(f.seen - 1) : "")
      << (f.seen > 1 ? " more of its kind" : "") << ":\n"
      << keep_failure(f.failure, number, ".", shows(candidate), candidate.option);
  if (!f.intended.empty()) out << "if intended: \"traits\":{" << f.intended << "}\n";
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

/// What may follow from a finding is told in short.
void print_consequence(std::ostream& out, const properties::FailureReport& f, std::uint64_t number,
                       const properties::Candidate& candidate) {
  out << "In " << f.where << ", " << f.seen << (f.seen == 1 ? " time, " : " times, ") << f.laws()
      << " may follow: with all laws its trace breaks others before.\n"
      << f.failure.text << '\n'
      << keep_trace(f.failure, number, ".", shows(candidate), candidate.option + f.without())
      << '\n';
}

}  // namespace

void print_failures(std::ostream& out, const CheckReport& report, std::uint64_t seed,
                    const properties::Candidate& candidate) {
  const auto all = std::ranges::count(report.findings, 0U, &properties::FailureReport::behind);
  std::uint64_t number = seed;
  for (const properties::FailureReport& f : report.findings) {
    const auto nth = number++ - seed + 1;
    if (f.known) continue;
    if (f.behind != 0) {
      print_consequence(out, f, number - 1, candidate);
      continue;
    }
    if (all > 1) out << "Finding " << nth << " of " << all << ". ";
    print_failure(out, f, number - 1, candidate);
  }
}

namespace {

void add_laws(const CheckReport& report, std::vector<Result>& out) {
  for (std::size_t i = 0; i < report.laws.size(); ++i) {
    const LawReport& law = report.laws[i];
    out.push_back({"check_law",
                   {{"subject", report.subject},
                    {"law", std::string(properties::kLaws[i].id)},
                    {"name", std::string(properties::kLaws[i].name)},
                    {"verdict", verdict_text(law)}},
                   {{"checked", metric(law.checked)},
                    {"suspended", metric(law.suspended)},
                    {"worded", metric(law.worded)}}});
  }
  for (const properties::FailureReport& f : report.findings) {
    out.push_back(
        {"check_finding",
         {{"subject", report.subject},
          {"beside", report.beside.name},
          {"finding", f.laws()},
          {"shape", f.shape()},
          {"text", f.failure.text},
          {"where", f.where},
          {"intended", f.intended},
          {"behind", f.without()},
          {"known", f.known ? f.known->id : ""},
          {"link", f.known ? f.known->page : ""}},
         {{"trace_operations", metric(f.failure.trace.size())}, {"seen", metric(f.seen)}}});
  }
}

void add_runs(const CheckReport& report, std::vector<Result>& out) {
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
}

}  // namespace

std::vector<Result> results_of(const CheckReport& report, std::uint64_t seed, double seconds) {
  std::vector<Result> out;
  const std::uint64_t declined =
      std::accumulate(report.counts.declined.begin(), report.counts.declined.end(), 0ULL);
  const std::vector<std::uint64_t> each = report.pairs.operations();
  std::uint64_t worded = 0;
  for (const LawReport& law : report.laws) worded += law.worded;
  Result whole{
      "check",
      {{"subject", report.subject},
       {"promises", level_text(report.promises)},
       {"beside", report.beside.name},
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
       {"errors", metric(report.errors.count)},
       {"laws_spoke", metric(report.laws_spoke())},
       {"laws", metric(report.laws.size())},
       {"configurations", metric(report.rows_run())},
       {"configurations_known", metric(std::size(properties::kConfigurations))},
       {"findings_new", metric(report.findings.size() - report.num_known() - report.num_behind())},
       {"findings_behind", metric(report.num_behind())},
       {"findings_known", metric(report.num_known())},
       {"worded", metric(worded)}}};
  if (const properties::FailureReport* first = report.failure()) {
    std::string broken;
    for (const std::string& id : first->failure.breaches) {
      broken.append(broken.empty() ? "" : " ").append(id);
    }
    whole.parameters.back().second = broken;
    whole.metrics.emplace_back("trace_operations", metric(first->failure.trace.size()));
  }
  for (const Counter& c : kCounters)
    whole.metrics.emplace_back(c.name, metric(report.counts.*c.value));
  out.push_back(std::move(whole));
  add_laws(report, out);
  add_runs(report, out);
  return out;
}

}  // namespace kvproof::bench
