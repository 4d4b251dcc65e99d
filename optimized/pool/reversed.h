// SPDX-License-Identifier: Apache-2.0
// Blocks from the last to the first: the order in which a table is given back.
//
// Reason:  clang 14 cannot compile std::views with libstdc++ 12.
#pragma once

#include <span>

#include "reference/ids.h"

namespace kvproof::optimized {

class Reversed {
 public:
  explicit Reversed(std::span<const BlockId> blocks) : blocks_(blocks) {}
  [[nodiscard]] auto begin() const { return blocks_.rbegin(); }
  [[nodiscard]] auto end() const { return blocks_.rend(); }

 private:
  std::span<const BlockId> blocks_;
};

}  // namespace kvproof::optimized
