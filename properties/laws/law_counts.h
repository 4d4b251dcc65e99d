// SPDX-License-Identifier: Apache-2.0
// What a judge counts of each law. A law that was never evaluated proves nothing.
#pragma once

#include <cstdint>

namespace kvproof::properties {

struct LawCount {
  std::uint64_t evaluated = 0;  // [times] that the law applied and was checked
  std::uint64_t suspended = 0;  // [steps] on which an operation has suspended it
  std::uint64_t exempted = 0;   // [times] that it was broken, as a trait of the subject declares
  std::uint64_t reported = 0;   // findings
  std::uint64_t known = 0;      // findings among them that a row of a file explains
};

}  // namespace kvproof::properties
