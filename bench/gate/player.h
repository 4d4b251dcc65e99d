// SPDX-License-Identifier: Apache-2.0
// Plays a workload of the gate on a subject in a closed loop: as in an engine, the next call
// depends on the answers so far.
//
// Model:   the loop of bench/serving/closed_loop.h, with whole prompts. Fewer than `live` requests
//          run when one is admitted; a step decodes one token of each. A request that gave way
//          computes the tokens anew that are no longer cached.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/gate/calls.h"
#include "bench/gate/gate_workloads.h"

namespace kvproof::bench {

/// The outcome of the measured part. Two runs with equal checksums got the same answers.
struct Played {
  std::uint64_t looked_up_tokens = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t taken_blocks = 0;
  std::uint64_t checksum = 0;
};

/// One recorded call, which can be made again without the loop around it.
struct Call {
  enum class Kind : std::uint8_t {
    arrive,
    lookup,
    admit,  // allocate for `value` tokens of a prompt
    step,   // append the next token, allocate for it, advance to `value`
    retry,  // allocate for the token that was refused, advance to `value`
    advance,
    free,
    finish,
    measure  // the measured part begins
  };
  Kind kind = Kind::measure;
  std::uint8_t admission = 0;  // 1: starts from the look-up; 2: the same while others run
  std::uint8_t status = 0;
  std::uint8_t refused = 0;  // step, retry: 1 = refused, so advance is not called
  std::uint32_t request = 0;
  std::uint32_t value = 0;
};

/// Plays the whole stream on a new manager, which is destroyed at the end.
/// @param factor of the number of measured requests @param record where the calls go, or nullptr
/// @throws BadAnswer
Played play(const Calls& subject, const GateWorkload& workload, std::uint64_t seed,
            std::uint32_t factor, std::vector<Call>* record);

/// Makes a manager for the workload and destroys it.
/// @throws BadAnswer if it cannot be built, or what the subject throws
void try_manager(const Calls& subject, const GateWorkload& workload);

/// Makes the recorded calls on a new manager. @return the time of the measured part [ns]
double time_calls(const Calls& subject, const GateWorkload& workload, std::uint64_t seed,
                  const std::vector<Call>& calls);

}  // namespace kvproof::bench
