// SPDX-License-Identifier: Apache-2.0
// The verb gate: compares two allocators. Correctness comes first, then counts, then times.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/gate/gate_run.h"
#include "bench/gate/revision.h"
#include "bench/instruments/callgrind.h"
#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/table.h"
#include "bench/verbs/check_report.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/hash_option.h"
#include "bench/verbs/limit_options.h"
#include "properties/check/candidate.h"
#include "properties/check/check.h"
#include "reference/support/input_error.h"
#include "reference/support/interrupt.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

namespace fs = std::filesystem;

constexpr Program kProgram{.name = "kvproof gate"};
constexpr std::uint32_t kFewestPairs = 10;  // fewer cannot reach the significance of 0.001

properties::SubjectOptions own_subject() {
  properties::SubjectOptions out;
  out.subject = optimized::subject_of(optimized::Role::standard).name;
  return out;
}

struct Arguments {
  properties::SubjectOptions subject = own_subject();
  std::string hash;
  std::string profile;
  std::string against;
  std::string baseline;
  std::string record;
  OutputPaths outputs;
  std::string summary;
  std::uint64_t seed = 1;
  std::uint64_t operations = 2000;
  std::uint32_t pairs = 20;
  bool no_time = false;
  std::vector<std::string> workloads;
  double limit_seconds = 600;
  Rules rules;
};

/// A new folder for built libraries and the files of callgrind.
std::unique_ptr<Temporary> make_workplace() {
  const WithoutInterrupts until_it_is_held;
  std::string name = (temporary_folder() / "kvproof-gate.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made: " + name);
  return std::make_unique<Temporary>(name);
}

Build named_build(const std::string& subject) {
  properties::SubjectOptions options;
  options.subject = subject;
  return {properties::find_candidate(options).address, subject};
}

/// The profile that a library says it equals; of another one, or of our own, the one asked for.
std::string profile_of(const properties::SubjectOptions& subject, const std::string& asked) {
  const properties::Candidate candidate = properties::find_candidate(subject);
  if (!candidate.foreign) return asked;
  CacheConfig config;
  config.profile = *find_profile(asked);
  config.num_blocks = 64;
  config.max_model_len = 256;
  config.hash_block_size = 16;
  config.groups = {{.block_size = 16}};
  const std::string promised = candidate.open(config).demands.promises.profile;
  return promised.empty() ? asked : promised;
}

/// Two profiles do different work, so that a comparison would say nothing of the builds.
void require_one_profile(const std::string& what, const std::string& profile,
                         const std::string& of_head) {
  if (profile == of_head) return;
  throw std::invalid_argument(what + ": expected the profile of the head, " + of_head + ", found " +
                              profile);
}

/// Finds the head, and a base that need not be built. All of them are of one profile.
void set_builds(const Arguments& arguments, GateOptions& options) {
  options.head = named_build(arguments.subject.subject);
  options.checked = options.head;
  const std::string asked =
      arguments.profile.empty() ? std::string(kDefaultProfile.name) : arguments.profile;
  const std::string profile = profile_of(arguments.subject, asked);
  if (!arguments.profile.empty()) require_one_profile("--profile", asked, profile);
  options.measure.profile = profile;
  if (!arguments.baseline.empty()) {
    options.baseline = read_baseline(arguments.baseline);
    require_one_profile("--baseline=" + arguments.baseline, options.baseline->profile, profile);
  }
  if (arguments.against.empty() || !properties::names_subject(arguments.against)) return;
  options.base = named_build(arguments.against);
  properties::SubjectOptions base;
  base.subject = arguments.against;
  require_one_profile("--against=" + arguments.against, profile_of(base, profile), profile);
}

/// Builds a base that is a revision of this checkout; if the head is our own, it is built likewise.
void set_revision_base(const Arguments& arguments, const fs::path& folder, GateOptions& options) {
  const Checkout checkout = find_checkout();
  const std::string commit = find_revision(checkout, arguments.against);
  if (commit.empty()) {
    throw std::invalid_argument("--against=" + arguments.against +
                                ": no subject, no shared library and no revision of this checkout "
                                "has that name");
  }
  const optimized::SubjectRow* own = optimized::find_subject(arguments.subject.subject);
  const optimized::SubjectRow& row =
      own != nullptr ? *own : optimized::subject_of(optimized::Role::standard);
  if (row.digest.empty()) {
    throw std::invalid_argument("--against: a revision is compared with the optimized manager");
  }
  const std::string digest(row.digest);
  const auto progress_of = [&options](const std::string& what) {
    options.on_progress(0, "configuring " + what);
    return [&options, what](double fraction) { options.on_progress(fraction, "building " + what); };
  };
  options.base = Build{
      build_revision(checkout, commit, digest, folder / "base", progress_of(arguments.against))
          .string(),
      arguments.against};
  if (own == nullptr) return;
  options.head.subject =
      build_revision(checkout, "", digest, folder / "head", progress_of("the checkout")).string();
}

