// SPDX-License-Identifier: Apache-2.0
// Small configurations for tests of one part of the manager.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "optimized/manager/admission.h"
#include "reference/config.h"
#include "reference/ids.h"

namespace kvproof::properties {

/// Groups of blocks of 4 tokens over a pool of 15 usable blocks.
inline CacheConfig small_config(std::vector<GroupConfig> groups = {{.block_size = 4}}) {
  CacheConfig out;
  out.num_blocks = 16;
  out.max_model_len = 64;
  out.hash_block_size = 4;
  out.groups = std::move(groups);
  return out;
}

/// The demand of a request that needs so many slots for known tokens.
inline optimized::Demand demand_for(std::uint64_t tokens, std::uint64_t computed = 0) {
  return {.slots = tokens,
          .main = tokens,
          .computed = computed,
          .processed = 0,
          .local = 0,
          .external = 0,
          .prefill_end = 0,
          .prompt = 0,
          .encoder = 0,
          .uses_hit = false,
          .starts = false,
          .capped = false};
}

/// The tokens 0, 1, 2, ...
inline std::vector<TokenId> counted_tokens(std::size_t count) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace kvproof::properties
