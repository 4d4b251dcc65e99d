// SPDX-License-Identifier: Apache-2.0
// The part of the verb selftest that says which share of the operator mutants of optimized/ check
// notices with its default budget.
//
// Model:   a mutant is killed by check if check, over the cache managers of the list, ends with
//          exit code 1, crashes, hangs or asks for endless memory. The unit tests of the allocators
//          are compiled against the same copy, and run on what check has not killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvproof::bench {

struct MutationOptions {
  std::uint32_t mutants = 220;  // to be drawn
  std::uint64_t seed = 1;       // of the draw
  bool all = false;
  std::string part;  // "3/64": of what is chosen every 64th, from the third on; empty = everything
  std::vector<std::string> only;  // ids; empty = what is drawn
  std::string excuses;            // a list of equivalent mutants; empty = that of the checkout
  std::string json_path;          // empty = none
};

/// Prints a table by operator and every survivor, writes JSON. Two programs are made of the verb:
/// kvproof-mutation_score has the mutants, which take a minute to compile, and kvproof-selftest has
/// not.
/// @param argc, argv of the program, for the file. @return 0 all that are not excused are killed, 1
/// one survived, or one that is excused did not, or more are excused than may be
int mutation_score(const MutationOptions& options, int argc, const char* const* argv);

}  // namespace kvproof::bench
