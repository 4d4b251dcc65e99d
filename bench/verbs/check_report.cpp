// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/check_report.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <tuple>
#include <utility>

#include "bench/results/table.h"
#include "bench/verbs/known_rows.h"
#include "properties/audit/shrink.h"
#include "properties/check/candidate.h"
#include "properties/check/drawing.h"
#include "properties/laws/laws.h"
#include "properties/story/beside.h"
#include "reference/support/say.h"
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

std::string text_of(Verdict verdict) { return std::string(name_of(verdict)); }

/// The verdict on the i-th law, and its reason.
std::pair<Verdict, std::string> law_verdict(const CheckReport& report, std::size_t i) {
  const LawReport& law = report.laws[i];
  if (law.reported > 0) {
    const auto& [id, name] = std::tie(properties::kLaws[i].id, properties::kLaws[i].name);
    const auto finding = std::ranges::find_if(
        report.findings, [&](const auto& each) { return each.failure.names(id); });
    return {law.known == law.reported ? Verdict::known : Verdict::broken,
            say(id, " ", name, ": ", finding->failure.said_by(id))};
  }
  if (!law.demanded) return {Verdict::not_applicable, law.left_out};
  if (law.evaluated == 0 && law.promised) return {Verdict::cannot_tell, "never evaluated"};
  if (law.evaluated == 0) return {Verdict::not_evaluated, "no run was about it"};
  return {Verdict::holds, law.left_out.empty() ? "" : "in part not demanded: " + law.left_out};
}

/// The rows of a report, one kind after the other.
class Rows {
 public:
  Rows(const CheckReport& report, std::uint64_t seed, double seconds)
      : report_(report), seed_(seed), seconds_(seconds) {}

  [[nodiscard]] std::vector<Result> all() {
    add_runs();
    add_coverage();
    add_declined();
    add_abilities();
    add_known();
    add_laws();
    add_oracles();
    add_whole();
    return std::move(rows_);
  }

 private:
  /// A sentence for people about what the rows do not say.
  template <class... Parts>
  void note(const Parts&... parts) {
    rows_.push_back({"check_note", {{"subject", report_.subject}, {"note", say(parts...)}}, {}});
  }

  void add_runs();
  void add_coverage();
  void add_declined();
  void add_abilities();
  void add_known();
  void add_laws();
  void add_oracles();
  void add_whole();

  const CheckReport& report_;
  std::uint64_t seed_;
  double seconds_;
  std::vector<Result> rows_;
};

std::string level_text(const properties::Promises& promises) {
  switch (promises.level) {
    case properties::Level::safety: return "safety";
    case properties::Level::hits: return "hits";
    case properties::Level::policy: return "policy";
    default: return "profile " + (promises.profile.empty() ? "any" : promises.profile);
  }
}

void Rows::add_runs() {
  for (const RunReport& run : report_.runs) {
    std::vector<std::string> why;
    if (!run.not_run.empty()) why = {run.not_run};
    if (!run.vacuous.empty())
      why = {"it promises these, and saw none: " + joined(run.vacuous, ", ")};
    if (!run.cut.empty()) why.push_back("fewer operations than asked for, because " + run.cut);
    const bool broken = std::ranges::any_of(report_.findings, [&](const auto& finding) {
      return !finding.known && finding.behind == 0 && finding.where == run.name;
    });
    const Verdict verdict = broken                 ? Verdict::broken
                            : !run.not_run.empty() ? Verdict::skipped
                            : !why.empty()         ? Verdict::cannot_tell
                                                   : Verdict::holds;
    Result row{"check_run",
               {{"subject", report_.subject},
                {"configuration", run.name},
                {"profile", run.profile},
                {"verdict", text_of(verdict)},
                {"reason", joined(why, "; ")}},
               {{"runs", count(run.runs)}}};
    for (const Counter& c : kCounters) row.metrics.emplace_back(c.name, count(run.counts.*c.value));
    rows_.push_back(std::move(row));
  }
}

