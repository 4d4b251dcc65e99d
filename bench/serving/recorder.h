// SPDX-License-Identifier: Apache-2.0
// Records a simulated engine: totals, averages over simulated time, quantiles, and samples in time.
//
// Averages are weighted with the simulated time of each step, pauses included. At most kMaxSamples
// samples are kept, evenly over the steps: when there are more, every second one is dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/storage/storage.h"

namespace kvproof::bench {

/// The times of the events of one request. [s]
struct RequestTimes {
  double arrived = 0;
  double admitted = -1;     // first; negative until then
  double first_token = -1;  // negative until then
  double finished = 0;
  std::uint32_t output_tokens = 0;
};

struct ServingTotals {
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;  // requests that could not run even alone
  std::uint64_t empty = 0;    // requests without a prompt, which are answered at once
  std::uint64_t aborted = 0;  // requests that left without all of their answer
  std::uint64_t input_tokens = 0;
  std::uint64_t hit_tokens = 0;  // at first admissions, at most the input tokens of each
  std::uint64_t output_tokens = 0;
  std::uint64_t computed_tokens = 0;     // without drafts
  std::uint64_t recomputed_tokens = 0;   // computed before, and lost by a preemption
  std::uint64_t preemptions = 0;         // of both kinds
  std::uint64_t swaps = 0;               // those that kept their tokens on the host
  std::uint64_t refused_admissions = 0;  // for want of memory; a request may be refused often
  std::uint64_t drafts = 0;
  std::uint64_t accepted_drafts = 0;
  std::uint64_t steps = 0;
  double seconds = 0;  // simulated, from the first arrival to the last answer

  [[nodiscard]] double hit_rate_tokens() const {
    return input_tokens == 0 ? 0
                             : static_cast<double>(hit_tokens) / static_cast<double>(input_tokens);
  }
};

/// The engine at the end of one step, or an average over all of them.
struct ServingMoment {
  double seconds = 0;                                   // of simulated time
  double running = 0;                                   // [requests]
  double waiting = 0;                                   // [requests] ready, and not running
  double tokens = 0, tail = 0, reserved = 0, free = 0;  // MemoryUse [tokens]
  double stranded = 0;  // [tokens] free during the step, while a request was refused for lack of it
};

struct Quantiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

class Recorder {
 public:
  static constexpr std::size_t kMaxSamples = 256;

  ServingTotals totals;

  /// Records a step, or a pause, that took `seconds` and ended in this state.
  /// @param stranded free during the step, while a request was refused for want of memory [tokens]
  void add_step(double seconds, std::size_t running, std::size_t waiting, const MemoryUse& use,
                std::uint64_t stranded);
  void finish(const RequestTimes& times);

  [[nodiscard]] ServingMoment average() const;
  [[nodiscard]] ServingMoment peak() const { return peak_; }  // each maximum by itself
  [[nodiscard]] const std::vector<ServingMoment>& samples() const { return samples_; }
  [[nodiscard]] Quantiles queueing() const { return quantiles(queueing_); }  // [s]
  [[nodiscard]] Quantiles first_token() const {
    return quantiles(first_token_);
  }  // [s] since arrival
  [[nodiscard]] Quantiles per_token() const {
    return quantiles(per_token_);
  }  // [s] after the first

 private:
  [[nodiscard]] static Quantiles quantiles(std::vector<float> values);

  ServingMoment sum_;  // each times seconds
  ServingMoment peak_;
  std::vector<ServingMoment> samples_;
  std::uint64_t moments_ = 0;
  std::uint64_t stride_ = 1;
  std::vector<float> queueing_;
  std::vector<float> first_token_;
  std::vector<float> per_token_;
};

}  // namespace kvproof::bench
