// SPDX-License-Identifier: Apache-2.0
// The configuration of a paged memory: one group of full attention.
#pragma once

#include <algorithm>

#include "bench/storage/storage.h"
#include "reference/config.h"

namespace kvproof::bench {

[[nodiscard]] inline CacheConfig paged_config(const MemoryOptions& options) {
  CacheConfig out;
  out.num_blocks = options.capacity_blocks + 1;  // and the null block
  out.enable_caching = options.prefix_caching;
  out.max_model_len = std::max(options.max_tokens, 1U);
  out.hash_block_size = options.block_size;
  out.watermark = options.watermark;
  out.groups = {{LayerKind::full, options.block_size, false}};
  if (options.host_blocks > 0) out.num_host_blocks = options.host_blocks + 1;
  return out;
}

}  // namespace kvproof::bench