/// Whether those configurations that were not run are a reason to worry.
void Rows::add_coverage() {
  std::size_t declared = 0;
  std::size_t answered = 0;
  std::size_t silent = 0;
  for (const properties::Configuration& row : properties::kConfigurations) {
    const auto run = std::ranges::find(report_.runs, row.name, &RunReport::name);
    if (run == report_.runs.end() || run->runs > 0 || run->not_run.empty()) continue;
    ++(run->answered ? answered : declared);
    silent += run->unexplained ? 1 : 0;
  }
  const std::size_t all = std::size(properties::kConfigurations);
  const std::size_t others = all - report_.rows_run() - declared - answered;
  if (report_.rows_run() == all) return;
  note(report_.rows_run(), " of ", all, " configurations were run. Not a fault: ", declared,
       " are beyond its operations and abilities, ", answered, " it answers with unsupported, ",
       others,
       report_.stopped ? " were not reached, because the check stops after its findings"
                       : " were not asked for");
  if (silent == 0) return;
  note("warning: ", silent,
       " are unsupported without a reason, which tells a limit from a mistake");
}

/// What it declined, how often, and why.
void Rows::add_declined() {
  for (std::size_t i = 0; i < properties::kNumOperations; ++i) {
    if (report_.counts.declined[i] == 0) continue;
    std::vector<std::string> reasons;
    for (const auto& [reason, times] : report_.declined[i]) {
      reasons.push_back(report_.declined[i].size() > 1 ? say(reason, " (", times, ')') : reason);
    }
    note("declined: ", kOperationNames[i], ' ', report_.counts.declined[i], " of ",
         report_.counts.asked[i], " times: ", joined(reasons, ", "));
  }
  if (report_.errors.count == 0) return;
  note("errors: ", report_.errors.count, " of ", report_.errors.calls,
       " valid calls were answered by one if the check goes on; the first was ",
       report_.errors.first);
}

/// What it was compared with, its traits, and what its abilities leave out.
void Rows::add_abilities() {
  const properties::Beside& beside = report_.beside;
  if (!beside.name.empty()) {
    note("beside ", beside.name, ": compared are answers, tokens, how many blocks are free",
         beside.compared == 0 ? "" : ", ", properties::names_of(beside.compared));
  }
  if (!beside.left_out.empty()) {
    note("not asked, for only one of the two declares them: ", beside.left_out);
  }
  if (!report_.assumed_profile.empty()) {
    note("policy of ", report_.assumed_profile,
         ", as it names no profile: --profile=", kDefaultProfile.name,
         " asks for that of the newest release");
  }
  const std::string traits = traits_text(report_.promises.traits);
  if (!traits.empty()) note("judged with its traits: ", traits);
  const std::vector<std::string> left_out = left_out_by(report_.promises.abilities);
  if (left_out.empty()) return;
  note("not asked, for ", beside.name.empty() ? "it has no" : "one of the two lacks",
       " such abilities:\n  ", joined(left_out, "\n  "));
}

/// Known findings of which nothing was found.
void Rows::add_known() {
  for (const auto& known : report_.gone) rows_.push_back(row_of_unmatched(known));
}

void Rows::add_laws() {
  for (std::size_t i = 0; i < report_.laws.size(); ++i) {
    const LawReport& law = report_.laws[i];
    const auto [verdict, reason] = law_verdict(report_, i);
    rows_.push_back({"check_law",
                     {{"subject", report_.subject},
                      {"law", std::string(properties::kLaws[i].id)},
                      {"name", std::string(properties::kLaws[i].name)},
                      {"verdict", text_of(verdict)},
                      {"reason", reason}},
                     {{"evaluated", count(law.evaluated)},
                      {"suspended", count(law.suspended)},
                      {"exempted", count(law.exempted)},
                      {"partly", count(verdict == Verdict::holds && !reason.empty() ? 1 : 0)}}});
  }
}

