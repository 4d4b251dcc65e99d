// SPDX-License-Identifier: Apache-2.0
// The verb check: every oracle against an allocator, ours or another's.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/results/ci_files.h"
#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/read_results.h"
#include "bench/results/result_file.h"
#include "bench/results/table.h"
#include "bench/verbs/beside_options.h"
#include "bench/verbs/check_exhaustive.h"
#include "bench/verbs/check_report.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/hash_option.h"
#include "bench/verbs/law_option.h"
#include "bench/verbs/limit_options.h"
#include "properties/check/candidate.h"
#include "properties/check/check.h"
#include "properties/engines/kit/serve.h"
#include "properties/laws/laws.h"
#include "reference/support/command_words.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof check"};

struct Arguments {
  properties::SubjectOptions subject;
  std::string hash;
  std::string profile;
  std::vector<std::string> configurations;
  std::optional<std::uint64_t> given_seed;  // the first of --deep
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> operations;
  OutputPaths outputs;
  std::string serve;
  std::optional<std::string> spaces;  // to search all states of; empty = of all that close
  std::optional<double> visited_memory_gib;
  std::optional<double> deep_seconds;  // a seed that is under way then is finished
  std::string resume;  // the file that remembers the next seed; empty: nothing is remembered
  std::optional<std::uint32_t> findings;
  std::vector<std::string> without_laws;
  std::string known;
  std::string required;
  double shrink_seconds = 30;
};

// ---- --deep: seed after seed, until the time is used up or something is violated ----

/// How far all runs with one state file have come.
struct Progressed {
  std::uint64_t first_seed = 1;
  std::uint64_t next_seed = 1;
  std::uint64_t operations = 0;
  double seconds = 0;
};

/// @param what the options that choose what is checked; a file is about one choice
Progressed read_state(const Arguments& arguments, const std::string& what) {
  Progressed out{.first_seed = arguments.seed, .next_seed = arguments.seed};
  const std::string& file = arguments.resume;
  std::error_code unreadable;
  if (file.empty() || !std::filesystem::exists(file)) return out;
  if (!std::filesystem::is_regular_file(file, unreadable)) {
    throw InputError(file, 0, "", "a file of kvproof check --deep, or none");
  }
  const std::vector<Result> rows = read_results(file).results;
  const auto require = [&file](bool holds, const std::string& field, const std::string& expected) {
    if (!holds) throw InputError(file, 0, "results[0]." + field, expected);
  };
  require(!rows.empty() && rows[0].experiment == "check_deep", "experiment", "check_deep");
  const auto seed = [&](const std::string& name) {
    const Value* value = rows[0].parameter(name);
    const auto* found = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
    require(found != nullptr && *found >= 0, "parameters." + name, "a whole number from 0");
    return static_cast<std::uint64_t>(*found);
  };
  const auto metric = [&](const std::string& name) {
    const Metric* found = rows[0].metric(name);
    require(found != nullptr && found->value >= 0 && found->value < 1e18, "metrics." + name,
            "a number from 0, below 10^18");
    return found->value;
  };
  const Value* named = rows[0].parameter("what");
  require(named != nullptr && *named == Value(what), "parameters.what",
          what + ", as this run asks");
  out.first_seed = seed("seed");
  require(!arguments.given_seed || arguments.seed == out.first_seed, "parameters.seed",
          std::to_string(arguments.seed) + ", as this run asks");
  out.next_seed = std::max(seed("next_seed"), out.first_seed);
  out.operations = static_cast<std::uint64_t>(metric("operations"));
  out.seconds = metric("seconds");
  return out;
}

Result result_of(const Progressed& done, const std::string& what, Verdict verdict,
                 const properties::FeaturePairs& pairs) {
  Result out{"check_deep",
             {{"what", what},
              {"seed", static_cast<std::int64_t>(done.first_seed)},
              {"next_seed", static_cast<std::int64_t>(done.next_seed)},
              {"verdict", std::string(name_of(verdict))},
              {"reason", verdict == Verdict::cannot_tell ? "some of it was vacuous" : ""}},
             {{"seeds", count(done.next_seed - done.first_seed)},
              {"operations", count(done.operations)},
              {"seconds", metric(done.seconds, "s")}}};
  add_depth(out, pairs);
  return out;
}

