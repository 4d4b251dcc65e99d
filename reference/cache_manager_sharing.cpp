// SPDX-License-Identifier: Apache-2.0
// Tables grow and are published here, and blocks get holders besides the table of a request: forks,
// leases, the raw owner.
#include <algorithm>
#include <utility>

#include "reference/cache_manager.h"
#include "reference/contract.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::reference {

// The positions that are about to be written and have another holder, too. A published block is
// complete, and writing it again writes the same bytes; a state or an encoder row is never forked.
std::vector<std::size_t> CacheManager::to_copy(const Request& r, GroupId group,
                                               const Demand& demand) const {
  const GroupConfig& config = config_.groups[group];
  const GroupTable& table = r.groups[group];
  std::vector<std::size_t> out;
  if (!is_written_again(config.kind)) return out;
  const std::size_t end = std::min<std::size_t>(
      ceil_div<std::uint64_t>(demand.slots, config.block_size), table.blocks.size());
  std::size_t at =
      std::max<std::size_t>(demand.computed / config.block_size, table.published.value_or(0));
  for (; at < end; ++at) {
    const bool shared_tail = table.tail && table.tail->position == at;  // copied anyway
    if (!shared_tail && has_other_holder(table.blocks[at])) out.push_back(at);
  }
  return out;
}

// A copy that has not run yet only reads, and what is written stands behind what it reads.
bool CacheManager::has_other_holder(BlockId block) const {
  return pool_.ref_cnt(block) > 1 + std::ranges::count(copying(), block);
}

CacheManager::Blocks CacheManager::copying() const {
  Blocks out;
  for (const Blocks& held : copying_) out.insert(out.end(), held.begin(), held.end());
  return out;
}

// A relative may have published a block under the content that it wrote there, and left. The
// request writes the block anew, so that content goes.
void CacheManager::forget_relatives(const Request& r, GroupId group, const Demand& demand) {
  const GroupConfig& config = config_.groups[group];
  const GroupTable& table = r.groups[group];
  if (!is_written_again(config.kind)) return;
  const std::size_t end = std::min<std::size_t>(
      ceil_div<std::uint64_t>(demand.slots, config.block_size), table.blocks.size());
  std::size_t at =
      std::max<std::size_t>(demand.computed / config.block_size, table.published.value_or(0));
  for (; at < end; ++at) {
    const bool copied = table.tail && table.tail->position == at;  // before it is written
    const PrefixKey* carried = pool_.cache().key_of(table.blocks[at]);
    if (copied || carried == nullptr) continue;
    const std::size_t unit = carried->prefix_tokens / config_.hash_block_size;
    const bool own = unit <= r.contents.size() && r.contents[unit - 1] == carried->content;
    if (!own) pool_.evict({table.blocks[at]});
  }
}

Granted CacheManager::grow(Request& r, const Demand& demand) {
  Granted out;
  out.blocks.reserve(r.groups.size());
  const std::uint64_t taken_before = pool_.work().taken;
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    GroupTable& table = r.groups[g];
    Blocks& fresh = out.blocks.emplace_back();
    for (const std::size_t at : to_copy(r, g, demand)) {
      const BlockId shared = std::exchange(table.blocks[at], pool_.take(1).front());
      pool_.release({shared});
      fresh.push_back(table.blocks[at]);
      out.copies.push_back({shared, table.blocks[at]});
      ++pool_.work().copies;
    }
    forget_relatives(r, g, demand);
    const Growth growth = layer_groups_[g].allocate(table, demand, pool_);
    fresh.insert(fresh.end(), growth.blocks.begin(), growth.blocks.end());
    if (!growth.copy) continue;
    out.copies.push_back(*growth.copy);
    ++pool_.work().copies;
    copying_[g].insert(copying_[g].end(), {growth.copy->from, growth.copy->to});
    const PrefixKey* moved = pool_.cache().key_of(growth.copy->to);
    if (moved != nullptr && config_.groups[g].kind == LayerKind::mamba) new_states_.insert(*moved);
  }
  pool_.work().granted += pool_.work().taken - taken_before;
  return out;
}

void CacheManager::note_states(Request& r, const Demand& demand) {
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    if (!moves_state(config_.groups[g])) continue;
    GroupTable& table = r.groups[g];
    if (table.checkpoint) table.passed = table.checkpoint;
    table.state_tokens = std::min<std::uint64_t>(demand.main, r.tokens.size());
    table.checkpoint = layer_groups_[g].checkpoint(table, demand);
  }
}

void CacheManager::publish(Request& r, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const std::uint64_t known = std::min<std::uint64_t>(tokens, r.tokens.size());
  const std::uint64_t align = publish_alignment(config_);
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    if (!is_cacheable(group.kind)) continue;
    const std::uint64_t publishable = publishable_tokens(config_.profile, group, align, known);
    if (group.kind == LayerKind::mamba) {
      publish_states(r, g, publishable);
    } else {
      publish_group(r, g, publishable);
      publish_prompt_tail(r, g, publishable);
    }
  }
}

