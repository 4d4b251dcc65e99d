// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof lens`: one page that shows what an allocator does, step by step.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/results/result_file.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/trace_lens.h"
#include "properties/story/story.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof lens",
                           .no_memory = "not enough memory for the states of such a run"};

struct Arguments {
  std::vector<std::string> files;
  std::string scene;
  bool list = false;
  std::string output = "lens.html";
  LensOptions options;
};

int list_scenes() {
  for (const Scene& scene : scenes()) {
    std::cout << std::left << std::setw(12) << scene.name << ' ' << scene.about << '\n';
  }
  return kHolds;
}

std::shared_ptr<properties::Story> story_of(const Arguments& arguments) {
  if (arguments.scene.empty()) {
    return lens_of_file(arguments.files.front(), arguments.options);
  }
  const auto known = scenes();
  const auto row = std::ranges::find(known, arguments.scene, &Scene::name);
  if (row != known.end()) return lens_of_scene(*row);
  throw UsageError("--scene=" + arguments.scene + ": expected one of " + names_of(known));
}

void add_options(CommandLine& line, Arguments& arguments) {
  auto files = line.option("files", arguments.files,
                           "a failing trace, a recording, a packed folder of them, or a recorded "
                           "run of an engine");
  files.called("a trace");
  auto scene = line.option("--scene", arguments.scene, "a built-in trace with captions");
  auto list = line.flag("--list", arguments.list, "list the scenes, and write nothing");
  line.option("--output", arguments.output, "the page, default lens.html").not_with({list});
  auto subject = line.option("--subject", arguments.options.subject.subject,
                             "run the operations on this allocator or shared library, default: "
                             "the trace's own, else ours");
  auto command = line.option("--subject-command", arguments.options.subject.subject_command,
                             "run them on a program that speaks JSON lines");
  auto index = line.option("--trace-index", arguments.options.trace_index,
                           "which trace of a file of several, from 0, default: the first that "
                           "fails or differs, else the first");
  for (auto* option : {&subject, &command, &index}) option->goes_with({files});
  command.not_with({subject});
  scene.not_with({files, list});
  list.not_with({files});
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(kProgram,
                   "Writes one page that shows the pool, the queue, the tables and the index after "
                   "each operation.\n"
                   "Examples: kvproof lens --scene=life\n"
                   "          kvproof lens properties/sources/regressions/stale-hit.jsonl\n"
                   "          kvproof lens properties/shadow/runs/sound.jsonl --output=run.html");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  if (arguments.list) return list_scenes();
  if (arguments.scene.empty() && arguments.files.size() != 1) {
    throw UsageError("expected one trace, --scene=NAME or --list; see --help");
  }
  const ResultFile file(arguments.output);
  const auto story = story_of(arguments);
  file.commit_text(properties::lens_page(*story));
  if (story->shown() < story->steps()) {
    std::cerr << kProgram.name << ": of " << story->steps() << " operations the last "
              << story->shown() << " are shown\n";
  }
  std::cout << arguments.output << ": " << story->head.value("title", "") << ", " << story->steps()
            << (story->head.value("live", false) ? " events\n" : " operations\n");
  return kHolds;
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
