// SPDX-License-Identifier: Apache-2.0
#include "reference/layer_rules.h"

#include <algorithm>

namespace kvproof {

std::uint64_t skipped_tokens(const GroupConfig& group, std::uint64_t computed) {
  switch (group.kind) {
    case LayerKind::full:
    case LayerKind::mla:
    case LayerKind::cross:
    case LayerKind::rswa:
    case LayerKind::ring: break;
    case LayerKind::sliding_window:
      return computed >= group.window ? computed - group.window + 1 : 0;
    case LayerKind::chunked_local: return computed / group.chunk * group.chunk;
    case LayerKind::mamba: return std::max<std::uint64_t>(computed, 1) - 1;
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
  return computed - std::min(computed, drafts);
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

bool hits_inside_blocks(const CacheConfig& config) {
  if (!config.profile.hits_inside_blocks || !config.enable_caching || config.groups.size() < 2) {
    return false;
  }
  const std::uint32_t unit = config.hash_block_size;
  const bool states = std::ranges::any_of(
      config.groups, [&](const GroupConfig& g) { return moves_state(g) && g.block_size > unit; });
  return states && std::ranges::all_of(config.groups, [&](const GroupConfig& g) {
           return !is_cacheable(g.kind) || g.block_size == unit || reads_all(g.kind) ||
                  g.kind == LayerKind::mamba;
         });
}

std::uint64_t hit_alignment(const CacheConfig& config) {
  return hits_inside_blocks(config) ? config.hash_block_size : alignment(config);
}

Resumption resumption_of(const CacheConfig& config) {
  const bool drops =
      config.hash_lookahead == 0 &&
      std::ranges::any_of(config.groups, [](const GroupConfig& g) { return g.eagle; });
  return {drops, alignment(config), hit_alignment(config), config.hash_block_size,
          config.hash_lookahead};
}

// The last token of a prompt is computed anew, so who sends it again resumes before it; who goes on
// behind it resumes at its end. A group that drops resumes one alignment earlier.
Boundaries boundaries_of(const Resumption& rules, const GroupConfig& group,
                         std::uint64_t prompt_tokens, std::uint64_t junction) {
  Boundaries out;
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  out.at[0] = prompt - 1;
  if (rules.drops) {
    const auto align = static_cast<std::int64_t>(rules.align);
    out.at[0] = std::max<std::int64_t>((prompt - 1) / align * align - align, 0);
    out.at[1] = std::max<std::int64_t>(prompt / align * align - align, 0);
  }
  if (junction > 0) {
    out.at[2] = static_cast<std::int64_t>(junction);
    if (group.eagle) out.at[3] = out.at[2] - group.block_size;
  }
  return out;
}

bool CacheMask::keeps(std::uint32_t position, const Boundaries& boundaries) const {
  if (keeps(position)) return true;
  return tail > 0 && std::ranges::any_of(boundaries.at, [&](std::int64_t boundary) {
           if (boundary < 0) return false;
           const std::uint64_t aligned = static_cast<std::uint64_t>(boundary) / align * align;
           const std::uint64_t end = aligned / block_size + shift;
           return position < end && position + tail >= end;
         });
}

CacheMask cache_mask(const CacheConfig& config, const GroupConfig& group) {
  const bool window = group.kind == LayerKind::sliding_window;
  const bool states = group.kind == LayerKind::mamba && config.retention;
  const std::uint64_t align = hit_alignment(config);
  if (!window && !states) return {};
  const std::uint64_t segment = config.retention.value_or(align);
  auto period = static_cast<std::uint32_t>(segment / group.block_size);
  if (config.profile.window_mask == WindowMask::tail) {  // older than retention
    if (period == 1) return {};
    return {.period = period, .run = ceil_div(group.window - 1, group.block_size)};
  }
  CacheMask out{.period = period,
                .run = states ? 1 : window_run(group),
                .shift = window && group.eagle ? 1U : 0U,  // the block beyond the boundary
                .align = align,
                .block_size = group.block_size};
  if (config.retention) out.tail = out.run;
  if (config.retention == 0U) {
    out.period = 1;
    out.run = 0;  // only what lies before a boundary
  }
  return out;
}

std::uint64_t publish_alignment(const CacheConfig& config) {
  return hits_inside_blocks(config) ? 1 : alignment(config);
}

std::uint64_t publishable_tokens(const Profile& profile, const GroupConfig& group,
                                 std::uint64_t align, std::uint64_t tokens) {
  const std::uint64_t aligned = tokens - tokens % align;
  const bool ahead = profile.eagle_caches_ahead && group.eagle && aligned > 0;
  return ahead ? std::min(tokens, aligned + group.block_size) : aligned;
}

std::uint64_t prompt_tail(PromptTail rule, std::uint32_t unit, const GroupConfig& group,
                          std::uint64_t prompt_tokens, std::uint64_t hashed_tokens) {
  if (rule == PromptTail::none || !reads_all(group.kind) || prompt_tokens == 0) return 0;
  const bool whole = rule == PromptTail::complete || group.eagle;
  const std::uint64_t tokens = std::min(whole ? prompt_tokens : prompt_tokens - 1, hashed_tokens);
  const std::uint64_t end = tokens / unit * unit;
  return end % group.block_size == 0 ? 0 : end;
}

std::uint64_t state_boundary(const Resumption& rules, std::uint64_t tokens, std::uint64_t align) {
  if (rules.drops) return (std::max<std::uint64_t>(tokens / align, 1) - 1) * align;
  const std::uint64_t behind = std::max<std::uint64_t>(1, rules.lookahead);
  return (tokens - std::min(tokens, behind)) / align * align;
}

std::uint64_t slots_with_drafts(const GroupConfig& group, std::uint64_t tokens) {
  if (group.kind != LayerKind::mamba) return tokens;
  return tokens + std::uint64_t{group.block_size} * group.speculative_blocks;
}

}  // namespace kvproof
