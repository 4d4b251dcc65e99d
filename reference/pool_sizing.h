// SPDX-License-Identifier: Apache-2.0
// How many blocks a memory budget gives, and how many requests they serve.
//
// Model:   layers with equal caches form buckets; a bucket is split into groups of about one size;
//          every group takes blocks from one pool, so that a block id has one page in each layer of
//          whichever group holds it: all pages are made equally large, and the largest group sets
//          the size of a block.
// Source:  vLLM v1 kv_cache_utils.py (get_kv_cache_groups, unify_kv_cache_spec_page_size,
//          get_kv_cache_config_from_groups, get_max_concurrency_for_kv_cache_config).
// Leaves out: several devices, pipeline stages, and all of the budget that is not cache.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/kv_spec.h"

namespace kvproof {

/// Layers that share one block table, with the size that its blocks have for them.
struct LayoutGroup {
  KvSpec spec;                   // num_layers = those of this group
  std::uint32_t block_size = 0;  // [tokens per block]
};

/// The layers of a model laid out over one pool.
struct PoolLayout {
  std::vector<LayoutGroup> groups;
  std::uint64_t block_bytes = 0;  // of one block id, over the layers of the largest group

  /// Most blocks that one request ever holds, over all groups.
  [[nodiscard]] std::uint64_t worst_case_blocks(const RequestLimits& limits) const;

  /// Blocks that a request holds while it decodes its token number `tokens`.
  [[nodiscard]] std::uint64_t blocks_held(std::uint64_t tokens,
                                          std::uint64_t encoder_tokens = 0) const;
};

/// Layers in each group of a bucket of `num_layers`, dealt out in turn. 52 by 10: 9 9 9 9 8 8.
/// @pre group_size > 0
[[nodiscard]] std::vector<std::uint32_t> deal_layers(std::uint32_t num_layers,
                                                     std::uint32_t group_size);

/// The layers that a group should have: as many as the smallest bucket, unless the largest is less
/// than half as large again. @pre buckets is not empty, none is 0
[[nodiscard]] std::uint32_t group_size_for(const std::vector<std::uint32_t>& buckets);

/// Lays a model out. A model of one kind of layer is one group, even with pages of several sizes.
/// Otherwise pages are made equal: a smaller attention page grows by holding more tokens, a Mamba
/// page is padded, and where the state is the larger one, attention blocks grow to hold it.
///
/// Throws std::invalid_argument when the model has no layers, when compressed rows do not fill a
/// block, or when a larger attention page is no multiple of a smaller one.
/// @param block_size [tokens per block] of the layer whose page is the largest. @pre block_size > 0
[[nodiscard]] PoolLayout lay_out(const ModelSpec& model, std::uint32_t block_size);

/// Blocks of a pool of that many bytes, the null block among them.
[[nodiscard]] std::uint64_t num_blocks(const PoolLayout& layout, std::uint64_t available_bytes);

/// Requests of the longest length that the blocks hold at once, as a ratio: 1,536 blocks at 1,024
/// each are 1.5. What an engine prints at start-up; the null block is not taken off.
[[nodiscard]] double max_concurrency(const PoolLayout& layout, std::uint64_t num_blocks,
                                     const RequestLimits& limits);

/// Whole requests of the longest length, with the null block taken off: 32 blocks of 16 tokens
/// cannot serve one of 512 tokens, 33 can.
[[nodiscard]] std::uint64_t whole_requests(const PoolLayout& layout, std::uint64_t num_blocks,
                                           const RequestLimits& limits);

/// The longest request, up to limits.max_tokens, that the pool can serve: 64 blocks of 16 tokens
/// serve 1,008. 0 when it cannot serve any.
[[nodiscard]] std::uint64_t longest_request(const PoolLayout& layout, std::uint64_t num_blocks,
                                            const RequestLimits& limits);

}  // namespace kvproof
