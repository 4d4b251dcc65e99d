// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof explain`: how long each hit was, and what ended it.
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/requests/workloads.h"
#include "bench/results/environment.h"
#include "bench/results/result_file.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/explain_log.h"
#include "bench/verbs/explain_report.h"
#include "bench/verbs/hash_option.h"
#include "bench/verbs/log_arguments.h"
#include "properties/explain/runs.h"
#include "properties/mutants/candidate_or_mutant.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::Explanations;

constexpr Program kProgram{.name = "kvproof explain",
                           .no_memory = "not enough memory for a cache of this size"};

struct Arguments : LogArguments {
  std::vector<std::string> files;
  properties::SubjectOptions subject;
  std::string json_path;
  std::string request;  // empty = all
};

/// What more than was hit would have been hit; none of what a trace lost is negative.
void add_kept(ExplainReport::Kept& kept, std::uint64_t would_hit, std::uint64_t hit) {
  ++kept.of;
  kept.tokens += would_hit > hit ? would_hit - hit : 0;
}

void add_optimum(const Explanations& told, std::uint64_t hit, ExplainReport& report) {
  if (!told.uses.empty()) add_kept(report.by_optimum, optimum_of(told), hit);
}

ExplainReport explain_requests(const Arguments& arguments) {
  const ReopenableSource source = arguments.source();
  ReplayOptions options = arguments.replay_options(source);
  Explanations told = explain_log(source, options);
  const SourceInfo info = source.open()->info();
  ExplainReport out{
      .parameters = {{"source", info.name},
                     {"format", info.format},
                     {"block_size", std::int64_t{options.block_size}},
                     {"hash", std::string(options.manager->hash)},
                     {"capacity_blocks", static_cast<std::int64_t>(told.pool_blocks)}},
      .moment = "request",
      .lookups = std::move(told.lookups),
      .num_traces = 1};
  const std::uint64_t hit = out.hit_tokens();
  add_optimum(told, hit, out);
  if (options.capacity_blocks) *options.capacity_blocks *= 2;
  add_kept(out.by_twice, options.capacity_blocks ? replay_prompts(source, options).hit_tokens : hit,
           hit);
  return out;
}

std::string label(const TraceHeader& header) {
  return header.name.empty() ? say(header.config.profile.name, ' ', header.family, ' ', header.seed)
                             : say(header.config.profile.name, ' ', header.name);
}

/// The allocator that was named, or that of the trace. It has to show its keys.
properties::Opened open_subject(const Arguments& arguments, const TraceHeader& header) {
  properties::SubjectOptions subject = arguments.subject;
  if (!subject.given()) subject.subject = header.subject;
  if (!subject.given()) {
    subject.subject = optimized::subject_of(optimized::Role::standard).name;
  }
  properties::Opened out = find_candidate_or_mutant(subject).open(header.config);
  constexpr properties::Parts kNeeded = properties::kIndex | properties::kHashes;
  if (out.subject != nullptr && (out.demands.shown & kNeeded) != kNeeded) {
    throw UsageError(subject.subject + subject.subject_command +
                     ": expected an allocator that shows its index and the hashes of requests");
  }
  return out;
}

ExplainReport explain_file(const Arguments& arguments, const std::string& file) {
  ExplainReport out{.parameters = {{"source", file}}, .moment = "operation"};
  const auto add = [&](const std::string& trace, const Explanations& told) {
    ++out.num_traces;
    out.lookups.insert(out.lookups.end(), told.lookups.begin(), told.lookups.end());
    out.traces.resize(out.lookups.size(), trace);
    if (!told.ends.empty()) out.ends.push_back(trace + ": " + told.ends);
  };
  if (live::is_run(file)) {
    out.moment = "line";
    add(file, live::explain_run(file));
    return out;
  }
  const auto open = [&](const TraceHeader& header) {
    return std::move(open_subject(arguments, header).subject);
  };
  properties::explain_traces(file, open, [&](const TraceHeader& header, const Explanations& told) {
    std::uint64_t hit = 0;
    for (const properties::Explained& e : told.lookups) hit += e.hit;
    std::uint64_t by_twice = hit;
    for (const properties::Explained& e : told.lookups) by_twice += e.kept_by_twice;
    add(label(header), told);
    add_kept(out.by_twice, by_twice, hit);
    add_optimum(told, hit, out);
  });
  return out;
}

void add_options(CommandLine& line, Arguments& arguments) {
  auto files = line.option("files", arguments.files,
                           "operation traces, folders of packed ones, or recorded runs of engines "
                           "(JSON Lines, plain, .gz or .zst)");
  auto trace = line.option(
      "--trace", arguments.log,
      "a request log (bench/requests/formats/README.md lists the formats) or a workload");
  files.called("an operation trace").not_with({trace});
  line.option("--request", arguments.request,
              "list the lookups of this request alone: its name, or its position in the log from "
              "0 on")
      .placeholder("ID");
  line.option("--json", arguments.json_path,
              "also write the sums, and the lookups if they are few");
  add_log_options(line, trace, arguments);
  add_capacity_option(line, trace, arguments);
  auto subject =
      line.option("--subject", arguments.subject.subject,
                  "who performs the operations, default: the trace's own, else " +
                      std::string(optimized::subject_of(optimized::Role::standard).name));
  auto command = line.option("--subject-command", arguments.subject.subject_command,
                             "a program that speaks JSON lines, as kvproof check has it");
  subject.goes_with({files});
  command.goes_with({files}).not_with({subject});
  add_hash_option(line, arguments.hash, {subject, command});
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(kProgram,
                   "Says of each lookup how long the hit was and what ended it, and how many "
                   "tokens each cause has cost.\n"
                   "Examples: kvproof explain bench/verbs/explained.jsonl\n"
                   "          kvproof explain --trace=chat --capacity-blocks=2000");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  if (arguments.files.empty() && arguments.log.empty()) {
    throw UsageError("expected traces, recorded runs or --trace=FILE; see --help");
  }
  std::optional<ResultFile> json;
  if (!arguments.json_path.empty()) json.emplace(arguments.json_path);
  if (arguments.log.empty()) choose_by_hash(arguments.hash, arguments.subject);
  std::vector<ExplainReport> reports;
  for (const auto& file : arguments.files) reports.push_back(explain_file(arguments, file));
  if (!arguments.log.empty()) reports.push_back(explain_requests(arguments));
  const auto names = [&](const ExplainReport& report) {
    return std::ranges::count(report.lookups, arguments.request, &properties::Explained::request);
  };
  if (!arguments.request.empty() && std::ranges::none_of(reports, names)) {
    throw UsageError("--request: expected a request that is looked up, found " + arguments.request);
  }
  std::vector<Result> results;
  bool broken = false;
  bool told = true;
  for (const ExplainReport& report : reports) {
    print_explained(std::cout, report, arguments.request);
    std::ranges::move(explained_results(report, arguments.request), std::back_inserter(results));
    const bool explained = report.ended_by(properties::Cause::unexplained) == 0;
    broken = broken || (!explained && report.moment != "line");
    told = told && explained && report.ends.empty() && !report.lookups.empty();
  }
  if (json) json->commit(describe_environment(argc, argv, kWorkloadSeed), results);
  if (broken) return kViolated;
  return told ? kHolds : kCannotTell;
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
