// SPDX-License-Identifier: Apache-2.0
// What an eviction policy under study decides: in which order free blocks that carry content are
// given up.
#pragma once

#include <cstdint>

#include "reference/ids.h"

namespace kvproof::bench {

/// What is known of the request being served, beside its blocks. Filled in by who drives the
/// manager, before the request's blocks are released.
struct Serving {
  double seconds = 0;      // when it arrived
  bool continues = false;  // a conversation: half of what can be found of its prompt was, or more
};

/// None of the calls allocates.
class VictimOrder {
 public:
  virtual ~VictimOrder() = default;

  /// Nobody holds the block any more. @param content equal for equal content
  /// @param fresh it carries other content than when it was freed last
  virtual void freed(BlockId block, std::uint64_t content, bool fresh) = 0;
  /// A free block is held again, for its content: a hit.
  virtual void revived(BlockId block) = 0;
  /// Takes the next one out. @pre there is a free block
  virtual BlockId victim() = 0;
};

}  // namespace kvproof::bench
