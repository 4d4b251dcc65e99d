// SPDX-License-Identifier: Apache-2.0
// Exact hits: lookups and publications of one full-attention group, with contents compared and
// noted. Included by cache_manager_definitions.h alone.
#pragma once

#include <algorithm>

#include "optimized/cache_manager.h"

namespace kvproof::optimized {

/// What a position has to hold behind block `before`; kNullBlock = it is the first.
template <class Digest, class Pool>
ExactContents::Expected CacheManager<Digest, Pool>::expected(RequestId id, std::uint32_t position,
                                                             BlockId before) {
  const Request& r = requests_[id];
  const std::uint32_t start = position * block_size_;
  return {before == kNullBlock ? ExactContents::kNoPrefix : exact_->number(before),
          {r.tokens + start, block_size_},
          start,
          storage_[id].extra};
}

/// @pre the positions before are hits
template <class Digest, class Pool>
BlockId CacheManager<Digest, Pool>::find_full(RequestId id, std::uint32_t position) {
  const Request& r = requests_[id];
  const BlockId before = position == 0 ? kNullBlock : tables(id)->hit[position - 1];
  return exact_->find(pool_.index(), r.hashes[position], expected(id, position, before));
}

/// Before the blocks complete within `tokens` tokens are published.
template <class Digest, class Pool>
void CacheManager<Digest, Pool>::note_contents(RequestId id, std::uint64_t tokens) {
  const GroupTable& table = *tables(id);
  const auto end =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens / block_size_, table.length));
  for (std::uint32_t i = table.progress(); i < end; ++i) {
    if (pool_.hashed(table.blocks[i])) continue;  // a fork has published it
    const BlockId before = i == 0 ? kNullBlock : table.blocks[i - 1];
    exact_->note(pool_.index(), requests_[id].hashes[i], table.blocks[i], expected(id, i, before));
  }
}

}  // namespace kvproof::optimized
