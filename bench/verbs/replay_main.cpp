// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof replay`: runs recorded operations, or the prompts of a request
// log.
#include <sys/resource.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "bench/requests/workloads.h"
#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/results/result_file.h"
#include "bench/results/table.h"
#include "bench/verbs/beside_options.h"
#include "bench/verbs/command_line.h"
#include "bench/verbs/hash_option.h"
#include "bench/verbs/law_option.h"
#include "bench/verbs/log_arguments.h"
#include "bench/verbs/operation_replay.h"
#include "bench/verbs/simulate_command.h"
#include "reference/recordings/packed.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof replay",
                           .no_memory = "not enough memory for a cache of this size"};

struct Arguments : LogArguments {
  std::vector<std::string> files;
  properties::SubjectOptions subject;
  std::string json_path;
  bool audit = false;
  bool draw = false;
  bool judge = false;
  bool follow = false;
  std::vector<std::string> without_laws;
  double idle_seconds = 10;
  std::string pack_folder;    // empty = not given
  std::string unpack_folder;  // empty = not given
  SimulateArguments simulation;
};

double peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024.0;
}

/// The two readings of a log: its ids as whole blocks, as published hit rates count them, and its
/// real partial tails. If the block size is not that of the log, only the second makes sense.
Result replay_requests(const Arguments& arguments, const ReopenableSource& source) {
  Progress progress;
  ReplayOptions options = arguments.replay_options(source);
  options.on_progress = [&progress](double fraction) { progress.update(fraction, "replaying"); };
  const SourceInfo info = source.open()->info();
  const ReplayCounts counts = replay_prompts(source, options);

  const auto metric = [](auto value, const char* unit) {
    return Metric{static_cast<double>(value), unit, {}, {}};
  };
  Result out;
  out.experiment = "trace_replay";
  out.parameters = {{"source", info.name},
                    {"format", info.format},
                    {"block_size", std::int64_t{arguments.block_size}},
                    {"hash", std::string(options.manager->hash)},
                    {"capacity", std::string(arguments.capacity_blocks ? "given" : "infinite")}};
  out.metrics = {{"requests", metric(counts.requests, "count")},
                 {"hit_rate_tokens", metric(counts.hit_rate_tokens(), "ratio")},
                 {"hit_rate_blocks", metric(counts.hit_rate_blocks(), "ratio")}};
  if (options.tokens == TokenMode::whole_blocks) {
    options.tokens = TokenMode::as_recorded;
    out.metrics.emplace_back("hit_rate_tokens_partial_tail",
                             metric(replay_prompts(source, options).hit_rate_tokens(), "ratio"));
  }
  out.metrics.insert(out.metrics.end(),
                     {{"input_tokens", metric(counts.input_tokens, "tokens")},
                      {"hit_tokens", metric(counts.hit_tokens, "tokens")},
                      {"evictions", metric(counts.evictions, "blocks")},
                      {"refused", metric(counts.refused, "count")},
                      {"capacity_blocks", metric(counts.capacity_blocks, "blocks")},
                      {"pool_bytes", metric(counts.pool_bytes, "bytes")},
                      {"wall_seconds", metric(counts.wall_seconds, "s")},
                      {"peak_rss_bytes", metric(peak_rss_bytes(), "bytes")}});
  const LogOptions& filters = arguments.log_options;
  if (filters.max_context > 0 || filters.skip_zero_input || filters.skip_zero_output) {
    std::ranges::move(left_out_metrics(counts.left_out), std::back_inserter(out.metrics));
  }
  return out;
}

/// The same requests in simulated time, each as replay_requests() would read it.
std::vector<Result> simulate_requests(const Arguments& arguments, const ReopenableSource& source) {
  Progress progress;
  SimulateArguments simulation = arguments.simulation;
  SimulationOptions& options = simulation.options;
  options.block_size = arguments.block_size;
  options.capacity_blocks = arguments.capacity_blocks;
  options.manager = &arguments.manager();
  options.audited = arguments.subject;
  options.engine.tokens = arguments.replay_options(source).tokens;
  std::vector<Result> out = run_simulation(simulation, source, progress);
  out.front().metrics.emplace_back("peak_rss_bytes", Metric{peak_rss_bytes(), "bytes", {}, {}});
  return out;
}

int replay_log(const Arguments& arguments, int argc, char** argv) {
  std::optional<ResultFile> file;
  if (!arguments.json_path.empty()) file.emplace(arguments.json_path);
  const ReopenableSource source = arguments.source();
  std::vector<Result> results;
  if (arguments.simulation.simulate) {
    results = simulate_requests(arguments, source);
  } else {
    results.push_back(replay_requests(arguments, source));
  }
  print_results(std::cout, std::span(results).first(1));  // samples are for a figure
  if (file) file->commit(describe_environment(argc, argv, kWorkloadSeed), results);
  return kHolds;
}

