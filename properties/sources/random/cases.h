// SPDX-License-Identifier: Apache-2.0
// Random runs: a case draws the manager, the kinds of operations, and then each operation.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "properties/audit/runner.h"
#include "properties/sources/random/generators.h"

namespace kvproof::properties {

/// One run of the random state machine: which manager, which kinds of operations, then one choice
/// each.
struct Case {
  Choice setup = 0;
  std::vector<Choice> choices;
};

/// An operation from each choice, then those that drain the manager. @pre both outlive the source
[[nodiscard]] Source from_choices(const Generator& generator, std::span<const Choice> choices);

/// Plays choices. Adds what happened to `counts`.
[[nodiscard]] std::optional<Failure> run_choices(const MakeSubject& make, const CacheConfig& config,
                                                 const Swarm& swarm,
                                                 std::span<const Choice> choices, Oracles oracles,
                                                 Counts& counts);

/// Runs a case: its setup draws the manager and the swarm.
[[nodiscard]] std::optional<Failure> run_case(const MakeSubject& make, const Profile& profile,
                                              const Configuration& configuration, const Case& c,
                                              Oracles oracles, Counts& counts);

/// The same row without decode steps, to see whether a failure needs them at all.
[[nodiscard]] Configuration without_batches(const Configuration& row);

/// Draws a case of up to `max_operations` operations.
[[nodiscard]] Case draw_case(ChoiceStream& stream, std::size_t max_operations);

}  // namespace kvproof::properties
