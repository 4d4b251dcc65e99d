// SPDX-License-Identifier: Apache-2.0
// The list of pools that the runs put to the test: the sound one, and pools that are broken on
// purpose, each with one defect.
//
// Model:   all are the code that ships, compiled once more with a lock and counts that pass race
//          points (race_point.h). B132, B133, B136 and B137 are reported bugs: TensorRT-LLM#12179,
//          omlx#3087, llm-d-kv-cache#107, Mooncake#1374.
// Leaves out: defects that one thread alone would meet (mutants.h).
#pragma once

#include <span>
#include <string>

#include "optimized/concurrent/checks/tested_pool.h"

namespace kvproof::properties::concurrency {

/// What must reject a pool.
enum Rejects : unsigned { fibers = 1, threads = 2, long_runs = 4, thread_sanitizer = 8 };

struct PoolRow {
  const char* name;
  MakePool make;
  unsigned rejected_by;  // Rejects; without a lock, real threads would crash before a check can
};

/// The sound pool first.
[[nodiscard]] std::span<const PoolRow> tested_pools();

/// @return nullptr if no pool has that name
[[nodiscard]] MakePool tested_pool(const std::string& name);

}  // namespace kvproof::properties::concurrency
