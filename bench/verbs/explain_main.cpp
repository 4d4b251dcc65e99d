// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof explain`: how long each hit was, and what ended it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <iostream>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/hit_rate/bounds.h"
#include "bench/requests/listed_source.h"
#include "bench/requests/workloads.h"
#include "bench/results/environment.h"
#include "bench/results/result_file.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/hash_option.h"
#include "bench/verbs/log_arguments.h"
#include "properties/selftest/candidate_or_mutant.h"
#include "properties/story/causes.h"
#include "properties/story/index_history.h"
#include "properties/story/lookups.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using namespace properties;  // NOLINT: the words of this file

constexpr Program kProgram{.name = "kvproof explain",
                           .no_memory = "not enough memory for a cache of this size"};

struct Arguments : LogArguments {
  std::vector<std::string> files;
  OutputPaths outputs;
  std::string request;  // empty = all
};

/// The lookups of a file.
struct ExplainReport {
  Parameters parameters;  // of the source
  std::string moment;     // what a lookup is counted by
  std::vector<Explained> lookups = {};
  std::uint64_t num_traces = 0;
  std::vector<std::string> ends = {};          // why a trace was not explained to its end
  std::optional<std::uint64_t> by_twice = {};  // [tokens] more than were hit; unset: not known
  std::optional<std::uint64_t> by_optimum = {};

  [[nodiscard]] std::uint64_t ended_by(Cause cause) const;  // lookups
  [[nodiscard]] std::uint64_t lost_by(Cause cause) const;   // [tokens]
  [[nodiscard]] std::uint64_t hit_tokens() const;
  /// Broken if a lookup of ours is not explained; it cannot tell if another's is not, if a trace
  /// was not explained to its end, or if there was no lookup.
  [[nodiscard]] Verdict verdict() const;
  /// The lookups of that request; empty: all.
  [[nodiscard]] std::vector<const Explained*> asked(const std::string& request) const;
};

constexpr std::size_t kListed = 20;  // lookups, from the first on, and again those that lost most
constexpr std::size_t kMostRows = 500;  // of a result file

Result note(const std::string& text) { return {"explain_note", {{"note", text}}, {}}; }

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
          {{"prompt_tokens", metric(e.tokens, "tokens")},
           {"hit_tokens", metric(e.hit, "tokens")},
           {"lost_tokens", metric(e.lost(), "tokens")}}};
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
                    {"tokens", metric(n, "tokens")},
                    {"share_percent", metric(std::round(share) / 100, "percent")}}});
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
                   {"prompt_tokens", metric(prompt_tokens(report), "tokens")},
                   {"hit_tokens", metric(report.hit_tokens(), "tokens")}};
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    total.metrics.emplace_back(say("lost_tokens_", kCauses[i].name),
                               metric(report.lost_by(static_cast<Cause>(i)), "tokens"));
  }
  if (report.by_twice) {
    total.metrics.emplace_back("kept_by_twice_the_pool", metric(*report.by_twice, "tokens"));
  }
  if (report.by_optimum) {
    total.metrics.emplace_back("kept_by_the_optimum", metric(*report.by_optimum, "tokens"));
  }
  return total;
}

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

/// Prints the lookups, those of a request alone or, if there are many, the first and the worst;
/// then what the tokens met, and the verdict.
/// @return what was printed, but of many lookups none or all
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

std::string label(const TraceHeader& header) {
  return header.name.empty() ? say(header.config.profile.name, ' ', header.family, ' ', header.seed)
                             : say(header.config.profile.name, ' ', header.name);
}

/// The allocator of the trace. It has to show its keys. @param candidate is needed as long as it is
std::unique_ptr<Subject> open_subject(const TraceHeader& header, properties::Candidate& candidate) {
  properties::SubjectOptions subject;
  subject.subject = header.subject;
  if (!subject.given()) subject.subject = optimized::subject_of(optimized::Role::standard).name;
  candidate = find_candidate_or_mutant(subject);
  properties::Opened out = candidate.open(header.config);
  constexpr properties::Parts kNeeded = properties::kIndex | properties::kHashes;
  if (out.subject != nullptr && (out.demands.shown & kNeeded) != kNeeded) {
    throw UsageError(subject.subject +
                     ": expected an allocator that shows its index and the hashes of requests");
  }
  return std::move(out.subject);
}

