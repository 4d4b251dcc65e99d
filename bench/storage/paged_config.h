// SPDX-License-Identifier: Apache-2.0
// The configuration of a paged memory: one group of full attention; and how one is audited.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "bench/storage/storage.h"
#include "reference/config.h"

namespace kvproof::bench {

[[nodiscard]] inline CacheConfig paged_config(const MemoryOptions& options, bool share) {
  CacheConfig out;
  out.profile = options.profile;
  out.num_blocks = 1 + static_cast<std::uint32_t>(  // the null block
                           ceil_div<std::uint64_t>(options.capacity_tokens, options.block_size));
  out.enable_caching = share;
  out.max_model_len = std::max(options.max_tokens, 1U);
  out.hash_block_size = options.block_size;
  out.watermark = options.watermark;
  out.groups = {{LayerKind::full, options.block_size, false}};
  if (options.host_blocks > 0) out.num_host_blocks = options.host_blocks + 1;
  return out;
}

/// The blocks among those `held`, each listed once per hold, that nobody else holds.
[[nodiscard]] std::uint64_t held_alone(std::vector<BlockId> held, const auto& num_holders) {
  std::ranges::sort(held);
  std::uint64_t out = 0;
  for (std::size_t from = 0, to = 0; from < held.size(); from = to) {
    while (to < held.size() && held[to] == held[from]) ++to;
    if (static_cast<std::size_t>(num_holders(held[from])) == to - from) ++out;
  }
  return out;
}

/// Any allocator that can be checked, as MemoryOptions::audited has it.
[[nodiscard]] std::unique_ptr<KvMemory> make_audited_memory(const MemoryOptions& options,
                                                            const CacheConfig& config);

}  // namespace kvproof::bench
