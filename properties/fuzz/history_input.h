// SPDX-License-Identifier: Apache-2.0
// Bytes as a history of the concurrent pool and the interleaving of its threads.
//
// Model:   bytes 0 to 3 are the seed of the calls, byte 4 the number of threads; each further byte
//          is a preemption: its upper six bits say after how many race points, the lower two by
//          whom. Behind the last byte nobody is interrupted any more. Histories, race points and
//          the check for linearizability are those of concurrency/.
#pragma once

#include <cstdint>
#include <span>

#include "properties/concurrency/history_fibers.h"

namespace kvproof::properties::concurrency {

/// Adds what was found to `fibers.report`.
void run_history_input(HistoryFibers& fibers, MakePool make_pool,
                       std::span<const std::uint8_t> bytes);

}  // namespace kvproof::properties::concurrency
