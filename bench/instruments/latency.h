// SPDX-License-Identifier: Apache-2.0
// The duration of single calls: a cheap clock, its cost, and percentiles; what is made of samples.
//
// Model:   the clock is the time stamp counter where there is one, fenced on both sides so that it
//          reads after the call has completed; elsewhere std::chrono::steady_clock. The cost of two
//          readings with nothing between them is measured and taken off every call. The rest counts
//          as at least one step of the clock, because the clock cannot show less.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/results/result_file.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvproof::bench {

/// @param sorted not empty @param share 0 to 1
/// @return the smallest sample that at least that share of all samples does not exceed
template <class Sample>
[[nodiscard]] Sample percentile(const std::vector<Sample>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

/// Middle of the samples, the mean of the two middle ones of an even number. @pre not empty
[[nodiscard]] inline double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

/// The median, the 10th and the 90th percentile.
[[nodiscard]] inline Metric metric_of(std::vector<double> samples, const char* unit) {
  std::ranges::sort(samples);
  return {median(samples), unit, percentile(samples, 0.1), percentile(samples, 0.9)};
}

/// Element by element.
[[nodiscard]] inline std::vector<double> ratios(const std::vector<double>& above,
                                                const std::vector<double>& below,
                                                double factor = 1) {
  std::vector<double> out;
  for (std::size_t i = 0; i < above.size(); ++i) out.push_back(factor * above[i] / below[i]);
  return out;
}

/// [s] of processor time: of this thread, or of all threads of the process. Other work on the
/// machine costs them caches, but no time.
[[nodiscard]] inline double processor_seconds(clockid_t whose) {
  timespec now{};
  clock_gettime(whose, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class CallClock {
 public:
  [[nodiscard]] static std::uint64_t now() {
#if defined(__x86_64__)
    _mm_lfence();
    const std::uint64_t ticks = read();
    _mm_lfence();
    return ticks;
#else
    return read();
#endif
  }

  /// Takes about 25 ms, most of it to compare the two clocks.
  CallClock() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    const std::uint64_t first = now();
    Clock::time_point end = start;
    while (end - start < std::chrono::milliseconds(20)) end = Clock::now();
    const std::uint64_t last = now();
    ns_per_tick_ = std::chrono::duration<double, std::nano>(end - start).count() /
                   static_cast<double>(std::max<std::uint64_t>(last - first, 1));
    std::vector<std::uint64_t> costs(10'000);
    for (std::uint64_t& cost : costs) {
      const std::uint64_t before = now();
      cost = now() - before;
    }
    std::ranges::sort(costs);
    cost_ticks_ = percentile(costs, 0.5);
    // Some counters advance many ticks at a time: the smallest advance between readings shows it.
    step_ticks_ = std::max<std::uint64_t>(cost_ticks_, 1);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const std::uint64_t before = read();
      const std::uint64_t advance = read() - before;
      if (advance > 0) step_ticks_ = std::min(step_ticks_, advance);
    }
  }

  /// The smallest difference that it can show. [ns]
  [[nodiscard]] double step_ns() const { return static_cast<double>(step_ticks_) * ns_per_tick_; }

  /// A difference of two readings without the cost of reading. [ns]
  [[nodiscard]] double net_ns(std::uint64_t ticks) const {
    const std::uint64_t net = ticks > cost_ticks_ ? ticks - cost_ticks_ : 0;
    return static_cast<double>(std::max(net, step_ticks_)) * ns_per_tick_;
  }

 private:
  [[nodiscard]] static std::uint64_t read() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }

  double ns_per_tick_ = 1;
  std::uint64_t cost_ticks_ = 0;
  std::uint64_t step_ticks_ = 1;
};

/// The durations of many single calls. Adding one never allocates; beyond the capacity none is
/// kept.
class CallSamples {
 public:
  /// @param capacity [calls] whose memory is written here, so that timed code meets no page fault
  explicit CallSamples(std::size_t capacity) : ticks_(capacity, 1) { ticks_.clear(); }

  [[nodiscard]] bool full() const { return ticks_.size() == ticks_.capacity(); }
  [[nodiscard]] std::size_t size() const { return ticks_.size(); }
  void clear() { ticks_.clear(); }
  void add(std::uint64_t ticks) {
    if (!full()) ticks_.push_back(ticks);
  }

  struct Summary {
    double p50_ns = 0;
    double p99_ns = 0;
    double worst_ns = 0;
  };

  /// @pre size() > 0
  [[nodiscard]] Summary summary(const CallClock& clock) const {
    std::vector<std::uint64_t> sorted = ticks_;
    std::ranges::sort(sorted);
    return {clock.net_ns(percentile(sorted, 0.5)), clock.net_ns(percentile(sorted, 0.99)),
            clock.net_ns(sorted.back())};
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

}  // namespace kvproof::bench
