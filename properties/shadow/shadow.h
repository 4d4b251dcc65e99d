// SPDX-License-Identifier: Apache-2.0
// The shadow of a cache: who wrote each slot of each tier, and who is about to use each block.
//
// Memory: 16 bytes a slot, at most 64 a block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "properties/shadow/events.h"
#include "properties/shadow/slots.h"

namespace kvproof::live {

inline constexpr std::uint32_t kByTransfer = 1U << 31U;  // in Slot::writer, beside its number

// clang-format off
enum class Did : std::uint8_t {
  nothing, held, row, copy, move, failed, freed, taken, named, withdrawn
};
inline constexpr std::string_view kDid[] = {
  "", "put into a table", "written by a row", "written by a copy", "written by a transfer",
  "its load has failed", "freed", "taken", "published", "withdrawn"
};
// clang-format on

struct Block {
  static constexpr std::uint32_t kRemembered = 4;

  std::uint32_t version = 1;       // counts what was written into it
  std::uint32_t holders = 0;       // entries of tables
  std::uint32_t step_writers = 0;  // rows that were dispatched and have not run
  std::uint32_t readers = 0;       // pairs of transfers that have not been copied from it
  std::uint32_t writers = 0;       // or into it
  std::uint32_t published = 0;     // keys
  std::uint32_t events[kRemembered] = {};
  Did did[kRemembered] = {};
  std::uint8_t next = 0;
  bool queued = false;    // on the free queue, as the allocator claims
  bool doubtful = false;  // its keys are to be looked at

  void note(std::uint32_t event, Did what) {
    if (events[(next + kRemembered - 1U) % kRemembered] == event) return;
    events[next] = event;
    did[next] = what;
    next = static_cast<std::uint8_t>((next + 1U) % kRemembered);
  }
};
static_assert(sizeof(Block) <= 64);

class Shadow {
 public:
  explicit Shadow(const Header& header) {
    std::uint32_t per_block = 1;
    for (const Group& group : header.groups) {
      if (!group.state) per_block = std::max(per_block, group.block_size);
    }
    for (const Tier& tier : header.tiers) {
      const std::size_t blocks = std::size_t{tier.blocks} + 1;  // the last is none of the pool
      tiers_.push_back({std::vector<Block>(blocks), TierSlots(blocks, per_block)});
    }
  }

  [[nodiscard]] Block& block(Place at) { return tiers_[at.tier].blocks[at.block]; }
  [[nodiscard]] std::span<Slot> slots(Place at) { return tiers_[at.tier].slots.of(at.block); }
  /// @return how many slots there are
  [[nodiscard]] std::size_t size() const {
    std::size_t out = 0;
    for (const Memory& tier : tiers_) out += tier.slots.size();
    return out;
  }

 private:
  struct Memory {
    std::vector<Block> blocks;
    TierSlots slots;
  };
  std::vector<Memory> tiers_;
};

}  // namespace kvproof::live
