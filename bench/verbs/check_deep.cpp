// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/check_deep.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/result_file.h"
#include "bench/results/table.h"
#include "bench/verbs/check_report.h"
#include "reference/json_fault.h"
#include "reference/support/command_words.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

using nlohmann::json;

/// How far all runs with one state file have come.
struct Progressed {
  std::uint64_t first_seed = 1;
  std::uint64_t next_seed = 1;
  std::uint64_t operations = 0;
  double seconds = 0;
};

json document_in(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw InputError(path, 0, "", "a file of kvproof check --deep, or none");
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (const auto fault = fault_of_text(text)) throw InputError(path, 0, "", "no " + *fault);
  try {
    return json::parse(text);
  } catch (const json::exception& damage) {
    throw InputError(path, 0, "", fault_of(damage));
  }
}

/// The member at a path as "/results/0/parameters/what", of which `right` must hold.
template <class Right>
const json& member_at(const json& document, const std::string& file, const std::string& path,
                      const std::string& expected, const Right& right) {
  const json::json_pointer at(path);
  if (document.contains(at) && right(document.at(at))) return document.at(at);
  std::string field = path.substr(1);
  std::ranges::replace(field, '/', '.');
  throw InputError(file, 0, field, expected);
}

Progressed read_state(const DeepOptions& options) {
  Progressed out;
  out.first_seed = out.next_seed = options.seed.value_or(1);
  if (options.resume.empty() || !std::filesystem::exists(options.resume)) return out;
  const json document = document_in(options.resume);
  const std::string parameters = "/results/0/parameters/";
  const auto is = [](const json& expected) {
    return [expected](const json& found) { return found == expected; };
  };
  const auto number = [&](const std::string& path, double least) {
    return member_at(document, options.resume, path, "a number from " + std::to_string(int(least)),
                     [&](const json& found) { return found.is_number() && found >= least; });
  };
  const auto whole = [&](const std::string& path) {
    const json found = number(path, 0);
    if (found.is_number_unsigned()) return found.get<std::uint64_t>();
    if (found.get<double>() < 1e18) return static_cast<std::uint64_t>(found.get<double>());
    throw InputError(options.resume, 0, path.substr(1), "a number below 10^18");
  };
  member_at(document, options.resume, "/results/0/experiment", "check_deep", is("check_deep"));
  member_at(document, options.resume, parameters + "what", options.what + ", as this run asks",
            is(options.what));
  out.first_seed = whole(parameters + "seed");
  if (options.seed && *options.seed != out.first_seed) {
    throw InputError(options.resume, 0, "results.0.parameters.seed",
                     std::to_string(*options.seed) + ", as this run asks");
  }
  out.next_seed = std::max(whole(parameters + "next_seed"), out.first_seed);
  out.operations = whole("/results/0/metrics/operations/value");
  out.seconds = number("/results/0/metrics/seconds/value", 0).get<double>();
  return out;
}

Result result_of(const Progressed& done, const DeepOptions& options, Verdict verdict,
                 const properties::FeaturePairs& pairs) {
  Result out{"check_deep",
             {{"what", options.what},
              {"seed", static_cast<std::int64_t>(done.first_seed)},
              {"next_seed", static_cast<std::int64_t>(done.next_seed)},
              {"verdict", std::string(name_of(verdict))},
              {"reason", verdict == Verdict::cannot_tell ? "some of it was vacuous" : ""}},
             {{"seeds", count(done.next_seed - done.first_seed)},
              {"operations", count(done.operations)},
              {"seconds", {done.seconds, "s", {}, {}}}}};
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
  Deep(const DeepOptions& options, properties::CheckOptions per_seed,
       std::optional<std::uint64_t> operations)
      : options_(options),
        per_seed_(std::move(per_seed)),
        operations_(operations),
        done_(read_state(options)),
        before_(done_.seconds) {}

  [[nodiscard]] bool goes_on() const {
    return worst_ != Verdict::broken && (runs_ == 0 || elapsed() < options_.seconds);
  }
  [[nodiscard]] const Progressed& done() const { return done_; }
  [[nodiscard]] Verdict worst() const { return worst_; }
  [[nodiscard]] Result result() const { return result_of(done_, options_, worst_, pairs_); }
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
    per_seed_.operations =
        operations_.value_or(candidate.foreign ? kForeignOperations : own_check().operations);
    per_seed_.on_progress = [&](double, const std::string& what) {
      progress_.update(std::min(elapsed() / options_.seconds, 1.0),
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

  const DeepOptions& options_;
  properties::CheckOptions per_seed_;
  std::optional<std::uint64_t> operations_;
  Progressed done_;
  double before_;  // [s] of the runs that this one resumes
  int runs_ = 0;
  Verdict worst_ = Verdict::holds;
  properties::FeaturePairs pairs_;  // of this run
  std::vector<Result> failed_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

int check_deep(const DeepOptions& options, const std::vector<properties::Candidate>& candidates,
               properties::CheckOptions per_seed, std::optional<std::uint64_t> operations, int argc,
               const char* const* argv) {
  std::optional<ResultFile> state;
  const OutputFiles outputs(options.outputs);
  Deep deep(options, std::move(per_seed), operations);
  if (!options.resume.empty()) state.emplace(options.resume);
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

}  // namespace kvproof::bench
