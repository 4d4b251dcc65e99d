// SPDX-License-Identifier: Apache-2.0
// Which free block is handed out next, where it is not the head of the free queue.
//
// Model:   the free queue is the eviction order that ships: no policy, no call. A pool that is
//          given a policy tells it of each block that becomes free and of each that is held again,
//          and asks it for the next victim. At first it tells of every block in ascending order. A
//          free block that loses its content is told as revived, then as freed without any.
// Leaves out: policies. Those under study are in bench/hit_rate/, with side arrays of their own.
#pragma once

#include <cstdint>

#include "reference/ids.h"

namespace kvproof::optimized {

/// What freed() is told of a block without content.
inline constexpr std::uint64_t kNoContent = 0;

/// None of the calls allocates.
class VictimPolicy {
 public:
  virtual ~VictimPolicy() = default;

  /// Nobody holds the block any more. @param content a number for what it still carries, equal for
  /// equal content, or kNoContent
  virtual void freed(BlockId block, std::uint64_t content) = 0;
  /// A free block is held again, for its content.
  virtual void revived(BlockId block) = 0;
  /// The free block to hand out, which is not free any more. @pre there is one
  [[nodiscard]] virtual BlockId victim() = 0;
  /// Whether a request that ends gives its last block back first.
  [[nodiscard]] virtual bool deepest_first() const = 0;
};

}  // namespace kvproof::optimized
