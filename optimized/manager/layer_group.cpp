// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager/layer_group.h"

#include <algorithm>
#include <utility>

#include "optimized/pool/reversed.h"

namespace kvproof::optimized {

template <class Key>
LayerGroup<Key>::LayerGroup(const CacheConfig& config, GroupId id)
    : profile_(config.profile),
      group_(config.groups[id]),
      id_(id),
      units_per_block_(config.enable_caching ? group_.block_size / config.hash_block_size : 1),
      caching_(config.enable_caching),
      align_(publish_alignment(config)),
      publishes_ahead_(profile_.eagle_caches_ahead && group_.eagle),
      publishes_singly_(align_ == group_.block_size &&
                        cache_mask(config, group_).run >= cache_mask(config, group_).period),
      mask_(cache_mask(config, group_)),
      cap_(admission_cap(config, group_)) {}

template <class Key>
std::size_t LayerGroup<Key>::positions(std::uint64_t tokens, std::uint32_t encoder_tokens) const {
  if (group_.kind == LayerKind::cross) return blocks_of(encoder_tokens);
  return blocks_of(slots_with_drafts(group_, tokens));
}

template <class Key>
std::uint64_t LayerGroup<Key>::wanted(const Demand& demand) const {
  if (group_.kind == LayerKind::cross) return blocks_of(demand.encoder);
  const std::uint64_t tokens = moves_state(group_) ? demand.main : demand.slots;
  const std::uint64_t blocks = blocks_of(slots_with_drafts(group_, tokens));
  return demand.capped && cap_ ? std::min(blocks, *cap_) : blocks;
}

// The length of the table once the tokens that a connector loads have blocks; 0 if the group reads
// none of these tokens any more.
template <class Key>
std::uint64_t LayerGroup<Key>::loaded(const Demand& demand) const {
  const std::uint64_t skipped = skipped_tokens(group_, demand.computed);
  const std::uint64_t read = std::min(demand.computed - skipped, demand.external);
  return group_.kind == LayerKind::cross || read == 0 ? 0 : blocks_of(demand.computed);
}

template <class Key>
std::int64_t LayerGroup<Key>::need(const GroupTable& table, std::span<const BlockId> hit,
                                   const Demand& demand, const Pool& pool) const {
  std::int64_t start = table.length;
  std::int64_t revived = 0;
  if (demand.starts) {  // behind the hit and the positions that are not read any more
    const std::size_t skipped = skipped_tokens(group_, demand.computed) / group_.block_size;
    start = static_cast<std::int64_t>(std::max(skipped, hit.size()));
    revived = pool.num_revived(hit.subspan(std::min(skipped, hit.size())));
  }
  if (moves_state(group_)) return fresh_states(table, start, demand) + revived;
  return std::max<std::int64_t>(static_cast<std::int64_t>(wanted(demand)) - start, 0) + revived;
}

template <class Key>
void LayerGroup<Key>::add_hit(GroupTable& table, std::span<const BlockId> hit,
                              std::uint64_t computed, Pool& pool) const {
  const std::size_t skipped = skipped_tokens(group_, computed) / group_.block_size;
  const std::size_t read = std::min(skipped, hit.size());
  std::fill_n(table.blocks, skipped, kNullBlock);
  std::ranges::copy(hit.subspan(read), table.blocks + skipped);
  pool.touch(hit.subspan(read));
  set_length(table, static_cast<std::uint32_t>(skipped + hit.size() - read));
  set_published(table, table.length);
  set_kept_from(table, static_cast<std::uint32_t>(skipped));
}

template <class Key>
void LayerGroup<Key>::extend(GroupTable& table, std::uint64_t length, Pool& pool) const {
  if (length <= table.length) return;
  pool.take({table.blocks + table.length, table.blocks + length});
  set_length(table, static_cast<std::uint32_t>(length));
}

template <class Key>
std::uint32_t LayerGroup<Key>::allocate(GroupTable& table, const Demand& demand, Pool& pool) const {
  table.grown_from = table.length;
  const std::uint64_t want = wanted(demand);
  if (moves_state(group_)) return allocate_states(table, want, pool);
  const std::uint32_t held = table.length;
  extend(table, want, pool);
  return table.length - held;
}

template <class Key>
void LayerGroup<Key>::recycle(GroupTable& table, std::uint64_t computed, Pool& pool) const {
  const std::uint64_t basis = recycle_basis(profile_, group_, computed);
  const auto end = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(skipped_tokens(group_, basis) / group_.block_size, table.length));
  std::uint32_t from = end;
  while (from > 0 && table.blocks[from - 1] != kNullBlock) --from;
  if (from < end) {
    const std::span<BlockId> unread(table.blocks + from, end - from);
    pool.release(Reversed(unread));
    std::ranges::fill(unread, kNullBlock);
  }
  set_kept_from(table, std::max(table.kept_from, end));
  if (table.last_state != kNever) recycle_last_state(table, basis, pool);
}

