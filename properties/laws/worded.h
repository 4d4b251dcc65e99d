// SPDX-License-Identifier: Apache-2.0
// Counts what the traits of a subject have worded: observations that the strictest wording of a law
// would report. The audit makes one, and laws count in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvproof::properties {

struct Worded {
  std::array<std::uint64_t, 64> of_law{};
  std::size_t law = 0;  // the place in the list of the law that is checked now
};

}  // namespace kvproof::properties
