// SPDX-License-Identifier: Apache-2.0
// The fault host's block hashes, and how blocks are published under them.
#include <algorithm>
#include <utility>

#include "properties/mutants/fault_host.h"
#include "reference/layer_rules.h"
#include "reference/mix64.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

constexpr std::uint64_t kSeed = 0x6b7670726f6f66U;

bool overlaps(const MultimodalItem& item, std::uint32_t start, std::uint32_t end) {
  return item.offset < end && std::uint64_t{item.offset} + item.length > start;
}

std::string tail_of(const std::string& id) { return id.size() > 4 ? id.substr(id.size() - 4) : id; }

std::string without_version(const std::string& adapter) {
  return adapter.substr(0, adapter.find('@'));
}

}  // namespace

void FaultHost::extend_hashes(Sequence& s) const {
  if (!config_.enable_caching) return;
  const std::uint32_t unit = config_.hash_block_size;
  const std::uint64_t seed = kSeed + (is("hash_seeded_per_request") ? s.salt : 0);
  while ((s.hashes.size() + 1) * unit <= s.tokens.size()) {
    const auto start = static_cast<std::uint32_t>(s.hashes.size()) * unit;
    s.hashes.push_back(hash_unit(s.hashes.empty() ? seed : s.hashes.back(), s, start, false));
    const std::uint64_t parent = s.tier_hashes.empty() ? kSeed : s.tier_hashes.back();
    s.tier_hashes.push_back(hash_unit(parent, s, start, true));
  }
}

/// @param tier the hash that the other tier computes, which does not know the engine's keys
std::uint64_t FaultHost::hash_unit(std::uint64_t parent, const Sequence& s, std::uint32_t start,
                                   bool tier) const {
  std::uint64_t hash = parent;
  const auto add = [&](std::uint64_t value) { hash = mix64(hash * 31 + value + 1); };
  const auto add_text = [&](const char tag, const std::string& text) {
    if (!is("hash_untagged")) add(static_cast<unsigned char>(tag));
    for (char c : text) add(static_cast<unsigned char>(c));
    add(text.size());
  };
  const std::uint32_t end = start + config_.hash_block_size;
  for (std::uint32_t i = start; i < end; ++i) add(static_cast<std::uint32_t>(s.tokens[i]));
  if (tier && is("tier_key_of_tokens_only")) return hash;
  const bool no_adapter =
      is("hash_without_adapter") ||
      (tier && (is("tier_key_without_adapter") || is("first_block_found_by_tokens")));
  if (!s.extra.lora.empty() && !no_adapter) {
    const bool versioned = !is("hash_without_adapter_version");
    add_text('L', versioned ? s.extra.lora : without_version(s.extra.lora));
  }
  for (const MultimodalItem& item : s.extra.mm) {
    if (!overlaps(item, start, end) || is("hash_without_images")) continue;
    add_text('M', is("hash_shortens_image_ids") ? tail_of(item.id) : item.id);
    if (!is("hash_without_image_offset")) add(std::uint64_t{item.offset} - start);
  }
  for (const MultimodalItem& item : s.extra.embeds) {
    if (!overlaps(item, start, end)) continue;
    add_text(is("hash_embeds_as_images") ? 'M' : 'E', item.id);
    add(std::uint64_t{item.offset} - start);
  }
  const bool first = start == 0;
  if (first && !s.extra.salt.empty() && !is("hash_without_salt")) add_text('S', s.extra.salt);
  const bool no_layout = tier && is("tier_key_without_layout");
  if (first && !s.extra.layout.empty() && !no_layout) add_text('D', s.extra.layout);
  return is("hash_truncated") ? hash & 0x3f : hash;
}

// A block is named by the hash of its last unit, which stands for the whole prefix.
FaultHostKey FaultHost::key(const Sequence& s, GroupId group, std::size_t position) const {
  const std::uint32_t block_size = config_.groups[group].block_size;
  const std::size_t tokens = (position + 1) * block_size;
  const std::size_t unit = tokens / config_.hash_block_size - 1;
  const std::size_t before = block_size / config_.hash_block_size;
  const std::uint64_t parent = unit >= before ? s.hashes[unit - before] : 0;
  return {group, s.hashes[unit], s.tier_hashes[unit], parent, static_cast<std::uint32_t>(tokens)};
}

Result FaultHost::run(const op::Cache& o) {
  Sequence& s = resident(o.req);
  publish(s, o.computed);
  if (is("cache_adds_reference")) pool_.touch(s.tables.front().blocks);
  return {};
}

void FaultHost::publish(Sequence& s, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const std::uint64_t known = std::min<std::uint64_t>(tokens, s.tokens.size());
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    publish_group(
        s, g, publishable_tokens(config_.profile, config_.groups[g], alignment(config_), known));
  }
}

void FaultHost::publish_group(Sequence& s, GroupId group, std::uint64_t tokens) {
  const GroupConfig& config = config_.groups[group];
  Table& table = s.tables[group];
  const std::uint32_t from = table.cached.value_or(0);
  const auto to = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(tokens / config.block_size, table.blocks.size()));
  if (from >= to) return;
  CacheMask mask = cache_mask(config_, config);
  if (is("mask_by_own_blocks") && mask.period > mask.run) mask.shift += 1;
  event::Stored stored{group, from * config.block_size, to * config.block_size, {}};
  for (std::uint32_t i = from; i < to; ++i) {
    if (!mask.keeps(i) || !publish_block(s, group, i)) continue;
    stored.blocks.push_back({table.blocks[i], (i + 1) * config.block_size});
    const bool state = config.kind == LayerKind::mamba;
    if (state) new_states_.insert({group, key(s, group, i).hash});
    if (is("publish_evicts_own_chain") && i > 1 && pool_.free().size() < 2) {
      pool_.unpublish(table.blocks[0]);  // as if publishing had to make room for itself
    }
  }
  pool_.events().emplace_back(std::move(stored));
  table.cached = to;
}

/// @return whether the block at this position carries a new key now
bool FaultHost::publish_block(Sequence& s, GroupId group, std::uint32_t position) {
  const BlockId block = s.tables[group].blocks[position];
  if (block == kNullBlock && !is("publish_recycled")) return false;
  const FaultHostKey own = key(s, group, position);
  if (pool_[block].hashed && !is("publish_again_after_relative")) return false;
  const std::optional<BlockId> copy = pool_.find(group, own.hash);
  if (copy && *copy != block) {
    if (is("index_holds_one_block")) return true;  // "already there"
    if (is("publish_frees_duplicate")) {
      pool_.release({block});
      return false;
    }
    for (auto& [name, other] : sequences_) {
      if (!is("publish_replaces_holders")) break;
      std::replace(other.tables[group].blocks.begin(), other.tables[group].blocks.end(), *copy,
                   block);
    }
  }
  pool_.publish(block, own);
  if (is("index_lists_block_twice") && position > 0) {
    FaultHostKey again = own;
    again.hash = own.parent;
    pool_.publish(block, again);
    pool_[block].key = own;
  }
  return true;
}

}  // namespace kvproof::properties
