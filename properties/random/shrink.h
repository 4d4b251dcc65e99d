// SPDX-License-Identifier: Apache-2.0
// Makes a failing sequence of operations short, and reports it.
//
// Model:   delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002) over whole operations,
//          then over their fields. Candidates need not be valid: an operation that lost its meaning
//          is answered with a rejection. A candidate counts only if the same law fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "properties/random/runner.h"

namespace kvproof::properties {

/// @return the shortest failure found that still names the first law that `failure` named.
[[nodiscard]] Failure shrink(const MakeSubject& make, const Failure& failure, Oracles oracles);

/// Writes the trace as JSON Lines to `folder`/kvproof-failure-<seed>.jsonl: first under another
/// name, so that there is never half a file. @return its path. @throws std::runtime_error
std::filesystem::path write_failure(const Failure& failure, std::uint64_t seed,
                                    const std::filesystem::path& folder = ".");

/// The report for people: seed, law, operations, and the command that runs them again, unless the
/// file is none. @param options of that command, if the subject that the file names is not enough
[[nodiscard]] std::string describe_failure(const Failure& failure, std::uint64_t seed,
                                           const std::filesystem::path& file,
                                           const std::string& options = "");

/// Both: a file that cannot be written is told at the end of the report, and loses nothing. A file
/// with another trace is kept: this one is then called kvproof-failure-<seed>-2.jsonl, and so on.
[[nodiscard]] std::string keep_failure(const Failure& failure, std::uint64_t seed,
                                       const std::filesystem::path& folder,
                                       const std::string& options = "");

}  // namespace kvproof::properties
