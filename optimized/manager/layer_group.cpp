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
      units_per_block_(config.enable_caching && is_cacheable(group_.kind)
                           ? group_.block_size / config.hash_block_size
                           : 1),
      caching_(config.enable_caching && is_cacheable(group_.kind)),
      align_(publish_alignment(config)),
      publishes_ahead_(profile_.eagle_caches_ahead && group_.eagle),
      publishes_singly_(align_ == group_.block_size && config.hash_lookahead == 0 &&
                        cache_mask(config, group_).keeps_all()),
      recycles_singly_(group_.kind == LayerKind::sliding_window),
      mask_(cache_mask(config, group_)),
      resumption_(resumption_of(config)),
      retention_(config.retention),
      cap_(admission_cap(config, group_)) {}

template <class Key>
std::size_t LayerGroup<Key>::positions(std::uint64_t tokens, std::uint32_t encoder_tokens) const {
  if (group_.kind == LayerKind::cross) return blocks_of(encoder_tokens);
  if (group_.kind == LayerKind::ring) return 1;
  return blocks_of(slots_with_drafts(group_, tokens));
}

template <class Key>
std::uint64_t LayerGroup<Key>::wanted(const Demand& demand) const {
  if (group_.kind == LayerKind::cross) return blocks_of(demand.encoder);
  if (group_.kind == LayerKind::ring) return 1;
  const std::uint64_t tokens = moves_state(group_) ? demand.main : demand.slots;
  const std::uint64_t blocks = blocks_of(slots_with_drafts(group_, tokens));
  return demand.capped && cap_ ? std::min(blocks, *cap_) : blocks;
}

// The length of the table once the tokens that a connector loads have blocks; 0 if the group reads
// none of these tokens any more. A ring has its one block from the load on.
template <class Key>
std::uint64_t LayerGroup<Key>::loaded(const Demand& demand) const {
  if (group_.kind == LayerKind::ring) return demand.external > 0 ? 1 : 0;
  const std::uint64_t skipped = skipped_tokens(group_, demand.computed);
  const std::uint64_t read = std::min(demand.computed - skipped, demand.external);
  const bool loads = group_.kind != LayerKind::cross && read > 0;
  return loads ? blocks_of(demand.computed) : 0;
}

template <class Key>
std::int64_t LayerGroup<Key>::need(const GroupTable& table, std::span<const BlockId> hit,
                                   const Demand& demand, const Pool& pool) const {
  std::int64_t start = table.length;
  std::int64_t revived = 0;
  if (demand.starts) {  // behind the hit and the positions that are not read any more
    const std::size_t skipped = skipped_tokens(group_, demand.computed) / group_.block_size;
    start = static_cast<std::int64_t>(std::max(skipped, hit.size()));
    hit = hit.subspan(std::min(skipped, hit.size()));
    revived = pool.num_revived(hit);
  }
  if (moves_state(group_)) return fresh_states(table, hit, start, demand) + revived;
  const std::int64_t copies = ends_inside(hit, demand) ? 1 : 0;
  return std::max<std::int64_t>(static_cast<std::int64_t>(wanted(demand)) - start, 0) + copies +
         revived;
}

template <class Key>
void LayerGroup<Key>::add_hit(GroupTable& table, std::span<const BlockId> hit, const Demand& demand,
                              Pool& pool) const {
  if (group_.kind == LayerKind::ring) return;
  const std::size_t skipped = skipped_tokens(group_, demand.computed) / group_.block_size;
  const std::size_t read = std::min(skipped, hit.size());
  std::fill_n(table.blocks, skipped, kNullBlock);
  std::copy_n(hit.data() + read, hit.size() - read, table.blocks + skipped);
  pool.touch(hit.subspan(read));
  set_length(table, static_cast<std::uint32_t>(skipped + hit.size() - read));
  set_published(table, table.length);
  set_kept_from(table, static_cast<std::uint32_t>(skipped));
  if (!ends_inside(hit.subspan(read), demand)) return;
  table.tail_at = static_cast<std::uint32_t>(demand.local / group_.block_size);
  table.tail_block = hit.back();
  set_published(table, table.tail_at);
}