void CacheManager::publish_group(Request& r, GroupId group, std::uint64_t tokens) {
  const GroupConfig& config = config_.groups[group];
  GroupTable& table = r.groups[group];
  const std::uint32_t from = table.published.value_or(0);
  const auto to = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      std::min(tokens, hashed_tokens(r)) / config.block_size, table.blocks.size()));
  if (from >= to) return;
  const CacheMask mask = cache_mask(config_, config);
  const Boundaries boundaries =
      boundaries_of(resumption_of(config_), config, r.prompt_tokens, r.junction);
  Blocks blocks;
  std::vector<PrefixKey> keys;
  blocks.reserve(to - from);
  keys.reserve(to - from);
  for (std::uint32_t i = from; i < to; ++i) {
    const BlockId block = table.blocks[i];
    if (block == kNullBlock || !mask.keeps(i, boundaries)) continue;
    const PrefixKey own = key(r, group, (i + 1) * std::uint64_t{config.block_size});
    if (table.holds_other_state(i, own.prefix_tokens)) continue;
    const PrefixKey* carried = pool_.cache().key_of(block);
    if (carried != nullptr && carried->prefix_tokens >= own.prefix_tokens) continue;  // by a fork
    blocks.push_back(block);
    keys.push_back(own);
  }
  pool_.publish(group, blocks, keys, from * config.block_size, to * config.block_size);
  table.published = to;
}

// The full-attention block with the last complete hash unit of the prompt gets a key for the
// prompt, beside the key for the block.
void CacheManager::publish_prompt_tail(const Request& r, GroupId group, std::uint64_t tokens) {
  const GroupConfig& config = config_.groups[group];
  const std::uint32_t unit = config_.hash_block_size;
  const auto end = static_cast<std::uint32_t>(
      prompt_tail(config_.profile.prompt_tail, unit, config, r.prompt_tokens, hashed_tokens(r)));
  const std::size_t at = end / config.block_size;
  const Blocks& table = r.groups[group].blocks;
  if (end == 0 || end > tokens || at >= table.size() || table[at] == kNullBlock) return;
  const PrefixKey tail = key(r, group, end);
  const bool there =  // its own, or that of a relative that goes on otherwise
      std::ranges::any_of(pool_.cache().keys_of(table[at]),
                          [&](const PrefixKey& carried) { return carried.prefix_tokens == end; });
  if (there) return;
  pool_.publish(group, {table[at]}, {tail}, end - unit, end);
}

// States: those of whole blocks, and the one from which others can go on behind the prompt. Whoever
// finds a state that was published in this step has to wait until it is computed.
void CacheManager::publish_states(Request& r, GroupId group, std::uint64_t tokens) {
  GroupTable& table = r.groups[group];
  const std::uint32_t from = table.published.value_or(0);
  publish_group(r, group, tokens);
  const std::uint32_t to = table.published.value_or(0);
  if (table.checkpoint) {
    publish_checkpoint(r, group, *table.checkpoint, tokens);
  } else if (config_.profile.hits_inside_blocks && moves_state(config_.groups[group])) {
    publish_state_tail(r, group, tokens);
  }
  for (std::uint32_t i = from; i < to; ++i) {
    const PrefixKey* carried = pool_.cache().key_of(table.blocks[i]);
    if (carried != nullptr) new_states_.insert(*carried);
  }
}

// The running state, when it has come exactly to the boundary. If that lies inside its block, the
// request will overwrite it there, and the copy that is made before carries the key on.
void CacheManager::publish_state_tail(Request& r, GroupId group, std::uint64_t tokens) {
  const std::uint32_t block_size = config_.groups[group].block_size;
  const std::uint32_t unit = config_.hash_block_size;
  GroupTable& table = r.groups[group];
  const std::uint64_t end = state_boundary(resumption_of(config_), r.prompt_tokens, unit);
  if (tokens == 0 || tokens != end || end > hashed_tokens(r)) return;
  if (end % block_size != 0 && table.state_tokens != end) return;  // it has gone on
  const std::size_t at = ceil_div<std::uint64_t>(end, block_size) - 1;
  if (at >= table.blocks.size() || table.blocks[at] == kNullBlock) return;
  if (table.holds_other_state(at, end)) return;
  const PrefixKey own = key(r, group, end);
  const PrefixKey* carried = pool_.cache().key_of(table.blocks[at]);
  if (carried != nullptr && carried->prefix_tokens == own.prefix_tokens) return;
  pool_.publish(group, {table.blocks[at]}, {own}, own.prefix_tokens - unit, own.prefix_tokens);
  new_states_.insert(own);
  if (end % block_size == 0) return;
  table.tail = {at, table.blocks[at]};
  table.published = static_cast<std::uint32_t>(at);
}

