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

#include "properties/audit/audit.h"
#include "reference/operations.h"

namespace kvproof::properties {

using MakeSubject = std::function<std::unique_ptr<Subject>(const CacheConfig&)>;

/// A failure: a sequence of operations; after the last one an oracle raised an objection.
struct Failure : Broken {
  CacheConfig config;
  std::vector<Operation> trace;
  std::string subject{};  // the name of its row, for the replay; empty = it has no row
};

/// Whether there are decode steps, for which an audit needs a second subject.
[[nodiscard]] bool has_batches(std::span<const Operation> trace);

/// The next operation of a run, made up in the state of its audit; nullopt ends the run.
using Source = std::function<std::optional<Operation>(const Audit&)>;

/// The operations of a trace, up to one beyond the calls. @pre the trace outlives the source
[[nodiscard]] Source from_trace(std::span<const Operation> trace, const Calls& calls = {});

/// Is told of each operation that held. @return whether the run goes on. @throws Violation
using Observer = std::function<bool(const Operation&)>;

/// Performs operations until their source ends or something objects.
/// @param config as the manager was asked for
/// @return the failure, with its trace up to the operation that was objected to
[[nodiscard]] std::optional<Failure> play_out(const CacheConfig& config, Audit& audit,
                                              const Source& next, const Observer& held = {});

/// Plays a trace, up to an operation beyond the abilities that `oracles` promise.
[[nodiscard]] std::optional<Failure> run_trace(const MakeSubject& make, const CacheConfig& config,
                                               std::span<const Operation> trace, Oracles oracles);

/// KVPROOF_SEED, or 1. KVPROOF_OPERATIONS, or 10,000: how many operations a random test performs.
[[nodiscard]] std::uint64_t seed_from_environment();
[[nodiscard]] std::uint64_t operations_from_environment();

}  // namespace kvproof::properties
