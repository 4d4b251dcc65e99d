// SPDX-License-Identifier: Apache-2.0
// Random draws that are the same on every machine, for the built-in workloads.
//
// The standard fixes std::mt19937_64 but not its distributions, so these functions replace them.
// std::log and std::cos may differ in the last bit between machines; every draw that uses them is
// rounded to an integer, which hides that but for about one draw in 10^12.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace kvproof::bench {

class WorkloadRandom {
 public:
  explicit WorkloadRandom(std::uint64_t seed) : engine_(seed) {}

  /// Uniform over [0, 1), a multiple of 2^-53.
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  /// Uniform over [low, high]. @pre 0 <= low <= high < 2^52
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(unit() * static_cast<double>(high - low + 1));
  }

  /// exp(N(mu, sigma)), rounded, then clipped to [low, high].
  std::int64_t lognormal(double mu, double sigma, std::int64_t low, std::int64_t high) {
    // Box-Muller; 1 - unit() is never 0. The second value of the pair is not kept, so that a draw
    // depends only on its place in the sequence.
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    const double normal = radius * std::cos(2.0 * std::numbers::pi * unit());
    return std::clamp<std::int64_t>(std::llround(std::exp(mu + sigma * normal)), low, high);
  }

  /// Time to the next arrival of a Poisson process, in whole milliseconds.
  std::int64_t gap_ms(double arrivals_per_second) {
    return std::llround(-std::log(1.0 - unit()) / arrivals_per_second * 1000.0);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvproof::bench
