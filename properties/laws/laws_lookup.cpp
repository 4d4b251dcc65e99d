// SPDX-License-Identifier: Apache-2.0
// The law of lookups: what may be answered, and what an admission does with it.
#include <algorithm>

#include "properties/laws/law_checks.h"
#include "reference/layer_rules.h"

namespace kvproof::properties::law {
namespace {

const IndexEntry* find_entry(const Snapshot& state, GroupId group, std::uint64_t key) {
  const auto at = std::ranges::find_if(
      state.index, [&](const IndexEntry& e) { return e.group == group && e.key == key; });
  return at != state.index.end() ? &*at : nullptr;
}

Finding check_position(const Step& step, const RequestState& r, GroupId group, std::size_t i,
                       BlockId block, std::uint64_t skipped) {
  if (block == kNullBlock) {
    const std::uint64_t end = (i + 1) * std::uint64_t{step.config.groups[group].block_size};
    if (end <= skipped) return std::nullopt;
    return say("position ", i, " of the hit of ", r.name, " in group ", group,
               " is null, although the group still reads it");
  }
  const auto key = own_key(step, r, group, i);
  const IndexEntry* entry = key ? find_entry(step.after, group, *key) : nullptr;
  if (entry == nullptr || std::ranges::find(entry->blocks, block) == entry->blocks.end()) {
    return say("position ", i, " of the hit of ", r.name, " in group ", group, " is block ", block,
               ", which is not published for it");
  }
  if (entry->blocks.front() != block) {
    return say("position ", i, " of the hit of ", r.name, " in group ", group, " is block ", block,
               "; the oldest copy is block ", entry->blocks.front());
  }
  return std::nullopt;
}

// Of one full-attention group the longest prefix is plain to see. EAGLE gives up its last block.
Finding check_longest(const Step& step, const RequestState& r, const Hit& hit, std::size_t limit) {
  if (step.config.groups.size() != 1 || !reads_all(step.config.groups.front().kind)) {
    return std::nullopt;
  }
  std::size_t published = 0;
  while (published < limit && published < r.hashes.size() &&
         find_entry(step.after, 0, r.hashes[published]) != nullptr) {
    ++published;
  }
  const bool drops = step.config.groups.front().eagle && published > 0;
  const std::size_t longest = published - (drops ? 1 : 0);
  const std::size_t found = hit.blocks.front().size();
  if (found == longest) return std::nullopt;
  return say("the hit of ", r.name, " has ", found, " blocks; ", published,
             " of them are published in a row, which makes ", longest);
}

Finding check_hit(const Step& step, const RequestState& r, const Hit& hit) {
  const RequestRecord* record = record_of(step, r);
  if (hit.blocks.size() != step.config.groups.size()) {
    return say("the hit of ", r.name, " lists ", hit.blocks.size(), " groups");
  }
  const bool may_hit = step.config.enable_caching && record != nullptr && !record->skip_lookup;
  const std::uint64_t limit = may_hit && r.num_tokens > 0 ? r.num_tokens - 1 : 0;
  if (hit.hit_tokens > limit || hit.hit_tokens % step.history.align != 0) {
    return say("the hit of ", r.name, " has ", hit.hit_tokens, " tokens; at most ", limit,
               " of its ", r.num_tokens, ", in multiples of ", step.history.align,
               ", may be found");
  }
  for (GroupId g = 0; g < hit.blocks.size(); ++g) {
    const GroupConfig& group = step.config.groups[g];
    const std::vector<BlockId>& blocks = hit.blocks[g];
    if (blocks.size() * std::uint64_t{group.block_size} != hit.hit_tokens) {
      return say("the hit of ", r.name, " is said to be ", hit.hit_tokens,
                 " tokens long but does not list as many blocks in group ", g);
    }
    const std::uint64_t skipped = skipped_tokens(group, hit.hit_tokens);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (auto finding = check_position(step, r, g, i, blocks[i], skipped)) return finding;
    }
  }
  return may_hit ? check_longest(step, r, hit, limit / step.config.groups.front().block_size)
                 : std::nullopt;
}

Finding check_admitted_group(const Step& step, const RequestState& r, GroupId group,
                             const std::vector<BlockId>& hit, std::uint64_t skipped) {
  const std::vector<BlockId>& table = table_of(r, group);
  for (std::size_t i = 0; i < hit.size(); ++i) {
    const BlockId block = i < skipped ? kNullBlock : hit[i];
    if (i >= table.size() || table[i] != block) {
      return say("position ", i, " of ", r.name, " in group ", group, " is not block ", block,
                 " that its lookup found");
    }
    if (block == kNullBlock) continue;
    if (block >= step.after.blocks.size())
      return say("position ", i, " of ", r.name, " is no block of the pool");
    const BlockState& state = step.after.blocks[block];
    if (state.ref_cnt < 1)
      return say("block ", block, " of the prefix of ", r.name, " is held by nobody");
    if (!state.hashed || state.group != group || own_key(step, r, group, i) != state.key) {
      return say("block ", block, " was admitted at position ", i, " of ", r.name,
                 " without carrying its content");
    }
  }
  return std::nullopt;
}

// The blocks of an admitted prefix are the ones looked up, held, and still carry their content;
// those that the group has skipped with external tokens are null.
Finding check_admitted(const Step& step) {
  const auto& asked = step.history.asked;
  const RequestState* was = own_before(step);
  const RequestState* r = own_after(step);
  const RequestRecord* record = own_record(step);
  if (was == nullptr || r == nullptr || record == nullptr || !asked || !asked->uses_hit) {
    return std::nullopt;
  }
  if (!without_blocks(*was)) {
    return say("a prefix was handed to ", r->name, ", which already had blocks");
  }
  for (GroupId g = 0; g < record->hit.blocks.size() && g < asked->groups.size(); ++g) {
    const std::uint64_t skipped = asked->groups[g].skipped;
    if (auto finding = check_admitted_group(step, *r, g, record->hit.blocks[g], skipped)) {
      return finding;
    }
  }
  return std::nullopt;
}

}  // namespace

Finding lookup_contract(const Step& step) {
  if (std::holds_alternative<op::Lookup>(step.operation)) {
    const RequestState* r = own_after(step);
    const auto* hit = std::get_if<Hit>(&step.outcome.result);
    return r != nullptr && hit != nullptr ? check_hit(step, *r, *hit) : std::nullopt;
  }
  if (std::holds_alternative<op::Allocate>(step.operation) &&
      std::holds_alternative<Granted>(step.outcome.result)) {
    return check_admitted(step);
  }
  return std::nullopt;
}

}  // namespace kvproof::properties::law
