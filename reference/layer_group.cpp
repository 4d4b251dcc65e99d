// SPDX-License-Identifier: Apache-2.0
#include "reference/layer_group.h"

#include <algorithm>
#include <utility>

#include "reference/layer_rules.h"

namespace kvproof::reference {
namespace {

void append(std::vector<BlockId>& to, const std::vector<BlockId>& blocks) {
  to.insert(to.end(), blocks.begin(), blocks.end());
}

}  // namespace

LayerGroup::LayerGroup(const CacheConfig& config, GroupId id)
    : config_(config), group_(config.groups[id]), cap_(admission_cap(config, config.groups[id])) {}

// The number of blocks that the table must have in the end.
std::uint64_t LayerGroup::wanted(const Demand& demand) const {
  const std::uint64_t block_size = group_.block_size;
  if (group_.kind == LayerKind::cross) return ceil_div<std::uint64_t>(demand.encoder, block_size);
  if (group_.kind == LayerKind::ring) return 1;
  const std::uint64_t tokens = moves_state(group_) ? demand.main : demand.slots;
  const std::uint64_t blocks = ceil_div(slots_with_drafts(group_, tokens), block_size);
  return demand.capped && cap_ ? std::min(blocks, *cap_) : blocks;
}

// The length of the table once the tokens that a connector loads have blocks; 0 if the group reads
// none of these tokens any more. A ring has its one block from the load on, whatever it reads
// (vLLM 0.33, CircularBufferManager.allocate_external_computed_blocks).
std::uint64_t LayerGroup::loaded(const Demand& demand) const {
  if (group_.kind == LayerKind::ring) return demand.external > 0 ? 1 : 0;
  const std::uint64_t skipped = skipped_tokens(group_, demand.computed);
  const std::uint64_t read = std::min(demand.computed - skipped, demand.external);
  if (group_.kind == LayerKind::cross || read == 0) return 0;
  return ceil_div<std::uint64_t>(demand.computed, group_.block_size);
}

std::int64_t LayerGroup::need(const GroupTable& table, std::span<const BlockId> hit,
                              const Demand& demand, const BlockPool& pool) const {
  const std::size_t skipped = skipped_tokens(group_, demand.computed) / group_.block_size;
  // New blocks start behind the table, or behind the hit and the positions that are not read any
  // more.
  const std::size_t start = demand.starts ? std::max(skipped, hit.size()) : table.blocks.size();
  hit = hit.subspan(std::min(skipped, hit.size()));  // what is still read
  const auto revived = std::ranges::count_if(
      hit, [&](BlockId block) { return block != kNullBlock && pool.ref_cnt(block) == 0; });
  if (moves_state(group_)) {
    return fresh_states(table, hit, static_cast<std::int64_t>(start), demand) + revived;
  }
  const auto want = static_cast<std::int64_t>(wanted(demand));
  const std::int64_t copies = ends_inside(hit, demand) ? 1 : 0;
  return std::max<std::int64_t>(want - static_cast<std::int64_t>(start), 0) + copies + revived;
}

// One block for the state of this step, the others for drafts, a copy of a shared state, and a
// checkpoint; blocks of earlier steps move along.
std::int64_t LayerGroup::fresh_states(const GroupTable& table, std::span<const BlockId> hit,
                                      std::int64_t start, const Demand& demand) const {
  const std::int64_t drafts = group_.speculative_blocks;
  const auto want = static_cast<std::int64_t>(wanted(demand));
  const std::int64_t held =
      demand.starts ? std::max(start, static_cast<std::int64_t>(loaded(demand))) : start;
  const std::int64_t external = held - start;
  const std::int64_t copies = ends_inside(hit, demand) || table.tail ? 1 : 0;
  const std::int64_t most =
      1 + (checkpoint(table, demand) ? 1 : 0) + (table.has_states ? 0 : drafts);
  return external + copies + std::clamp<std::int64_t>(want - held, 0, most);
}

// The worker writes the state at p besides the running one, if this chunk ends the prefill and
// starts on a hash unit well before p; and there must be a position for it.
std::optional<Checkpoint> LayerGroup::checkpoint(const GroupTable& table,
                                                 const Demand& demand) const {
  if (group_.checkpoint_alignment == 0 || !config_.enable_caching) return std::nullopt;
  const std::uint64_t unit = config_.hash_block_size;
  const std::uint64_t from = demand.computed;
  const std::uint64_t to = demand.main;
  const Resumption rules = resumption_of(config_);
  const std::uint64_t at = state_boundary(rules, to, rules.hit_align);
  const std::size_t last = ceil_div<std::uint64_t>(to, group_.block_size);  // positions
  if (config_.retention == 0U && to < demand.prefill_end) return std::nullopt;
  if (from % unit != 0 || from + unit > at || at >= to) return std::nullopt;
  if ((at - from) % group_.checkpoint_alignment != 0 || last < 2) return std::nullopt;
  // Behind the position of the state that the chunk starts from.
  if (from > 0 && last - 2 <= (from - 1) / group_.block_size) return std::nullopt;
  const std::size_t held = table.blocks.size();
  const bool free = last - 2 >= held || table.blocks[last - 2] == kNullBlock ||
                    (table.has_states && last - 2 + group_.speculative_blocks >= held);
  return free ? std::optional(Checkpoint{at, last - 2}) : std::nullopt;
}

void LayerGroup::add_hit(GroupTable& table, std::span<const BlockId> hit, const Demand& demand,
                         BlockPool& pool) const {
  if (group_.kind == LayerKind::ring) return;
  const std::size_t skipped = skipped_tokens(group_, demand.computed) / group_.block_size;
  const std::span<const BlockId> read = hit.subspan(std::min(skipped, hit.size()));
  table.blocks.assign(skipped, kNullBlock);
  table.blocks.insert(table.blocks.end(), read.begin(), read.end());
  table.published = static_cast<std::uint32_t>(table.blocks.size());
  pool.touch({read.begin(), read.end()});
  if (!ends_inside(read, demand)) return;
  table.tail = {demand.local / group_.block_size, read.back()};
  table.published = static_cast<std::uint32_t>(table.tail->position);
}

void LayerGroup::add_external(GroupTable& table, const Demand& demand, BlockPool& pool) const {
  const std::uint64_t end = loaded(demand);
  if (end <= table.blocks.size()) return;
  append(table.blocks, pool.take(static_cast<std::uint32_t>(end - table.blocks.size())));
}

Growth LayerGroup::allocate(GroupTable& table, const Demand& demand, BlockPool& pool) const {
  if (moves_state(group_)) return allocate_states(table, demand, pool);
  Growth out;
  if (const auto tail = std::exchange(table.tail, std::nullopt)) {
    table.blocks[tail->position] = pool.take(1).front();
    out.copy = {tail->block, table.blocks[tail->position]};
    out.blocks.push_back(out.copy->to);
    pool.touch({out.copy->to});  // until the copy has run; the hit's reference stays on the tail
  }
  const std::uint64_t want = wanted(demand);
  if (want <= table.blocks.size()) return out;
  const std::vector<BlockId> taken =
      pool.take(static_cast<std::uint32_t>(want - table.blocks.size()));
  append(table.blocks, taken);
  append(out.blocks, taken);
  return out;
}

// The last 1 + speculative_blocks positions hold running states. When the sequence reaches beyond
// its block, the states of drafts move along, and only the missing blocks are taken anew.
Growth LayerGroup::allocate_states(GroupTable& table, const Demand& demand, BlockPool& pool) const {
  std::vector<BlockId>& blocks = table.blocks;
  const std::size_t drafts = group_.speculative_blocks;
  const std::size_t want = wanted(demand);
  const std::size_t held = blocks.size();
  const bool moved = std::exchange(table.has_states, true);
  if (want <= held && !table.tail && !table.checkpoint) return {};
  if (moved) {
    table.last_state = held - 1 - drafts;
  } else if (held > 0) {
    table.last_state = held - 1;
  }
  // The position of the state of this step; a checkpoint stands before it.
  const std::size_t running = want - drafts - 1;
  const std::size_t gap = running - (table.checkpoint ? 1 : 0);
  if (held < running) blocks.resize(std::max(held, gap), kNullBlock);
  for (std::size_t i = held - drafts; moved && i < held && i < gap; ++i) {
    pool.evict({blocks[i]});  // it will hold another state
    blocks.push_back(std::exchange(blocks[i], kNullBlock));
  }
  Growth out;
  const std::size_t fresh = want > blocks.size() ? want - blocks.size() : 0;
  std::vector<BlockId> taken = pool.take(static_cast<std::uint32_t>(fresh + (table.tail ? 1 : 0)));
  out.blocks.assign(blocks.begin() + static_cast<std::ptrdiff_t>(held), blocks.end());
  if (const auto tail = std::exchange(table.tail, std::nullopt)) {
    const BlockId copy = taken.front();
    taken.erase(taken.begin());
    out.copy = {tail->block, copy};
    if (moved) {  // the request stays where its state runs; what others look up moves
      pool.move_keys(tail->block, copy);
      pool.touch({tail->block});
    } else {
      blocks[tail->position] = copy;
      pool.touch({copy});
      out.blocks.insert(out.blocks.begin(), copy);
    }
  }
  append(blocks, taken);
  append(out.blocks, taken);
  return out;
}

// Gives back [from, to), the deepest first; null positions are a gap, or were given back before.
void LayerGroup::recycle_range(GroupTable& table, std::size_t from, std::size_t to, bool over_gaps,
                               BlockPool& pool) const {
  std::vector<BlockId> unread;
  for (std::size_t at = to; at > from; --at) {
    if (table.blocks[at - 1] != kNullBlock) {
      unread.push_back(std::exchange(table.blocks[at - 1], kNullBlock));
    } else if (!over_gaps) {
      break;
    }
  }
  pool.release(unread);
}

void LayerGroup::recycle(GroupTable& table, std::uint64_t computed, std::uint64_t prompt_tokens,
                         BlockPool& pool) const {
  const std::uint64_t block_size = group_.block_size;
  const std::size_t length = table.blocks.size();
  if (group_.kind == LayerKind::rswa) {
    const std::uint64_t window = computed > group_.window ? computed - group_.window : 0;
    const std::size_t from = ceil_div(prompt_tokens, block_size);
    const std::size_t to = std::max(prompt_tokens, window) / block_size;
    return recycle_range(table, from, std::min(to, length), false, pool);
  }
  const std::uint64_t basis = recycle_basis(config_.profile, group_, computed);
  const std::size_t to = std::min<std::size_t>(
      recyclable_tokens(config_.profile, group_, computed) / block_size, length);
  const bool over_gaps = moves_state(group_) && config_.profile.recycles_behind_gaps;
  recycle_range(table, over_gaps ? table.retired : 0, to, over_gaps, pool);
  table.retired = std::max(table.retired, to);
  if (!table.last_state || *table.last_state + 1 >= ceil_div(basis, block_size)) return;
  BlockId& state = table.blocks[*table.last_state];
  if (state != kNullBlock) pool.release({std::exchange(state, kNullBlock)});
}

}  // namespace kvproof::reference
