// SPDX-License-Identifier: Apache-2.0
// Reads the shadow store: what each request must find through the tables that the subject shows.
#include <algorithm>

#include "properties/shadow/content_oracle.h"
#include "reference/layer_rules.h"
#include "reference/mix64.h"

namespace kvproof::properties {
const ContentOracle::Tables& ContentOracle::tables_of(const Request& r,
                                                      const RequestState& state) const {
  return r.on_host ? state.host_tables : state.tables;
}

bool ContentOracle::reads_tokens(GroupId group) const {
  const LayerKind kind = config_.groups[group].kind;
  return is_written_again(kind);  // a ring is overwritten by its own request alone
}

std::uint64_t ContentOracle::digest_of(const Request& r, GroupId group,
                                       std::uint64_t position) const {
  if (config_.groups[group].kind == LayerKind::cross) {
    return of_group(mix64(mix64(r.encoder) + position), group);
  }
  return of_group(contiguous_.rows(r.name)[position], group);
}

void ContentOracle::write_encoder_rows(const Request& r, const Tables& tables) {
  for (GroupId g = 0; g < tables.size() && g < config_.groups.size(); ++g) {
    if (config_.groups[g].kind != LayerKind::cross) continue;
    const std::uint32_t block_size = config_.groups[g].block_size;
    for (std::uint32_t i = 0; i < r.encoder_tokens && i / block_size < tables[g].size(); ++i) {
      const BlockId block = tables[g][i / block_size];
      if (device_.has(block)) device_.row(block, i % block_size) = {digest_of(r, g, i), r.id, i};
    }
  }
}

// @param offset in the block; 0 for a state
Finding ContentOracle::check_row(const Request& r, GroupId group, std::uint64_t position,
                                 const std::vector<BlockId>& table, std::uint64_t offset) {
  const std::uint64_t block_size = config_.groups[group].block_size;
  const std::uint64_t index = position / block_size;
  const ShadowStore& store = store_of(r);
  const char* tier = r.on_host ? " of the host tier" : "";
  if (index >= table.size()) {
    return say("request ", r.name, " must read position ", position, " in group ", group,
               ", its table", tier, " ends after ", table.size() * block_size, " tokens");
  }
  const BlockId block = table[index];
  if (block == kNullBlock) {
    return say("request ", r.name, " must read position ", position, " in group ", group,
               ", and there is no block", tier, " for it");
  }
  if (!store.has(block))
    return say("request ", r.name, " reads block ", block, tier, " of no pool");
  const Row& row = store.row(block, offset);
  if (row.digest == digest_of(r, group, position)) return std::nullopt;
  const bool own = row.writer == r.id && row.position == position;
  return say("request ", r.name, " reads position ", position, " from block ", block, tier,
             " offset ", offset, ", which holds ",
             row.writer == Row::kNobody ? "poison"
             : own                      ? "its own rejected draft"
                   : say("position ", row.position, " of ", names_[row.writer]));
}

Finding ContentOracle::check_range(const Request& r, GroupId group, std::uint64_t from,
                                   std::uint64_t to, const std::vector<BlockId>& table) {
  if (from >= to) return std::nullopt;
  const std::uint64_t block_size = config_.groups[group].block_size;
  const bool tokens = reads_tokens(group);
  const std::uint64_t* rows = tokens ? contiguous_.rows(r.name) : nullptr;
  const ShadowStore& store = store_of(r);
  std::uint64_t index = from / block_size;
  std::uint64_t offset = from % block_size;
  for (std::uint64_t position = from; position < to; ++position, ++offset) {
    if (offset == block_size) {
      offset = 0;
      ++index;
    }
    const bool right =
        index < table.size() && store.has(table[index]) &&
        store.row(table[index], offset).digest ==
            (tokens ? of_group(rows[position], group) : digest_of(r, group, position));
    if (!right) return check_row(r, group, position, table, offset);
  }
  return std::nullopt;
}

// What later tokens still read. R-SWA reads the prompt, and a window behind it.
Finding ContentOracle::check_read(const Request& r, GroupId group,
                                  const std::vector<BlockId>& table) {
  const GroupConfig& rules = config_.groups[group];
  std::uint64_t from = skipped_tokens(rules, r.processed);
  if (rules.kind == LayerKind::rswa) {
    const std::uint64_t window = r.processed > rules.window ? r.processed - rules.window : 0;
    const std::uint64_t prompt = std::min<std::uint64_t>(r.prompt_tokens, r.written);
    if (Finding finding = check_range(r, group, 0, prompt, table)) return finding;
    from = std::max(prompt, window);
  }
  return check_range(r, group, from, r.written, table);
}

Finding ContentOracle::check_request(const Request& r, const RequestState& state) {
  static const std::vector<BlockId> kNone;
  const Tables& tables = tables_of(r, state);
  for (GroupId g = 0; g < config_.groups.size(); ++g) {
    const std::vector<BlockId>& table = g < tables.size() ? tables[g] : kNone;
    const GroupConfig& group = config_.groups[g];
    Finding finding;
    if (reads_tokens(g)) {
      finding = check_read(r, g, table);
    } else if (group.kind == LayerKind::cross && r.granted) {
      finding = check_range(r, g, 0, r.encoder_tokens, table);
    } else if (group.kind == LayerKind::mamba && r.written > 0 && r.last_state == r.written &&
               r.reach <= r.written) {
      finding = check_row(r, g, r.written - 1, table, 0);
    }
    if (finding) return finding;
  }
  return std::nullopt;
}

// Whoever reads under a lease reads what was there when it was given.
Finding ContentOracle::check_leases() const {
  for (const Leased& held : leased_) {
    for (std::uint32_t i = 0; i < held.rows.size(); ++i) {
      const Row& row = device_.row(held.block, i);
      const bool empty = held.rows[i].writer == Row::kNobody;  // on its way, or never computed
      if (empty || row.digest == held.rows[i].digest) continue;
      return say("block ", held.block, " offset ", i, " was written while lease ", held.lease,
                 " holds it", row.writer == Row::kNobody ? "" : say(", by ", names_[row.writer]));
    }
  }
  return std::nullopt;
}

// The blocks that a lookup promises must hold their rows already.
Finding ContentOracle::check_hit(const Request& r, const Hit& hit) {
  if (hit.hit_tokens > r.num_tokens)
    return say("a hit of ", hit.hit_tokens, " tokens for ", r.name, " with ", r.num_tokens);
  if (hit.hit_tokens == 0) return std::nullopt;
  if (hit.blocks.size() != config_.groups.size()) {
    return say("a hit of ", hit.hit_tokens, " tokens without blocks for ", r.name);
  }
  Request reader = r;  // a hit is read on the device, even if the request's own blocks are not
  reader.on_host = false;
  for (GroupId g = 0; g < hit.blocks.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    const Finding finding = reads_tokens(g)
                                ? check_range(reader, g, skipped_tokens(group, hit.hit_tokens),
                                              hit.hit_tokens, hit.blocks[g])
                            : group.kind == LayerKind::mamba
                                ? check_row(reader, g, hit.hit_tokens - 1, hit.blocks[g], 0)
                                : std::nullopt;
    if (finding) return finding;
  }
  return std::nullopt;
}

}  // namespace kvproof::properties
