// SPDX-License-Identifier: Apache-2.0
// Golden traces: recorded runs of an allocator, replayed against a subject and compared line by
// line.
//
// A file holds one trace or several, one after another; so does a packed folder (packed.h). Every
// recorded result, event and state must be reproduced; the first difference ends a trace, because
// later ones follow from it. A trace that a subject does not support is named as skipped, with the
// reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "reference/recordings/packed.h"
#include "reference/subject.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

/// The first difference between a subject and a recording.
struct Difference {
  std::uint64_t operation = 0;  // counted from 0 in the trace
  std::uint64_t line = 0;       // of the file
  std::string what;             // the quantity, what was recorded, what the subject has
  std::string trace_line;       // the operation
  std::string recorded_state;   // one quantity a line
  std::string subject_state;
};

struct TraceVerdict {
  TraceHeader header;
  std::uint64_t operations = 0;  // performed
  std::uint64_t recorded = 0;    // operations of the trace that came with a result or a state
  std::uint64_t rejected = 0;    // operations that the subject called invalid
  std::string skipped;           // the reason; empty if the trace was replayed
  std::string lost;              // why lines are missing behind these; empty if none are
  bool ended = false;            // the trace has its end line
  std::optional<Difference> difference;
};

/// The difference between a recorded line and the subject's answer; nullopt if they are equal. A
/// rejection of what was recorded without one is a difference.
[[nodiscard]] std::optional<std::string> compare(const TraceLine& recorded, const Outcome& outcome,
                                                 const Snapshot& state);

/// Reads the traces of a file, one per call of next().
class GoldenReader {
 public:
  using MakeSubject = std::function<std::unique_ptr<Subject>(const TraceHeader&)>;
  /// Is told of each operation, and of the verdict so far. May throw TextError.
  using Watch = std::function<void(const TraceLine&, const TraceVerdict&)>;

  /// Throws InputError when the file cannot be read.
  explicit GoldenReader(const std::string& path, const LineReaderLimits& limits = {})
      : lines_(path, limits) {}

  /// Replays the next trace against a new subject; nullopt at the end of the file. `make` may
  /// answer nullptr for a header it has no subject for. A trace that is cut short is replayed as
  /// far as it goes. Throws InputError for a line that cannot be read.
  [[nodiscard]] std::optional<TraceVerdict> next(const MakeSubject& make, const Watch& watch = {});

  [[nodiscard]] double fraction_read() const { return lines_.fraction_read(); }

 private:
  [[nodiscard]] TraceLine parse(std::string_view text);
  void follow(TraceLine& line, Subject* subject, TraceVerdict& verdict, const Watch& watch);
  void perform(const TraceLine& line, Subject& subject, TraceVerdict& verdict);

  TraceLines lines_;
  Snapshot state_;
};

}  // namespace kvproof::properties