ExplainReport explain_file(const std::string& file) {
  ExplainReport out{.parameters = {{"source", file}}, .moment = "operation"};
  const auto add = [&](const std::string& trace, const Explanations& told) {
    ++out.num_traces;
    for (properties::Explained e : told.lookups) {
      if (out.by_twice) *out.by_twice += e.kept_by_twice;
      e.trace = trace;
      out.lookups.push_back(std::move(e));
    }
    if (!told.ends.empty()) out.ends.push_back(trace + ": " + told.ends);
  };
  if (properties::is_run(file)) {
    out.moment = "line";
    add(file, properties::explain_run(file));
    return out;
  }
  out.by_twice = 0;
  properties::Candidate candidate;
  properties::explain_traces(
      file, [&](const TraceHeader& header) { return open_subject(header, candidate); },
      [&](const TraceHeader& header, const Explanations& told) { add(label(header), told); });
  return out;
}

std::uint64_t more_than(std::uint64_t hit, std::uint64_t would_hit) {
  return would_hit > hit ? would_hit - hit : 0;
}

class LogExplainer {
 public:
  explicit LogExplainer(const ReplayOptions& options)
      : block_size_(options.block_size),
        own_blocks_(options.tokens == TokenMode::whole_blocks),
        history_(1, 0),
        explainer_(
            {.hash_block_size = block_size_, .groups = {{LayerKind::full, block_size_, false}}},
            history_,
            {.moment = "request",
             .name = [](std::uint32_t n) { return "request " + std::to_string(n); },
             .tells_whom = false},
            0) {}

  void serve(const ServedPrompt& served) {
    const auto number = static_cast<std::uint32_t>(served.request.index);
    now_.operation = number;
    learn(served, number);
    const bool refused = served.blocks.empty();
    const auto input = static_cast<std::uint64_t>(served.request.input_tokens);
    Explained explained = explainer_.explain({.request = std::to_string(number),
                                              .now = now_,
                                              .tokens = served.tokens.size(),
                                              .limit = served.tokens.size() - 1,
                                              .hit = served.hit,
                                              .contents = contents_});
    explained.tokens = input;
    explained.hit = refused ? 0 : std::min<std::uint64_t>(served.hit, input);
    if (refused) explained.cause = Cause::refused;
    if (refused) explained.why = say("it has ", served.tokens.size(), " tokens");
    if (!refused) {
      const auto end =
          contents_.begin() + static_cast<std::ptrdiff_t>(explained.most / block_size_);
      needed_.push_back({.input_tokens = static_cast<std::int64_t>(std::min(explained.most, input)),
                         .block_ids = {contents_.begin(), end}});
      admit(served, number);
    }
    lookups.push_back(std::move(explained));
  }

  /// The tokens that the offline optimum of bounds.h hits, of those that may hit. Told once.
  [[nodiscard]] std::uint64_t optimum(std::uint64_t capacity_blocks) {
    ListedSource source(std::move(needed_), {"", "", block_size_});
    return PromptFuture(source).optimum(capacity_blocks).hit_tokens;
  }

  std::vector<Explained> lookups;

 private:
  void learn(const ServedPrompt& served, std::uint32_t number) {
    contents_.clear();
    for (std::size_t i = 0; i < served.keys.size(); ++i) {
      contents_.push_back(history_.learn(served.keys[i], i == 0 ? kNoContent : contents_.back(),
                                         {.own = own_of(served, i)}, number));
    }
  }

  // What the log says of the tokens of a block alone; else the tokens that spell its id.
  [[nodiscard]] std::uint64_t own_of(const ServedPrompt& served, std::size_t i) const {
    if (own_blocks_ && i < served.request.own_ids.size()) return served.request.own_ids[i];
    return number_of_tokens(served.tokens.subspan(i * block_size_, block_size_));
  }

