// SPDX-License-Identifier: Apache-2.0
// The part of the verb check that visits all states of small managers.
#pragma once

#include <string>
#include <vector>

#include "bench/results/ci_files.h"

namespace kvproof::bench {

struct ExhaustiveOptions {
  std::vector<std::string> spaces;  // names of spaces.h; empty = all that close
  std::string subject;              // a row's name; empty = the standard one
  double visited_memory_gib = 0;    // more of visited states is on disk; 0 = no limit
  OutputPaths outputs = {};
};

/// Searches, prints a table and the violation if there is one, writes JSON. Every result has the
/// metrics states, edges, closed (1 or 0) and seconds; the last one is their sum (closed: all
/// were); with a limit of memory each but that has disk_bytes_per_state, too.
/// @param argc, argv of the program, for the file. @return 0 without a violation, else 1. Throws
/// std::invalid_argument for a name that no space has, InputError for a disk that is full, and
/// OutputError.
int check_exhaustive(const ExhaustiveOptions& options, int argc, const char* const* argv);

}  // namespace kvproof::bench
