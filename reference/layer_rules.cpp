// SPDX-License-Identifier: Apache-2.0
#include "reference/layer_rules.h"

#include <algorithm>

namespace kvproof {

std::uint64_t skipped_tokens(const GroupConfig& group, std::uint64_t computed) {
  switch (group.kind) {
    case LayerKind::full:
    case LayerKind::mla:
    case LayerKind::cross: return 0;
    case LayerKind::sliding_window:
      return computed >= group.window ? computed - group.window + 1 : 0;
    case LayerKind::chunked_local: return computed / group.chunk * group.chunk;
    case LayerKind::mamba: return computed > 0 ? computed - 1 : 0;
  }
  return 0;
}

std::uint64_t recycle_basis(const Profile& profile, const GroupConfig& group,
                            std::uint64_t computed) {
  const bool holds_back =
      group.kind == LayerKind::mamba &&
      (profile.draft_states == DraftStates::kept ||
       (profile.draft_states == DraftStates::kept_in_align && group.mode == MambaMode::align));
  const std::uint64_t drafts = holds_back ? group.speculative_blocks : 0;
  return computed > drafts ? computed - drafts : 0;
}

std::uint64_t recyclable_tokens(const Profile& profile, const GroupConfig& group,
                                std::uint64_t computed) {
  return skipped_tokens(group, recycle_basis(profile, group, computed));
}

std::optional<std::uint64_t> admission_cap(const CacheConfig& config, const GroupConfig& group) {
  const std::uint64_t limit = config.max_model_len;
  const std::uint64_t in_flight = config.max_in_flight_tokens.value_or(config.max_model_len);
  const std::uint64_t block_size = group.block_size;
  if (group.kind == LayerKind::sliding_window) {
    return ceil_div(std::min(group.window - 1 + in_flight, limit), block_size) + 1;
  }
  if (group.kind == LayerKind::chunked_local) {
    return ceil_div(std::min(group.chunk + in_flight, limit), block_size);
  }
  return std::nullopt;
}

std::uint32_t window_run(const GroupConfig& group) {
  return ceil_div(group.window - 1, group.block_size) + (group.eagle ? 1 : 0);
}

CacheMask cache_mask(const CacheConfig& config, const GroupConfig& group) {
  if (group.kind != LayerKind::sliding_window) return {};
  const auto period = static_cast<std::uint32_t>(alignment(config) / group.block_size);
  if (config.profile.window_mask == WindowMask::reachable) {
    return {period, window_run(group), group.eagle ? 1U : 0U};  // 1: the block beyond the boundary
  }
  if (period == 1) return {};
  return {period, ceil_div(group.window - 1, group.block_size), 0};
}

std::uint64_t publishable_tokens(const Profile& profile, const GroupConfig& group,
                                 std::uint64_t align, std::uint64_t tokens) {
  const std::uint64_t aligned = tokens - tokens % align;
  const bool ahead = profile.eagle_caches_ahead && group.eagle && aligned > 0;
  return ahead ? std::min(tokens, aligned + group.block_size) : aligned;
}

std::uint64_t slots_with_drafts(const GroupConfig& group, std::uint64_t tokens) {
  if (group.kind != LayerKind::mamba) return tokens;
  return tokens + std::uint64_t{group.block_size} * group.speculative_blocks;
}

}  // namespace kvproof
