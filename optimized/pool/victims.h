// SPDX-License-Identifier: Apache-2.0
// The victim policy that ships: the free queue is the eviction order, so its head is the next
// victim.
//
// A victim policy is a compile-time parameter of BlockPool. The pool tells it of each block that
// becomes free and of each that is held again, and asks it which free block to hand out next:
//
//   freed(block, content)   nobody holds it any more; `content` stands for what it still carries,
//                           equal for equal content, or is kNoContent. Also of every block in
//                           ascending order when the pool is made.
//   revived(block)          a free block is held again, for its content
//   victim()                the free block to hand out, which is not free any more.
//                           @pre there is one
//
// A free block that loses its content is told as revived, then freed without any. None of the calls
// allocates. Policies other than this one live in bench/eviction/, with their own side arrays.
#pragma once

#include <cstdint>

#include "reference/ids.h"

namespace kvproof::optimized {

/// What freed() is told of a block without content.
inline constexpr std::uint64_t kNoContent = 0;

struct QueueHead {
  static constexpr bool kInQueueOrder = true;  // victims are the head of the free queue: no calls

  explicit QueueHead(std::uint32_t /*num_blocks*/) {}

  /// Whether a finished request gives its last block back first.
  [[nodiscard]] static constexpr bool deepest_first() { return true; }
};

}  // namespace kvproof::optimized
