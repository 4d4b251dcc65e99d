// SPDX-License-Identifier: Apache-2.0
// The fingerprint of a state: equal for all states that differ only by names of blocks and
// requests.
//
// In it:   everything that a snapshot shows (queue in order, tables, progress, counts, the index
//          with its copies in order, raw references), what callers know besides (texts, found
//          prefixes that are not used yet, how many tokens are granted), and what laws remember
//          but the state does not show: blocks whose key an evict took, blocks shared by a fork,
//          requests with relatives, and whether chains and queue order are excused until the next
//          reset. A hash stands for the text that it was made from. Managers of vllm-0.33 remember
//          more than they show: that is taken from the naive one (reference::Memory).
// Left out: the parts of the history that follow from the rest. Granted lengths are those of the
//          tables (I16), and the mirror is the index (I25); both are checked on every edge. The
//          book of keys only grows, and names the same facts on all paths. The spaces have no
//          operations for leases and the host tier.
// Sound:   no operation asks which of two blocks, or of two names, is the smaller one, and the
//          alphabet of a state treats all blocks and requests alike. So states that are equal up to
//          a renaming have successors that are equal up to a renaming; exhaustive_test walks at
//          random and compares the successors of all states that it meets twice.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "properties/laws/history.h"
#include "properties/sources/exhaustive/fingerprint_set.h"
#include "properties/sources/exhaustive/space.h"
#include "reference/cache_manager.h"
#include "reference/snapshot.h"

namespace kvproof::properties::exhaustive {

class Canonical {
 public:
  /// @pre the history is that of the state, and its laws hold
  /// @param memory of the naive manager in this state; empty before vllm-0.33
  [[nodiscard]] Fingerprint fingerprint(const Snapshot& state, const History& history,
                                        const Known& known, const reference::Memory& memory);

 private:
  using Order = std::array<std::uint8_t, kMostRequests>;
  using Traits = std::array<std::uint8_t, 4>;  // of a block; they do not depend on its name
  struct Facts {
    const Snapshot& state;
    const History& history;
    const Known& known;
    const reference::Memory& memory;
  };

  void encode(const Facts& facts, const Order& order);
  void encode_request(const Facts& facts, std::size_t at);
  void encode_index(const Facts& facts);
  void name_the_rest(const Facts& facts);
  void encode_blocks(const Facts& facts);
  void put_blocks(const std::vector<BlockId>& blocks);
  void put(std::uint64_t value) { bytes_.push_back(static_cast<std::uint8_t>(value)); }
  void put_text(Text text);
  [[nodiscard]] std::uint8_t number_of(BlockId block);
  [[nodiscard]] Traits traits(const Facts& facts, BlockId block) const;

  std::vector<std::uint8_t> bytes_;    // the state in one order of requests
  std::vector<std::uint8_t> least_;    // the least text of all orders
  std::vector<std::uint8_t> numbers_;  // shape [num_blocks]; 0 = none yet
  std::vector<BlockId> named_;         // by number, from 1
  std::vector<std::pair<Text, const IndexEntry*>> entries_;
  std::vector<std::pair<Traits, BlockId>> rest_;
};

}  // namespace kvproof::properties::exhaustive