template <class Key>
void LayerGroup<Key>::extend(GroupTable& table, std::uint64_t length, Pool& pool) const {
  if (length <= table.length) return;
  pool.take({table.blocks + table.length, table.blocks + length});
  set_length(table, static_cast<std::uint32_t>(length));
}

template <class Key>
std::uint32_t LayerGroup<Key>::allocate(GroupTable& table, const Demand& demand, Pool& pool,
                                        TailCopy& copy) const {
  table.grown_from = table.length;
  const std::uint64_t want = wanted(demand);
  if (moves_state(group_)) return allocate_states(table, want, pool, copy);
  std::uint32_t taken = 0;
  if (table.tail_at != kNever) {
    copy = {table.tail_block, pool.take_one()};
    table.blocks[std::exchange(table.tail_at, kNever)] = copy.to;
    pool.touch({&copy.to, 1});  // until the copy has run; the hit's reference stays on the tail
    ++taken;
  }
  const std::uint32_t held = table.length;
  extend(table, want, pool);
  return taken + table.length - held;
}

// Gives back [from, to), the deepest first; null positions are a gap, or were given back before.
template <class Key>
void LayerGroup<Key>::recycle_range(GroupTable& table, std::uint32_t from, std::uint32_t to,
                                    bool over_gaps, Pool& pool) const {
  std::uint32_t first = over_gaps ? std::min(from, to) : to;
  while (!over_gaps && first > from && table.blocks[first - 1] != kNullBlock) --first;
  if (first == to) return;
  const std::span<BlockId> unread(table.blocks + first, to - first);
  pool.release(Reversed(unread));
  std::ranges::fill(unread, kNullBlock);
}

template <class Key>
void LayerGroup<Key>::recycle(GroupTable& table, std::uint64_t computed,
                              std::uint32_t prompt_tokens, Pool& pool) const {
  if (group_.kind == LayerKind::rswa) {
    const std::uint64_t window = computed > group_.window ? computed - group_.window : 0;
    const std::uint64_t to = std::max<std::uint64_t>(prompt_tokens, window) / group_.block_size;
    return recycle_range(table, static_cast<std::uint32_t>(blocks_of(prompt_tokens)),
                         static_cast<std::uint32_t>(std::min<std::uint64_t>(to, table.length)),
                         false, pool);
  }
  const std::uint64_t basis = recycle_basis(profile_, group_, computed);
  const auto end = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(skipped_tokens(group_, basis) / group_.block_size, table.length));
  const bool over_gaps = moves_state(group_) && profile_.recycles_behind_gaps;
  recycle_range(table, over_gaps ? table.retired : 0, end, over_gaps, pool);
  table.retired = std::max(table.retired, end);
  set_kept_from(table, std::max(table.kept_from, end));
  if (table.last_state != kNever) recycle_last_state(table, basis, pool);
}

// ---- publication --------------------------------------------------------------------------------

template <class Key>
void LayerGroup<Key>::publish(GroupTable& table, const Content<Key>& content, std::uint64_t tokens,
                              Pool& pool) const {
  if (!caching_) return;
  const std::uint64_t publishable = publishable_tokens(profile_, group_, align_, tokens);
  if (group_.kind == LayerKind::mamba) return publish_states(table, content, publishable, pool);
  publish_blocks(table, content, publishable, pool);
  publish_prompt_tail(table, content, publishable, pool);
}

template <class Key>
void LayerGroup<Key>::publish_blocks(GroupTable& table, const Content<Key>& content,
                                     std::uint64_t tokens, Pool& pool) const {
  const std::uint64_t hashed = std::uint64_t{content.num_units} * resumption_.unit;
  const std::uint32_t from = table.progress();
  const auto to = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::min(tokens, hashed) / group_.block_size, table.length));
  if (from >= to) return;
  const bool one_key = group_.kind != LayerKind::mamba && pool.tails() == nullptr;
  if (!one_key || !mask_.keeps_all()) return publish_chosen(table, content, from, to, pool);
  const std::span<const BlockId> complete = table.table().subspan(from, to - from);
  const Key* const first = content.units + std::size_t{from} * units_per_block_;
  if (pool.events().enabled()) {
    pool.events().stored(id_, {from * group_.block_size, to * group_.block_size});
    publish_run<false>(complete, first, from * group_.block_size, pool);
  } else {
    publish_run<true>(complete, first, from * group_.block_size, pool);
  }
  set_published(table, to);
}

