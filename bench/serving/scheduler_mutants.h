// SPDX-License-Identifier: Apache-2.0
// The seeded faults of schedulers (properties/selftest/serving.patches) as rows of the kill
// matrix: random runs of a copy of the engine, under the laws of a run.
#pragma once

#include <string_view>
#include <vector>

#include "bench/serving/random_runs.h"
#include "properties/selftest/kill_matrix.h"

namespace kvproof::bench {

/// A run of the copy, with the fault of that id if a row has it.
[[nodiscard]] WrittenRun faulty_run(const RunSetup& setup, std::string_view id);

[[nodiscard]] std::vector<properties::Seeded> scheduler_mutants();

}  // namespace kvproof::bench
