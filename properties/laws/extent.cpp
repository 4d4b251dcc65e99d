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
    case LayerKind::ring: return 1;
    case LayerKind::mamba:
      return ceil_div(moves_state(group) ? main : slots, block_size) + group.speculative_blocks;
    default: return ceil_div(slots, block_size);
  }
}

// States of drafts move along; a table that has states only takes the new running state, and a
// checkpoint.
std::uint64_t fresh_states(const GroupConfig& group, std::uint64_t length, std::uint64_t loaded,
                           bool has_states, bool checkpoint) {
  const std::uint64_t most =
      1 + (checkpoint ? 1 : 0) + (has_states ? 0 : std::uint64_t{group.speculative_blocks});
  return length > loaded ? std::min(length - loaded, most) : 0;
}

GroupExtent begin(const GroupConfig& group, const Extent& e, std::uint64_t held,
                  std::uint64_t hit_blocks, std::uint64_t external) {
  GroupExtent g;
  g.begun = g.loaded = held;
  if (!e.starts) return g;
  const std::uint64_t skipped_to = skipped_tokens(group, e.total);
  g.skipped = skipped_to / group.block_size;
  g.begun = g.loaded = std::max(g.skipped, hit_blocks);
  const bool ring = group.kind == LayerKind::ring;  // has its block from the load on
  const bool loads = external > 0 && group.kind != LayerKind::cross && e.total > skipped_to;
  const std::uint64_t end = ring ? 1 : ceil_div<std::uint64_t>(e.total, group.block_size);
  if (loads) g.loaded = std::max(g.begun, end);
  return g;
}

}  // namespace

std::vector<std::uint64_t> all_keys(const PoolState& pool, BlockId block) {
  std::vector<std::uint64_t> out;
  if (block >= pool.blocks.size() || !pool.blocks[block].hashed) return out;
  out.push_back(pool.blocks[block].key);
  if (pool.blocks[block].tail_key) out.push_back(*pool.blocks[block].tail_key);
  for (const FurtherKey& further : pool.further_keys) {
    if (further.block == block) out.push_back(further.key);
  }
  return out;
}

std::optional<Checkpoint> checkpoint_of(const CacheConfig& config, const GroupConfig& group,
                                        const std::vector<BlockId>& table, const Chunk& chunk,
                                        bool has_states) {
  if (group.checkpoint_alignment == 0 || !config.enable_caching) return std::nullopt;
  if (config.retention == 0U && chunk.to < chunk.prefill_end) return std::nullopt;
  const Resumption rules = resumption_of(config);
  const std::uint64_t tokens = state_boundary(rules, chunk.to, rules.hit_align);
  const bool reaches = chunk.from % rules.unit == 0 && chunk.from + rules.unit <= tokens &&
                       tokens < chunk.to && (tokens - chunk.from) % group.checkpoint_alignment == 0;
  const std::uint64_t blocks = ceil_div<std::uint64_t>(chunk.to, group.block_size);
  if (!reaches || blocks < 2) return std::nullopt;
  const std::uint64_t at = blocks - 2;
  if (chunk.from > 0 && at <= (chunk.from - 1) / group.block_size) return std::nullopt;
  const bool drafted = has_states && at + group.speculative_blocks >= table.size();
  if (at < table.size() && table[at] != kNullBlock && !drafted) return std::nullopt;
  return Checkpoint{tokens, static_cast<std::size_t>(at)};
}

namespace {

/// The part that a group of moving states takes anew.
void extend_states(const CacheConfig& config, const GroupConfig& group,
                   const std::vector<BlockId>& table, const Chunk& chunk, bool has_states,
                   std::uint64_t whole, GroupExtent& g) {
  const std::uint64_t drafts = group.speculative_blocks;
  const auto length = [&](std::uint64_t tokens) {
    return ceil_div<std::uint64_t>(tokens, group.block_size) + drafts;
  };
  const auto at_once =
      checkpoint_of(config, group, table, {chunk.from, whole, chunk.prefill_end}, has_states);
  g.checkpoint = checkpoint_of(config, group, table, chunk, has_states);
  g.fresh = fresh_states(group, length(chunk.to), g.loaded, has_states, g.checkpoint.has_value());
  g.whole_new = g.loaded - g.begun +
                fresh_states(group, length(whole), g.loaded, has_states, at_once.has_value());
}

}  // namespace

