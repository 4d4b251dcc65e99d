// SPDX-License-Identifier: Apache-2.0
// The part of the verb check that visits all states of small managers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/random/runner.h"

namespace kvproof::bench {

struct ExhaustiveOptions {
  std::vector<std::string> spaces;   // names of spaces.h; empty = those searched by default
  std::string subject;               // a row's name; empty = the standard one
  properties::MakeSubject make;      // empty = the subject, no larger than needed
  std::uint32_t threads = 0;         // 0 = one per core
  std::uint64_t most_states = 0;     // per space; 0 = as the space says
  bool nightly = false;              // only the space that is too large for every day
  bool count_by_model = false;       // search once more with only the naive model, and compare
  std::string json_path;             // empty = none
  std::string failure_folder = ".";  // where a shortest trace is written
};

/// Searches, prints a table and the violation if there is one, writes JSON. Every result has the
/// metrics states, edges, closed (1 or 0) and seconds; the last one is their sum (closed: all
/// were).
/// @param argc, argv of the program, for the file. @return 0 without a violation, else 1. Throws
/// std::invalid_argument for a name that no space has, and OutputError.
int check_exhaustive(const ExhaustiveOptions& options, int argc, const char* const* argv);

}  // namespace kvproof::bench