  // Whatever stands behind the hit was taken from the pool.
  void admit(const ServedPrompt& served, std::uint32_t number) {
    const std::size_t hit = served.hit / block_size_;
    now_.taken += served.blocks.size() - hit;
    for (std::size_t i = hit; i < served.blocks.size(); ++i) {
      const BlockId block = served.blocks[i];
      if (block >= holds_.size()) holds_.resize(std::max<std::size_t>(block + 1, 2 * block));
      if (holds_[block] != kNoContent) history_.leave(holds_[block], 0, now_, number);
      holds_[block] = i < contents_.size() ? contents_[i] : kNoContent;
    }
    for (std::size_t i = hit; i < contents_.size(); ++i) history_.enter(contents_[i], 0, now_);
    for (std::size_t i = 0; i < hit; ++i) history_.use(contents_[i], 0, now_);
  }

  std::uint32_t block_size_;
  bool own_blocks_;  // an id of the log is one block
  IndexHistory history_;
  Explainer explainer_;
  Moment now_;
  std::vector<Request> needed_;  // the blocks that may hit, of each prompt
  std::vector<ContentId> contents_;
  std::vector<ContentId> holds_;  // per block
};

/// Replays the prompts as replay_prompts.h does, explains the lookup of each, and bounds what any
/// pool of that size could have kept. A request is named by its position in the log, from 0. A
/// refused prompt hits nothing, as there.
ExplainReport explain_log(const LogArguments& arguments) {
  const ReopenableSource source = arguments.source();
  ReplayOptions options = arguments.replay_options(source);
  LogExplainer explainer(options);
  options.on_served = [&](const ServedPrompt& served) { explainer.serve(served); };
  const ReplayCounts counts = replay_prompts(source, options);
  options.on_served = {};
  const SourceInfo info = source.open()->info();
  ExplainReport out{
      .parameters = {{"source", info.name},
                     {"format", info.format},
                     {"block_size", std::int64_t{options.block_size}},
                     {"hash", std::string(options.manager->hash)},
                     {"capacity_blocks", static_cast<std::int64_t>(counts.capacity_blocks)}},
      .moment = "request",
      .lookups = std::move(explainer.lookups),
      .num_traces = 1};
  const std::uint64_t hit = out.hit_tokens();
  out.by_optimum = more_than(hit, explainer.optimum(counts.capacity_blocks));
  out.by_twice = 0;
  if (options.capacity_blocks) {
    *options.capacity_blocks *= 2;
    out.by_twice = more_than(hit, replay_prompts(source, options).hit_tokens);
  }
  return out;
}

void add_options(CommandLine& line, Arguments& arguments) {
  auto files = line.option("files", arguments.files,
                           "operation traces, folders of packed ones, or recorded runs of engines "
                           "(JSON Lines, plain, .gz or .zst)");
  line.option("--request", arguments.request,
              "list the lookups of this request alone: its name, or its position in the log from "
              "0 on")
      .placeholder("ID");
  add_output_options(line, arguments.outputs, Says::verdicts);
  const auto trace = add_log_options(line, files, arguments).trace;
  add_hash_option(line, arguments.hash, {}).goes_with({trace});
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(kProgram,
                   "Says of each lookup how long the hit was and what ended it, and how many "
                   "tokens each cause has cost.\n"
                   "Examples: kvproof explain properties/story/explained.jsonl\n"
                   "          kvproof explain --trace=chat --capacity-blocks=2000");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  if (arguments.files.empty() && arguments.log.empty()) {
    throw UsageError("expected traces, recorded runs or --trace=FILE; see --help");
  }
  const OutputFiles outputs(arguments.outputs);
  std::vector<ExplainReport> reports;
  for (const auto& file : arguments.files) reports.push_back(explain_file(file));
  if (!arguments.log.empty()) reports.push_back(explain_log(arguments));
  const auto asked = [&](const ExplainReport& report) {
    return !report.asked(arguments.request).empty();
  };
  if (!arguments.request.empty() && std::ranges::none_of(reports, asked)) {
    throw UsageError("--request: expected a request that is looked up, found " + arguments.request);
  }
  std::vector<Result> results;
  std::vector<Verdict> verdicts;
  for (const ExplainReport& report : reports) {
    std::ranges::move(told_lookups(std::cout, report, arguments.request),
                      std::back_inserter(results));
    verdicts.push_back(report.verdict());
  }
  outputs.commit(describe_environment(argc, argv, kWorkloadSeed), results);
  return exit_code_of(deciding(verdicts));
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
