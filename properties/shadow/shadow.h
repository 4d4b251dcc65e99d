// SPDX-License-Identifier: Apache-2.0
// The shadow of a cache: who wrote each slot of each tier, and who is about to use each block.
//
// Model:  a slot holds the identity of a prefix: a chain over what is cached beside tokens, the
//         tokens up to its position, and the group. A state block has one slot, whose identity is
//         that of the prefix that it summarises. Two prefixes have one identity with a chance of
//         2^-64 for each pair.
// Memory: 16 bytes a slot, at most 64 a block.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "properties/shadow/events.h"
#include "reference/mix64.h"

namespace kvproof::live {

using Identity = std::uint64_t;
inline constexpr Identity kUnwritten = 0;
inline constexpr Identity kFailed = 1;     // what a failed load, or a row that read one, has left
inline constexpr Identity kUnjudged = 2;   // a state behind drafts, of which some may be rejected
inline constexpr Identity kForgotten = 3;  // brought for a request whose tokens are not kept
inline constexpr Identity kFewest = 4;     // from here on they are of prefixes

[[nodiscard]] constexpr Identity link(Identity before, TokenId token) {
  const auto word = static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) + 1;
  const Identity out = mix64(before + word * kMixStep);
  return out < kFewest ? out + kFewest : out;
}

/// An identity as the slots of a group hold it.
[[nodiscard]] constexpr Identity in_group(Identity identity, std::uint32_t group) {
  const Identity out = identity ^ mix64(group);
  return out < kFewest ? out + kFewest : out;
}

inline constexpr std::uint32_t kByTransfer = 1U << 31U;  // in Slot::writer, beside its number

struct Slot {
  Identity identity = kUnwritten;
  std::uint32_t event = 0;   // that wrote it
  std::uint32_t writer = 0;  // the number of a request, or of a transfer with kByTransfer
};
static_assert(sizeof(Slot) == 16);

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
    for (const Group& group : header.groups) {
      if (!group.state && group.block_size > slots_) slots_ = group.block_size;
    }
    for (const Tier& tier : header.tiers) {
      const std::size_t blocks = std::size_t{tier.blocks} + 1;  // the last is none of the pool
      tiers_.push_back({std::vector<Block>(blocks), std::vector<Slot>(blocks * slots_)});
    }
  }

  [[nodiscard]] Block& block(Place at) { return tiers_[at.tier].blocks[at.block]; }
  [[nodiscard]] std::span<Slot> slots(Place at) {
    return std::span(tiers_[at.tier].slots).subspan(std::size_t{at.block} * slots_, slots_);
  }
  /// @return how many slots there are
  [[nodiscard]] std::size_t size() const {
    std::size_t out = 0;
    for (const Memory& tier : tiers_) out += tier.slots.size();
    return out;
  }

 private:
  struct Memory {
    std::vector<Block> blocks;
    std::vector<Slot> slots;
  };
  std::vector<Memory> tiers_;
  std::uint32_t slots_ = 1;
};

}  // namespace kvproof::live
