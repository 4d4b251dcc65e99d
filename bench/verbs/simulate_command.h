// SPDX-License-Identifier: Apache-2.0
// The options of `kvproof replay --simulate`, and the run that they describe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/results/progress.h"
#include "bench/results/result_file.h"
#include "bench/serving/simulate.h"
#include "bench/verbs/command_line.h"

namespace kvproof::bench {

struct SimulateArguments {
  bool simulate = false;
  bool over_time = false;  // also results of the memory over time
  SimulationOptions options;
  std::string profile{kDefaultScheduler.profile};
  std::optional<std::uint32_t> steps_in_flight;
  std::string record_path;
  std::string run_path;
  std::string card = "h100";
  std::string model = "llama-3-8b";
  std::optional<double> bandwidth_gb_per_s;
  std::optional<double> peak_tflop_per_s;
  double overhead_us = 0;
  std::optional<double> memory_gib;  // of the cache
  std::string storage = "paged";
  std::string preempt = "recompute";
  bool no_prefix_cache = false;
  bool admit_by_chunk = false;
  bool laws = false;

  /// As given, or as the profile has them. What is swapped out cannot be in flight.
  [[nodiscard]] Scheduler scheduler() const {
    Scheduler out = *find_scheduler(profile);
    if (preempt == "swap") out.steps_in_flight = 0;
    if (steps_in_flight) out.steps_in_flight = *steps_in_flight;
    return out;
  }
};

/// The options of an ordinary replay whose company a simulation changes.
struct RelatedOptions {
  CommandLine::Option trace, capacity, hash, subject, command;
};

/// @return the option --simulate, without which none of these means anything. `arguments` must
/// outlive the parse.
CommandLine::Option add_simulation_options(CommandLine& line, const RelatedOptions& related,
                                           SimulateArguments& arguments);

/// Serves the requests; the first result is that of the run, of experiment "serving". `options`
/// must hold the values of the replay's own options. Throws as simulate(), and
/// std::invalid_argument for options that do not go together.
[[nodiscard]] std::vector<Result> run_simulation(SimulateArguments arguments,
                                                 const ReopenableSource& source,
                                                 Progress& progress);

}  // namespace kvproof::bench
