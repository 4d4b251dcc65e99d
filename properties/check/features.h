// SPDX-License-Identifier: Apache-2.0
// The list of features that a random run may have, and the pairs of them that runs have had.
//
// Model:   few bugs need more than two features at once (Kuhn, Wallace and Gallo, IEEE TSE 30(6),
//          2004), so a check counts how many operations each pair of features has seen. Some pairs
//          exclude each other; a list says why.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "properties/caller/configurations.h"
#include "properties/sources/random/generators.h"
#include "reference/config.h"

namespace kvproof::properties {

/// A random run: the row that it was made with, its manager, and what is asked of it.
struct DrawnRun {
  const Configuration& row;
  const CacheConfig& config;
  const Swarm& swarm;
};

struct Feature {
  std::string_view name;
  bool (*present)(const DrawnRun& run);
};

inline constexpr std::size_t kNumFeatures = 43;
extern const std::array<Feature, kNumFeatures> kFeatures;

using FeatureSet = std::bitset<kNumFeatures>;
[[nodiscard]] FeatureSet features_of(const DrawnRun& run);

/// @return why no run can have both; empty when one can
[[nodiscard]] std::string_view why_apart(std::size_t a, std::size_t b);

/// How many operations each pair of features has seen together.
class FeaturePairs {
 public:
  void add(const FeatureSet& features, std::uint64_t operations);
  FeaturePairs& operator+=(const FeaturePairs& other);

  /// Whether a run with these features has a pair that no run had before.
  [[nodiscard]] bool gains(const FeatureSet& features) const;
  /// How many pairs there can be, and how many of them have been.
  [[nodiscard]] static std::size_t possible();
  [[nodiscard]] std::size_t reached() const;
  /// "host_tier with unit_16": the pairs that can be and were not.
  [[nodiscard]] std::vector<std::string> missing() const;
  /// Operations of the pairs that can be, the fewest first. Shape [possible()].
  [[nodiscard]] std::vector<std::uint64_t> operations() const;

 private:
  std::array<std::array<std::uint64_t, kNumFeatures>, kNumFeatures> operations_{};  // [a][b], a < b
};

}  // namespace kvproof::properties
