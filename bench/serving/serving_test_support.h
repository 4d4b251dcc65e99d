// SPDX-License-Identifier: Apache-2.0
// For tests of the serving simulation: a clock and a pool small enough to count by hand.
#pragma once

#include <utility>
#include <vector>

#include "bench/requests/listed_source.h"
#include "bench/serving/simulate.h"

namespace kvproof::bench {

/// A step of one second for each token that it computes, however few, and nothing else.
inline StepTime second_per_token() {
  StepTime out;
  out.card = {"slow", 1e30, 1, 1e30, "ours"};
  out.model = {"simple", 0.5, 0, 0, 0};
  return out;
}

inline SimulationOptions small_options() {
  SimulationOptions out;
  out.engine.scheduler = *find_scheduler("vllm-0.24");  // a step begins when the last one is over
  out.engine.time = second_per_token();
  out.engine.token_budget = 32;
  out.engine.max_running = 4;
  out.capacity_blocks = 64;
  return out;
}

inline Simulation serve(std::vector<Request> requests, const SimulationOptions& options) {
  return simulate(listed(std::move(requests)), options);
}

}  // namespace kvproof::bench