template <class Key>
template <bool kPlain>
void LayerGroup<Key>::publish_run(std::span<const BlockId> blocks, const Key* units,
                                  std::uint32_t begin, Pool& pool) const {
  const std::uint32_t stride = units_per_block_, block_size = group_.block_size;
  const GroupId id = id_;
  const Key* unit = units + stride - 1;
  for (const BlockId block : blocks) {
    begin += block_size;
    if (block != kNullBlock) pool.template publish<kPlain>(block, in_group(*unit, id), id, begin);
    unit += stride;
  }
}

// Blocks that the mask keeps, which may have other keys before.
template <class Key>
void LayerGroup<Key>::publish_chosen(GroupTable& table, const Content<Key>& content,
                                     std::uint32_t from, std::uint32_t to, Pool& pool) const {
  const bool states = group_.kind == LayerKind::mamba;
  const bool all = mask_.keeps_all();
  const Boundaries boundaries =
      all ? Boundaries{}
          : boundaries_of(resumption_, group_, content.prompt_tokens, content.junction);
  const auto kept = [&](std::uint32_t i) {
    return table.blocks[i] != kNullBlock &&
           !table.holds_other_state(i, (i + 1) * group_.block_size) &&
           (all || mask_.keeps(i, boundaries));
  };
  for (std::uint32_t i = from; (states || pool.tails() != nullptr) && i < to; ++i) {
    if (!kept(i)) continue;
    pool.forget_partial(table.blocks[i]);
    // A checkpoint of an earlier state: the block holds this one now.
    const bool other = states && pool.holds_whole(table.blocks[i]) &&
                       pool.record(table.blocks[i]).key != key(content.units, i);
    if (other) pool.forget(table.blocks[i]);
  }
  pool.events().stored(id_, {from * group_.block_size, to * group_.block_size});
  for (std::uint32_t i = from; i < to; ++i) {
    if (!kept(i)) continue;
    pool.publish(table.blocks[i], key(content.units, i), id_, (i + 1) * group_.block_size);
  }
  set_published(table, to);
}

template <class Key>
void LayerGroup<Key>::publish_prompt_tail(const GroupTable& table, const Content<Key>& content,
                                          std::uint64_t tokens, Pool& pool) const {
  if (pool.tails() == nullptr) return;
  const std::uint32_t unit = resumption_.unit;
  const auto end = static_cast<std::uint32_t>(prompt_tail(profile_.prompt_tail, unit, group_,
                                                          content.prompt_tokens,
                                                          std::uint64_t{content.num_units} * unit));
  const std::uint32_t at = end / group_.block_size;
  if (end == 0 || end > tokens || at >= table.length || table.blocks[at] == kNullBlock) return;
  pool.publish_tail(table.blocks[at], key_of_prefix(content.units, end), id_, {end - unit, end});
}

// See reference/cache_manager_sharing.cpp: states of whole blocks, and the one from which others
// can go on behind the prompt. Whoever finds a state of this step has to wait for it.
template <class Key>
void LayerGroup<Key>::publish_states(GroupTable& table, const Content<Key>& content,
                                     std::uint64_t tokens, Pool& pool) const {
  const std::uint32_t from = table.progress();
  publish_blocks(table, content, tokens, pool);
  const std::uint32_t to = table.progress();
  if (table.checkpoint_at != kNever) {
    publish_checkpoint(table, content, tokens, pool);
  } else if (profile_.hits_inside_blocks && moves_state(group_)) {
    publish_state_tail(table, content, tokens, pool);
  }
  for (std::uint32_t i = from; i < to; ++i) {
    const BlockId block = table.blocks[i];
    if (pool.hashed(block)) pool.mark_new_state(block, !pool.holds_whole(block));
  }
}

