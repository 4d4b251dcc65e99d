// SPDX-License-Identifier: Apache-2.0
// Reads the slots: what each request must find through the tables that the subject shows.
#include <algorithm>

#include "properties/shadow/content_oracle.h"

namespace kvproof::properties {
const ContentOracle::Tables& ContentOracle::tables_of(const Request& r,
                                                      const RequestState& state) const {
  return r.reads_host() ? state.host_tables : state.tables;
}

// Each encoder has rows of its own.
Identity ContentOracle::identity_of(const Request& r, GroupId group, std::uint64_t position) const {
  if (config_.groups[group].kind == LayerKind::cross) {
    return in_group(link(link(kEmptyPrefix, r.encoder), position), group);
  }
  return in_group(contiguous_.rows(r.name)[position], group);
}

// Behind its tokens lie drafts.
ContentOracle::Slot ContentOracle::slot_of(const Request& r, GroupId group,
                                           std::uint64_t position) {
  return {position < r.num_tokens ? identity_of(r, group, position) : draft(),
          static_cast<std::uint32_t>(position), r.id};
}

// @param offset in the block; 0 for a state
Finding ContentOracle::check_row(const Request& r, GroupId group, std::uint64_t position,
                                 const std::vector<BlockId>& table, std::uint64_t offset,
                                 const TierSlots& slots) {
  const std::uint64_t block_size = config_.groups[group].block_size;
  const std::uint64_t index = position / block_size;
  const bool on_host = &slots == &host_;
  const char* tier = on_host ? " of the host tier" : "";
  if (index >= table.size()) {
    return say("request ", Named{r.name}, " must read position ", TokenPosition{position},
               " in group ", group, ", its table", tier, " ends after ", table.size() * block_size,
               " tokens");
  }
  const BlockId block = table[index];
  if (block == kNullBlock) {
    return say("request ", Named{r.name}, " must read position ", TokenPosition{position},
               " in group ", group, ", and there is no block", tier, " for it");
  }
  if (!slots.has(block))
    return say("request ", Named{r.name}, " reads block ", TierBlock{block, on_host}, tier,
               " of no pool");
  const Slot& slot = slots.of(block)[offset];
  if (slot.identity == identity_of(r, group, position)) return std::nullopt;
  const bool own = slot.writer == r.id && slot.at == position;
  return say("request ", Named{r.name}, " reads position ", TokenPosition{position}, " from block ",
             TierBlock{block, on_host}, tier, " offset ", offset, ", which holds ",
             slot.writer == Slot::kNobody ? "poison"
             : own                        ? "its own rejected draft"
                                          : say("position ", slot.at, " of ", names_[slot.writer]));
}

Finding ContentOracle::check_range(const Request& r, GroupId group, std::uint64_t from,
                                   std::uint64_t to, const std::vector<BlockId>& table,
                                   const TierSlots& tier) {
  if (from >= to) return std::nullopt;
  const GroupConfig& rules = config_.groups[group];
  const std::uint64_t block_size = rules.block_size;
  const bool tokens = rules.kind != LayerKind::cross;
  const Identity* const chain = tokens ? contiguous_.rows(r.name) : nullptr;
  for (std::uint64_t position = from; position < to;) {
    const std::uint64_t begin = position - position % block_size;
    const std::uint64_t stop = std::min(to, begin + block_size);
    const auto slots = slots_of(tier, table, begin / block_size);
    for (; position < stop; ++position) {
      const bool right = !slots.empty() && slots[position - begin].identity ==
                                               (tokens ? in_group(chain[position], group)
                                                       : identity_of(r, group, position));
      if (!right) return check_row(r, group, position, table, position - begin, tier);
    }
  }
  return std::nullopt;
}

// Each token that is read has a slot; a state has the first one of the block of its last token.
Finding ContentOracle::check_reads(const Request& r, GroupId group, const Progress& now,
                                   const std::vector<BlockId>& table, const TierSlots& tier) {
  const Reads reads = reads_of(config_.groups[group], now);
  if (config_.groups[group].kind == LayerKind::mamba) {
    return reads.to > 0 ? check_row(r, group, reads.from, table, 0, tier) : std::nullopt;
  }
  if (Finding finding = check_range(r, group, 0, reads.kept, table, tier)) return finding;
  return check_range(r, group, reads.from, reads.to, table, tier);
}

Finding ContentOracle::check_request(const Request& r, const RequestState& state) {
  static const std::vector<BlockId> kNone;
  const Tables& tables = tables_of(r, state);
  const Progress now{r.processed, r.written, r.prompt_tokens, r.granted ? r.encoder_tokens : 0};
  const bool state_known = r.last_state == r.written && r.reach <= r.written;
  for (GroupId g = 0; g < config_.groups.size(); ++g) {
    if (config_.groups[g].kind == LayerKind::mamba && !state_known) continue;
    if (Finding finding =
            check_reads(r, g, now, g < tables.size() ? tables[g] : kNone, tier_of(r))) {
      return finding;
    }
  }
  return std::nullopt;
}

// Whoever reads under a lease reads what was there when it was given.
Finding ContentOracle::check_leases() const {
  for (const Leased& held : leased_) {
    for (std::uint32_t i = 0; i < held.slots.size(); ++i) {
      const Slot& slot = device_.of(held.block)[i];
      const bool empty = held.slots[i].writer == Slot::kNobody;  // on its way, or never computed
      if (empty || slot.identity == held.slots[i].identity) continue;
      return say("block ", held.block, " offset ", i, " was written while lease ", held.lease,
                 " holds it",
                 slot.writer == Slot::kNobody ? "" : say(", by ", names_[slot.writer]));
    }
  }
  return std::nullopt;
}

// The blocks that a lookup promises must hold their rows already.
Finding ContentOracle::check_hit(const Request& r, const Hit& hit) {
  if (hit.hit_tokens > r.num_tokens)
    return say("a hit of ", hit.hit_tokens, " tokens for ", Named{r.name}, " with ", r.num_tokens);
  if (hit.hit_tokens == 0) return std::nullopt;
  if (hit.blocks.size() != config_.groups.size()) {
    return say("a hit of ", hit.hit_tokens, " tokens without blocks for ", Named{r.name});
  }
  // A hit is read on the device, even if the request's own blocks are not.
  const Progress now{hit.hit_tokens, hit.hit_tokens, hit.hit_tokens, 0};
  for (GroupId g = 0; g < hit.blocks.size(); ++g) {
    if (Finding finding = check_reads(r, g, now, hit.blocks[g], device_)) return finding;
  }
  return std::nullopt;
}

}  // namespace kvproof::properties
