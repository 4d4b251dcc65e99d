// SPDX-License-Identifier: Apache-2.0
// kvproof live: judges recorded runs of a whole engine (properties/shadow/README.md).
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/results/environment.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/known_rows.h"
#include "properties/check/findings.h"
#include "properties/shadow/verdict.h"
#include "properties/story/beside.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof live",
                           .no_memory = "not enough memory for the shadow of such a cache"};

Result row_of(const live::Found& found, const live::Judge& judge, const std::string& file) {
  const live::Law& law = live::kRunLaws[found.law];
  std::string before;
  for (const std::string& line : found.before) before += (before.empty() ? "" : "\n") + line;
  Result row{
      "live_finding",
      {{"file", file},
       {"law", std::string(law.id)},
       {"name", std::string(law.name)},
       {"sentence", std::string(law.sentence)},
       {"verdict", std::string(name_of(found.known.empty() ? Verdict::broken : Verdict::known))},
       {"known", found.known},
       {"reason", found.what},
       {"event", std::int64_t{found.event}},
       {"req", found.req},
       {"wrote", found.wrote},
       {"before", before}},
      {}};
  const auto add = [&row](const char* name, auto number) {
    row.parameters.emplace_back(name, static_cast<std::int64_t>(number));
  };
  if (found.step) add("step", *found.step);
  if (found.position) add("position", *found.position);
  if (found.place) {
    row.parameters.emplace_back("tier", judge.header().tiers[found.place->tier].name);
    add("block", found.place->block);
  }
  return row;
}

Result row_of(const live::Law& law, const live::LawCount& found, const std::string& file) {
  const Verdict verdict = found.reported > found.known ? Verdict::broken
                          : found.reported > 0         ? Verdict::known
                          : found.evaluated > 0        ? Verdict::holds
                                                       : Verdict::not_evaluated;
  return {"live_law",
          {{"file", file},
           {"law", std::string(law.id)},
           {"name", std::string(law.name)},
           {"sentence", std::string(law.sentence)},
           {"verdict", std::string(name_of(verdict))}},
          {{"evaluated", count(found.evaluated)}, {"findings", count(found.reported)}}};
}

Result row_of(const live::Judge& judge, const std::string& file) {
  return {"live_run",
          {{"file", file},
           {"verdict", std::string(live::verdict_of(judge))},
           {"reason", live::reason_of(judge)}},
          {{"ended", count(judge.ended() ? 1 : 0)},
           {"steps", count(judge.steps())},
           {"requests", count(judge.requests())},
           {"events", count(judge.events())},
           {"dropped", count(judge.dropped())},
           {"laws_evaluated", count(live::laws_evaluated(judge))}}};
}

/// What is known, and whether an engine that was judged has it: nullopt where none was of the row.
class KnownOfRuns {
 public:
  explicit KnownOfRuns(const std::string& path) {
    const auto is_mine = [](const std::string& law) {
      return properties::find_law(law, live::kRunLaws) != nullptr;
    };
    if (!path.empty()) rows_ = properties::read_known(path, is_mine);
    found_.resize(rows_.size());
  }

  /// @return the id of the row that explains a finding; empty = none
  /// @param header it names engine and release as "vllm 0.33.0"
  std::string id_for(const live::Header& header, std::string_view law, std::string_view what) {
    const std::size_t at = header.engine.find_last_of(' ');
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const bool applies =
          rows_[i].applies_to(header.engine, "") ||
          (at != header.engine.npos &&
           rows_[i].applies_to(header.engine.substr(0, at), header.engine.substr(at + 1)));
      if (!applies) continue;
      found_[i] = found_[i].value_or(false);
      if (law.empty() || !rows_[i].explains({std::string(law)}, what, "")) continue;
      found_[i] = true;
      return rows_[i].id;
    }
    return {};
  }

  [[nodiscard]] std::vector<Result> unexplained() const {
    std::vector<Result> out;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (found_[i] == false) out.push_back(row_of_unmatched(rows_[i]));
    }
    return out;
  }

 private:
  std::vector<properties::KnownFinding> rows_;
  std::vector<std::optional<bool>> found_;
};

/// Adds the rows of a run, and prints them; of a pipe the findings are printed as they come.
live::Judge judge_and_print(const std::string& file, KnownOfRuns& known,
                            std::vector<Result>& results) {
  std::vector<Result> findings;
  const auto take = [&](const live::Found& found, const live::Judge& judge) {
    findings.push_back(row_of(found, judge, file));
    print_results(std::cout, std::span(findings).last(1));
    std::cout.flush();
  };
  const std::string path = file == "-" ? "/dev/stdin" : file;
  const bool stream = live::is_stream(path);
  std::function<void(const live::Found&, const live::Judge&)> told;
  if (stream) told = take;
  const auto knows = [&known](const live::Header& header, live::LawId law, std::string_view what) {
    return known.id_for(header, live::kRunLaws[law].id, what);
  };
  live::Judge judge = live::judge_file(path, told, knows);
  static_cast<void>(known.id_for(judge.header(), "", ""));  // it was judged, whatever was found
  std::vector<Result> rows;
  for (std::size_t i = 0; i < live::kRunLaws.size(); ++i) {
    rows.push_back(row_of(live::kRunLaws[i], judge.count(i), file));
  }
  print_results(std::cout, rows);
  if (!stream) std::ranges::for_each(judge.findings(), [&](const auto& f) { take(f, judge); });
  if (!stream && !findings.empty()) std::cout << properties::write_lens_of_run(file);
  std::ranges::move(findings, std::back_inserter(rows));
  rows.push_back(row_of(judge, file));
  print_results(std::cout, std::span(rows).last(1));
  std::ranges::move(rows, std::back_inserter(results));
  return judge;
}

int run(int argc, char** argv) {
  std::vector<std::string> files;
  std::string known_path;
  OutputPaths paths;
  CommandLine line(kProgram,
                   "Judges recorded runs of an engine: whether each row of each step read what its "
                   "own tokens wrote,\nand the other laws of properties/shadow/README.md.\n"
                   "Example: kvproof live properties/shadow/runs/sound.jsonl");
  line.option("files", files,
              "recorded runs (JSON Lines, plain, .gz or .zst), or pipes; - is standard input");
  line.option("--known", known_path,
              "a file of known findings (properties/engines/findings/README.md); only others break "
              "a law")
      .placeholder("FILE");
  add_output_options(line, paths, Says::verdicts);
  if (!line.parse(argc, argv)) return kHolds;
  if (files.empty()) throw UsageError("expected recorded runs; see --help");
  KnownOfRuns known(known_path);
  const OutputFiles outputs(paths);
  std::vector<Result> results;
  bool broken = false;
  bool told = true;
  bool unread = false;
  for (const std::string& file : files) {
    try {
      const live::Judge judge = judge_and_print(file, known, results);
      broken = broken || live::verdict_of(judge) == name_of(Verdict::broken);
      told = told && judge.can_tell();
    } catch (const InputError& error) {
      if (files.size() == 1) throw;
      std::cerr << "kvproof live: " << error.what() << '\n';  // the others keep their verdicts
      unread = true;
    }
  }
  const std::vector<Result> unexplained = known.unexplained();
  print_results(std::cout, unexplained);
  std::ranges::copy(unexplained, std::back_inserter(results));
  outputs.commit(describe_environment(argc, argv, 0), results);
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
