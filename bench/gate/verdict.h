// SPDX-License-Identifier: Apache-2.0
// The rule of the gate: measures of two builds in, one verdict per workload out.
//
// Model:   a count is worse when it moved the wrong way by more than its threshold and its floor.
//          Counts decide first: any worse count makes the workload worse, even if others got
//          better. Time says better or worse only if the rank test puts the median of the paired
//          ratios beyond the smallest effect, and "same" only if it puts the median inside on both
//          sides.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/results/verdict.h"

namespace kvproof::bench {

/// What counts. Valgrind may not run here, and another's library may not count its allocations.
enum class Instrument { callgrind, heap, answers };

/// One measure that is the same in every run.
struct Measure {
  std::string_view key;
  std::string_view words;
  bool more_is_better;
  double threshold_percent;  // the default
  double floor;              // smaller differences do not count, in the measure's unit
  Instrument instrument;
};

inline constexpr Measure kMeasures[] = {
    {"instructions_per_block", "instructions per block", false, 1, 0.5, Instrument::callgrind},
    {"d1_misses_per_block", "D1 misses per block", false, 5, 0.05, Instrument::callgrind},
    {"ll_misses_per_block", "LL misses per block", false, 5, 0.05, Instrument::callgrind},
    {"allocations_per_block", "allocations per block", false, 1, 0.001, Instrument::heap},
    {"bytes_per_block", "heap bytes per block", false, 1, 0.5, Instrument::heap},
    {"hit_share", "share of tokens hit", true, 0.5, 0.001, Instrument::answers},
    {"preemptions_per_request", "preemptions per request", false, 1, 0.01, Instrument::answers},
};
inline constexpr std::size_t kNumMeasures = std::size(kMeasures);

/// The counts of one build on one workload; nullopt = not measured.
using Counts = std::array<std::optional<double>, kNumMeasures>;

struct Rules {
  std::array<double, kNumMeasures> threshold_percent;
  double time_percent = 3;  // smallest effect
  double significance = 0.001;

  Rules();
};

struct Comparison {
  std::size_t measure = 0;  // index of kMeasures
  double base = 0;
  double head = 0;
  Verdict verdict = Verdict::same;

  /// [%] of the base; for a base of 0, of the floor
  [[nodiscard]] double change_percent() const;
};

/// Compares the measures that both have, one by one.
[[nodiscard]] std::vector<Comparison> compare(const Counts& base, const Counts& head,
                                              const Rules& rules);

/// The verdict on times: better, worse, same or cannot tell. @param log_ratios head / base of each
/// pair
[[nodiscard]] Verdict judge_time(const std::vector<double>& log_ratios, const Rules& rules);

struct WorkloadVerdict {
  Verdict verdict = Verdict::cannot_tell;
  std::string because;  // the measures that decided, with their changes
};

/// @param complete whether callgrind's counts are among them; without them "same" needs the time
/// @param time none = not measured
[[nodiscard]] WorkloadVerdict combine(const std::vector<Comparison>& counts, bool complete,
                                      std::optional<Verdict> time, double time_ratio);

}  // namespace kvproof::bench
