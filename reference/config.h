// SPDX-License-Identifier: Apache-2.0
// What a cache manager is built from: the pool, the layer groups, and the policy values of a
// profile.
//
// Source: vLLM v1 KVCacheConfig and CacheConfig; the recorded-trace header has one key per field.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reference/ids.h"

namespace kvproof {

/// Where a released block, whose last reference is gone, enters the free queue.
enum class FreeOrder {
  append,          // all to the back: pure least-recently-released order
  prepend,         // all to the front: last released is handed out first
  unhashed_first,  // unhashed to the front (nothing to lose), hashed to the back (LRU)
};

/// The differences between allocator versions, as values. One row per version; no second code path.
struct Profile {
  std::string_view name;
  FreeOrder caching_on;   // with a prefix cache
  FreeOrder caching_off;  // without one: no block is ever hashed
  bool admission_gates;   // watermark and reserved blocks are honoured
};

inline constexpr Profile kProfiles[] = {
    // vLLM PR 42656 (unhashed first), 44594 (watermark), 44560 (reserved)
    {"vllm-0.24", FreeOrder::unhashed_first, FreeOrder::append, true},
    {"vllm-0.22", FreeOrder::append, FreeOrder::append, false},
};

/// @return the row of that name, or nullptr.
[[nodiscard]] constexpr const Profile* find_profile(std::string_view name) {
  for (const Profile& row : kProfiles) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

/// How the layers of one group read their cache. Each kind keeps, skips and shares blocks in its
/// way.
enum class LayerKind { full, mla, sliding_window, chunked_local, mamba };

/// One block table's worth of layers.
struct GroupConfig {
  LayerKind kind = LayerKind::full;
  std::uint32_t block_size = 16;  // [tokens per block]
  bool eagle = false;             // drops the last hit block, for a draft head that needs its input
};

struct CacheConfig {
  Profile profile = kProfiles[0];
  std::uint32_t num_blocks = 0;       // [blocks] with the null block; num_blocks-1 are usable
  bool enable_caching = true;         // the prefix cache
  std::uint32_t max_model_len = 0;    // [tokens] no request gets slots beyond this
  std::uint32_t hash_block_size = 0;  // [tokens] per hashed unit
  double watermark = 0.0;             // fraction of num_blocks kept free on admission
  std::vector<GroupConfig> groups;    // index = GroupId

  /// Blocks that an admission leaves free. Truncates, as the original does.
  [[nodiscard]] std::uint32_t watermark_blocks() const {
    return profile.admission_gates
               ? static_cast<std::uint32_t>(watermark * static_cast<double>(num_blocks))
               : 0;
  }
};

/// @return why this version's managers cannot be built from `config`; nullopt when they can.
[[nodiscard]] inline std::optional<std::string_view> unsupported(const CacheConfig& config) {
  if (config.groups.size() != 1) return "more than one layer group";
  const GroupConfig& group = config.groups.front();
  if (group.kind != LayerKind::full && group.kind != LayerKind::mla) {
    return "a layer kind other than full attention and MLA";
  }
  if (group.eagle) return "the EAGLE last-block drop";
  if (group.block_size == 0 || group.block_size != config.hash_block_size) {
    return "a hash unit that differs from the block size";
  }
  if (config.num_blocks < 2) return "a pool without a usable block";
  if (config.max_model_len == 0) return "a token limit of zero";
  return std::nullopt;
}

}  // namespace kvproof
