// SPDX-License-Identifier: Apache-2.0
// Decodes bytes into an audited run of a cache manager: first the manager, then two bytes for each
// operation.
//
// Model:   byte 0 chooses profile and row of configurations.h, bytes 1 to 4 the sizes and the kinds
//          of operations, each further pair one Choice (random/generators.h). Of a Choice the pair
//          is the lowest 16 bits, which decide the kind and its target; the other bits are derived
//          from them. Any bytes are an input; equal bytes are equal runs.
// Leaves out: all bytes behind kMostFuzzedOperations operations; they are not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "properties/audit/runner.h"
#include "properties/sources/random/cases.h"

namespace kvproof::properties {

inline constexpr std::size_t kMostFuzzedOperations = 512;

/// Which rows of configurations.h a target draws from.
enum class FuzzScope {
  one_full_group,  // full or MLA attention alone
  all_others,      // windows, states, several groups
};

struct ManagerInput {
  const Profile* profile = nullptr;
  const Configuration* configuration = nullptr;
  Case run;
  std::uint64_t digest = 0;  // 32 bits of the bytes: names the files written about them
};

struct FuzzedSubject {
  std::string name;  // in a list of subjects, for the replay
  MakeSubject make;
};

/// The paged allocator, built for few requests: less to set up for each input.
[[nodiscard]] FuzzedSubject fuzzed_optimized();

[[nodiscard]] ManagerInput decode_manager_input(std::span<const std::uint8_t> bytes,
                                                FuzzScope scope);

/// All oracles after every operation.
[[nodiscard]] std::optional<Failure> run_manager_input(const ManagerInput& input,
                                                       const FuzzedSubject& subject,
                                                       Counts& counts);

/// Runs the input in a child process and writes what breaks it to `folder` as a trace: shrunk if an
/// oracle objected, as far as it got if the process died or hung. @return its path, or nullopt if
/// the input holds
[[nodiscard]] std::optional<std::filesystem::path> write_fuzz_trace(
    const ManagerInput& input, const FuzzedSubject& subject, const std::filesystem::path& folder);

/// The whole work of a target: runs the input, and aborts if it breaks something. With
/// KVPROOF_TRACE_TO=<folder> it writes the trace there instead of aborting.
void fuzz_manager(std::span<const std::uint8_t> bytes, FuzzScope scope,
                  const FuzzedSubject& subject);

}  // namespace kvproof::properties
