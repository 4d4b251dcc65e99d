// SPDX-License-Identifier: Apache-2.0
// kvproof live: judges recorded runs of a whole engine (properties/live/README.md).
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "bench/results/environment.h"
#include "bench/results/result_file.h"
#include "bench/verbs/command_line.h"
#include "properties/lens/live_story.h"
#include "properties/live/verdict.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof live",
                           .no_memory = "not enough memory for the shadow of such a cache"};

/// Of a pipe the findings are printed as they come.
live::Judge judge_and_print(const std::string& file) {
  const auto print = [](const live::Found& found, const live::Judge& judge) {
    live::print_finding(std::cout, found, judge);
    std::cout.flush();
  };
  const std::string path = file == "-" ? "/dev/stdin" : file;
  const bool stream = live::is_stream(path);
  live::Judge judge = stream ? live::judge_file(path, print) : live::judge_file(path);
  live::print_verdict(std::cout, file, judge);
  if (!stream) std::ranges::for_each(judge.findings(), [&](const auto& f) { print(f, judge); });
  if (!stream && !judge.findings().empty()) std::cout << properties::write_lens_of_run(file);
  return judge;
}

int run(int argc, char** argv) {
  std::vector<std::string> files;
  std::string json_path;
  CommandLine line(kProgram,
                   "Judges recorded runs of an engine: whether each row of each step read what its "
                   "own tokens wrote,\nand the other laws of properties/live/README.md.\n"
                   "Example: kvproof live properties/live/runs/sound.jsonl");
  line.option("files", files,
              "recorded runs (JSON Lines, plain, .gz or .zst), or pipes; - is standard input");
  line.option("--json", json_path, "also write the verdicts to this file").placeholder("FILE");
  if (!line.parse(argc, argv)) return kHolds;
  if (files.empty()) throw UsageError("expected recorded runs; see --help");
  std::optional<ResultFile> json;
  if (!json_path.empty()) json.emplace(json_path);
  nlohmann::json all;
  bool broken = false;
  bool told = true;
  bool unread = false;
  for (const std::string& file : files) {
    try {
      const live::Judge judge = judge_and_print(file);
      live::add_run(all, file, judge);
      broken = broken || !judge.findings().empty();
      told = told && judge.can_tell();
    } catch (const InputError& error) {
      if (files.size() == 1) throw;
      std::cerr << "kvproof live: " << error.what() << '\n';  // the others keep their verdicts
      unread = true;
    }
  }
  for (const live::RunLaw& law : live::kRunLaws) {
    all["laws"].push_back({{"law", law.id}, {"name", law.name}, {"sentence", law.sentence}});
  }
  all["environment"] =
      nlohmann::json::parse(to_json(describe_environment(argc, argv, 0), {}))["environment"];
  if (json) json->commit_text(all.dump(1) + "\n");
  if (broken) return kViolated;
  if (unread) return kUsage;
  return told ? kHolds : kCannotTell;
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
