// SPDX-License-Identifier: Apache-2.0
// The program behind `kvproof replay`: runs recorded operations, or the prompts of a request
// log.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
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
#include "bench/verbs/simulate_command.h"
#include "properties/check/audited_subject.h"
#include "properties/check/candidate.h"
#include "properties/check/drawing.h"
#include "properties/check/recording_judge.h"
#include "properties/selftest/candidate_or_mutant.h"
#include "properties/story/frame.h"
#include "reference/recordings/golden.h"
#include "reference/recordings/packed.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof replay",
                           .no_memory = "not enough memory for a cache of this size"};

struct Arguments : LogArguments {
  std::vector<std::string> files;
  properties::SubjectOptions subject;  // also a mutant; not given = the trace's own
  std::string json_path;
  bool audit = false;   // consult the oracles for recorded traces, too
  bool draw = false;    // print the state after each operation
  bool judge = false;   // ask the laws of what each recording itself shows
  bool follow = false;  // and wait for what is still written
  std::vector<std::string> without_laws;
  std::uint64_t laws_left_out = 0;  // bit i: the i-th law is not asked
  double idle_seconds = 10;         // the file that is followed ends when it has not grown for it
  std::string pack_folder;          // empty = not given
  std::string unpack_folder;        // empty = not given
  SimulateArguments simulation;
};

// ---- files of operations: recordings are compared, and judged by themselves; failures are audited
// again ----

using properties::TraceVerdict;

std::string title(const std::string& file, const TraceHeader& header) {
  return file + (header.name.empty() ? "" : " " + header.name) + " (" +
         std::string(header.config.profile.name) + ")";
}

void print_difference(const std::string& file, const TraceVerdict& verdict) {
  const properties::Difference& d = *verdict.difference;
  std::cout << "DIFFERS  " << title(file, verdict.header) << "\n  operation " << d.operation
            << ", line " << d.line << ": " << d.trace_line << "\n  " << d.what
            << "\n  recorded state:\n"
            << d.recorded_state << "  the subject's state:\n"
            << d.subject_state << std::flush;
}

void print_broken(const std::string& file, const TraceVerdict& verdict, std::uint64_t operation,
                  const properties::Violation& violation) {
  std::cout << "BROKEN   " << title(file, verdict.header) << ", by the recording itself\n"
            << "  operation " << operation << ": " << violation.what() << '\n'
            << std::flush;
}

struct Tally {
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  std::uint64_t skipped = 0;
  std::uint64_t vacuous = 0;  // with nothing to compare
  std::uint64_t lost = 0;     // traces whose lines are missing from somewhere on
  std::uint64_t operations = 0;
  std::uint64_t rejected = 0;
};

/// A file that is replayed, the subject of its trace, and whether the oracles watch it.
struct Replayed {
  const std::string& file;
  std::string subject;
  bool audited = false;
  std::unique_ptr<properties::RecordingJudge> judge = {};  // null where no laws are asked
  std::uint64_t operations = 0;                            // of this trace
  bool differs = false;

  /// Looks at the next operation, and prints what is wrong as soon as it is.
  void watch(const TraceLine& line, const TraceVerdict& verdict) {
    if (verdict.difference && !differs) print_difference(file, verdict);
    differs = verdict.difference.has_value();
    if (judge && !judge->broken()) {
      judge->follow(line);
      if (judge->broken()) print_broken(file, verdict, operations, *judge->broken());
    }
    ++operations;
  }
};

std::string count_of(const TraceVerdict& verdict) {
  std::string out = std::to_string(verdict.operations) + " operations, ";
  if (verdict.rejected > 0) out += std::to_string(verdict.rejected) + " of them rejected, ";
  out += std::to_string(verdict.recorded) + " with recorded results";
  if (!verdict.lost.empty()) return out + "; from there on lines are missing: " + verdict.lost;
  return verdict.ended ? out : out + "; it is cut short there";
}

void add(const Replayed& replayed, const TraceVerdict& verdict, Tally& tally) {
  const std::string what = title(replayed.file, verdict.header);
  tally.operations += verdict.operations;
  tally.rejected += verdict.rejected;
  // An oracle compares what was performed; a recording, whatever it states.
  const bool compared =
      verdict.recorded > 0 || (replayed.audited && verdict.rejected < verdict.operations);
  if (!verdict.skipped.empty()) {
    ++tally.skipped;
    std::cout << "skipped  " << what << ": " << verdict.skipped << '\n';
  } else if (verdict.difference || (replayed.judge && replayed.judge->broken())) {
    ++tally.failed;
  } else {
    tally.lost += verdict.lost.empty() ? 0 : 1;
    ++(compared ? tally.passed : tally.vacuous);
    std::cout << (compared ? "holds    " : "nothing  ") << what << ": " << count_of(verdict)
              << (compared ? "" : ": there is nothing to compare") << ", by " << replayed.subject
              << '\n';
  }
  if (replayed.judge && !replayed.judge->broken()) {
    std::cout << "laws     " << what << ": " << replayed.judge->summary() << '\n';
  }
}

