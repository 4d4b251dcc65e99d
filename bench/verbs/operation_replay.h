// SPDX-License-Identifier: Apache-2.0
// Replays files of operations against an allocator: recordings are compared, and judged by
// themselves; failures are audited again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/check/candidate.h"

namespace kvproof::bench {

struct OperationReplayOptions {
  properties::SubjectOptions
      subject;  // also a row of the list of mutants; not given = the trace's own
  std::uint64_t laws_left_out = 0;  // bit i: the i-th law is not asked
  bool audit = false;               // consult the oracles for recorded traces, too
  bool draw = false;                // print the state after each operation
  bool judge = false;               // ask the laws of what each recording itself shows
  double idle_seconds = 0;          // a file ends when it has not grown for so long
};

/// Prints a verdict per trace; for a failure, as soon as it is met, the operation, the difference,
/// and both states.
/// @return 0 if all recorded answers were reproduced and no oracle objected, 1 if not, 3 if no
/// trace could be replayed, or lines were lost. Throws InputError, properties::UnusableSubject, and
/// std::invalid_argument for an unknown subject.
int replay_operations(const std::vector<std::string>& files, const OperationReplayOptions& options);

}  // namespace kvproof::bench
