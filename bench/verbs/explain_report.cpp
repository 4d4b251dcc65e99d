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

Metric tokens(std::uint64_t n) { return {static_cast<double>(n), "tokens", {}, {}}; }

template <class Sum>
std::uint64_t sum(const std::vector<Explained>& lookups, const Sum& of) {
  return std::transform_reduce(lookups.begin(), lookups.end(), std::uint64_t{0}, std::plus<>(), of);
}

std::uint64_t prompt_tokens(const ExplainReport& report) {
  return sum(report.lookups, [](const Explained& e) { return e.tokens; });
}

void print_lookup(std::ostream& out, const ExplainReport& report, const Explained& e) {
  if (report.num_traces > 1) out << e.trace << ": ";
  out << report.moment << ' ' << e.operation;
  if (report.moment != "request") out << ", " << e.request;
  out << ": hit " << e.hit << " of " << e.tokens << " tokens; "
      << kCauses[static_cast<std::size_t>(e.cause)].words;
  if (!e.why.empty()) out << ": " << e.why;
  out << '\n';
}

void print_kept(std::ostream& out, std::string_view who, std::optional<std::uint64_t> kept,
                std::string_view where) {
  out << who << ": ";
  if (kept) out << *kept << " tokens more would have been hit\n";
  if (!kept) out << "cannot be told: it takes " << where << '\n';
}

void print_listed(std::ostream& out, const ExplainReport& report, const std::string& request) {
  std::vector<const Explained*> order = report.asked(request);
  if (request.empty() && order.size() > 2 * kListed) {
    out << "The first " << kListed << " of " << order.size() << " lookups:\n";
    for (std::size_t i = 0; i < kListed; ++i) print_lookup(out, report, *order[i]);
    std::ranges::stable_sort(order, std::greater<>(), [](const auto* e) { return e->lost(); });
    order.resize(kListed);
    out << "The " << kListed << " that lost most:\n";
  }
  for (const Explained* e : order) print_lookup(out, report, *e);
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

void print_explained(std::ostream& out, const ExplainReport& report, const std::string& request) {
  print_listed(out, report, request);
  const std::uint64_t all = prompt_tokens(report);
  std::vector<Result> rows;
  const auto row = [&](const std::string& what, std::uint64_t lookups, std::uint64_t n) {
    const double share = all == 0 ? 0 : 1e4 * static_cast<double>(n) / static_cast<double>(all);
    rows.push_back({"What the tokens met",
                    {{"what", what}},
                    {{"lookups", count(lookups)},
                     {"tokens", count(n)},
                     {"share", {std::round(share) / 100, "%", {}, {}}}}});
  };
  row("hit", sum(report.lookups, [](const Explained& e) { return e.hit > 0; }),
      report.hit_tokens());
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    const auto cause = static_cast<Cause>(i);
    const std::uint64_t lookups = report.ended_by(cause);
    if (lookups > 0) row(say("lost: ", kCauses[i].words), lookups, report.lost_by(cause));
  }
  row("all", report.lookups.size(), all);
  out << '\n';
  print_results(out, rows);
  print_kept(out, "A pool of twice the size", report.by_twice, "a trace or a log");
  print_kept(out, "The offline optimum of the same size", report.by_optimum, "a log");
  for (const std::string& why : report.ends) out << "Not explained to the end: " << why << '\n';
  out << '\n';
}

std::vector<Result> explained_results(const ExplainReport& report, const std::string& request) {
  Result total{.experiment = "explain", .parameters = report.parameters, .metrics = {}};
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
  std::vector<Result> out = {std::move(total)};
  if (request.empty() && report.lookups.size() > kMostRows) return out;
  for (const Explained* e : report.asked(request)) {
    Parameters named = {{"request", e->request}};
    if (report.num_traces > 1) named.emplace_back("trace", e->trace);
    if (report.moment != "request") {
      named.emplace_back(report.moment, static_cast<std::int64_t>(e->operation));
    }
    named.emplace_back("cause", std::string(kCauses[static_cast<std::size_t>(e->cause)].name));
    named.emplace_back("why", e->why);
    out.push_back({"explain_lookup",
                   std::move(named),
                   {{"prompt_tokens", tokens(e->tokens)},
                    {"hit_tokens", tokens(e->hit)},
                    {"lost_tokens", tokens(e->lost())}}});
  }
  return out;
}

}  // namespace kvproof::bench
