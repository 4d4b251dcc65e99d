// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof describe`: what a result file holds, and what results can hold.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/requests/workloads.h"
#include "bench/results/environment.h"
#include "bench/results/read_results.h"
#include "bench/results/schema.h"
#include "bench/results/table.h"
#include "bench/serving/scheduler_mutants.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/known_rows.h"
#include "properties/caller/configurations.h"
#include "properties/laws/laws.h"
#include "properties/selftest/mutants.h"
#include "properties/sources/exhaustive/spaces.h"
#include "reference/trace_names.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof describe"};

struct Arguments {
  std::vector<std::string> files;
  std::optional<std::string> json;  // empty = standard output
  bool known_rows = false;
  OutputPaths outputs;
};

/// The names that options take, for those who plan a run for each.
nlohmann::ordered_json listed_names() {
  nlohmann::ordered_json out;
  out["configurations"] = row_names(properties::kConfigurations);
  out["configurations"].push_back(properties::kSwarm.name);
  out["spaces"] = row_names(properties::exhaustive::kSpaces);
  out["operations"] = kOperationNames;
  for (const auto& list : {properties::all_mutants(), scheduler_mutants()}) {
    for (const properties::Seeded& row : list) out["mutants"].push_back(row.id);
  }
  return out;
}

/// The list of laws, for judges that are not written in C++.
nlohmann::ordered_json listed_laws() {
  constexpr std::string_view kJudges[] = {"state", "run", "events"};
  constexpr std::string_view kPromises[] = {"safety", "hits", "policy", "liveness"};
  nlohmann::ordered_json out;
  for (const properties::Law& row : properties::kLaws) {
    out.push_back({{"id", row.id},
                   {"name", row.name},
                   {"sentence", row.sentence},
                   {"judges", kJudges[static_cast<std::size_t>(row.judges)]},
                   {"promise", kPromises[static_cast<std::size_t>(row.promise)]},
                   {"source", row.source}});
  }
  return out;
}

void add_options(CommandLine& line, Arguments& arguments) {
  const auto files =
      line.option("files", arguments.files, "result files (JSON, plain, .gz or .zst)");
  line.flag_or_option("--json", arguments.json,
                      "instead: write the schema of result files and what is known of this machine "
                      "and build, to standard output or to this file")
      .placeholder("[=FILE]")
      .not_with({files});
  const auto known_rows =
      line.flag("--known-rows", arguments.known_rows,
                "instead: print what is found there as known findings, for --known=FILE")
          .goes_with({files});
  for (auto& output : add_ci_options(line, arguments.outputs, Says::both)) {
    output.goes_with({files}).not_with({known_rows});
  }
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(kProgram,
                   "Prints the rows of result files, or says what result files can hold.\n"
                   "Examples: kvproof describe results/check.json\n"
                   "          kvproof describe --json=schema.json");
  add_options(line, arguments);
  for (int i = 1; i + 1 < argc; ++i) {  // a result file behind it would be overwritten
    if (argv[i] == std::string_view("--json")) throw UsageError("--json: expected --json=FILE");
  }
  if (!line.parse(argc, argv)) return kHolds;
  if (arguments.json) {
    const std::string path = arguments.json->empty() ? "/dev/stdout" : *arguments.json;
    auto schema =
        nlohmann::ordered_json::parse(schema_json(describe_environment(argc, argv, kWorkloadSeed)));
    schema["names"] = listed_names();
    schema["laws"] = listed_laws();
    ResultFile(path).commit_text(
        schema.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
    return kHolds;
  }
  if (arguments.files.empty()) throw UsageError("expected result files or --json; see --help");
  const OutputFiles outputs(arguments.outputs);
  Parameters environment;
  std::vector<Result> results;
  for (const std::string& file : arguments.files) {
    ResultDocument document = read_results(file);
    environment = std::move(document.environment);
    std::ranges::move(document.results, std::back_inserter(results));
  }
  if (arguments.known_rows) {
    std::cout << known_rows_of(results);
    return kHolds;
  }
  print_results(std::cout, results);
  outputs.commit(environment, results);
  return kHolds;
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