template <class Key>
void LayerGroup<Key>::publish(GroupTable& table, const Key* units, std::uint64_t tokens,
                              Pool& pool) const {
  if (!caching_) return;
  const std::uint64_t publishable = publishable_tokens(profile_, group_, align_, tokens);
  const std::uint32_t from = table.progress();
  const auto to = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(publishable / group_.block_size, table.length));
  if (from >= to) return;
  const bool states = group_.kind == LayerKind::mamba;
  for (std::uint32_t i = from; pool.tails() != nullptr && i < to; ++i) {
    pool.forget_partial(table.blocks[i]);
  }
  pool.events().stored(id_, {from * group_.block_size, to * group_.block_size});
  for (std::uint32_t i = from; i < to; ++i) {
    const BlockId block = table.blocks[i];
    if (block == kNullBlock || !mask_.keeps(i)) continue;
    if (!pool.publish(block, key(units, i), id_, (i + 1) * group_.block_size)) continue;
    if (states) pool.mark_new_state(block);
  }
  set_published(table, to);
}

template <class Key>
void LayerGroup<Key>::publish_prompt_tail(const GroupTable& table, const Key* units,
                                          std::uint32_t prompt_tokens, std::uint64_t tokens,
                                          Pool& pool) const {
  if (pool.tails() == nullptr || !reads_all(group_.kind)) return;
  const std::uint32_t unit = group_.block_size / units_per_block_;
  const std::uint32_t end = prompt_tokens - prompt_tokens % unit;
  const std::uint32_t at = end / group_.block_size;
  const bool inside = end > 0 && end % group_.block_size != 0 && at < table.length;
  if (!inside || end > publishable_tokens(profile_, group_, align_, tokens)) return;
  pool.publish_tail(table.blocks[at], in_group(units[end / unit - 1], id_), id_, {end - unit, end});
}

template <class Key>
void LayerGroup<Key>::release(GroupTable& table, Pool& pool) const {
  release_blocks(table, pool);
  table.hit_length = 0;
  set_kept_from(table, 0);
  table.last_state = kNever;
  table.has_states = false;
  set_published(table, kNever);
}

template <class Key>
void LayerGroup<Key>::release_blocks(GroupTable& table, Pool& pool) const {
  // The records were last touched when the blocks were taken; their addresses are known at once.
  for (const BlockId block : table.table()) pool.prefetch(block);
  if (pool.deepest_first()) {
    pool.release(Reversed(table.table()));
  } else {
    pool.release(table.table());
  }
  set_length(table, 0);
}

template <class Key>
std::pair<std::uint32_t, std::uint32_t> LayerGroup<Key>::written(const GroupTable& table,
                                                                 const Demand& demand) const {
  if (!is_written_again()) return {0, 0};
  const auto first = static_cast<std::uint32_t>(demand.computed / group_.block_size);
  const auto end =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks_of(demand.slots), table.length));
  return {std::max(first, table.progress()), end};
}

// Where the next block is given back: the inverse of skipped_tokens().
template <class Key>
void LayerGroup<Key>::set_kept_from(GroupTable& table, std::uint32_t kept_from) const {
  const std::uint32_t end = (kept_from + 1) * group_.block_size;
  table.kept_from = kept_from;
  switch (group_.kind) {
    case LayerKind::full:
    case LayerKind::mla:
    case LayerKind::cross:
    case LayerKind::ring: table.recycle_at = kNever; break;
    case LayerKind::sliding_window: table.recycle_at = end + group_.window - 1; break;
    case LayerKind::chunked_local:
      table.recycle_at = ceil_div(end, group_.chunk) * group_.chunk;
      break;
    case LayerKind::rswa:
    case LayerKind::mamba: table.recycle_at = 0; break;  // states move in steps of their own
  }
}

// Running states: they move along with the sequence, and the one before the step is given back
// late.

template <class Key>
std::int64_t LayerGroup<Key>::fresh_states(const GroupTable& table, std::int64_t start,
                                           const Demand& demand) const {
  const std::int64_t drafts = group_.speculative_blocks;
  const auto want = static_cast<std::int64_t>(wanted(demand));
  const std::int64_t held =
      demand.starts ? std::max(start, static_cast<std::int64_t>(loaded(demand))) : start;
  const std::int64_t external = held - start;
  if (want <= held) return external;
  return external + (table.has_states ? 1 : want - std::max(held, want - drafts - 1));
}

// See reference/layer_group.cpp: drafts' states move along with the sequence.
template <class Key>
std::uint32_t LayerGroup<Key>::allocate_states(GroupTable& table, std::uint64_t want,
                                               Pool& pool) const {
  const std::uint32_t drafts = group_.speculative_blocks;
  const std::uint32_t held = table.length;
  const bool moved = std::exchange(table.has_states, true);
  if (want <= held) return 0;
  if (moved) {
    table.last_state = held - 1 - drafts;
  } else if (held > 0) {
    table.last_state = held - 1;
  }
  const auto running = static_cast<std::uint32_t>(want) - drafts - 1;
  std::uint32_t end = held;
  while (end < running) table.blocks[end++] = kNullBlock;
  for (std::uint32_t i = held - drafts; moved && i < held && i < running; ++i) {
    pool.forget(table.blocks[i]);  // it will hold another state
    table.blocks[end++] = std::exchange(table.blocks[i], kNullBlock);
  }
  set_length(table, end);
  extend(table, want, pool);
  return table.length - end;
}

template <class Key>
void LayerGroup<Key>::recycle_last_state(GroupTable& table, std::uint64_t basis, Pool& pool) const {
  if (std::uint64_t{table.last_state} + 1 >= blocks_of(basis)) return;
  BlockId& state = table.blocks[table.last_state];
  if (state == kNullBlock) return;
  pool.release(std::span(&state, 1));
  state = kNullBlock;
}

template class LayerGroup<Key128>;
template class LayerGroup<Key256>;

}  // namespace kvproof::optimized
