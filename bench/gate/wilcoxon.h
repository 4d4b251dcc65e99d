// SPDX-License-Identifier: Apache-2.0
// Wilcoxon's signed-rank test on paired measurements: decides whether the difference exceeds a
// bound.
#pragma once

#include <span>

namespace kvproof::bench {

/// The probability of a rank sum at least as large as that of `differences`, were they symmetric
/// about `bound` or below it. Exact up to 30 values, by counting; beyond, the normal approximation
/// with ties. Values equal to the bound are left out.
[[nodiscard]] double p_value_above(std::span<const double> differences, double bound);
[[nodiscard]] double p_value_below(std::span<const double> differences, double bound);

/// @pre not empty
[[nodiscard]] double median(std::span<const double> values);

}  // namespace kvproof::bench
