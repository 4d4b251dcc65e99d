// SPDX-License-Identifier: Apache-2.0
// Slots by themselves: what an operation on an allocator does to them beside the rows of a step.
#include <algorithm>

#include "properties/shadow/judge.h"
#include "reference/trace_json.h"

namespace kvproof::live {

void Judge::clear(Place at) {
  if (is_null(at.block) || at.block >= header_.tiers[at.tier].blocks) return;
  Block& block = shadow_.block(at);
  if (block.readers + block.writers > 0) {
    scratch_.assign(shadow_.slots(at).size(), kUnwritten);
    check_users(at, 0, scratch_, {0, std::nullopt, 0, Did::taken});
  }
  if (block.holders > 0) ++disturbed_;
  std::ranges::fill(shadow_.slots(at), Slot{});
  ++block.version;
  block.note(event_, Did::taken);
}

Slot* Judge::slot_of(const Part& part, std::uint32_t position) {
  const std::uint32_t size = header_.groups[part.group].block_size;
  if (position / size >= part.table.size()) return nullptr;
  const BlockId block = part.table[position / size];
  if (is_null(block) || block >= header_.tiers[part.tier].blocks) return nullptr;
  return &shadow_.slots({part.tier, block})[position % size];
}

void Judge::know(const Part& part) {
  const std::vector<Identity>& chain = asked_[part.request].chain;
  for (std::uint32_t p = part.from; p < part.to && p < chain.size(); ++p) {
    Slot* slot = slot_of(part, p);
    if (slot == nullptr) continue;
    *slot = {in_group(chain[p], part.group), event_, part.request};
    const BlockId id = part.table[p / header_.groups[part.group].block_size];
    Block& block = shadow_.block({part.tier, id});
    ++block.version;
    if (block.holders > 1) ++disturbed_;
  }
}

void Judge::look(LawId law, const Part& part) {
  const Asked& asked = asked_[part.request];
  ++counts_[law].evaluated;
  for (std::uint32_t p = part.from; p < part.to; ++p) {
    const Slot* slot = slot_of(part, p);
    const bool known = p < asked.chain.size();
    if (slot != nullptr && known && slot->identity == in_group(asked.chain[p], part.group))
      continue;
    std::optional<Place> at;
    if (slot != nullptr) {
      at = Place{part.tier, part.table[p / header_.groups[part.group].block_size]};
    }
    return report(
        law, {&asked, at, slot, p}, "must be read in group ", part.group, ", and ",
        slot == nullptr ? "the table names no block for it" : "its slot holds something else");
  }
}

}  // namespace kvproof::live
