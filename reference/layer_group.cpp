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
    : profile_(config.profile),
      group_(config.groups[id]),
      cap_(admission_cap(config, config.groups[id])) {}

// The number of blocks that the table must have in the end.
std::uint64_t LayerGroup::wanted(const Demand& demand) const {
  const std::uint64_t block_size = group_.block_size;
  if (group_.kind == LayerKind::cross) return ceil_div<std::uint64_t>(demand.encoder, block_size);
  const std::uint64_t tokens = moves_state(group_) ? demand.main : demand.slots;
  const std::uint64_t blocks = ceil_div(slots_with_drafts(group_, tokens), block_size);
  return demand.capped && cap_ ? std::min(blocks, *cap_) : blocks;
}

// The length of the table once the tokens that a connector loads have blocks; 0 if the group reads
// none of these tokens any more.
std::uint64_t LayerGroup::loaded(const Demand& demand) const {
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
  const auto revived = std::ranges::count_if(
      hit.subspan(std::min(skipped, hit.size())),
      [&](BlockId block) { return block != kNullBlock && pool.ref_cnt(block) == 0; });
  if (moves_state(group_)) {
    return fresh_states(table, static_cast<std::int64_t>(start), demand) + revived;
  }
  const auto want = static_cast<std::int64_t>(wanted(demand));
  return std::max<std::int64_t>(want - static_cast<std::int64_t>(start), 0) + revived;
}

// One block for the state of this step, the others for drafts; blocks of earlier steps move along.
std::int64_t LayerGroup::fresh_states(const GroupTable& table, std::int64_t start,
                                      const Demand& demand) const {
  const std::int64_t drafts = group_.speculative_blocks;
  const auto want = static_cast<std::int64_t>(wanted(demand));
  const std::int64_t held =
      demand.starts ? std::max(start, static_cast<std::int64_t>(loaded(demand))) : start;
  const std::int64_t external = held - start;
  if (want <= held) return external;
  return external + (table.has_states ? 1 : want - std::max(held, want - drafts - 1));
}

void LayerGroup::add_hit(GroupTable& table, std::span<const BlockId> hit, std::uint64_t computed,
                         BlockPool& pool) const {
  const std::size_t skipped = skipped_tokens(group_, computed) / group_.block_size;
  const std::span<const BlockId> read = hit.subspan(std::min(skipped, hit.size()));
  table.blocks.assign(skipped, kNullBlock);
  table.blocks.insert(table.blocks.end(), read.begin(), read.end());
  table.published = static_cast<std::uint32_t>(table.blocks.size());
  pool.touch({read.begin(), read.end()});
}

void LayerGroup::add_external(GroupTable& table, const Demand& demand, BlockPool& pool) const {
  const std::uint64_t end = loaded(demand);
  if (end <= table.blocks.size()) return;
  append(table.blocks, pool.take(static_cast<std::uint32_t>(end - table.blocks.size())));
}

std::vector<BlockId> LayerGroup::allocate(GroupTable& table, const Demand& demand,
                                          BlockPool& pool) const {
  if (moves_state(group_)) return allocate_states(table, demand, pool);
  const std::uint64_t want = wanted(demand);
  if (want <= table.blocks.size()) return {};
  std::vector<BlockId> taken = pool.take(static_cast<std::uint32_t>(want - table.blocks.size()));
  append(table.blocks, taken);
  return taken;
}

// The last 1 + speculative_blocks positions hold running states. When the sequence reaches beyond
// its block, the states of drafts move along, and only the missing blocks are taken anew.
std::vector<BlockId> LayerGroup::allocate_states(GroupTable& table, const Demand& demand,
                                                 BlockPool& pool) const {
  std::vector<BlockId>& blocks = table.blocks;
  const std::size_t drafts = group_.speculative_blocks;
  const std::size_t want = wanted(demand);
  const std::size_t held = blocks.size();
  const bool moved = std::exchange(table.has_states, true);
  if (want <= held) return {};
  if (moved) {
    table.last_state = held - 1 - drafts;
  } else if (held > 0) {
    table.last_state = held - 1;
  }
  const std::size_t running = want - drafts - 1;  // position of the state of this step
  if (blocks.size() < running) blocks.resize(running, kNullBlock);
  for (std::size_t i = held - drafts; moved && i < held && i < running; ++i) {
    pool.evict({blocks[i]});  // it will hold another state
    blocks.push_back(std::exchange(blocks[i], kNullBlock));
  }
  if (want > blocks.size()) {
    append(blocks, pool.take(static_cast<std::uint32_t>(want - blocks.size())));
  }
  return {blocks.begin() + static_cast<std::ptrdiff_t>(held), blocks.end()};
}

void LayerGroup::recycle(GroupTable& table, std::uint64_t computed, BlockPool& pool) const {
  const std::uint64_t block_size = group_.block_size;
  const std::uint64_t basis = recycle_basis(profile_, group_, computed);
  std::size_t at = std::min<std::size_t>(recyclable_tokens(profile_, group_, computed) / block_size,
                                         table.blocks.size());
  std::vector<BlockId> unread;
  for (; at > 0 && table.blocks[at - 1] != kNullBlock; --at) {
    unread.push_back(std::exchange(table.blocks[at - 1], kNullBlock));
  }
  pool.release(unread);
  if (!table.last_state || *table.last_state + 1 >= ceil_div(basis, block_size)) return;
  BlockId& state = table.blocks[*table.last_state];
  if (state != kNullBlock) pool.release({std::exchange(state, kNullBlock)});
}

}  // namespace kvproof::reference