/// Prints the state of a subject after each operation; keys are named once for all.
std::unique_ptr<Subject> drawn(const CacheConfig& config, std::unique_ptr<Subject> subject) {
  properties::KeyNumbers names;
  Snapshot first;
  subject->observe(first);
  see_keys(first, names);
  const auto print = [names](const properties::Frame& frame) mutable {
    std::cout << "operation " << frame.number << '\n';
    if (frame.outcome != nullptr) std::cout << draw_state(frame.state, names);
  };
  return properties::with_frames(config, std::move(subject), print);
}

/// A violation ends the replay of its file, because later operations prove nothing.
void replay_file(const std::string& file, const Arguments& arguments,
                 const std::optional<properties::Candidate>& given, Tally& tally) {
  const std::string path = file == "-" ? "/dev/stdin" : file;
  properties::GoldenReader reader(path,
                                  {.idle_seconds = arguments.follow ? arguments.idle_seconds : 0});
  Replayed replayed{file, {}, false};
  const auto make = [&](const TraceHeader& header) -> std::unique_ptr<Subject> {
    properties::SubjectOptions own = arguments.subject;
    own.subject = header.subject;
    if (own.subject.empty()) own.subject = optimized::subject_of(optimized::Role::standard).name;
    const properties::Candidate candidate = given ? *given : find_candidate_or_mutant(own);
    properties::Opened opened = candidate.open(header.config);
    const bool ours = header.recorded_from == "kvproof";  // our failures carry no results
    replayed.subject = candidate.name;
    replayed.audited = ours || arguments.audit;
    replayed.differs = false;
    replayed.operations = 0;
    if (arguments.judge || arguments.follow)
      replayed.judge = std::make_unique<properties::RecordingJudge>(header);
    if (arguments.draw && opened.subject != nullptr)
      opened.subject = drawn(header.config, std::move(opened.subject));
    if (opened.subject == nullptr || !replayed.audited) return std::move(opened.subject);
    return audited(header.config, std::move(opened), candidate, arguments.laws_left_out);
  };
  std::uint64_t traces = 0;
  try {
    const auto watch = [&replayed](const TraceLine& line, const TraceVerdict& verdict) {
      replayed.watch(line, verdict);
    };
    for (; const auto verdict = reader.next(make, watch); ++traces) {
      add(replayed, *verdict, tally);
      if (arguments.follow && verdict->ended) return;
    }
  } catch (const properties::Violation& violation) {
    ++tally.failed;
    std::cout << "VIOLATED " << file << ", by " << replayed.subject << '\n'
              << "  " << violation.what() << '\n';
    return;
  }
  if (traces == 0) {
    throw InputError(file, 0, "", "at least one trace, found an empty file");
  }
}

/// Prints a verdict per trace; for a failure, as soon as it is met, the operation, the difference,
/// and both states.
/// @return 0 if all recorded answers were reproduced and no oracle objected, 1 if not, 3 if no
/// trace could be replayed, or lines were lost. Throws InputError, properties::UnusableSubject, and
/// std::invalid_argument for an unknown subject.
int replay_operations(const Arguments& arguments) {
  std::optional<properties::Candidate> given;  // found first, so that a wrong name costs no work
  if (arguments.subject.given()) given = find_candidate_or_mutant(arguments.subject);
  Tally tally;
  for (const std::string& file : arguments.files) replay_file(file, arguments, given, tally);
  std::cout << tally.passed << " passed, " << tally.failed << " failed, " << tally.skipped
            << " skipped";
  if (tally.vacuous > 0) std::cout << ", " << tally.vacuous << " with nothing to compare";
  std::cout << " (" << tally.operations << " operations, " << tally.rejected << " rejected)\n";
  if (tally.failed > 0) return kViolated;
  return tally.passed > 0 && tally.lost == 0 ? kHolds : kCannotTell;
}

// ---- request logs ----

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
  out.front().metrics.emplace_back("peak_rss_bytes", metric(peak_rss_bytes(), "bytes"));
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
  arguments.laws_left_out = laws_named(arguments.without_laws, "--without-law");
  return replay_operations(arguments);
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