void Rows::add_oracles() {
  const auto add = [&](const char* name, bool consulted, const char* why) {
    Verdict verdict = consulted ? Verdict::holds : Verdict::not_applicable;
    for (const auto& finding : report_.findings) {
      if (verdict == Verdict::broken || !finding.failure.names(name)) continue;
      verdict = finding.known ? Verdict::known : Verdict::broken;
    }
    rows_.push_back({"check_oracle",
                     {{"subject", report_.subject},
                      {"oracle", std::string(name)},
                      {"verdict", text_of(verdict)},
                      {"reason", std::string(verdict == Verdict::not_applicable ? why : "")}},
                     {}});
  };
  const std::uint64_t read = report_.counts.positions_read;
  add("content", report_.content || read > 0, "not consulted: it shows no block ids");
  rows_.back().metrics.emplace_back("positions_read", count(read));
  add("model", report_.model,
      report_.promises.level == properties::Level::profile
          ? "not consulted: it does not show enough"
          : "not consulted: it promises no profile");
}

/// The counters that it does not show.
std::vector<std::string> unseen(const CheckReport& report) {
  std::vector<std::string> out;
  for (const Counter& counter : kCounters) {
    const bool beside_its_oracle = counter.seen_in == properties::kContents;
    if (!beside_its_oracle && (counter.seen_in & ~report.shown) != 0) out.push_back(counter.name);
  }
  return out;
}

/// What keeps it from a verdict, beside findings.
std::string reason_of(const CheckReport& report) {
  std::vector<std::string> out;
  if (verdict_of(report) == Verdict::cannot_tell) out.emplace_back("some of it was vacuous");
  for (const std::string& id : report.silent) out.push_back(id + " was required and not evaluated");
  return joined(out, ", ");
}

void Rows::add_whole() {
  const CheckReport& report = report_;
  const properties::FailureReport* first = report.failure();
  std::uint64_t runs = 0, exempted = 0, declined = 0;
  for (const RunReport& run : report.runs) runs += run.runs;
  for (const LawReport& law : report.laws) exempted += law.exempted;
  for (const std::uint64_t times : report.counts.declined) declined += times;
  Result row{
      "check",
      {{"subject", report.subject},
       {"promises", level_text(report.promises)},
       {"shows", properties::names_of(report.shown)},
       {"not_shown", joined(unseen(report), ", ")},
       {"beside", report.beside.name},
       {"seed", static_cast<std::int64_t>(seed_)},
       {"verdict", text_of(verdict_of(report))},
       {"reason", reason_of(report)},
       {"not_exercised", joined(report.not_exercised(), ", ")},
       {"broken", first == nullptr ? "" : joined(first->failure.breaches, " ")}},
      {{"seconds", metric(seconds_, "s")},
       {"operations_per_second",
        {static_cast<double>(report.counts.operations) / seconds_, "1/s", {}, {}}},
       {"runs", count(runs)},
       {"declined", count(declined)},
       {"errors", count(report.errors.count)},
       {"laws_evaluated", count(report.laws_evaluated())},
       {"laws", count(report.laws.size())},
       {"configurations", count(report.rows_run())},
       {"configurations_known", count(std::size(properties::kConfigurations))},
       {"findings_new", count(report.findings.size() - report.num_known() - report.num_behind())},
       {"findings_behind", count(report.num_behind())},
       {"findings_known", count(report.num_known())},
       {"exempted", count(exempted)}}};
  add_depth(row, report.pairs);
  if (first != nullptr) {
    row.metrics.emplace_back("trace_operations", count(first->failure.trace.size()));
  }
  for (const Counter& c : kCounters)
    row.metrics.emplace_back(c.name, count(report.counts.*c.value));
  rows_.push_back(std::move(row));
}

}  // namespace

properties::CheckOptions own_check() {
  properties::CheckOptions out;
  out.operations = 6'000;
  out.vectors = properties::vectors_folder();
  out.regressions = properties::regressions_folder();
  return out;
}

