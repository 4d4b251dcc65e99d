// SPDX-License-Identifier: Apache-2.0
// Counts by valgrind's callgrind: instructions, and the misses of a cache of a stated geometry.
//
// Model:   only instructions inside the functions that the pattern names are counted; the caches
//          are simulated throughout. The counts of one build and one input are equal in every run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reference/support/child_program.h"

namespace kvproof::bench {

/// What every count of misses is made with: never the caches of the machine that counts.
inline constexpr const char* kCacheGeometry[] = {"--I1=32768,8,64", "--D1=32768,8,64",
                                                 "--LL=1048576,16,64"};

struct CallgrindCounts {
  std::uint64_t instructions = 0;
  std::uint64_t d1_misses = 0;  // reads and writes; without the simulation 0
  std::uint64_t ll_misses = 0;
};

/// The output of "valgrind --version"; empty if it is not installed or does not run.
[[nodiscard]] std::string valgrind_version();

/// Runs a command under callgrind.
/// @param collected pattern of the functions inside which it counts
/// @param simulate_caches with kCacheGeometry
/// @param folder for callgrind's own file, which is removed
/// @param counts of a run that ended with exit code 0 and was counted; else nullopt
/// @return how the command ended, with its output
ChildEnd run_callgrind(ChildCommand command, const std::string& collected, bool simulate_caches,
                       const std::filesystem::path& folder, std::optional<CallgrindCounts>& counts);

/// Reads the events and totals of callgrind's file. @return nullopt if it has none
[[nodiscard]] std::optional<CallgrindCounts> parse_callgrind(const std::string& text);

}  // namespace kvproof::bench
