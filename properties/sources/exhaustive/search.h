// SPDX-License-Identifier: Apache-2.0
// Searches, breadth first, all states of a small space that a subject can reach.
//
// Model:   level by level; a state is kept as its fingerprint and the step that led there: 16 + 8
//          bytes, and the unused room of the table. With a limit of memory it is 8 + 8 bytes, on
//          disk beyond the limit (levels.h). If several ways lead into a state, the first is kept,
//          by the number of the state before it and the position of the operation there. So a
//          violation comes with a shortest trace, and all figures are the same for any number of
//          threads, and of a space that closes for any limit.
// Source:  explicit-state model checking: Holzmann, The SPIN Model Checker, 2003; Murphi's hash
//          compaction (Stern and Dill, CHARME'95), with 128 bits or 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "optimized/subjects.h"
#include "properties/sources/exhaustive/walker.h"

namespace kvproof::properties::exhaustive {

struct SearchProgress {
  std::uint64_t states = 0;
  std::uint64_t expanded = 0;  // states whose operations have all been tried
  std::uint32_t depth = 0;     // of the states that are expanded now
};

struct SearchOptions {
  MakeSubject make;
  bool own_memory = true;  // subjects take all of theirs from operator new; see arena.h
  Oracles oracles{true, true, false};
  std::uint32_t threads = 1;
  std::uint64_t most_states = 0;   // the search stops, unclosed, at so many states; 0 = no limit
  std::uint64_t memory_bytes = 0;  // more of visited states is on disk, and the search stops at the
                                   // end of a level; 0 = no limit
  std::function<void(const SearchProgress&)> progress = {};
};

struct SearchReport {
  std::uint64_t states = 0;  // distinct states, the empty manager included
  EdgeCounts counts;         // of all operations tried in all expanded states
  std::uint32_t depth = 0;   // operations to the farthest state
  bool closed = false;       // every operation was tried in every state
  double seconds = 0;
  std::uint64_t bytes = 0;  // the most that the search kept at one time
  std::uint64_t disk_bytes = 0;
  int fingerprint_bits = 128;
  std::optional<Failure> failure;

  [[nodiscard]] double collision_probability() const {
    return collision_bound(static_cast<double>(states), fingerprint_bits);
  }
};

/// Ends with the first violation, which has a shortest trace, or when the space is closed or the
/// limit is reached.
[[nodiscard]] SearchReport search(const Space& space, const SearchOptions& options);

/// Makes subjects of a row that are no larger than a space needs, so that making them is cheap.
[[nodiscard]] MakeSubject make_small(const optimized::SubjectRow& row);

}  // namespace kvproof::properties::exhaustive
