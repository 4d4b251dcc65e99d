// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/explain_report.h"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <ostream>

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

void print_lookup(std::ostream& out, const ExplainReport& report, std::size_t i) {
  const Explained& e = report.lookups[i];
  if (report.num_traces > 1) out << report.traces[i] << ": ";
  out << report.moment << ' ' << e.operation;
  if (report.moment != "request") out << ", " << e.request;
  out << ": hit " << e.hit << " of " << e.tokens << " tokens; "
      << kCauses[static_cast<std::size_t>(e.cause)].words;
  if (!e.why.empty()) out << ": " << e.why;
  out << '\n';
}

void print_row(std::ostream& out, std::string_view what, std::uint64_t lookups, std::uint64_t n,
               std::uint64_t all) {
  out << "  " << std::left << std::setw(28) << what << std::right << std::setw(10) << lookups
      << std::setw(15) << n << std::setw(9) << std::fixed << std::setprecision(2)
      << (all == 0 ? 0 : 100.0 * static_cast<double>(n) / static_cast<double>(all)) << '\n';
}

void print_kept(std::ostream& out, std::string_view who, const ExplainReport::Kept& kept,
                std::uint64_t traces, std::string_view where) {
  out << who << ": ";
  if (kept.of > 0) out << kept.tokens << " tokens more would have been hit";
  if (kept.of == 0) out << "cannot be told: it takes " << where;
  if (kept.of > 0 && kept.of < traces) {
    out << ", in " << kept.of << " of " << traces << " traces: it takes " << where;
  }
  out << '\n';
}

void print_listed(std::ostream& out, const ExplainReport& report, const std::string& request) {
  std::vector<std::size_t> order(report.lookups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!request.empty()) {
    std::erase_if(order, [&](std::size_t i) { return report.lookups[i].request != request; });
  } else if (order.size() > 2 * kListed) {
    out << "The first " << kListed << " of " << order.size() << " lookups:\n";
    for (std::size_t i = 0; i < kListed; ++i) print_lookup(out, report, i);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::size_t i) { return report.lookups[i].lost(); });
    order.resize(kListed);
    out << "The " << kListed << " that lost most:\n";
  }
  for (const std::size_t i : order) print_lookup(out, report, i);
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

void print_explained(std::ostream& out, const ExplainReport& report, const std::string& request) {
  print_listed(out, report, request);
  const std::uint64_t all = sum(report.lookups, [](const Explained& e) { return e.tokens; });
  out << '\n'
      << "  " << std::left << std::setw(28) << "what the tokens met" << std::right << std::setw(10)
      << "lookups" << std::setw(15) << "tokens" << std::setw(9) << "share %" << '\n';
  const auto hits =
      std::ranges::count_if(report.lookups, [](const Explained& e) { return e.hit > 0; });
  print_row(out, "hit", static_cast<std::uint64_t>(hits), report.hit_tokens(), all);
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    const auto cause = static_cast<Cause>(i);
    if (report.ended_by(cause) == 0) continue;
    print_row(out, say("lost: ", kCauses[i].words), report.ended_by(cause), report.lost_by(cause),
              all);
  }
  print_row(out, "all", report.lookups.size(), all, all);
  print_kept(out, "A pool of twice the size", report.by_twice, report.num_traces,
             "a trace or a log");
  print_kept(out, "The offline optimum of the same size", report.by_optimum, report.num_traces,
             "a cache of one group that reads all tokens");
  for (const std::string& why : report.ends) out << "Not explained to the end: " << why << '\n';
  out << '\n';
}

std::vector<Result> explained_results(const ExplainReport& report, const std::string& request) {
  Result total{.experiment = "explain", .parameters = report.parameters, .metrics = {}};
  const std::uint64_t all = sum(report.lookups, [](const Explained& e) { return e.tokens; });
  total.metrics = {{"traces", count(report.num_traces)},
                   {"cut_short", count(report.ends.size())},
                   {"lookups", count(report.lookups.size())},
                   {"prompt_tokens", tokens(all)},
                   {"hit_tokens", tokens(report.hit_tokens())}};
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    total.metrics.emplace_back(say("lost_tokens_", kCauses[i].name),
                               tokens(report.lost_by(static_cast<Cause>(i))));
  }
  for (const auto& [name, kept] :
       {std::pair("twice_the_pool", report.by_twice), {"the_optimum", report.by_optimum}}) {
    if (kept.of == 0) continue;
    total.metrics.emplace_back(say("kept_by_", name), tokens(kept.tokens));
    total.metrics.emplace_back(say("traces_of_", name), count(kept.of));
  }
  std::vector<Result> out = {std::move(total)};
  if (request.empty() && report.lookups.size() > kMostRows) return out;
  for (std::size_t i = 0; i < report.lookups.size(); ++i) {
    const Explained& e = report.lookups[i];
    if (!request.empty() && e.request != request) continue;
    out.push_back({"explain_lookup",
                   {{"request", e.request},
                    {report.moment, static_cast<std::int64_t>(e.operation)},
                    {"cause", std::string(kCauses[static_cast<std::size_t>(e.cause)].name)},
                    {"why", e.why}},
                   {{"prompt_tokens", tokens(e.tokens)},
                    {"hit_tokens", tokens(e.hit)},
                    {"lost_tokens", tokens(e.lost())}}});
    if (report.num_traces > 1) out.back().parameters.emplace_back("trace", report.traces[i]);
    if (report.moment == "request") out.back().parameters.erase(out.back().parameters.begin() + 1);
  }
  return out;
}

}  // namespace kvproof::bench