template <class Key>
bool LayerGroup<Key>::carries(BlockId block, const Content<Key>& content, std::uint32_t tokens,
                              const Pool& pool) const {
  const Key own = key_of_prefix(content.units, tokens);
  if (tokens % group_.block_size == 0) {
    return pool.holds_whole(block) && pool.record(block).key == own;
  }
  return pool.has_tail(block, own);
}

template <class Key>
void LayerGroup<Key>::publish_state(BlockId block, const Content<Key>& content,
                                    std::uint32_t tokens, Pool& pool) const {
  const Key own = key_of_prefix(content.units, tokens);
  const TokenRange unit{tokens - resumption_.unit, tokens};
  if (tokens % group_.block_size == 0) {
    pool.events().stored(id_, unit);
    pool.publish(block, own, id_, tokens);
  } else {
    pool.publish_tail(block, own, id_, unit);
  }
  pool.mark_new_state(block, tokens % group_.block_size != 0);
}

// The running state, when it has come exactly to the boundary. If that lies inside its block, the
// request will overwrite it there, and the copy that is made before carries the key on.
template <class Key>
void LayerGroup<Key>::publish_state_tail(GroupTable& table, const Content<Key>& content,
                                         std::uint64_t tokens, Pool& pool) const {
  const std::uint32_t unit = resumption_.unit;
  const std::uint64_t boundary = state_boundary(resumption_, content.prompt_tokens, unit);
  if (tokens == 0 || tokens != boundary || boundary > std::uint64_t{content.num_units} * unit) {
    return;
  }
  if (boundary % group_.block_size != 0 && table.state_tokens != boundary) return;  // it went on
  const auto end = static_cast<std::uint32_t>(boundary);
  const std::uint32_t at = ceil_div(end, group_.block_size) - 1;
  if (at >= table.length || table.blocks[at] == kNullBlock) return;
  if (table.holds_other_state(at, end)) return;
  const BlockId block = table.blocks[at];
  if (carries(block, content, end, pool)) return;
  pool.forget(block);
  publish_state(block, content, end, pool);
  if (end % group_.block_size == 0) return;
  table.tail_at = at;
  table.tail_block = block;
  set_published(table, at);
}

// The block of the checkpoint holds the state at its boundary, whatever its position says.
template <class Key>
void LayerGroup<Key>::publish_checkpoint(const GroupTable& table, const Content<Key>& content,
                                         std::uint64_t tokens, Pool& pool) const {
  const BlockId block = table.blocks[table.checkpoint_at];
  const std::uint32_t end = table.checkpoint_tokens;
  const std::uint32_t at = end / group_.block_size;
  const bool known = end <= std::uint64_t{content.num_units} * resumption_.unit;
  const bool wanted =
      end == state_boundary(resumption_, content.prompt_tokens, resumption_.hit_align) ||
      end == content.junction || (end % group_.block_size == 0 && mask_.keeps(at - 1));
  if (block == kNullBlock || (wanted && known && carries(block, content, end, pool))) return;
  pool.forget(block);
  if (wanted && known && end <= tokens) publish_state(block, content, end, pool);
}

template <class Key>
void LayerGroup<Key>::release(GroupTable& table, Pool& pool) const {
  release_blocks(table, pool);
  table.hit_length = 0;
  set_kept_from(table, 0);
  table.last_state = table.tail_at = table.checkpoint_at = table.passed_at = kNever;
  table.retired = 0;
  table.has_states = false;
  set_published(table, kNever);
}

