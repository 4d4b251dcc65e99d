// SPDX-License-Identifier: Apache-2.0
// The part of the verb selftest that lets a sound allocator lie in every way, and says which lies
// pass.
#pragma once

#include <cstdint>
#include <string>

#include "bench/results/ci_files.h"

namespace kvproof::bench {

struct LiarArguments {
  std::uint64_t seed = 1;
  std::uint64_t operations = 2000;  // per configuration, before a lie counts as missed
  std::string lie;                  // only this one; empty = all
  std::string operation;            // only lies about this one; empty = all
  OutputPaths outputs;
};

/// Prints a table by level of promise and every lie that passes, writes JSON.
/// @param argc, argv of the program, for the file. @return 0 each is noticed or excused, 1 one is
/// not. Throws std::invalid_argument for a lie or an operation that there is not, and OutputError.
int selftest_liars(const LiarArguments& arguments, int argc, const char* const* argv);

}  // namespace kvproof::bench