/// @param findings rows of the check of the head @return the law that broke, or none
std::optional<std::string> broken_law(const Arguments& arguments, Progress& progress,
                                      std::vector<Result>& findings) {
  const properties::Candidate candidate = properties::find_candidate(arguments.subject);
  properties::CheckOptions options;
  options.seed = arguments.seed;
  options.operations = arguments.operations;
  options.vectors = properties::vectors_folder();
  options.regressions = properties::regressions_folder();
  options.on_progress = [&](double fraction, const std::string& what) {
    progress.update(fraction, "checking " + what);
  };
  const properties::CheckReport report = check(candidate, options);
  progress.clear();
  if (report.failure() == nullptr) return std::nullopt;
  findings = told_findings(std::cout, report, arguments.seed, candidate);
  return "breaks " + joined(report.failure()->failure.breaches, ", ");
}

/// The files of the results. They are opened before anything is measured.
struct Outputs {
  explicit Outputs(const Arguments& arguments) : rows(arguments.outputs) {
    if (!arguments.summary.empty()) summary.emplace(arguments.summary);
    if (!arguments.record.empty()) record.emplace(arguments.record);
  }
  OutputFiles rows;
  std::optional<ResultFile> summary, record;
};

/// @param rows the findings, if there are any
int say_broken(const Arguments& arguments, Outputs& outputs, const Parameters& environment,
               const std::string& what, std::vector<Result> rows) {
  const std::string& head = arguments.subject.subject;
  if (outputs.summary) outputs.summary->commit_text(broken_summary(head, what));
  rows.push_back({"gate_total",
                  {{"workload", std::string("all")},
                   {"verdict", std::string(name_of(Verdict::broken))},
                   {"reason", what + "; nothing was measured"},
                   {"head", head},
                   {"base", arguments.against}},
                  {{"exit_code", count(kViolated)}}});
  print_results(std::cout, std::span(rows).last(1));
  outputs.rows.commit(environment, rows);
  return kViolated;
}

int measure(const Arguments& arguments, GateOptions& options, Outputs& outputs, Progress& progress,
            const Parameters& environment) {
  if (outputs.record) {
    const Recorded recorded = record_head(options);
    progress.clear();
    outputs.record->commit(environment, results_of(recorded));
    std::cout << "recorded: " << arguments.record << '\n';
    return 0;
  }
  const GateReport report = run_gate(options);
  progress.clear();
  const std::vector<Result> rows = results_of(report, options.rules);
  print_results(std::cout, rows);
  outputs.rows.commit(environment, rows);
  if (outputs.summary) outputs.summary->commit_text(summary(report));
  return exit_code_of(report.verdict());
}

void require_sense(const Arguments& arguments) {
  if (arguments.against.empty() && arguments.baseline.empty() && arguments.record.empty()) {
    throw UsageError("expected one of --against, --baseline and --record");
  }
  for (const std::string& name : arguments.workloads) {
    if (std::ranges::find(kGateWorkloads, name, &GateWorkload::name) != std::end(kGateWorkloads)) {
      continue;
    }
    throw UsageError("--workload=" + printable(name) + ": expected one of " +
                     names_of(kGateWorkloads));
  }
}

int gate(Arguments& arguments, int argc, char** argv) {
  require_sense(arguments);
  GateOptions options;
  set_builds(arguments, options);
  if (options.baseline) arguments.seed = options.baseline->seed;
  Outputs outputs(arguments);
  const auto place = make_workplace();
  Progress progress;
  options.on_progress = [&](double fraction, const std::string& what) {
    progress.update(fraction, what);
  };
  options.measure = {
      .program = fs::read_symlink("/proc/self/exe").parent_path() / "kvproof-measure",
      .folder = place->path(),
      .profile = options.measure.profile,
      .seed = arguments.seed,
      .limit_seconds = arguments.limit_seconds,
      .memory_bytes = static_cast<std::uint64_t>(arguments.subject.limits.memory_gib * 0x1p30),
      .callgrind = !valgrind_version().empty()};
  options.rules = arguments.rules;
  options.pairs = arguments.no_time ? 0 : arguments.pairs;
  options.workloads = arguments.workloads;
  const Parameters environment =
      describe_environment(argc, argv, arguments.seed, options.measure.profile);
  std::cout << "seed " << arguments.seed << "\n\n";
  std::vector<Result> findings;
  if (const auto broken = broken_law(arguments, progress, findings)) {
    return say_broken(arguments, outputs, environment, *broken, std::move(findings));
  }
  if (!arguments.against.empty() && !options.base) {
    set_revision_base(arguments, place->path(), options);
  }
  try {
    return measure(arguments, options, outputs, progress, environment);
  } catch (const WrongHead& wrong) {
    progress.clear();
    return say_broken(arguments, outputs, environment, std::string("misbehaves: ") + wrong.what(),
                      {});
  }
}

