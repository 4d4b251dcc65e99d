// SPDX-License-Identifier: Apache-2.0
// What a judge counts of each law. One that was never evaluated proves nothing.
#pragma once

#include <cstdint>

namespace kvproof::properties {

struct LawCount {
  std::uint64_t evaluated = 0;  // [times] that the law applied and was checked
  std::uint64_t suspended = 0;  // [steps] on which an operation before had suspended it
  std::uint64_t exempted = 0;   // observations that a trait of the subject exempts
  std::uint64_t reported = 0;   // findings
  std::uint64_t known = 0;      // of these
};

}  // namespace kvproof::properties
