// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof bench`: selects cases, measures them, prints and writes the results.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/requests/workloads.h"
#include "bench/results/ci_files.h"
#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/result_file.h"
#include "bench/results/table.h"
#include "bench/suites.h"
#include "bench/verbs/command_line.h"
#include "reference/support/input_error.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace kvproof::bench {

namespace {

constexpr Program kProgram{"kvproof bench", "not enough memory for a pool of this size",
                           "a check failed: "};

struct Arguments {
  std::string filter = ".";
  OutputPaths outputs;
  bool list = false;
  std::optional<double> min_seconds_per_case;
  std::optional<std::uint32_t> fewest_rounds;
  std::string count_life_cycle;   // set in the process that callgrind watches
  std::string count_decode_step;  // the same
  BenchOptions options;
};

/// The cases of a suite that the filter finds in their names.
std::vector<std::string> selected_cases(const Suite& suite, const std::regex& filter,
                                        const BenchOptions& options) {
  std::vector<std::string> cases = suite.cases(options);
  std::erase_if(cases, [&](const std::string& name) { return !std::regex_search(name, filter); });
  return cases;
}

std::string list_of_cases(const BenchOptions& options, const std::regex& filter) {
  std::string list;
  for (const Suite& suite : kSuites) {
    const std::vector<std::string> cases = selected_cases(suite, filter, options);
    if (cases.empty()) continue;
    list += "\n# " + std::string(suite.name) + ": " + std::string(suite.sentence);
    for (const std::string& name : cases) list += '\n' + name;
  }
  return list;
}

[[noreturn]] void refuse_filter(const Arguments& arguments) {
  throw UsageError("--filter=" + printable(arguments.filter) +
                   ": expected a regular expression that finds a case of kvproof bench --list");
}

void print_circumstances(std::ostream& out, const Parameters& environment) {
  for (const char* name : {"cpu", "compiler", "build_type", "flags", "commit", "page_bytes",
                           "transparent_huge_pages"}) {
    const auto found = std::ranges::find(environment, name, &std::pair<std::string, Value>::first);
    if (found == environment.end()) continue;
    out << name << ": ";
    std::visit([&out](const auto& value) { out << value; }, found->second);
    out << '\n';
  }
  out << '\n';
}

int run(const Arguments& arguments, const std::regex& filter, int argc, char** argv) {
  std::vector<std::pair<const Suite*, std::vector<std::string>>> work;
  for (const Suite& suite : kSuites) {
    std::vector<std::string> cases = selected_cases(suite, filter, arguments.options);
    if (!cases.empty()) work.emplace_back(&suite, std::move(cases));
  }
  if (work.empty()) refuse_filter(arguments);
  const OutputFiles outputs(arguments.outputs);

  Progress progress;
  BenchOptions options = arguments.options;
  options.progress = &progress;
  const Parameters environment = describe_environment(argc, argv, options.seed);
  print_circumstances(std::cout, environment);
  std::cout.flush();  // a suite may start another process, which must not print this again
  std::vector<Result> results;
  for (const auto& [suite, cases] : work) {
    const std::vector<Result> measured = suite->run(cases, options);
    progress.clear();
    print_results(std::cout, measured);
    std::cout.flush();
    results.insert(results.end(), measured.begin(), measured.end());
  }
  outputs.commit(environment, results);
  return kHolds;
}

std::regex filter_of(const Arguments& arguments) {
  try {
    return std::regex(arguments.filter);
  } catch (const std::regex_error& error) {
    throw UsageError("--filter=" + printable(arguments.filter) +
                     ": expected a regular expression (" + error.what() + ")");
  }
}

void add_options(CommandLine& line, Arguments& arguments) {
  line.option("--filter", arguments.filter,
              "measure, or list, the cases whose names this ECMAScript regex finds");
  const auto list = line.flag("--list", arguments.list, "print the cases and measure nothing");
  for (auto& output : add_output_options(line, arguments.outputs, Says::numbers)) {
    output.not_with({list});
  }
  line.flag("--smoke", arguments.options.smoke, "tiny sizes, only to see that everything works");
  line.option("--min-seconds-per-case", arguments.min_seconds_per_case,
              "spend at least this long on a case [s], default 0.3")
      .between(0.001, 3600.0)
      .not_with({list});
  line.option("--fewest-rounds", arguments.fewest_rounds,
              "of cases that take turns with their ceilings, default 11")
      .between(1, 1000)
      .not_with({list});
  line.option("--seed", arguments.options.seed, "of every order and every key").not_with({list});
  line.option("--count-life-cycle", arguments.count_life_cycle, "").hidden();  // not in the help
  line.option("--count-decode-step", arguments.count_decode_step, "").hidden();
}

int run(int argc, char** argv) {
  Arguments arguments;
  arguments.options.seed = kWorkloadSeed;
  std::error_code unknown;
  arguments.options.self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown) arguments.options.self = argv[0];
  CommandLine line(kProgram,
                   "Measures the allocators.\n"
                   "Example: kvproof bench --filter=life_cycle --json=life_cycle.json");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  if (!arguments.count_life_cycle.empty()) {
    return count_life_cycle(arguments.count_life_cycle, arguments.options.seed);
  }
  if (!arguments.count_decode_step.empty()) {
    return count_decode_step(arguments.count_decode_step, arguments.options.seed);
  }
  const double usual_seconds = arguments.options.smoke ? 0.003 : 0.3;
  arguments.options.fewest_rounds =
      arguments.fewest_rounds.value_or(arguments.options.smoke ? 3 : 11);
  arguments.options.min_seconds_per_case = arguments.min_seconds_per_case.value_or(usual_seconds);
  const std::regex filter = filter_of(arguments);
  if (!arguments.list) return run(arguments, filter, argc, argv);
  const std::string list = list_of_cases(arguments.options, filter);
  if (list.empty()) refuse_filter(arguments);
  std::cout << list.substr(1) << '\n';
  return kHolds;
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
#if defined(__GLIBC__)
  // Every big buffer gets pages of its own, so that one case does not inherit another's.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
