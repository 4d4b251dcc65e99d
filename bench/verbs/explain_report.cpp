// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/explain_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "bench/results/table.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::Cause;
using properties::Explained;
using properties::kCauses;

constexpr std::size_t kListed = 20;  // lookups, from the first on, and again those that lost most
constexpr std::size_t kMostRows = 500;  // of a result file

Result note(const std::string& text) { return {"explain_note", {{"note", text}}, {}}; }

Metric tokens(std::uint64_t n) { return {static_cast<double>(n), "tokens", {}, {}}; }

template <class Sum>
std::uint64_t sum(const std::vector<Explained>& lookups, const Sum& of) {
  return std::transform_reduce(lookups.begin(), lookups.end(), std::uint64_t{0}, std::plus<>(), of);
}

std::uint64_t prompt_tokens(const ExplainReport& report) {
  return sum(report.lookups, [](const Explained& e) { return e.tokens; });
}

Result row_of(const Explained& e, const ExplainReport& report) {
  const auto& cause = kCauses[static_cast<std::size_t>(e.cause)];
  Parameters named = {{"request", e.request}};
  if (report.num_traces > 1) named.emplace_back("trace", e.trace);
  if (report.moment != "request") {
    named.emplace_back(report.moment, static_cast<std::int64_t>(e.operation));
  }
  named.emplace_back("cause", std::string(cause.name));
  named.emplace_back("words", std::string(cause.words));
  named.emplace_back("why", e.why);
  return {"explain_lookup",
          std::move(named),
          {{"prompt_tokens", tokens(e.tokens)},
           {"hit_tokens", tokens(e.hit)},
           {"lost_tokens", tokens(e.lost())}}};
}

/// The rows of the lookups that are listed on a terminal.
std::vector<Result> listed(const ExplainReport& report, const std::string& request) {
  std::vector<Result> out;
  std::vector<const Explained*> order = report.asked(request);
  if (request.empty() && order.size() > 2 * kListed) {
    out.push_back(note(say("The first ", kListed, " of ", order.size(), " lookups:")));
    for (std::size_t i = 0; i < kListed; ++i) out.push_back(row_of(*order[i], report));
    std::ranges::stable_sort(order, std::greater<>(), [](const auto* e) { return e->lost(); });
    order.resize(kListed);
    out.push_back(note(say("The ", kListed, " that lost most:")));
  }
  for (const Explained* e : order) out.push_back(row_of(*e, report));
  return out;
}

/// Of each cause, how many lookups ended by it and how many tokens it cost.
void add_causes(std::vector<Result>& out, const ExplainReport& report) {
  const std::uint64_t all = prompt_tokens(report);
  const auto row = [&](const std::string& met, std::uint64_t lookups, std::uint64_t n) {
    const double share = all == 0 ? 0 : 1e4 * static_cast<double>(n) / static_cast<double>(all);
    out.push_back({"explain_met",
                   {{"met", met}},
                   {{"lookups", count(lookups)},
                    {"tokens", tokens(n)},
                    {"share_percent", {std::round(share) / 100, "percent", {}, {}}}}});
  };
  row("hit", sum(report.lookups, [](const Explained& e) { return e.hit > 0; }),
      report.hit_tokens());
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    const auto cause = static_cast<Cause>(i);
    const std::uint64_t lookups = report.ended_by(cause);
    if (lookups > 0) row(say("lost: ", kCauses[i].words), lookups, report.lost_by(cause));
  }
  row("all", report.lookups.size(), all);
  const auto kept = [&](const char* who, std::optional<std::uint64_t> more, const char* where) {
    out.push_back(note(more ? say(who, ": ", *more, " tokens more would have been hit")
                            : say(who, ": cannot be told: it takes ", where)));
  };
  kept("A pool of twice the size", report.by_twice, "a trace or a log");
  kept("The offline optimum of the same size", report.by_optimum, "a log");
}

/// The sums, and the verdict.
Result total_of(const ExplainReport& report) {
  Result total{.experiment = "explain", .parameters = report.parameters, .metrics = {}};
  std::string ends;
  for (const std::string& why : report.ends) {
    ends += (ends.empty() ? "Not explained to the end: " : "; ") + why;
  }
  total.parameters.emplace_back("verdict", std::string(name_of(report.verdict())));
  total.parameters.emplace_back("reason", ends);
  total.metrics = {{"traces", count(report.num_traces)},
                   {"cut_short", count(report.ends.size())},
                   {"lookups", count(report.lookups.size())},
                   {"prompt_tokens", tokens(prompt_tokens(report))},
                   {"hit_tokens", tokens(report.hit_tokens())}};
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    total.metrics.emplace_back(say("lost_tokens_", kCauses[i].name),
                               tokens(report.lost_by(static_cast<Cause>(i))));
  }
  if (report.by_twice) {
    total.metrics.emplace_back("kept_by_twice_the_pool", tokens(*report.by_twice));
  }
  if (report.by_optimum) {
    total.metrics.emplace_back("kept_by_the_optimum", tokens(*report.by_optimum));
  }
  return total;
}

}  // namespace

std::uint64_t ExplainReport::ended_by(Cause cause) const {
  return static_cast<std::uint64_t>(std::ranges::count(lookups, cause, &Explained::cause));
}

std::uint64_t ExplainReport::lost_by(Cause cause) const {
  return sum(lookups, [=](const Explained& e) { return e.cause == cause ? e.lost() : 0; });
}

std::uint64_t ExplainReport::hit_tokens() const {
  return sum(lookups, [](const Explained& e) { return e.hit; });
}

std::vector<const Explained*> ExplainReport::asked(const std::string& request) const {
  std::vector<const Explained*> out;
  for (const Explained& e : lookups) {
    if (request.empty() || e.request == request) out.push_back(&e);
  }
  return out;
}

Verdict ExplainReport::verdict() const {
  const bool unexplained = ended_by(Cause::unexplained) > 0;
  if (unexplained && moment != "line") return Verdict::broken;
  const bool told = !unexplained && ends.empty() && !lookups.empty();
  return told ? Verdict::holds : Verdict::cannot_tell;
}

std::vector<Result> told_lookups(std::ostream& out, const ExplainReport& report,
                                 const std::string& request) {
  print_results(out, listed(report, request));
  std::vector<Result> rows;
  add_causes(rows, report);
  rows.push_back(total_of(report));
  out << '\n';
  print_results(out, rows);
  out << '\n';
  if (request.empty() && report.lookups.size() > kMostRows) return rows;
  for (const Explained* e : report.asked(request)) rows.push_back(row_of(*e, report));
  return rows;
}

}  // namespace kvproof::bench