Extent extent_of(const CacheConfig& config, const RequestState& request, const RequestRecord& known,
                 const AllocateArgs& args) {
  const FoundPrefix& found = known.hit;
  const std::uint64_t limit = config.max_model_len;
  Extent e;
  e.request = request.name;
  e.groups.reserve(config.groups.size());
  e.uses_hit = args.use_lookup && !found.empty();
  e.starts =
      (e.uses_hit || args.external > 0) && without_blocks(request) && without_progress(request);
  e.total = std::uint64_t{request.computed} + (e.uses_hit ? found.tokens : 0U) + args.external;
  e.processed = e.total - std::min<std::uint64_t>(args.in_flight, e.total);
  e.main = std::min(e.total + args.new_tokens, limit);
  e.slots = std::min(e.main + args.lookahead, limit);
  const std::uint64_t whole = std::min<std::uint64_t>(request.num_tokens, limit);
  for (GroupId id = 0; id < config.groups.size(); ++id) {
    const GroupConfig& group = config.groups[id];
    static const std::vector<BlockId> kNone;
    const std::vector<BlockId>& table = id < request.tables.size() ? request.tables[id] : kNone;
    const bool hit = e.uses_hit && id < found.blocks.size();
    GroupExtent g = begin(group, e, table.size(), hit ? found.blocks[id].size() : 0, args.external);
    const std::uint64_t wanted = length_for(group, e.slots, e.main, known.encoder_tokens);
    std::uint64_t all = length_for(group, whole, whole, known.encoder_tokens);
    if (const auto cap = admission_cap(config, group)) all = std::min(all, *cap);
    g.length = std::max(g.loaded, wanted);
    g.most = std::max(g.length,
                      length_for(group, std::max(whole, e.slots), e.main, known.encoder_tokens));
    const bool inside = hit && !found.blocks[id].empty() && g.skipped < found.blocks[id].size() &&
                        found.tokens % group.block_size != 0;
    const bool own = id < known.tails.size() && known.tails[id].block != kNullBlock;
    g.copies = inside || (own && moves_state(group)) ? 1 : 0;
    e.inside = e.inside || inside;
    if (moves_state(group)) {
      const Chunk chunk{e.total, e.main, prefill_end_of(request, known.prompt_tokens)};
      extend_states(config, group, table, chunk, known.granted, whole, g);
    } else {
      g.fresh = g.length - g.loaded;
      g.whole_new = all > g.begun ? all - g.begun : 0;
    }
    e.groups.push_back(g);
  }
  return e;
}

// What recycling surely gives back: downwards from the first entry that is still read, until one is
// null already, or over gaps.
Recycled recycled_between(const CacheConfig& config, GroupId group, const Passed& passed,
                          const std::vector<BlockId>& was, const std::vector<BlockId>& now) {
  const GroupConfig& rules = config.groups[group];
  const std::uint64_t basis = recycle_basis(config.profile, rules, passed.computed);
  const Reads reads =
      reads_of(rules, {.computed = basis, .cached = basis, .prompt = passed.prompt});
  const auto kept = ceil_div<std::size_t>(reads.kept, rules.block_size);
  auto i = std::min<std::size_t>(reads.from / rules.block_size, was.size());
  const bool over_gaps = moves_state(rules) && config.profile.recycles_behind_gaps;
  Recycled out;
  for (; i > kept && (over_gaps || was[i - 1] != kNullBlock); --i) {
    if (was[i - 1] != kNullBlock) out.run.push_back(i - 1);
  }
  for (; moves_state(rules) && !over_gaps && i > 0; --i) {
    const bool gone = was[i - 1] != kNullBlock && i <= now.size() && now[i - 1] == kNullBlock;
    if (gone) out.states.push_back(i - 1);
  }
  return out;
}

}  // namespace kvproof::properties
