// SPDX-License-Identifier: Apache-2.0
#include "bench/serving/recorder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvproof::bench {
namespace {

constexpr double ServingMoment::*kAveraged[] = {&ServingMoment::running,  &ServingMoment::waiting,
                                                &ServingMoment::tokens,   &ServingMoment::tail,
                                                &ServingMoment::reserved, &ServingMoment::free,
                                                &ServingMoment::stranded};

}  // namespace

void Recorder::add_step(double seconds, std::size_t running, std::size_t waiting,
                        const MemoryUse& use, std::uint64_t stranded) {
  totals.seconds += seconds;
  const ServingMoment moment{totals.seconds,
                             static_cast<double>(running),
                             static_cast<double>(waiting),
                             static_cast<double>(use.tokens),
                             static_cast<double>(use.tail),
                             static_cast<double>(use.reserved),
                             static_cast<double>(use.free),
                             static_cast<double>(stranded)};
  for (const auto part : kAveraged) {
    sum_.*part += moment.*part * seconds;
    peak_.*part = std::max(peak_.*part, moment.*part);
  }
  peak_.seconds = totals.seconds;
  if (moments_++ % stride_ != 0) return;
  samples_.push_back(moment);
  if (samples_.size() < kMaxSamples) return;
  for (std::size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
  samples_.resize((samples_.size() + 1) / 2);
  stride_ *= 2;
}

void Recorder::finish(const RequestTimes& times) {
  queueing_.push_back(static_cast<float>(times.admitted - times.arrived));
  if (times.first_token < 0) return;
  first_token_.push_back(static_cast<float>(times.first_token - times.arrived));
  if (times.output_tokens > 1) {
    per_token_.push_back(
        static_cast<float>((times.finished - times.first_token) / (times.output_tokens - 1)));
  }
}

ServingMoment Recorder::average() const {
  ServingMoment out = sum_;
  if (totals.seconds <= 0) return {};
  for (const auto part : kAveraged) out.*part /= totals.seconds;
  out.seconds = totals.seconds;
  return out;
}

Quantiles Recorder::quantiles(std::vector<float> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return static_cast<double>(
        values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)]);
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), at(0.5), at(0.9), at(0.99)};
}

}  // namespace kvproof::bench
