// SPDX-License-Identifier: Apache-2.0
// The part of the verb selftest that hunts every seeded bug, and says which oracle noticed it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/results/ci_files.h"

namespace kvproof::bench {

struct MutantOptions {
  std::vector<std::string> ids;  // empty = all
  std::uint64_t seed = 1;
  std::uint64_t most_operations = 200'000;  // per mutant and oracle
  OutputPaths outputs;
};

/// Prints a table by family and every mutant that its law did not notice, writes JSON.
/// @param argc, argv of the program, for the file. @return 0 all are killed, 1 one survived.
/// Throws std::invalid_argument for an id that no mutant has, and OutputError.
int selftest_mutants(const MutantOptions& options, int argc, const char* const* argv);

}  // namespace kvproof::bench
