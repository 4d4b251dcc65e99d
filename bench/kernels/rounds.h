// SPDX-License-Identifier: Apache-2.0
// Timing in rounds: the compared kernels run in turn, and a ratio is of two times of one round.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench/instruments/latency.h"
#include "bench/kernels/ceilings.h"

namespace kvproof::bench {

/// [ns]
[[nodiscard]] inline double timed(const std::function<void()>& f) {
  const double start = now_ns();
  f();
  return now_ns() - start;
}

/// One of several ways to do the same, and its name.
struct Contender {
  std::string name;
  std::function<void()> run;
};

/// The quickest one on these bytes, by the least of three times each.
[[nodiscard]] inline const Contender& quickest(const std::vector<Contender>& ways) {
  std::size_t best = 0;
  double least = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const double ns = timed(ways[i].run);
      if ((round == 0 && i == 0) || ns < least) {
        least = ns;
        best = i;
      }
    }
  }
  return ways[best];
}

/// The ceiling of each round: what takes longer of two things that no kernel does faster.
[[nodiscard]] inline std::vector<double> ceilings(const std::vector<double>& one,
                                                  const std::vector<double>& other) {
  std::vector<double> out;
  for (std::size_t i = 0; i < one.size(); ++i) out.push_back(std::max(one[i], other[i]));
  return out;
}

}  // namespace kvproof::bench
