// SPDX-License-Identifier: Apache-2.0
// Several queues of blocks, each block in at most one of them: links in two side arrays.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "reference/ids.h"

namespace kvproof::bench {

template <std::uint32_t kLists>
class BlockLists {
 public:
  static constexpr std::uint32_t kNone = kLists;  // the list of a block that is in none

  explicit BlockLists(std::uint32_t num_blocks)
      : first_sentinel_(num_blocks),
        next_(num_blocks + kLists),
        prev_(num_blocks + kLists),
        lists_(num_blocks, kNone) {
    for (std::uint32_t i = num_blocks; i < num_blocks + kLists; ++i) next_[i] = prev_[i] = i;
  }

  [[nodiscard]] std::uint32_t list_of(BlockId block) const { return lists_[block]; }
  [[nodiscard]] std::uint32_t size(std::uint32_t list) const { return sizes_[list]; }
  /// @pre size(list) > 0
  [[nodiscard]] BlockId front(std::uint32_t list) const {
    return BlockId(next_[first_sentinel_ + list]);
  }

  /// @pre the block is in no list
  void push_back(std::uint32_t list, BlockId block) {
    const std::uint32_t sentinel = first_sentinel_ + list;
    const std::uint32_t before = prev_[sentinel];
    prev_[block] = before;
    next_[block] = sentinel;
    next_[before] = prev_[sentinel] = block;
    lists_[block] = list;
    ++sizes_[list];
  }

  /// @pre the block is in a list
  void remove(BlockId block) {
    next_[prev_[block]] = next_[block];
    prev_[next_[block]] = prev_[block];
    --sizes_[lists_[block]];
    lists_[block] = kNone;
  }

 private:
  std::uint32_t first_sentinel_;
  std::vector<std::uint32_t> next_;   // shape [num_blocks + kLists]
  std::vector<std::uint32_t> prev_;   // shape [num_blocks + kLists]
  std::vector<std::uint32_t> lists_;  // shape [num_blocks]
  std::array<std::uint32_t, kLists> sizes_{};
};

}  // namespace kvproof::bench
