// SPDX-License-Identifier: Apache-2.0
// Short names for keys, which are fingerprints: numbers from 1 in the order in which they are seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "reference/snapshot.h"

namespace kvproof::properties {

class KeyNumbers {
 public:
  std::uint32_t operator()(std::uint64_t key) {
    return numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size() + 1)).first->second;
  }
  /// A, B, ..., Z, AA, ...
  [[nodiscard]] std::string name(std::uint64_t key) {
    std::string out;
    for (std::uint32_t n = (*this)(key); n > 0; n = (n - 1) / 26) {
      out.insert(out.begin(), static_cast<char>('A' + (n - 1) % 26));
    }
    return out;
  }
  /// 0: it has not been seen.
  [[nodiscard]] std::uint32_t find(std::uint64_t key) const {
    const auto at = numbers_.find(key);
    return at == numbers_.end() ? 0 : at->second;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
};

/// Tells each key of a block, in the order in which the block got them.
void for_each_key(const PoolState& pool, BlockId block, const auto& tell) {
  const BlockState& b = pool.blocks[block];
  if (b.hashed) tell(b.key);
  if (b.tail_key) tell(*b.tail_key);
  for (const FurtherKey& further : pool.further_keys) {
    if (further.block == block) tell(further.key);
  }
}

/// Numbers the keys of all blocks: those of the pool, then those of the host tier.
inline void see_keys(const Snapshot& state, KeyNumbers& numbers) {
  for (const PoolState* pool : {static_cast<const PoolState*>(&state), &state.host}) {
    for (std::size_t b = 1; b < pool->blocks.size(); ++b) {
      for_each_key(*pool, BlockId(b), [&](std::uint64_t key) { numbers(key); });
    }
  }
}

}  // namespace kvproof::properties
