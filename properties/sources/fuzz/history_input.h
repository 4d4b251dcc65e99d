// SPDX-License-Identifier: Apache-2.0
// Decodes bytes into a history of the concurrent pool and the interleaving of its threads.
//
// Model:   bytes 0 to 3 are the seed of the calls, byte 4 the number of threads; each further byte
//          is a preemption: its upper six bits say after how many race points it comes, the lower
//          two which thread comes in. After the last byte no thread is interrupted any more.
//          Histories, race points and the check for linearizability are those of concurrent/checks.
#pragma once

#include <cstdint>
#include <span>

#include "optimized/concurrent/checks/run.h"

namespace kvproof::properties::concurrency {

/// Runs the input and adds what comes of it to the runner.
void run_history_input(Runner& runner, std::span<const std::uint8_t> bytes);

}  // namespace kvproof::properties::concurrency