/// The options that run once more what failed, without what held.
std::string command_of(const properties::CheckReport& report,
                       const properties::Candidate& candidate, std::uint64_t seed,
                       std::uint64_t operations) {
  const properties::FailureReport& failure = *report.failure();
  std::string out = "check " + candidate.option + " --seed=" + std::to_string(seed) +
                    " --operations=" + std::to_string(operations) +
                    " --profile=" + std::string(failure.failure.config.profile.name);
  if (properties::find_configuration(failure.where) != nullptr) {
    out += " --configuration=" + failure.where;
  }
  return kvproof_command(out);
}

class Deep {
 public:
  Deep(const Arguments& arguments, std::string what, properties::CheckOptions per_seed)
      : arguments_(arguments),
        what_(std::move(what)),
        per_seed_(std::move(per_seed)),
        done_(read_state(arguments, what_)),
        before_(done_.seconds) {}

  [[nodiscard]] bool goes_on() const {
    return worst_ != Verdict::broken && (runs_ == 0 || elapsed() < *arguments_.deep_seconds);
  }
  [[nodiscard]] const Progressed& done() const { return done_; }
  [[nodiscard]] Verdict worst() const { return worst_; }
  [[nodiscard]] Result result() const { return result_of(done_, what_, worst_, pairs_); }
  /// The results of the last check that did not hold.
  [[nodiscard]] const std::vector<Result>& failed() const { return failed_; }

  /// One seed. If it failed it comes first when the run is resumed, to see that it is mended.
  void run(const std::vector<properties::Candidate>& candidates) {
    for (const properties::Candidate& candidate : candidates) {
      if (worst_ != Verdict::broken) run(candidate);
    }
    ++runs_;
    done_.seconds = before_ + elapsed();
    if (worst_ != Verdict::broken) ++done_.next_seed;
  }

  void print() {
    progress_.clear();
    const Result row = result();
    print_results(std::cout, std::span(&row, 1));
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  void run(const properties::Candidate& candidate) {
    per_seed_.seed = done_.next_seed;
    per_seed_.operations = arguments_.operations.value_or(
        candidate.foreign ? kForeignOperations : own_check().operations);
    per_seed_.on_progress = [&](double, const std::string& what) {
      progress_.update(std::min(elapsed() / *arguments_.deep_seconds, 1.0),
                       "seed " + std::to_string(done_.next_seed) + ", " + what);
    };
    const properties::CheckReport report = check(candidate, per_seed_);
    done_.operations += report.counts.operations;
    pairs_ += report.pairs;
    const Verdict verdict = verdict_of(report);
    if (verdict == Verdict::holds) return;
    worst_ = verdict;
    progress_.clear();
    failed_ = told(std::cout, report, per_seed_.seed, elapsed(), candidate);
    if (report.failure() == nullptr) return;
    std::cout << "found again by: "
              << command_of(report, candidate, per_seed_.seed, per_seed_.operations) << "\n\n";
  }

  const Arguments& arguments_;
  std::string what_;
  properties::CheckOptions per_seed_;
  Progressed done_;
  double before_;  // [s] of the runs that this one resumes
  int runs_ = 0;
  Verdict worst_ = Verdict::holds;
  properties::FeaturePairs pairs_;  // of this run
  std::vector<Result> failed_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
};

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) out.push_back(part);
  return out;
}

properties::CheckOptions options_of(const Arguments& arguments) {
  properties::CheckOptions out = own_check();
  out.seed = arguments.seed;
  out.laws_left_out = laws_named(arguments.without_laws, "--without-law");
  out.shrink_seconds = arguments.shrink_seconds;
  out.shrinks = arguments.shrink_seconds > 0;
  out.required = split_at_commas(arguments.required);
  static_cast<void>(laws_named(out.required, "--require"));
  if (!arguments.known.empty()) {
    out.known = properties::read_known(arguments.known, properties::is_of_check);
  }
  if (!arguments.profile.empty()) out.profiles = {find_profile(arguments.profile)};
  for (const std::string& name : arguments.configurations) {
    const auto* row = properties::find_configuration(name);
    if (row == nullptr) {
      throw std::invalid_argument("--configuration=" + name + ": expected one of " +
                                  names_of(properties::kConfigurations) + ", swarm");
    }
    out.rows.push_back(row);
  }
  return out;
}

