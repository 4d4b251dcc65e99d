// SPDX-License-Identifier: Apache-2.0
// Runs many histories on real threads, and checks each.
//
// Model:   the threads of a batch start every history together (they wait for one another without
//          sleeping), pass race points where they sometimes give up their core, and share the
//          checking at the end.
#pragma once

#include "optimized/concurrent/checks/history_run.h"

namespace kvproof::properties::concurrency {

/// Checks the histories of seeds [first_seed, first_seed + num), up to the first wrong one.
[[nodiscard]] HistoryReport run_on_threads(MakePool make_pool, std::uint64_t first_seed,
                                           std::uint64_t num, std::uint32_t num_threads);

}  // namespace kvproof::properties::concurrency
