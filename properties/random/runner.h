// SPDX-License-Identifier: Apache-2.0
// Runs audited sequences of operations, and keeps the sequence when one fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/oracles/audit.h"
#include "properties/random/generators.h"
#include "reference/operations.h"

namespace kvproof::properties {

using MakeSubject = std::function<std::unique_ptr<Subject>(const CacheConfig&)>;

/// A failure: a sequence of operations; after the last one an oracle raised an objection.
struct Failure {
  CacheConfig config;
  std::vector<Operation> trace;
  std::vector<std::string> breaches;  // as in Violation, in the order of the list of laws
  std::string text;
  std::string subject{};  // the name of its row, for the replay; empty = it has no row

  [[nodiscard]] bool names(const std::string& id) const;
};

/// One run of the random state machine: which manager, which kinds of operations, then one choice
/// each.
struct Case {
  Choice setup = 0;
  std::vector<Choice> choices;
};

/// Whether there are decode steps, for which an audit needs a second subject.
[[nodiscard]] bool has_batches(std::span<const Operation> trace);

/// Performs the operations one by one, up to one beyond the abilities that `oracles` promise.
/// @return the failure, with its trace cut off after the operation that an oracle objected to
[[nodiscard]] std::optional<Failure> run_trace(const MakeSubject& make, const CacheConfig& config,
                                               std::span<const Operation> trace, Oracles oracles);

/// Generates operations from the choices, then drains the manager. Adds what happened to `counts`.
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

/// KVPROOF_SEED, or 1. KVPROOF_OPERATIONS, or 10,000: how many operations a random test performs.
[[nodiscard]] std::uint64_t seed_from_environment();
[[nodiscard]] std::uint64_t operations_from_environment();

}  // namespace kvproof::properties
