// SPDX-License-Identifier: Apache-2.0
// check --deep: seed after seed, until the time is used up or something is violated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/results/ci_files.h"
#include "properties/check/candidate.h"
#include "properties/check/check.h"

namespace kvproof::bench {

struct DeepOptions {
  double seconds = 0;                 // a seed that is under way then is finished
  std::optional<std::uint64_t> seed;  // the first; default: 1
  std::string resume;  // the file that remembers the next seed; empty: nothing is remembered
  std::string what;    // the options that choose what is checked; a file is about one choice
  OutputPaths outputs;
};

/// Checks the candidates with one seed after another. The state file is replaced after each seed.
/// @param per_seed what is run; its seed, operations and progress are set here
/// @return the exit code
[[nodiscard]] int check_deep(const DeepOptions& options,
                             const std::vector<properties::Candidate>& candidates,
                             properties::CheckOptions per_seed,
                             std::optional<std::uint64_t> operations, int argc,
                             const char* const* argv);

}  // namespace kvproof::bench
