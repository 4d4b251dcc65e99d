// SPDX-License-Identifier: Apache-2.0
// A trial gives one mutant to a judge in a process of its own, with limits.
//
// Model:   a mutant is noticed if the judge objects, if the process crashes, runs out of memory, or
//          shows no sign of life for too long; a judge that cannot tell has not noticed it. Time is
//          that of the processor, so that the verdict does not depend on what else the machine
//          does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace kvproof::properties {

enum class Trial { survived, objected, cannot_tell, crashed, hung };

struct TrialLimits {
  double silent_seconds = 10;      // of the processor, between two signs of life
  std::uint64_t memory_bytes = 0;  // of addresses; 0 = unlimited
  std::uint32_t processes = 0;     // at one time; 0 = as many as there are cores
};

/// @param alive to be called as a sign of life @return its verdict on that mutant, one of the first
/// three
using Judge = std::function<Trial(std::size_t index, const std::function<void()>& alive)>;

/// Tries `count` mutants. @param done is called after each @return how each ended
[[nodiscard]] std::vector<Trial> run_trials(std::size_t count, const TrialLimits& limits,
                                            const Judge& judge,
                                            const std::function<void(std::size_t index)>& done);

}  // namespace kvproof::properties