std::vector<properties::Candidate> candidates_of(const Arguments& arguments) {
  if (arguments.subject.given()) return {properties::find_candidate(arguments.subject)};
  return properties::own_candidates();
}

/// Checks the subjects one after another, up to the first that fails.
int check_subjects(const Arguments& arguments, int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  properties::CheckOptions options = options_of(arguments);
  const std::uint64_t own = options.operations;
  const std::vector<properties::Candidate> candidates = candidates_of(arguments);
  const OutputFiles outputs(arguments.outputs);
  std::vector<Result> results;
  Verdict worst = Verdict::holds;
  std::cout << "seed " << arguments.seed << "\n\n";
  for (const properties::Candidate& candidate : candidates) {
    Progress progress;
    options.operations =
        arguments.operations.value_or(candidate.foreign ? kForeignOperations : own);
    const bool goes_on = candidate.foreign || !options.known.empty();
    options.findings = arguments.findings.value_or(goes_on ? kForeignFindings : 1);
    options.least_operations = candidate.foreign && !arguments.operations ? kForeignAtLeast : 0;
    options.on_progress = [&progress](double fraction, const std::string& what) {
      progress.update(fraction, what);
    };
    const auto start = Clock::now();
    const properties::CheckReport report = check(candidate, options);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress.clear();
    std::ranges::move(told(std::cout, report, arguments.seed, seconds, candidate),
                      std::back_inserter(results));
    const Verdict verdict = verdict_of(report);
    if (verdict != Verdict::holds) worst = verdict;
    if (verdict == Verdict::broken) break;
  }
  outputs.commit(describe_environment(argc, argv, arguments.seed), results);
  return exit_code_of(worst);
}

/// The ordinary check with seed after seed. The state file is replaced after each of them.
int check_deep(const Arguments& arguments, int argc, char** argv) {
  const std::vector<properties::Candidate> candidates = candidates_of(arguments);
  std::string what;
  for (const properties::Candidate& candidate : candidates) {
    what += (what.empty() ? "" : " ") + candidate.name;
    if (!candidate.beside.empty()) what += " beside " + candidate.beside;
  }
  if (!arguments.profile.empty()) what += " --profile=" + arguments.profile;
  for (const std::string& name : arguments.configurations) what += " --configuration=" + name;
  if (arguments.operations) what += " --operations=" + std::to_string(*arguments.operations);
  properties::CheckOptions per_seed = options_of(arguments);
  std::optional<ResultFile> state;
  const OutputFiles outputs(arguments.outputs);
  Deep deep(arguments, what, std::move(per_seed));
  if (!arguments.resume.empty()) state.emplace(arguments.resume);
  const Parameters environment = describe_environment(argc, argv, deep.done().first_seed);
  std::cout << "seeds from " << deep.done().next_seed << "\n\n";
  while (deep.goes_on()) {
    deep.run(candidates);
    if (state) state->commit(environment, std::vector{deep.result()});
  }
  deep.print();
  std::vector<Result> results = deep.failed();
  results.insert(results.begin(), deep.result());
  outputs.commit(environment, results);
  return exit_code_of(deep.worst());
}