// The block of the checkpoint holds the state at its boundary, whatever its position says.
void CacheManager::publish_checkpoint(Request& r, GroupId group, const Checkpoint& checkpoint,
                                      std::uint64_t tokens) {
  const GroupConfig& config = config_.groups[group];
  const BlockId block = r.groups[group].blocks[checkpoint.position];
  const Resumption rules = resumption_of(config_);
  const bool on_block = checkpoint.tokens % config.block_size == 0;
  const auto at = static_cast<std::uint32_t>(checkpoint.tokens / config.block_size);
  const bool wanted =
      checkpoint.tokens == state_boundary(rules, r.prompt_tokens, rules.hit_align) ||
      checkpoint.tokens == r.junction || (on_block && cache_mask(config_, config).keeps(at - 1));
  const PrefixKey* carried = pool_.cache().key_of(block);
  const bool there = carried != nullptr && carried->prefix_tokens == checkpoint.tokens;
  if (block == kNullBlock || (wanted && there)) return;
  pool_.evict({block});
  if (!wanted || checkpoint.tokens > std::min(tokens, hashed_tokens(r))) return;
  const PrefixKey own = key(r, group, checkpoint.tokens);
  pool_.publish(group, {block}, {own}, own.prefix_tokens - config_.hash_block_size,
                own.prefix_tokens);
  new_states_.insert(own);
}

// Last block first: the deeper a block, the fewer prompts can use it, the sooner it may be lost.
void CacheManager::release_tables(Request& r) {
  for (GroupTable& table : r.groups) {
    pool_.release({table.blocks.rbegin(), table.blocks.rend()});
    table = {};
  }
  r.hit_tokens = 0;
}

Result CacheManager::perform(const op::Fork& o) {
  request(o.req);
  expects(!requests_.contains(o.child), Breach::duplicate_request, "fork to a name in use");
  Request& parent = resident(o.req);
  for (const GroupConfig& group : config_.groups) {
    expects(group.kind != LayerKind::mamba, Breach::not_supported, "fork of a running state");
  }
  Request child = parent;
  child.hit_tokens = 0;
  for (GroupTable& table : child.groups) {
    table.hit.clear();
    pool_.touch(table.blocks);
  }
  requests_.emplace(o.child, std::move(child));
  return {};
}

Result CacheManager::perform(const op::Truncate& o) {
  Request& r = resident(o.req);
  const auto kept = [&](GroupId g) {
    return ceil_div<std::size_t>(o.tokens, config_.groups[g].block_size);
  };
  const auto fixed = [&](GroupId g) {  // states and encoder rows do not grow with tokens
    const LayerKind kind = config_.groups[g].kind;
    return !is_written_again(kind);
  };
  expects(o.tokens >= r.computed, Breach::published_tail, "truncate below the computed tokens");
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    expects(fixed(g) || kept(g) >= r.groups[g].published.value_or(0), Breach::published_tail,
            "truncate below the published blocks");
  }
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    Blocks& table = r.groups[g].blocks;
    if (fixed(g) || kept(g) >= table.size()) continue;
    const auto end = table.begin() + static_cast<std::ptrdiff_t>(kept(g));
    pool_.release({table.rbegin(), std::make_reverse_iterator(end)});
    table.erase(end, table.end());
  }
  return {};
}

Result CacheManager::perform(const op::Pin& o) {
  expects(!leases_.contains(o.lease), Breach::duplicate_lease, "pin under a lease in use");
  for (BlockId block : o.blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "pin of a block that cannot be held");
  }
  for (BlockId block : o.blocks) {
    expects(pool_.ref_cnt(block) > 0 || pool_.cache().key_of(block) != nullptr, Breach::no_content,
            "pin of a free block without content");
  }
  pool_.touch(o.blocks);
  leases_.emplace(o.lease, o.blocks);
  return {};
}

Result CacheManager::perform(const op::Unpin& o) {
  const auto at = leases_.find(o.lease);
  expects(at != leases_.end(), Breach::unknown_lease, "unpin of a lease that was not given");
  pool_.release({at->second.rbegin(), at->second.rend()});
  leases_.erase(at);
  return {};
}

Result CacheManager::perform(const op::Take& o) {
  if (o.n > pool_.num_free()) return Refused{};
  Blocks blocks = pool_.take(o.n);
  raw_.insert(raw_.end(), blocks.begin(), blocks.end());
  return Granted{{std::move(blocks)}};
}

Result CacheManager::perform(const op::Touch& o) {
  for (BlockId block : o.blocks) {
    expects(block != kNullBlock && block < pool_.num_blocks(), Breach::block_out_of_range,
            "touch of a block that cannot be held");
  }
  pool_.touch(o.blocks);
  raw_.insert(raw_.end(), o.blocks.begin(), o.blocks.end());
  return {};
}

Result CacheManager::perform(const op::Release& o) {
  Blocks left = raw_;
  for (BlockId block : o.blocks) {
    const auto at = std::find(left.begin(), left.end(), block);
    expects(at != left.end(), Breach::not_held,
            "release of a block that the raw owner does not hold");
    left.erase(at);
  }
  raw_ = std::move(left);
  pool_.release(o.blocks);
  return {};
}

}  // namespace kvproof::reference
