// SPDX-License-Identifier: Apache-2.0
// The circumstances of a measurement, which a result file states: the build and the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bench/results/result_file.h"
#include "reference/config.h"

namespace kvproof::bench {

extern const char* const kCommit;  // of the sources that were built, or "unknown"

/// The profile of the managers in files that name none: what was the default when they were written.
inline constexpr std::string_view kUnnamedProfile = "vllm-0.24";

/// A value that the machine or the build does not tell is the text "unknown".
///
/// version, commit, compiler, build_type, flags; profile; cpu, cores, cache_l1d_bytes,
/// cache_l2_bytes, cache_l3_bytes, memory_bytes, kernel, page_bytes, transparent_huge_pages; date
/// (UTC), command, seed.
/// @param profile of the managers whose results name no other
[[nodiscard]] Parameters describe_environment(int argc, const char* const* argv, std::uint64_t seed,
                                              std::string_view profile = kDefaultProfile.name);

/// Memory of this process that lies in huge pages; nullopt if the kernel does not tell. [bytes]
[[nodiscard]] std::optional<std::uint64_t> huge_page_bytes();

}  // namespace kvproof::bench
