// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof explain`: how long each hit was, and what ended it.
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/requests/workloads.h"
#include "bench/results/environment.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/explain_log.h"
#include "bench/verbs/explain_report.h"
#include "bench/verbs/hash_option.h"
#include "properties/selftest/candidate_or_mutant.h"
#include "properties/story/lookups.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::Explanations;

constexpr Program kProgram{.name = "kvproof explain",
                           .no_memory = "not enough memory for a cache of this size"};

struct Arguments : LogArguments {
  std::vector<std::string> files;
  OutputPaths outputs;
  std::string request;  // empty = all
};

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
