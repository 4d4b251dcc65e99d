// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/operation_replay.h"

#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "bench/verbs/command_line.h"
#include "properties/check/audited_subject.h"
#include "properties/check/drawing.h"
#include "properties/check/recording_judge.h"
#include "properties/selftest/candidate_or_mutant.h"
#include "properties/story/frame.h"
#include "reference/recordings/golden.h"

namespace kvproof::bench {
namespace {

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
void replay_file(const std::string& file, const OperationReplayOptions& options,
                 const std::optional<properties::Candidate>& given, Tally& tally) {
  const std::string path = file == "-" ? "/dev/stdin" : file;
  properties::GoldenReader reader(path, {.idle_seconds = options.idle_seconds});
  Replayed replayed{file, {}, false};
  const auto make = [&](const TraceHeader& header) -> std::unique_ptr<Subject> {
    properties::SubjectOptions own = options.subject;
    own.subject = header.subject;
    if (own.subject.empty()) own.subject = optimized::subject_of(optimized::Role::standard).name;
    const properties::Candidate candidate = given ? *given : find_candidate_or_mutant(own);
    properties::Opened opened = candidate.open(header.config);
    const bool ours = header.recorded_from == "kvproof";  // our failures carry no results
    replayed.subject = candidate.name;
    replayed.audited = ours || options.audit;
    replayed.differs = false;
    replayed.operations = 0;
    if (options.judge) replayed.judge = std::make_unique<properties::RecordingJudge>(header);
    if (options.draw && opened.subject != nullptr)
      opened.subject = drawn(header.config, std::move(opened.subject));
    if (opened.subject == nullptr || !replayed.audited) return std::move(opened.subject);
    return audited(header.config, std::move(opened), candidate, options.laws_left_out);
  };
  std::uint64_t traces = 0;
  try {
    const auto watch = [&replayed](const TraceLine& line, const TraceVerdict& verdict) {
      replayed.watch(line, verdict);
    };
    for (; const auto verdict = reader.next(make, watch); ++traces) {
      add(replayed, *verdict, tally);
      if (options.idle_seconds > 0 && verdict->ended) return;
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

}  // namespace

int replay_operations(const std::vector<std::string>& files,
                      const OperationReplayOptions& options) {
  std::optional<properties::Candidate> given;  // found first, so that a wrong name costs no work
  if (options.subject.given()) given = find_candidate_or_mutant(options.subject);
  Tally tally;
  for (const std::string& file : files) replay_file(file, options, given, tally);
  std::cout << tally.passed << " passed, " << tally.failed << " failed, " << tally.skipped
            << " skipped";
  if (tally.vacuous > 0) std::cout << ", " << tally.vacuous << " with nothing to compare";
  std::cout << " (" << tally.operations << " operations, " << tally.rejected << " rejected)\n";
  if (tally.failed > 0) return kViolated;
  return tally.passed > 0 && tally.lost == 0 ? kHolds : kCannotTell;
}

}  // namespace kvproof::bench