/// How subjects are checked in the ordinary way. @return what a search of states does not take
std::vector<CommandLine::Option> add_ordinary_options(CommandLine& line, Arguments& arguments) {
  return {
      line.option("--profile", arguments.profile, "whose behaviour, default: as promised")
          .one_of(row_names(kProfiles)),
      line.option(
          "--configuration", arguments.configurations,
          "a row of the list of managers, or swarm for drawn ones, repeatable; default: all"),
      line.option("--seed", arguments.given_seed,
                  "of the random runs, default 1; the first of --deep"),
      line.option("--operations", arguments.operations,
                  "minimum of operations for each configuration and profile, default 6000, for "
                  "foreign allocators 2000; twice as many with a host tier, Mamba or keys of "
                  "tails, ten times in drawn ones")
          .between(std::uint64_t{1}, std::uint64_t{1} << 40),
      line.option("--findings", arguments.findings,
                  "stop after so many distinct findings, default 1; for foreign allocators and "
                  "with --known 5")
          .between(1U, 1000U),
      line.option("--shrink-seconds", arguments.shrink_seconds,
                  "[s] time limit for shrinking a finding of a foreign allocator, default 30; 0 = "
                  "no shrinking")
          .between(0.0, 1e6),
      line.option("--without-law", arguments.without_laws, "leave out this law, repeatable")
          .placeholder("ID"),
      line.option("--known", arguments.known,
                  "a file of known findings (properties/engines/findings/README.md); only others "
                  "are violations")
          .placeholder("FILE"),
      line.option("--require", arguments.required,
                  "laws joined by commas; exit code 3 unless each of them is evaluated")
          .placeholder("IDS")};
}

void add_options(CommandLine& line, Arguments& arguments) {
  const auto subject =
      line.option("--subject", arguments.subject.subject,
                  "an implementation of the list, or the path of a shared library that exports "
                  "kvproof_subject.h; default: all of the list")
          .only_if(
              [&arguments] {
                return !arguments.spaces || !properties::is_library(arguments.subject.subject);
              },
              "--exhaustive only if it is an implementation of the list");
  const auto command = line.option("--subject-command", arguments.subject.subject_command,
                                   "a program that speaks JSON lines on stdin and stdout")
                           .not_with({subject});
  add_hash_option(line, arguments.hash, {subject, command});
  const auto beside = add_beside_options(line, arguments.subject, {subject, command});
  add_limit_options(line, arguments.subject, AnswerLimit::with);
  std::vector<CommandLine::Option> ordinary = add_ordinary_options(line, arguments);
  const auto deep = line.option("--deep", arguments.deep_seconds,
                                "[s] check seed after seed for this long, and finish the last")
                        .between(0.001, 1e8);
  line.option("--resume", arguments.resume,
              "a file in which --deep remembers the next seed; it goes on there if the file exists")
      .placeholder("FILE")
      .goes_with({deep});
  ordinary.insert(ordinary.end(), {command, deep, beside.front(), beside.back()});
  const auto exhaustive =
      line.flag_or_option("--exhaustive", arguments.spaces,
                          "instead: visit all states of small managers, the subject beside the "
                          "model; or only of those named, joined by commas")
          .not_with(std::move(ordinary));
  line.option("--visited-memory-gib", arguments.visited_memory_gib,
              "[GiB] for visited states, of which 64-bit fingerprints are kept instead of 128-bit "
              "ones; more of them are in nameless files in TMPDIR")
      .between(0.0001, 65536.0)
      .goes_with({exhaustive});
  add_output_options(line, arguments.outputs, Says::verdicts);
  line.option("--serve", arguments.serve, "").hidden();  // the other end of the pipe
}

/// Runs the kind of check that was asked for. @return its exit code
int dispatch(const Arguments& arguments, int argc, char** argv) {
  if (!arguments.serve.empty()) return properties::serve(arguments.serve);
  if (arguments.deep_seconds) return check_deep(arguments, argc, argv);
  if (!arguments.spaces) return check_subjects(arguments, argc, argv);
  return check_exhaustive({.spaces = split_at_commas(*arguments.spaces),
                           .subject = arguments.subject.subject,
                           .visited_memory_gib = arguments.visited_memory_gib.value_or(0),
                           .outputs = arguments.outputs},
                          argc, argv);
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(
      kProgram,
      "Checks an allocator against every law, the model that it promises to equal, and a shadow "
      "store of contents.\nExamples: kvproof check\n"
      "          kvproof check --subject=naive --seed=7\n"
      "          kvproof check --subject-command='python3 "
      "properties/engines/kit/examples/adapter.py'\n"
      "          kvproof check --subject=naive --beside=optimized-sha256\n"
      "          kvproof check --exhaustive\n"
      "          kvproof check --deep=60 --resume=deep.json");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  arguments.seed = arguments.given_seed.value_or(1);
  choose_by_hash(arguments.hash, arguments.subject);
  return dispatch(arguments, argc, argv);
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
