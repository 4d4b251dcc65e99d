// SPDX-License-Identifier: Apache-2.0
#include "reference/config.h"

#include <algorithm>

namespace kvproof {
namespace {

std::optional<std::string_view> unsupported_group(const CacheConfig& config,
                                                  const GroupConfig& group) {
  const bool local = group.kind == LayerKind::chunked_local;
  const bool states = group.kind == LayerKind::mamba;
  if (group.block_size == 0) return "a block size of zero";
  if (group.kind == LayerKind::sliding_window && group.window == 0) return "a window of zero";
  if (local && group.chunk == 0) return "a chunk of zero";
  if (local && group.chunk % group.block_size != 0) return "a chunk that is not whole blocks";
  if (!config.enable_caching) return std::nullopt;
  if (config.hash_block_size == 0 || group.block_size % config.hash_block_size != 0) {
    return "a hash unit that does not divide every block size";
  }
  if (config.groups.size() == 1 && group.block_size != config.hash_block_size) {
    return "a hash unit that differs from the only block size";
  }
  if (local && group.eagle) return "the EAGLE last-block drop of chunked local attention";
  if (local && group.block_size != alignment(config)) {
    return "chunked local attention with a block size below the alignment";
  }
  if (states && group.mode == MambaMode::none) return "a prefix cache of Mamba in mode none";
  if (group.kind == LayerKind::cross) return "a prefix cache of cross attention";
  return std::nullopt;
}

}  // namespace

CacheConfig with_eagle_kin(CacheConfig config) {
  const std::vector<GroupConfig> given = config.groups;
  for (GroupConfig& group : config.groups) {
    group.eagle = std::ranges::any_of(
        given, [&](const GroupConfig& other) { return other.eagle && other.alike(group); });
  }
  return config;
}

std::optional<std::string_view> unsupported(const CacheConfig& config) {
  constexpr std::uint64_t kLongestAlignment = 1U << 22;  // no prompt is longer, so none could hit
  if (config.groups.empty()) return "no layer group";
  for (const GroupConfig& group : config.groups) {
    if (auto why = unsupported_group(config, group)) return why;
    if (alignment(config) > kLongestAlignment)
      return "block sizes without a usable common multiple";
  }
  if (config.num_blocks < 2) return "a pool without a usable block";
  if (config.num_host_blocks == 1) return "a host tier without a usable block";
  if (config.max_model_len == 0) return "a token limit of zero";
  return std::nullopt;
}

}  // namespace kvproof
