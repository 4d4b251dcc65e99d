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
  if (config.kind == LayerKind::mamba || config.kind == LayerKind::cross) return out;
  const std::size_t end = std::min<std::size_t>(
      ceil_div<std::uint64_t>(demand.slots, config.block_size), table.blocks.size());
  std::size_t at =
      std::max<std::size_t>(demand.computed / config.block_size, table.published.value_or(0));
  for (; at < end; ++at) {
    if (pool_.ref_cnt(table.blocks[at]) > 1) out.push_back(at);
  }
  return out;
}

// A relative may have published a block under the content that it wrote there, and left. The
// request writes the block anew, so that content goes.
void CacheManager::forget_relatives(const Request& r, GroupId group, const Demand& demand) {
  const GroupConfig& config = config_.groups[group];
  const GroupTable& table = r.groups[group];
  if (config.kind == LayerKind::mamba || config.kind == LayerKind::cross) return;
  const std::size_t end = std::min<std::size_t>(
      ceil_div<std::uint64_t>(demand.slots, config.block_size), table.blocks.size());
  std::size_t at =
      std::max<std::size_t>(demand.computed / config.block_size, table.published.value_or(0));
  for (; at < end; ++at) {
    const PrefixKey* carried = pool_.cache().key_of(table.blocks[at]);
    if (carried == nullptr) continue;
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
    const Blocks taken = layer_groups_[g].allocate(table, demand, pool_);
    fresh.insert(fresh.end(), taken.begin(), taken.end());
  }
  pool_.work().granted += pool_.work().taken - taken_before;
  return out;
}

void CacheManager::publish(Request& r, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const std::uint64_t known = std::min<std::uint64_t>(tokens, r.tokens.size());
  const std::uint64_t align = alignment(config_);
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    const std::uint64_t publishable =
        publishable_tokens(config_.profile, config_.groups[g], align, known);
    publish_group(r, g, publishable);
    publish_prompt_tail(r, g, publishable);
  }
}

void CacheManager::publish_group(Request& r, GroupId group, std::uint64_t tokens) {
  const GroupConfig& config = config_.groups[group];
  GroupTable& table = r.groups[group];
  const std::uint32_t from = table.published.value_or(0);
  const auto to = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(tokens / config.block_size, table.blocks.size()));
  if (from >= to) return;
  const CacheMask mask = cache_mask(config_, config);
  Blocks blocks;
  std::vector<PrefixKey> keys;
  blocks.reserve(to - from);
  keys.reserve(to - from);
  for (std::uint32_t i = from; i < to; ++i) {
    const BlockId block = table.blocks[i];
    if (block == kNullBlock || !mask.keeps(i)) continue;
    const PrefixKey own = key(r, group, i);
    const PrefixKey* carried = pool_.cache().key_of(block);
    if (carried != nullptr && carried->prefix_tokens >= own.prefix_tokens) continue;  // by a fork
    blocks.push_back(block);
    keys.push_back(own);
    if (config.kind == LayerKind::mamba) new_states_.insert(own);
  }
  pool_.publish(group, blocks, keys, from * config.block_size, to * config.block_size);
  table.published = to;
}

// The full-attention block with the last complete hash unit of the prompt gets a key for the
// prompt, beside the key for the block.
void CacheManager::publish_prompt_tail(const Request& r, GroupId group, std::uint64_t tokens) {
  const GroupConfig& config = config_.groups[group];
  if (!config_.profile.prompt_tail_keys || !reads_all(config.kind)) return;
  const std::uint32_t unit = config_.hash_block_size;
  const auto end = static_cast<std::uint32_t>(r.prompt_tokens - r.prompt_tokens % unit);
  const std::size_t at = end / config.block_size;
  const Blocks& table = r.groups[group].blocks;
  if (end == 0 || end > tokens || end % config.block_size == 0 || at >= table.size()) return;
  const PrefixKey tail{group, r.contents[end / unit - 1], end};
  if (std::ranges::count(pool_.cache().keys_of(table[at]), tail) > 0) return;
  pool_.publish(group, {table[at]}, {tail}, end - unit, end);
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
    return kind == LayerKind::mamba || kind == LayerKind::cross;
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
