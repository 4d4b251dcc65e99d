// SPDX-License-Identifier: Apache-2.0
// One request in one layer group: its block table, and the work that is due in the next steps.
//
// Model:   the arrays live in the request's buffer (requests.h). Leading positions may be null:
//          blocks that the group does not read any more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "reference/ids.h"

namespace kvproof::optimized {

inline constexpr std::uint32_t kNever = 0xffffffffU;

struct alignas(64) GroupTable {
  BlockId* blocks = nullptr;           // shape [capacity]; 0 = null
  BlockId* hit = nullptr;              // shape [capacity]; found by the last lookup
  std::uint32_t capacity;              // [blocks]
  std::uint32_t length = 0;            // [blocks]
  std::uint32_t slots_end = 0;         // [tokens] length * block_size
  std::uint32_t hit_length = 0;        // [blocks]
  std::uint32_t published = kNever;    // leading positions looked at; kNever = it does not run
  std::uint32_t publish_end = kNever;  // [tokens] at which a block is to be published
  std::uint32_t recycle_at = kNever;   // [tokens] computed, at which a block is to be given back
  std::uint32_t kept_from;             // the first position that recycling has not come to
  std::uint32_t last_state = kNever;   // moving states: position of the state before this step
  std::uint32_t grown_from;            // the last growth appended the positions from here on
  std::uint32_t hit_found = 0;         // [tokens] that the blocks of the hit cover
  bool has_states = false;             // moving states: it has had blocks before

  // What only hits inside blocks and moving states have, in a cache line of its own. A checkpoint
  // is the state at a boundary of the prompt, which is kept besides the running one.
  std::uint32_t tail_at = kNever;        // position of a block to copy before it is written
  BlockId tail_block = kNullBlock;       // that block
  std::uint32_t retired = 0;             // moving states: leading positions that were given back
  std::uint32_t checkpoint_at = kNever;  // moving states: position of a checkpoint
  std::uint32_t checkpoint_tokens = 0;   // [tokens] of that state
  std::uint32_t passed_at = kNever;      // moving states: position of the checkpoint before that
  std::uint32_t passed_tokens = 0;       // [tokens] of its state
  std::uint32_t state_tokens = 0;        // moving states: [tokens] known of the running state

  /// Whether the block at a position keeps a checkpoint, and not the state of so many tokens.
  [[nodiscard]] bool holds_other_state(std::uint32_t position, std::uint32_t tokens) const {
    return position == passed_at && tokens != passed_tokens;
  }
  [[nodiscard]] std::span<BlockId> table() const { return {blocks, length}; }
  [[nodiscard]] std::span<const BlockId> hits() const { return {hit, hit_length}; }
  /// What the last admission that took blocks has appended.
  [[nodiscard]] std::span<const BlockId> growth() const { return table().subspan(grown_from); }
  /// The number of tokens up to which a step takes, publishes and gives back nothing here.
  [[nodiscard]] std::uint32_t work_at() const {
    return std::min({slots_end, publish_end - 1, recycle_at});
  }
  [[nodiscard]] std::uint32_t progress() const { return published == kNever ? 0 : published; }
};

}  // namespace kvproof::optimized