Verdict verdict_of(const CheckReport& report) {
  if (report.failure() != nullptr) return Verdict::broken;
  return report.vacuous() ? Verdict::cannot_tell : Verdict::holds;
}

void add_depth(Result& row, const properties::FeaturePairs& pairs) {
  const std::vector<std::uint64_t> each = pairs.operations();
  std::vector<std::string> missing;
  if (each.back() != 0) missing = pairs.missing();  // else there were no random runs
  constexpr std::size_t kFew = 3;
  const std::size_t more = missing.size() > kFew ? missing.size() - kFew : 0;
  missing.resize(missing.size() - more);
  if (more > 0) missing.push_back(say("and ", more, " more"));
  row.parameters.emplace_back("pairs_absent", joined(missing, ", "));
  row.metrics.insert(row.metrics.end(),
                     {{"pairs_of_features", count(pairs.reached())},
                      {"pairs_possible", count(each.size())},
                      {"operations_per_pair_least", count(each.front())},
                      {"operations_per_pair_median", count(each[each.size() / 2])},
                      {"operations_per_pair_most", count(each.back())}});
}

namespace {

properties::Show shows(const properties::Candidate& candidate) {
  return [&candidate](const CacheConfig& config) {
    properties::Opened opened = candidate.open(config);
    return properties::Shown{std::move(opened.subject), opened.demands.shown,
                             oracles_for(config, opened.demands).model};
  };
}

/// The trace of a finding and what its last operation did, which only a terminal shows.
std::string drawn(const properties::FailureReport& f) {
  const std::string trace = properties::describe_trace(f.failure);
  const properties::JudgedStep& step = f.failure.step;
  if (!step.after) {
    return trace + "the state before the last operation, which was not answered:\n" +
           properties::draw_state(*step.before);
  }
  return say(trace, "the last operation was answered ", to_json(*step.answer),
             "\nthe state, with - before and + after it:\n",
             properties::draw_change(*step.before, *step.after));
}

Result row_of(const properties::FailureReport& f, const CheckReport& report, std::uint64_t seed,
              const properties::Kept& kept) {
  return {"check_finding",
          {{"subject", report.subject},
           {"beside", report.beside.name},
           {"law", f.laws()},
           {"shape", f.shape()},
           {"verdict", text_of(f.known ? Verdict::known : Verdict::broken)},
           {"reason", f.failure.text},
           {"where", f.where},
           {"seed", static_cast<std::int64_t>(seed)},
           {"intended", f.intended},
           {"behind", f.without()},
           {"known", f.known ? f.known->id : ""},
           {"link", f.known ? f.known->page : ""},
           {"file", kept.file},
           {"lens", kept.lens},
           {"repeat", kept.repeat}},
          {{"trace_operations", count(f.failure.trace.size())},
           {"found_after", count(f.found_after)},
           {"seen", count(f.seen)}}};
}

}  // namespace

std::vector<Result> told_findings(std::ostream& out, const CheckReport& report, std::uint64_t seed,
                                  const properties::Candidate& candidate) {
  std::vector<Result> rows;
  for (const properties::FailureReport& f : report.findings) {
    properties::Kept kept;
    if (!f.known) {
      kept = keep_failure(f.failure, seed + rows.size(), ".", shows(candidate),
                          candidate.option + f.without());
    }
    rows.push_back(row_of(f, report, seed, kept));
    print_results(out, std::span(rows).last(1));
    out << kept.told;
    if (!f.known && f.behind == 0) out << drawn(f);
    out << (f.known ? "" : "\n");
  }
  return rows;
}

std::vector<Result> told(std::ostream& out, const CheckReport& report, std::uint64_t seed,
                         double seconds, const properties::Candidate& candidate) {
  std::vector<Result> rows = told_findings(out, report, seed, candidate);
  std::vector<Result> others = Rows(report, seed, seconds).all();
  print_results(out, others);
  std::ranges::move(others, std::back_inserter(rows));
  return rows;
}

}  // namespace kvproof::bench
