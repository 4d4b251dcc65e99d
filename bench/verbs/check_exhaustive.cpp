// SPDX-License-Identifier: Apache-2.0
// Searches small spaces one after the other and reports.
#include "bench/verbs/check_exhaustive.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <thread>

#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "bench/verbs/command_line.h"
#include "properties/audit/shrink.h"
#include "properties/check/candidate.h"
#include "properties/sources/exhaustive/search.h"
#include "properties/sources/exhaustive/spaces.h"
#include "properties/story/beside.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::Oracles;
using properties::exhaustive::find_space;
using properties::exhaustive::kSpaces;
using properties::exhaustive::make_small;
using properties::exhaustive::SearchOptions;
using properties::exhaustive::SearchProgress;
using properties::exhaustive::SearchReport;
using properties::exhaustive::Space;

std::vector<const Space*> chosen_spaces(const ExhaustiveOptions& options) {
  std::vector<const Space*> out;
  for (const std::string& name : options.spaces) {
    const Space* space = find_space(name);
    if (space == nullptr) {
      throw std::invalid_argument("--exhaustive=" + name + ": expected one of " +
                                  names_of(kSpaces));
    }
    out.push_back(space);
  }
  if (!out.empty()) return out;
  for (const Space& row : kSpaces) {
    if (row.cut_at == 0) out.push_back(&row);
  }
  return out;
}

const optimized::SubjectRow& chosen_row(const ExhaustiveOptions& options) {
  if (options.subject.empty()) return optimized::subject_of(optimized::Role::standard);
  return properties::find_row(options.subject);
}

std::string end_of(const SearchReport& report) {
  const Verdict verdict = report.failure  ? Verdict::broken
                          : report.closed ? Verdict::holds
                                          : Verdict::cannot_tell;
  return std::string(name_of(verdict));
}

Metrics metrics_of(const SearchReport& report) {
  const auto states = static_cast<double>(std::max<std::uint64_t>(report.states, 1));
  Metrics out = {{"states", count(report.states)},
                 {"edges", count(report.counts.edges)},
                 {"depth", count(report.depth)},
                 {"closed", count(report.closed ? 1 : 0)},
                 {"seconds", metric(report.seconds, "s")},
                 {"bytes_per_state", metric(static_cast<double>(report.bytes) / states, "bytes")},
                 {"collision_probability", metric(report.collision_probability(), "ratio")},
                 {"hits", count(report.counts.hits)},
                 {"evictions", count(report.counts.evictions)},
                 {"refusals", count(report.counts.refusals)},
                 {"revivals", count(report.counts.revivals)},
                 {"recycled", count(report.counts.recycled)}};
  if (report.fingerprint_bits == 64) {
    const auto bytes = static_cast<double>(report.disk_bytes);
    out.emplace_back("disk_bytes_per_state", metric(bytes / states, "bytes"));
  }
  return out;
}

/// The sums over all searches. Fingerprints are only compared within a space, so the chances of a
/// collision add up.
Result sum_of(const std::vector<Result>& results) {
  Result sum{"exhaustive_total", {}, {}};
  for (const char* name : {"states", "edges", "closed", "seconds", "collision_probability"}) {
    const bool all = std::string_view(name) == "closed";
    double value = all ? 1 : 0;
    std::string unit;
    for (const Result& result : results) {
      const Metric& metric = *result.metric(name);
      value = all ? std::min(value, metric.value) : value + metric.value;
      unit = metric.unit;
    }
    sum.metrics.emplace_back(name, Metric{value, unit, {}, {}});
  }
  return sum;
}

