// SPDX-License-Identifier: Apache-2.0
#include "reference/config.h"

#include <algorithm>

#include "reference/layer_rules.h"

namespace kvproof {
namespace {

// Retention is counted in whole alignments, and something must forget.
std::optional<std::string_view> unsupported_retention(const CacheConfig& config) {
  if (!config.retention) return std::nullopt;
  if (!config.profile.sparse) return "retention before vllm-0.33";
  if (*config.retention % alignment(config) != 0) {
    return "a retention interval that is no multiple of the alignment";
  }
  const bool forgets = std::ranges::any_of(config.groups, [](const GroupConfig& g) {
    return g.kind == LayerKind::sliding_window || g.kind == LayerKind::mamba;
  });
  if (*config.retention > 0 && !forgets) {
    return "a retention interval without sliding windows and Mamba";
  }
  return std::nullopt;
}

std::optional<std::string_view> unsupported_group(const CacheConfig& config,
                                                  const GroupConfig& group) {
  const bool local = group.kind == LayerKind::chunked_local;
  const bool states = group.kind == LayerKind::mamba;
  if (group.block_size == 0) return "a block size of zero";
  if (group.kind == LayerKind::sliding_window && group.window == 0) return "a window of zero";
  if (local && group.chunk == 0) return "a chunk of zero";
  if (local && group.chunk % group.block_size != 0) return "a chunk that is not whole blocks";
  if (group.kind == LayerKind::rswa && group.window == 0) return "a window of zero";
  if (!config.profile.sparse && (group.kind == LayerKind::rswa || group.kind == LayerKind::ring)) {
    return "R-SWA and ring groups before vllm-0.33";
  }
  if (group.checkpoint_alignment > 0 && !(config.profile.sparse && moves_state(group))) {
    return "checkpoints of prefills without Mamba in mode align, or before vllm-0.33";
  }
  if (group.checkpoint_alignment > 0 && config.num_host_blocks > 0) {
    return "checkpoints of prefills with a host tier";
  }
  if (!config.enable_caching || !is_cacheable(group.kind)) return std::nullopt;
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
  if (states && group.mode == MambaMode::all && config.profile.sparse) {
    return "a prefix cache of Mamba in mode all since vllm-0.33";
  }
  if (group.kind == LayerKind::cross) return "a prefix cache of cross attention";
  return std::nullopt;
}

}  // namespace

CacheConfig with_eagle_kin(CacheConfig config) {
  const std::vector<GroupConfig> given = config.groups;
  for (GroupConfig& group : config.groups) {
    group.eagle =
        config.hash_lookahead == 0 && std::ranges::any_of(given, [&](const GroupConfig& other) {
          return other.eagle && other.alike(group);
        });
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
  if (const auto why = unsupported_retention(config)) return why;
  if (config.hash_lookahead > 0 && !config.profile.sparse) {
    return "lookahead hashes before vllm-0.33";
  }
  if (config.enable_caching && std::ranges::none_of(config.groups, [](const GroupConfig& g) {
        return is_cacheable(g.kind);
      })) {
    return "a prefix cache of rings alone";
  }
  if (config.num_blocks < 2) return "a pool without a usable block";
  if (config.num_host_blocks == 1) return "a host tier without a usable block";
  if (config.max_model_len == 0) return "a token limit of zero";
  return std::nullopt;
}

}  // namespace kvproof