/// @param record what compares nothing, and needs no threshold
void add_thresholds(CommandLine& line, CommandLine::Option record, Arguments& arguments) {
  const std::pair<const char*, std::vector<std::size_t>> kOptions[] = {
      {"--instructions-percent", {0}}, {"--misses-percent", {1, 2}},
      {"--allocations-percent", {3}},  {"--bytes-percent", {4}},
      {"--hits-percent", {5}},         {"--preemptions-percent", {6}}};
  for (const auto& [name, measures] : kOptions) {
    std::ostringstream help;
    help << "a change up to this is none, default "
         << kMeasures[measures.front()].threshold_percent;
    line.option(
            name,
            [&arguments, measures = measures](double percent) {
              for (const std::size_t i : measures) arguments.rules.threshold_percent[i] = percent;
            },
            help.str())
        .between(0.0, 1000.0)
        .not_with({record});
  }
}

/// Times are taken of two builds on this machine, so only with --against.
void add_time_options(CommandLine& line, CommandLine::Option against, Arguments& arguments) {
  const auto none =
      line.flag("--no-time", arguments.no_time, "decide on counts alone").goes_with({against});
  line.option("--pairs", arguments.pairs, "of timed processes per workload, default 20")
      .between(kFewestPairs, 1000U)
      .goes_with({against})
      .not_with({none});
  line.option("--time-percent", arguments.rules.time_percent,
              "the smallest effect that a time may prove, default 3")
      .between(0.0, 1000.0)
      .goes_with({against})
      .not_with({none});
}

void add_options(CommandLine& line, Arguments& arguments) {
  const auto subject =
      line.option("--subject", arguments.subject.subject,
                  "the head: an implementation of the list, default " + arguments.subject.subject +
                      ", or the path of a shared library that exports kvproof_subject.h");
  add_hash_option(line, arguments.hash, {subject});
  line.option("--profile", arguments.profile,
              "of both, default: as the head promises, or " + std::string(kDefaultProfile.name))
      .one_of(row_names(kProfiles));
  const auto against = line.option("--against", arguments.against,
                                   "the base: the same, or a git revision of this checkout");
  const auto baseline =
      line.option("--baseline", arguments.baseline, "the base: a file that --record wrote")
          .not_with({against});
  const auto record =
      line.option("--record", arguments.record, "compare nothing: write the head's counts here")
          .not_with({against, baseline});
  for (auto& output : add_output_options(line, arguments.outputs, Says::both)) {
    output.not_with({record});
  }
  line.option("--summary", arguments.summary,
              "also write one line and a table in Markdown, for a pull request")
      .not_with({record});
  line.option("--seed", arguments.seed,
              "of the check and the streams, default 1, or that of --baseline")
      .not_with({baseline});
  line.option("--operations", arguments.operations,
              "of the check, per configuration and profile, default 2000")
      .between(std::uint64_t{1}, std::uint64_t{1} << 40);
  line.option("--workload", arguments.workloads, "only this one, repeatable");
  line.option("--time-limit-seconds", arguments.limit_seconds,
              "for each measured process, default 600")
      .between(0.1, 86400.0);
  add_limit_options(line, arguments.subject, AnswerLimit::without);
  add_time_options(line, against, arguments);
  add_thresholds(line, record, arguments);
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(
      kProgram,
      "Compares two builds of an allocator: the laws first, then instructions, cache misses, "
      "allocations, bytes and time.\n"
      "Examples: kvproof gate --against=HEAD~1\n"
      "          kvproof gate --against=naive --no-time --summary=comment.md\n"
      "          kvproof gate --record=base.json; kvproof gate --baseline=base.json");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  choose_by_hash(arguments.hash, arguments.subject);
  return gate(arguments, argc, argv);
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof::bench;
  return run_program(kProgram, [&] {
    try {
      return run(argc, argv);
    } catch (const std::runtime_error& error) {  // a subject or a base that cannot be used
      throw UsageError(error.what());
    }
  });
}