template <class Key>
void LayerGroup<Key>::release_blocks(GroupTable& table, Pool& pool) const {
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
std::int64_t LayerGroup<Key>::fresh_states(const GroupTable& table, std::span<const BlockId> hit,
                                           std::int64_t start, const Demand& demand) const {
  const std::int64_t drafts = group_.speculative_blocks;
  const auto want = static_cast<std::int64_t>(wanted(demand));
  const std::int64_t held =
      demand.starts ? std::max(start, static_cast<std::int64_t>(loaded(demand))) : start;
  const std::int64_t copies = ends_inside(hit, demand) || table.tail_at != kNever ? 1 : 0;
  const std::int64_t most =
      1 + (checkpoint_tokens(table, demand) > 0 ? 1 : 0) + (table.has_states ? 0 : drafts);
  return held - start + copies + std::clamp<std::int64_t>(want - held, 0, most);
}

// See reference/layer_group.cpp. @return 0 = there is none
template <class Key>
std::uint64_t LayerGroup<Key>::checkpoint_tokens(const GroupTable& table,
                                                 const Demand& demand) const {
  if (group_.checkpoint_alignment == 0 || !caching_) return 0;
  const std::uint64_t from = demand.computed;
  const std::uint64_t end = state_boundary(resumption_, demand.main, resumption_.hit_align);
  const std::uint64_t last = blocks_of(demand.main);  // positions
  if (retention_ == 0U && demand.main < demand.prefill_end) return 0;
  if (from % resumption_.unit != 0 || from + resumption_.unit > end || end >= demand.main) return 0;
  if ((end - from) % group_.checkpoint_alignment != 0 || last < 2) return 0;
  if (from > 0 && last - 2 <= (from - 1) / group_.block_size) return 0;
  const bool free = last - 2 >= table.length || table.blocks[last - 2] == kNullBlock ||
                    (table.has_states && last - 2 + group_.speculative_blocks >= table.length);
  return free ? end : 0;
}

template <class Key>
void LayerGroup<Key>::note_state(GroupTable& table, const Demand& demand,
                                 std::uint32_t num_tokens) const {
  if (!moves_state(group_)) return;
  if (table.checkpoint_at != kNever) {
    table.passed_at = table.checkpoint_at;
    table.passed_tokens = table.checkpoint_tokens;
  }
  table.state_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(demand.main, num_tokens));
  table.checkpoint_tokens = static_cast<std::uint32_t>(checkpoint_tokens(table, demand));
  table.checkpoint_at = table.checkpoint_tokens == 0
                            ? kNever
                            : static_cast<std::uint32_t>(blocks_of(demand.main) - 2);
}

// See reference/layer_group.cpp: drafts' states move along with the sequence.
template <class Key>
std::uint32_t LayerGroup<Key>::allocate_states(GroupTable& table, std::uint64_t want, Pool& pool,
                                               TailCopy& copy) const {
  const std::uint32_t drafts = group_.speculative_blocks;
  const std::uint32_t held = table.length;
  const bool moved = std::exchange(table.has_states, true);
  const bool copies = table.tail_at != kNever;
  const bool checkpoint = table.checkpoint_at != kNever;
  if (want <= held && !copies && !checkpoint) return 0;
  if (moved) {
    table.last_state = held - 1 - drafts;
  } else if (held > 0) {
    table.last_state = held - 1;
  }
  const auto running = static_cast<std::uint32_t>(want) - drafts - 1;
  const std::uint32_t gap = running - (checkpoint ? 1 : 0);
  std::uint32_t end = held;
  while (held < running && end < gap) table.blocks[end++] = kNullBlock;
  for (std::uint32_t i = held - drafts; moved && i < held && i < gap; ++i) {
    pool.forget(table.blocks[i]);  // it will hold another state
    table.blocks[end++] = std::exchange(table.blocks[i], kNullBlock);
  }
  if (copies) {
    copy = {table.tail_block, pool.take_one()};
    const std::uint32_t at = std::exchange(table.tail_at, kNever);
    if (moved) {  // the request stays where its state runs; what others look up moves
      pool.move_keys(copy.from, copy.to);
      if (pool.hashed(copy.to)) pool.mark_new_state(copy.to, !pool.holds_whole(copy.to));
      pool.touch({&copy.from, 1});
    } else {
      table.blocks[at] = copy.to;
      pool.touch({&copy.to, 1});
    }
  }
  set_length(table, end);
  extend(table, want, pool);
  return table.length - end + (copies ? 1 : 0);
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
