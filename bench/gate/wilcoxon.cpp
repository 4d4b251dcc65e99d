// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/wilcoxon.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvproof::bench {
namespace {

struct Ranked {
  double size = 0;
  bool positive = false;
  int doubled_rank = 0;  // ties share the mean rank: twice of it is whole
};

std::vector<Ranked> ranked(std::span<const double> differences, double bound) {
  std::vector<Ranked> out;
  for (const double d : differences) {
    if (d != bound) out.push_back({std::abs(d - bound), d > bound, 0});
  }
  std::ranges::sort(out, {}, &Ranked::size);
  for (std::size_t from = 0; from < out.size();) {
    std::size_t to = from;
    while (to < out.size() && out[to].size == out[from].size) ++to;
    for (std::size_t i = from; i < to; ++i) out[i].doubled_rank = static_cast<int>(from + to + 1);
    from = to;
  }
  return out;
}

/// Of all 2^n choices of signs, the share whose sum of doubled ranks is at least `sum`.
double exact_share(const std::vector<Ranked>& values, int sum) {
  int most = 0;
  for (const Ranked& value : values) most += value.doubled_rank;
  std::vector<double> ways(static_cast<std::size_t>(most) + 1, 0.0);
  ways[0] = 1;
  for (const Ranked& value : values) {
    const auto rank = static_cast<std::size_t>(value.doubled_rank);
    for (std::size_t at = ways.size(); at-- > 0;) {
      ways[at] = (ways[at] + (at >= rank ? ways[at - rank] : 0)) / 2;
    }
  }
  double share = 0;
  for (int at = sum; at <= most; ++at) share += ways[static_cast<std::size_t>(at)];
  return std::min(share, 1.0);
}

double normal_share(const std::vector<Ranked>& values, int sum) {
  double mean = 0, variance = 0;
  for (const Ranked& value : values) {
    mean += value.doubled_rank / 2.0;
    variance += value.doubled_rank * value.doubled_rank / 4.0;
  }
  return 0.5 * std::erfc((sum - mean - 0.5) / std::sqrt(2 * variance));
}

double p_value(std::span<const double> differences, double bound, bool above) {
  const std::vector<Ranked> values = ranked(differences, bound);
  if (values.empty()) return 1;
  int sum = 0;
  for (const Ranked& value : values) {
    if (value.positive == above) sum += value.doubled_rank;
  }
  constexpr std::size_t kMostExact = 30;
  return values.size() <= kMostExact ? exact_share(values, sum) : normal_share(values, sum);
}

}  // namespace

double p_value_above(std::span<const double> differences, double bound) {
  return p_value(differences, bound, true);
}

double p_value_below(std::span<const double> differences, double bound) {
  return p_value(differences, bound, false);
}

double median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace kvproof::bench
