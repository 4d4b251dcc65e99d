// SPDX-License-Identifier: Apache-2.0
// The list of schedulers that the simulated engine can be: how that of a version drives its cache
// manager. One row per profile of the manager; the engine knows versions only by these values.
//
// Source:  vLLM v1 Scheduler, AsyncScheduler and EngineCore.step_with_batch_queue().
// Leaves out: what README.md lists.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvproof::bench {

struct Scheduler {
  std::string_view profile;  // of the manager, a row of reference/config.h
  /// So many steps run while the next one is granted, at most kMostStepsInFlight.
  std::uint32_t steps_in_flight;
  /// All drafts are verified, however few tokens of the answer are left, and every grant has slots
  /// for the next ones. If not, both end with the answer, and chunks of a prompt have no slots for
  /// drafts.
  bool whole_drafts;
  /// The blocks that an output completes are published when it arrives, if drafts are used or steps
  /// are in flight. If not, the next grant publishes them.
  bool publishes_outputs;
  /// An admission that was refused is tried again in every step. If not, once more memory is free.
  bool retries_each_step;
  /// Admissions beside any running request keep the watermark. If not, only those beside requests
  /// that the step computes for.
  bool watermark_beside_running;
};

inline constexpr std::uint32_t kMostStepsInFlight = 1;

inline constexpr Scheduler kSchedulers[] = {
    {.profile = "vllm-0.24",
     .steps_in_flight = 0,
     .whole_drafts = false,
     .publishes_outputs = false,
     .retries_each_step = false,
     .watermark_beside_running = false},
    {.profile = "vllm-0.22",
     .steps_in_flight = 0,
     .whole_drafts = false,
     .publishes_outputs = false,
     .retries_each_step = false,
     .watermark_beside_running = false},
    // VllmConfig turns asynchronous scheduling on unless it is told otherwise, for whatever
    // generates text on one card: its batch queue then holds two steps.
    {.profile = "vllm-0.33",
     .steps_in_flight = 1,
     .whole_drafts = true,
     .publishes_outputs = true,
     .retries_each_step = true,
     .watermark_beside_running = true},
};

[[nodiscard]] constexpr const Scheduler* find_scheduler(std::string_view profile) {
  for (const Scheduler& row : kSchedulers) {
    if (row.profile == profile) return &row;
  }
  return nullptr;
}

inline constexpr const Scheduler& kDefaultScheduler = *find_scheduler(kDefaultProfile.name);

}  // namespace kvproof::bench
