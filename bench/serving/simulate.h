// SPDX-License-Identifier: Apache-2.0
// One serving simulation from its options to its results.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "bench/results/result_file.h"
#include "bench/serving/engine.h"
#include "bench/storage/storage.h"
#include "properties/check/subject_options.h"

namespace kvproof::bench {

struct SimulationOptions {
  EngineOptions engine;
  std::uint32_t block_size = 16;                 // [tokens]
  std::optional<std::uint32_t> capacity_blocks;  // usable; nullopt = so many that nothing is lost
  std::uint32_t host_blocks = 0;
  std::uint32_t clients = 0;  // of a closed loop; 0 = open loop
  bool whole_sequence_must_fit = true;
  double watermark = 0;
  /// Of the paged storages, a row with a cache manager.
  const optimized::SubjectRow* manager = &optimized::subject_of(optimized::Role::standard);
  properties::SubjectOptions audited;  // if given: this allocator, every operation under audit
  std::ostream* recording = nullptr;   // of `audited`: the trace of its operations
  std::ostream* run = nullptr;         // of a paged storage without swaps: what run_writer.h writes
  std::string_view storage = "paged_shared";  // a name in storage.h
  std::uint32_t reserved_tokens = 0;  // by contiguous_max_length; 0 = the longest of the source
  std::function<void(double)> on_progress;  // fraction done, 0 to 1
};

struct Simulation {
  ServingTotals totals;
  ServingMoment average;
  ServingMoment peak;
  std::vector<ServingMoment> samples;
  Quantiles queueing, first_token, per_token;  // [s]
  LeftOut left_out;
  std::uint64_t capacity_blocks = 0;
  double wall_seconds = 0;  // of the whole simulation, reading included
};

/// Serves all requests of a source, which is opened twice: once to learn its size. Throws
/// std::invalid_argument for options that fit no pool, InputError for malformed input,
/// properties::Violation when a law breaks, std::logic_error when requests, tokens or memory do not
/// add up.
[[nodiscard]] Simulation simulate(const ReopenableSource& requests,
                                  const SimulationOptions& options);

/// Every figure of a simulation under the name that it has in a result file.
[[nodiscard]] Metrics metrics_of(const Simulation& run);

/// The requests that filters kept from being served.
[[nodiscard]] Metrics left_out_metrics(const LeftOut& left_out);

/// One result of experiment "serving_over_time" per sample; `parameters` and when it was taken.
[[nodiscard]] std::vector<Result> samples_of(const Simulation& run, const Parameters& parameters);

}  // namespace kvproof::bench
