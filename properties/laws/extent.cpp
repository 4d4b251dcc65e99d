// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/extent.h"

#include <algorithm>

#include "reference/layer_rules.h"

namespace kvproof::properties {
namespace {

/// The length that a table must have for so many tokens.
std::uint64_t length_for(const GroupConfig& group, std::uint64_t slots, std::uint64_t main,
                         std::uint32_t encoder_tokens) {
  const std::uint64_t block_size = group.block_size;
  switch (group.kind) {
    case LayerKind::cross: return ceil_div<std::uint64_t>(encoder_tokens, block_size);
    case LayerKind::mamba:
      return ceil_div(moves_state(group) ? main : slots, block_size) + group.speculative_blocks;
    default: return ceil_div(slots, block_size);
  }
}

// States of drafts move along; a table that has states only takes the new running state.
std::uint64_t fresh_states(const GroupConfig& group, std::uint64_t length, std::uint64_t loaded,
                           bool has_states) {
  if (length <= loaded) return 0;
  const std::uint64_t running = length - group.speculative_blocks - 1;
  return has_states ? 1 : length - std::max(loaded, running);
}

GroupExtent begin(const GroupConfig& group, const Extent& e, std::uint64_t held,
                  std::uint64_t hit_blocks, std::uint64_t external) {
  GroupExtent g;
  g.begun = g.loaded = held;
  if (!e.starts) return g;
  const std::uint64_t skipped_to = skipped_tokens(group, e.total);
  g.skipped = skipped_to / group.block_size;
  g.begun = g.loaded = std::max(g.skipped, hit_blocks);
  const bool loads = external > 0 && group.kind != LayerKind::cross && e.total > skipped_to;
  if (loads) g.loaded = std::max(g.begun, ceil_div<std::uint64_t>(e.total, group.block_size));
  return g;
}

}  // namespace

bool FoundPrefix::empty() const {
  return std::ranges::all_of(blocks, [](const auto& list) { return list.empty(); });
}

Extent extent_of(const CacheConfig& config, const RequestState& request, const FoundPrefix& found,
                 std::uint32_t encoder_tokens, bool has_states, const AllocateArgs& args) {
  const std::uint64_t limit = config.max_model_len;
  Extent e;
  e.request = request.name;
  e.groups.reserve(config.groups.size());
  e.uses_hit = args.use_lookup && !found.empty();
  e.starts =
      (e.uses_hit || args.external > 0) && without_blocks(request) && without_progress(request);
  e.total = std::uint64_t{request.computed} + (e.uses_hit ? found.tokens : 0U) + args.external;
  e.main = std::min(e.total + args.new_tokens, limit);
  e.slots = std::min(e.main + args.lookahead, limit);
  const std::uint64_t whole = std::min<std::uint64_t>(request.num_tokens, limit);
  for (GroupId id = 0; id < config.groups.size(); ++id) {
    const GroupConfig& group = config.groups[id];
    const std::uint64_t held = id < request.tables.size() ? request.tables[id].size() : 0;
    const bool hit = e.uses_hit && id < found.blocks.size();
    GroupExtent g = begin(group, e, held, hit ? found.blocks[id].size() : 0, args.external);
    const std::uint64_t wanted = length_for(group, e.slots, e.main, encoder_tokens);
    std::uint64_t all = length_for(group, whole, whole, encoder_tokens);
    if (const auto cap = admission_cap(config, group)) all = std::min(all, *cap);
    g.length = std::max(g.loaded, wanted);
    g.most =
        std::max(g.length, length_for(group, std::max(whole, e.slots), e.main, encoder_tokens));
    if (moves_state(group)) {
      g.fresh = fresh_states(group, wanted, g.loaded, has_states);
      g.whole_new = g.loaded - g.begun + fresh_states(group, all, g.loaded, has_states);
    } else {
      g.fresh = g.length - g.loaded;
      g.whole_new = all > g.begun ? all - g.begun : 0;
    }
    e.groups.push_back(g);
  }
  return e;
}

std::size_t unread_positions(const CacheConfig& config, GroupId group, std::uint64_t computed,
                             std::size_t table_length) {
  const GroupConfig& rules = config.groups[group];
  const std::uint64_t unread =
      recyclable_tokens(config.profile, rules, computed) / rules.block_size;
  return static_cast<std::size_t>(std::min<std::uint64_t>(unread, table_length));
}

std::vector<std::size_t> recycled_run(const CacheConfig& config, GroupId group,
                                      std::uint64_t computed, const std::vector<BlockId>& table) {
  std::vector<std::size_t> out;
  for (std::size_t i = unread_positions(config, group, computed, table.size());
       i > 0 && table[i - 1] != kNullBlock; --i) {
    out.push_back(i - 1);
  }
  return out;
}

Recycled recycled_between(const CacheConfig& config, GroupId group, std::uint64_t computed,
                          const std::vector<BlockId>& was, const std::vector<BlockId>& now) {
  Recycled out;
  out.run = recycled_run(config, group, computed, was);
  if (!moves_state(config.groups[group])) return out;
  const std::size_t bound = unread_positions(config, group, computed, was.size());
  for (std::size_t i = bound - out.run.size(); i > 0; --i) {
    const bool gone = was[i - 1] != kNullBlock && i <= now.size() && now[i - 1] == kNullBlock;
    if (gone) out.states.push_back(i - 1);
  }
  return out;
}

}  // namespace kvproof::properties
