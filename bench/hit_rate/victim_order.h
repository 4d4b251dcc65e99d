// SPDX-License-Identifier: Apache-2.0
// The decision of an eviction policy under study: the order in which free blocks with content are
// given up.
#pragma once

#include <cstdint>

#include "reference/ids.h"

namespace kvproof::bench {

/// Facts about the request being served, beside its blocks. The caller of the manager fills them in
/// before the request's blocks are released.
struct Serving {
  double seconds = 0;      // when it arrived
  bool continues = false;  // a conversation: at least half of the blocks of its prompt were found
};

/// None of the calls allocates.
class VictimOrder {
 public:
  virtual ~VictimOrder() = default;

  /// The block has no holder any more. @param content equal for equal content
  /// @param fresh it carries other content than when it was freed last
  virtual void freed(BlockId block, std::uint64_t content, bool fresh) = 0;
  /// A free block is held again, for its content: a hit.
  virtual void revived(BlockId block) = 0;
  /// Takes the next one out. @pre there is a free block
  virtual BlockId victim() = 0;
};

}  // namespace kvproof::bench