void add_options(CommandLine& line, Arguments& arguments) {
  auto files =
      line.option("files", arguments.files,
                  "operation traces (JSON Lines, plain, .gz or .zst), or folders of packed ones");
  const auto [trace, capacity] = add_log_options(line, files, arguments);
  auto subject = line.option(
      "--subject", arguments.subject.subject,
      "replay the operations, or serve, with this allocator or shared library, default: the "
      "trace's own, else " +
          std::string(optimized::subject_of(optimized::Role::standard).name));
  auto command =
      line.option("--subject-command", arguments.subject.subject_command,
                  "replay them against a program that speaks JSON lines, as kvproof check does");
  command.not_with({subject});
  auto audit = line.flag("--audit", arguments.audit,
                         "also consult every law and oracle after each operation")
                   .goes_with({files});
  auto without =
      line.option("--without-law", arguments.without_laws,
                  "leave out this law, for a failure that was found without it, repeatable")
          .placeholder("ID")
          .goes_with({files});
  line.flag("--draw", arguments.draw, "also draw the state after each operation")
      .goes_with({files});
  const auto judge =
      line.flag("--judge", arguments.judge,
                "a second verdict: ask the laws of the answers and states of the recording itself")
          .goes_with({files});
  const auto follow =
      line.flag("--follow", arguments.follow,
                "one recording while it is written, a file, a pipe or - (standard input), with "
                "--judge; ends at its end line")
          .goes_with({files})
          .not_with({judge, audit});
  line.option("--idle", arguments.idle_seconds,
              "[s] --follow ends when the file has not grown for so long, default 10")
      .between(0.1, 1e6)
      .goes_with({follow});
  line.option("--json", arguments.json_path, "also write the result of --trace to this file")
      .goes_with({trace});
  const auto hash = add_hash_option(line, arguments.hash, {subject, command});
  for (auto& beside : add_beside_options(line, arguments.subject, {subject, command})) {
    beside.not_with({trace});
  }
  auto unpack = line.option("--unpack", arguments.unpack_folder,
                            "write the traces as text into this new folder, and replay nothing");
  auto pack = line.option("--pack", arguments.pack_folder,
                          "write the traces into this new folder as reference/recordings/packed.h "
                          "says, and replay nothing");
  unpack.goes_with({files}).not_with({pack, subject, command, hash, audit, judge, follow, without});
  pack.goes_with({files}).not_with({subject, command, hash, audit, judge, follow, without});
  const auto simulate =
      add_simulation_options(line, {trace, capacity, hash, subject, command}, arguments.simulation);
  subject.goes_with({files, simulate});
  command.goes_with({files, simulate});
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(
      kProgram,
      "Runs recorded operations again and compares every recorded result, or replays the prompts "
      "of a request log.\n"
      "Examples: kvproof replay properties/sources/traces/vectors/gates-vllm-0.24.jsonl\n"
      "          kvproof replay properties/sources/traces/recordings\n"
      "          kvproof replay --trace=chat --block-size=32 --json=chat.json\n"
      "          kvproof replay --trace=chat --simulate --memory-gib=20");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  if (arguments.files.empty() && arguments.log.empty()) {
    throw UsageError("expected either operation traces or --trace=FILE; see --help");
  }
  if (arguments.follow && arguments.files.size() != 1) {
    throw UsageError("--follow: expected one recording, found " +
                     std::to_string(arguments.files.size()));
  }
  if (!arguments.log.empty()) return replay_log(arguments, argc, argv);
  if (!arguments.pack_folder.empty()) {
    properties::pack_traces(arguments.files, arguments.pack_folder);
    return kHolds;
  }
  if (!arguments.unpack_folder.empty()) {
    std::cout << properties::unpack_traces(arguments.files, arguments.unpack_folder)
              << " traces written to " << arguments.unpack_folder << '\n';
    return kHolds;
  }
  choose_by_hash(arguments.hash, arguments.subject);
  return replay_operations(arguments.files,
                           {.subject = arguments.subject,
                            .laws_left_out = laws_named(arguments.without_laws, "--without-law"),
                            .audit = arguments.audit,
                            .draw = arguments.draw,
                            .judge = arguments.judge || arguments.follow,
                            .idle_seconds = arguments.follow ? arguments.idle_seconds : 0});
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
