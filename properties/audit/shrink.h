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

#include "properties/audit/runner.h"

namespace kvproof::properties {

/// @return the shortest failure found that still names the first law that `failure` named.
[[nodiscard]] Failure shrink(const MakeSubject& make, const Failure& failure, Oracles oracles);

/// Writes a text to a file: first under another name, so that there is never half a file.
/// @param what is written, for the error. @throws std::runtime_error
void write_whole(const std::string& text, const std::filesystem::path& file, const char* what);

/// Writes the trace as JSON Lines to `folder`/kvproof-failure-<seed>.jsonl.
/// @return its path. @throws std::runtime_error
std::filesystem::path write_failure(const Failure& failure, std::uint64_t seed,
                                    const std::filesystem::path& folder = ".");

/// The same, but a file with another trace is kept: this one is then called
/// kvproof-failure-<seed>-2.jsonl, and so on.
std::filesystem::path write_new_failure(const Failure& failure, std::uint64_t seed,
                                        const std::filesystem::path& folder);

/// The command that runs a trace again. @param options if the subject that it names is not enough
[[nodiscard]] std::string replay_command(const std::filesystem::path& trace,
                                         const std::string& options);

/// The configuration of a failure and its operations, for people.
[[nodiscard]] std::string describe_trace(const Failure& failure);

/// The report for people: seed, law, operations, and the command that runs them again, unless the
/// file is none. @param options of that command, if the subject that the file names is not enough
[[nodiscard]] std::string describe_failure(const Failure& failure, std::uint64_t seed,
                                           const std::filesystem::path& file,
                                           const std::string& options = "");

}  // namespace kvproof::properties
