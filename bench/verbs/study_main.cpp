// SPDX-License-Identifier: Apache-2.0
// The program that the report runs for its figures: plays the studies and writes their results.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "bench/requests/open_log.h"
#include "bench/requests/workloads.h"
#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/result_file.h"
#include "bench/results/table.h"
#include "bench/studies/studies.h"
#include "bench/verbs/command_line.h"
#include "reference/support/input_error.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{"kvproof study", "not enough memory to play this log",
                           "a check failed: "};

struct Arguments {
  std::vector<std::string> names;
  OutputPaths outputs;
  std::vector<std::string> logs;
  std::uint64_t seed = kWorkloadSeed;
  bool smoke = false;
  bool workloads = false;
};

std::string list_of_studies() {
  std::string list;
  for (const Study& study : kStudies) {
    list += "\n  " + std::string(study.name) + ": " + std::string(study.sentence);
  }
  return list;
}

/// The studies of those names, in the order of the list; all studies if there is no name.
std::vector<const Study*> selected(const std::vector<std::string>& names) {
  std::vector<const Study*> studies;
  for (const Study& study : kStudies) {
    const bool named = std::ranges::find(names, study.name) != names.end();
    if (names.empty() || named) studies.push_back(&study);
  }
  for (const std::string& name : names) {
    if (std::ranges::find(kStudies, name, &Study::name) == std::end(kStudies)) {
      throw UsageError(in_quotes(name) + ": expected one of " + names_of(kStudies));
    }
  }
  return studies;
}

/// Whether two results are samples of one series: they differ only in the place of the sample.
bool same_series(const Result& a, const Result& b) {
  if (a.experiment != b.experiment || a.parameters.size() != b.parameters.size()) return false;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const std::string& name = a.parameters[i].first;
    const bool place = name == "tokens" || name == "seconds";
    if (!place && a.parameters[i] != b.parameters[i]) return false;
  }
  return true;
}

/// Keeps only the first and the last sample of a series; the others are for a figure.
void print(const std::vector<Result>& results) {
  std::vector<Result> shown;
  std::size_t hidden = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool inner = i > 0 && i + 1 < results.size() && same_series(results[i - 1], results[i]) &&
                       same_series(results[i + 1], results[i]);
    if (inner) {
      ++hidden;
    } else {
      shown.push_back(results[i]);
    }
  }
  print_results(std::cout, shown);
  if (hidden > 0) std::cout << hidden << " samples in between are only in the JSON file\n\n";
  std::cout.flush();
}

int run(const Arguments& arguments, int argc, char** argv) {
  const std::vector<const Study*> studies = selected(arguments.names);
  const OutputFiles outputs(arguments.outputs);

  StudyOptions options;
  options.smoke = arguments.smoke;
  options.seed = arguments.seed;
  options.workloads = arguments.workloads || arguments.logs.empty();
  for (const std::string& path : arguments.logs) {
    // A request has at most 2^20 tokens of input and of output.
    options.logs.push_back(log_source(path, {.max_tokens = std::int64_t{1} << 20}));
    (void)options.logs.back().open();  // fails for a wrong path before anything is played
  }
  Progress progress;
  std::vector<Result> results;
  double done = 0;
  for (const Study* study : studies) {
    const std::string name(study->name);
    options.report = [&](double share) {
      progress.update((done + share) / static_cast<double>(studies.size()), name);
    };
    options.report(0);
    const std::vector<Result> found = study->run(options);
    progress.clear();
    if (found.empty()) std::cerr << "kvproof study: no result of " << name << " for these logs\n";
    print(found);
    results.insert(results.end(), found.begin(), found.end());
    ++done;
  }
  outputs.commit(describe_environment(argc, argv, arguments.seed), results);
  return kHolds;
}

bool logs_are_played(const Arguments& arguments) {
  return std::ranges::any_of(selected(arguments.names), [](const Study* study) {
    return study->input == StudyInput::logs_and_workloads;
  });
}

bool workloads_are_played(const Arguments& arguments) {
  const bool beside = arguments.workloads || arguments.logs.empty();
  return std::ranges::any_of(selected(arguments.names), [&](const Study* study) {
    return study->input == StudyInput::workloads ||
           (beside && study->input == StudyInput::logs_and_workloads);
  });
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(
      kProgram,
      "Runs the experiments behind the figures of the report, on the real allocators.\n"
      "Example: kvproof study utilisation live_memory --json=results.json\n"
      "Studies, all of them unless named:" +
          list_of_studies());
  line.option("names", arguments.names, "which studies").placeholder("NAME");
  add_output_options(line, arguments.outputs, Says::numbers);
  auto trace = line.option("--trace", arguments.logs,
                           say("play this request log (", kLogFormats,
                               ") instead of the built-in workloads; may be repeated"))
                   .only_if([&] { return logs_are_played(arguments); }, "a study that plays logs")
                   .placeholder("FILE");
  line.flag("--workloads", arguments.workloads, "also play the built-in workloads")
      .goes_with({trace});
  line.option("--seed", arguments.seed, "of the built-in workloads")
      .only_if([&] { return workloads_are_played(arguments); }, "a study that plays workloads");
  line.flag("--smoke", arguments.smoke, "few requests, only to see that everything works");
  if (!line.parse(argc, argv)) return kHolds;
  return run(arguments, argc, argv);
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