/// Prints for people the bounds within which a search was whole, or was not.
std::string describe(const Space& space, const SearchReport& report) {
  std::string out = std::string(space.sentence) + "; " + std::to_string(space.requests) +
                    " requests in " + std::to_string(space.usable_blocks) + " blocks of " +
                    std::to_string(space.groups.front().block_size) + " tokens, prompts of " +
                    std::to_string(space.shortest_prompt);
  if (space.longest_prompt > space.shortest_prompt) {
    out += " to " + std::to_string(space.longest_prompt);
  }
  if (space.same_tokens > 0) out += ", " + std::to_string(space.same_tokens) + " in common,";
  out += " out of two tokens, up to " + std::to_string(space.max_tokens) + ", caching " +
         (space.caching ? "on" : "off");
  out += ", " + std::string(space.profile);
  out += report.closed    ? ": all states were visited"
         : report.failure ? ": stopped where a law broke"
                          : ": cut off before all states were visited";
  return out + say("; a state was left out with a probability of at most ",
                   report.collision_probability(), ", by fingerprints of ", report.fingerprint_bits,
                   " bits");
}

/// One search with a bar. The number of states is not known before the end, so the bar follows the
/// depth.
SearchReport search_with_bar(const Space& space, SearchOptions options, Progress& bar, double done,
                             double share) {
  options.progress = [&](const SearchProgress& now) {
    const double part = static_cast<double>(now.expanded) / static_cast<double>(now.states);
    bar.update(done + share * part, std::string(space.name) + ", depth " +
                                        std::to_string(now.depth) + ", " +
                                        std::to_string(now.states) + " states");
  };
  return properties::exhaustive::search(space, options);
}

Result row_of(const properties::Failure& failure, const ExhaustiveOptions& options,
              const Space& space) {
  properties::Failure named = failure;
  named.subject = chosen_row(options).name;
  const properties::Kept kept =
      keep_failure(named, 0, ".", properties::show_all(chosen_row(options).make));
  std::cout << "a shortest trace, found breadth first\n" << describe_trace(named) << kept.told;
  return {"exhaustive_finding",
          {{"space", std::string(space.name)},
           {"law", joined(failure.breaches, "+")},
           {"verdict", std::string(name_of(Verdict::broken))},
           {"reason", failure.text},
           {"file", kept.file},
           {"lens", kept.lens},
           {"repeat", kept.repeat}},
          {{"trace_operations", count(failure.trace.size())}}};
}

}  // namespace

int check_exhaustive(const ExhaustiveOptions& options, int argc, const char* const* argv) {
  const OutputFiles outputs(options.outputs);
  const std::vector<const Space*> spaces = chosen_spaces(options);
  SearchOptions search;
  search.make = make_small(chosen_row(options));
  search.memory_bytes = static_cast<std::uint64_t>(std::ldexp(options.visited_memory_gib, 30));
  search.threads = std::max(std::thread::hardware_concurrency(), 1U);
  Progress bar;
  std::vector<Result> results;
  std::vector<Result> findings;
  bool wrong = false;
  for (std::size_t i = 0; i < spaces.size() && !wrong; ++i) {
    const Space& space = *spaces[i];
    const double share = 1.0 / static_cast<double>(spaces.size());
    search.most_states = space.cut_at;
    const SearchReport report =
        search_with_bar(space, search, bar, static_cast<double>(i) * share, share);
    results.push_back({"exhaustive",
                       {{"space", std::string(space.name)},
                        {"verdict", end_of(report)},
                        {"reason", describe(space, report)}},
                       metrics_of(report)});
    wrong = report.failure.has_value();
    if (wrong) {
      bar.clear();
      findings.push_back(row_of(*report.failure, options, space));
    } else if (report.closed) {
      SearchOptions alone = search;
      alone.make = make_small(optimized::subject_of(optimized::Role::model));
      alone.oracles = Oracles{false, false, false};
      const SearchReport model = search_with_bar(space, alone, bar, 0, 1);
      wrong = model.states != report.states || model.counts.edges != report.counts.edges;
      results.back().metrics.emplace_back("states_of_model", count(model.states));
      if (wrong) {
        Parameters& said = results.back().parameters;
        said[1].second = std::string(name_of(Verdict::broken));
        said[2].second = std::get<std::string>(said[2].second) +
                         "; the naive model alone reaches another number of states";
      }
    }
  }
  bar.clear();
  results.push_back(sum_of(results));
  results.insert(results.end(), findings.begin(), findings.end());
  print_results(std::cout, results);
  outputs.commit(describe_environment(argc, argv, 0), results);
  return wrong ? 1 : 0;
}

}  // namespace kvproof::bench
