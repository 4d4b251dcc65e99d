// SPDX-License-Identifier: Apache-2.0
// The law of lookups: which answers are right, and how an admission uses the answer.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties::law {
namespace {

const IndexEntry* find_entry(const Snapshot& state, GroupId group, std::uint64_t key) {
  const auto at = std::ranges::find_if(
      state.index, [&](const IndexEntry& e) { return e.group == group && e.key == key; });
  return at != state.index.end() ? &*at : nullptr;
}

/// The longest possible hit: the last token is always computed. [tokens]
std::uint64_t most_tokens(const Step& step, const RequestState& r) {
  const RequestRecord* record = record_of(step, r);
  const bool may_hit = step.config.enable_caching && record != nullptr && !record->skip_lookup;
  if (!may_hit || r.num_tokens == 0) return 0;
  const auto* lookup = std::get_if<op::Lookup>(&step.operation);
  const std::uint32_t bound = lookup != nullptr ? lookup->max_tokens.value_or(~0U) : ~0U;
  return std::min(r.num_tokens - 1, bound);
}

Finding check_position(const Step& step, const RequestState& r, GroupId group, std::size_t i,
                       BlockId block, std::uint64_t skipped, std::uint64_t hit_tokens) {
  if (block == kNullBlock) {
    const std::uint64_t end = (i + 1) * std::uint64_t{step.config.groups[group].block_size};
    if (end <= skipped) return std::nullopt;
    return say("position ", TableEntry{i}, " of the hit of ", Named{r.name}, " in group ", group,
               " is null, although the group still reads it");
  }
  const IndexEntry* entry = nullptr;  // the first under which it may have been found
  for (const IndexEntry& e : step.after.index) {
    if (e.group != group || !is_found_key(step, r, group, i, hit_tokens, e.key)) continue;
    if (entry == nullptr || e.blocks.front() == block) entry = &e;
  }
  if (entry == nullptr || std::ranges::find(entry->blocks, block) == entry->blocks.end()) {
    return say("position ", TableEntry{i}, " of the hit of ", Named{r.name}, " in group ", group,
               " is block ", block, ", which is not published for it");
  }
  const auto is_free = [&](BlockId b) {
    return b < step.after.blocks.size() && step.after.blocks[b].ref_cnt == 0;
  };
  const auto free = step.history.promises->traits.free_first()
                        ? std::ranges::find_if(entry->blocks, is_free)
                        : entry->blocks.end();
  const BlockId first = free != entry->blocks.end() ? *free : entry->blocks.front();
  if (first != block) {
    return say(
        "position ", TableEntry{i}, " of the hit of ", Named{r.name}, " in group ", group,
        " is block ", block,
        free != entry->blocks.end() ? "; a free copy is block " : "; the oldest copy is block ",
        first);
  }
  return std::nullopt;
}

Finding check_hit(const Step& step, const RequestState& r, const Hit& hit) {
  if (hit.blocks.size() != step.config.groups.size()) {
    return say("the hit of ", Named{r.name}, " lists ", hit.blocks.size(), " groups");
  }
  const std::uint64_t limit = most_tokens(step, r);
  if (hit.hit_tokens > limit || hit.hit_tokens % step.history.resumption.hit_align != 0) {
    return say("the hit of ", Named{r.name}, " has ", hit.hit_tokens, " tokens; at most ", limit,
               " of its ", r.num_tokens, ", in multiples of ", step.history.resumption.hit_align,
               ", may be found");
  }
  for (GroupId g = 0; g < hit.blocks.size(); ++g) {
    const GroupConfig& group = step.config.groups[g];
    const std::vector<BlockId>& blocks = hit.blocks[g];
    if (!is_cacheable(group.kind) && blocks.empty()) continue;
    if (blocks.size() != ceil_div<std::uint64_t>(hit.hit_tokens, group.block_size)) {
      return say("the hit of ", Named{r.name}, " is said to be ", hit.hit_tokens,
                 " tokens long but does not list as many blocks in group ", g);
    }
    const std::uint64_t skipped = skipped_tokens(group, hit.hit_tokens);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (auto finding = check_position(step, r, g, i, blocks[i], skipped, hit.hit_tokens)) {
        return finding;
      }
    }
  }
  return std::nullopt;
}

Finding check_admitted_group(const Step& step, const RequestState& r, GroupId group,
                             const FoundPrefix& found, std::uint64_t skipped) {
  const std::vector<BlockId>& hit = found.blocks[group];
  const std::vector<BlockId>& table = table_of(r, group);
  for (std::size_t i = 0; i < hit.size(); ++i) {
    BlockId block = i < skipped ? kNullBlock : hit[i];
    const auto& copy = step.history.tail_copies[group];
    if (copy && i + 1 == hit.size() && i < table.size() && *copy == Copy{hit[i], table[i]})
      continue;
    const bool moved = i < table.size() && table[i] != block && overtaken(step, block);
    if (moved) block = table[i];  // to the copy that has its key now
    if (i >= table.size() || table[i] != block) {
      return say("position ", TableEntry{i}, " of ", Named{r.name}, " in group ", group,
                 " is not block ", block, " that its lookup found");
    }
    if (block == kNullBlock) continue;
    if (block >= step.after.blocks.size())
      return say("position ", TableEntry{i}, " of ", Named{r.name}, " is no block of the pool");
    const BlockState& state = step.after.blocks[block];
    if (state.ref_cnt < 1)
      return say("block ", block, " of the prefix of ", Named{r.name}, " is held by nobody");
    if (!carries_found_key(step, step.after, r, group, i, found.tokens, block)) {
      const bool had = carries_found_key(step, step.before, r, group, i, found.tokens, block);
      return say("block ", block, " was admitted at position ", TableEntry{i}, " of ",
                 Named{r.name},
                 had ? ", and the key of its content vanished at this admission"
                     : " without carrying its content");
    }
  }
  return std::nullopt;
}

// The blocks of an admitted prefix are those that the lookup found; they are held and still carry
// their content. Positions that the group has skipped with external tokens are null.
Finding check_admitted(const Step& step) {
  const auto& asked = step.history.asked;
  const RequestState* was = own_before(step);
  const RequestState* r = own_after(step);
  const RequestRecord* record = own_record(step);
  if (was == nullptr || r == nullptr || record == nullptr || !asked || !asked->uses_hit) {
    return std::nullopt;
  }
  if (!without_blocks(*was)) {
    return say("a prefix was handed to ", Named{r->name}, ", which already had blocks");
  }
  for (GroupId g = 0; g < record->hit.blocks.size() && g < asked->groups.size(); ++g) {
    const std::uint64_t skipped = asked->groups[g].skipped;
    if (auto finding = check_admitted_group(step, *r, g, record->hit, skipped)) {
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

extern const Scenes lookup_contract_scenes = {
    {"hit past a hole", play::look_up,
     [](Scene& s) { s.after.index.erase(s.after.index.begin()); }},
    {"length without blocks", play::look_up, [](Scene& s) { s.hit().hit_tokens = 6; }},
    {"last token hit", play::look_up, [](Scene& s) { s.after.requests[2].num_tokens = 4; }},
    {"not the oldest copy", play::look_up,
     [](Scene& s) { s.after.index[0].blocks.insert(s.after.index[0].blocks.begin(), 3); }},
    {"admitted without its content", play::share, [](Scene& s) { ++s.block(2).key; }},
    {"admitted another block", play::share, [](Scene& s) { s.table(1)[1] = 5; }},
    {"admitted unheld", play::share, [](Scene& s) { s.block(2).ref_cnt = 0; }},
    {"null where it is read", play::hit, [](Scene& s) { s.hit().blocks[1].back() = 0; },
     with::hybrid},
    {"groups of unequal length", play::hit, [](Scene& s) { s.hit().blocks[1].pop_back(); },
     with::hybrid},
    {"block of another group", play::hit, [](Scene& s) { s.hit().blocks[1] = s.hit().blocks[0]; },
     with::hybrid},
    {"admitted with a hole", play::admit_hit, [](Scene& s) { table(s, 1, 1)[1] = 0; },
     with::hybrid},
};

namespace {

/// Whether the block inside of which `tokens` tokens end is found: a state under its own key, rows
/// of attention under the key of any prefix that ends behind them in this block.
/// @param first [tokens] the shortest such prefix, `limit` the longest
bool ends_in_found_block(const Step& step, const RequestState& r, GroupId g, std::uint64_t tokens,
                         std::uint64_t first, std::uint64_t limit) {
  const GroupConfig& group = step.config.groups[g];
  const std::uint64_t unit = step.history.unit_tokens;
  const std::uint64_t block_end = tokens - tokens % group.block_size + group.block_size;
  const std::uint64_t last = group.kind == LayerKind::mamba ? tokens : block_end;
  for (std::uint64_t t = first; t <= std::min({last, r.hashes.size() * unit, limit}); t += unit) {
    if (find_entry(step.after, g, r.hashes[t / unit - 1]) != nullptr) return true;
  }
  return false;
}

/// A hit may end inside of a block. The first group that reads every token also finds it by the key
/// of a longer prefix in that block. A later one does so only if those before it found as much.
/// `sure` counts what is found in any case, `possible` all that may be.
enum class Sight : std::uint8_t { sure, possible };

bool reads_first(const CacheConfig& config, GroupId g) {
  const auto first = std::ranges::find_if(
      config.groups, [](const GroupConfig& group) { return reads_all(group.kind); });
  return first != config.groups.end() && first->alike(config.groups[g]);
}

/// Whether everything that a group reads to go on behind `tokens` tokens is published. An EAGLE
/// group gives up the block or unit `beyond` them, which must be published as well.
/// @param drops whether an EAGLE group does so here
bool has_prefix(const Step& step, const RequestState& r, GroupId g, std::uint64_t tokens,
                std::uint64_t limit, Sight sight, bool drops = true) {
  const GroupConfig& group = step.config.groups[g];
  if (!is_cacheable(group.kind)) return true;
  const std::uint64_t block_size = group.block_size;
  const bool beyond = drops && group.eagle && group.kind != LayerKind::mamba;
  const std::uint64_t end = tokens / block_size + (beyond ? 1 : 0);
  const std::uint64_t inside = tokens % block_size;
  // A group that drops looks so much further than what was found before it; `possible` is generous.
  const std::uint64_t found = reads_first(step.config, g) ? limit : tokens;
  const std::uint64_t furthest =
      sight == Sight::sure ? found + std::min<std::uint64_t>(hit_alignment(step.config), block_size)
                           : ~std::uint64_t{0};
  if (inside > 0) {
    const std::uint64_t first = tokens + (beyond ? step.history.unit_tokens : 0);
    std::uint64_t most = beyond ? furthest : limit;  // what is dropped may be last
    if (sight == Sight::sure && !reads_first(step.config, g)) most = first;
    if (!ends_in_found_block(step, r, g, tokens, first, most)) return false;
    return group.kind == LayerKind::mamba ||
           has_prefix(step, r, g, tokens - inside, limit, sight, false);
  }
  const bool to_the_end = step.config.groups.size() > 1 && step.config.profile.searches_all_hashes;
  if (end * block_size > (beyond && to_the_end ? furthest : limit)) return false;
  std::uint64_t first = skipped_tokens(group, tokens) / block_size;
  if (group.kind == LayerKind::sliding_window) {
    // A later round may search again without the block beyond; it must then find a prefix, too.
    const std::uint64_t least = beyond && step.config.groups.size() > 1 ? 2 : 1;
    const std::uint64_t run = std::max<std::uint64_t>(window_run(group), least);
    // Near the start such a search rounds down before it drops the block: it loses too much.
    if (beyond && end < run && alignment(step.config) != block_size) return false;
    first = end > run ? end - run : 0;
  }
  for (std::uint64_t i = first; i < end; ++i) {
    const auto key = own_key(step, r, g, i);
    if (!key || find_entry(step.after, g, *key) == nullptr) return false;
  }
  return true;
}

}  // namespace

// The longest prefix that all groups have. With EAGLE in several groups a longer one may be right:
// once its last block was seen, the search goes on without it.
Finding longest_hit(const Step& step) {
  const auto* lookup = std::get_if<op::Lookup>(&step.operation);
  const auto* hit = std::get_if<Hit>(&step.outcome.result);
  const RequestState* r = lookup != nullptr ? step.after.find(lookup->req) : nullptr;
  if (r == nullptr || hit == nullptr) return std::nullopt;
  const std::uint64_t limit = most_tokens(step, *r);
  const std::uint64_t align = step.history.promises->traits.keys_are_partial() ? 1
                              : step.config.groups.size() > 1 ? hit_alignment(step.config)
                                                              : alignment(step.config);
  const auto all_have = [&](std::uint64_t tokens, Sight sight) {
    for (GroupId g = 0; g < step.config.groups.size(); ++g) {
      if (!has_prefix(step, *r, g, tokens, limit, sight)) return false;
    }
    return true;
  };
  std::uint64_t most = limit - limit % align;
  while (most > 0 && !all_have(most, Sight::possible)) most -= align;
  std::uint64_t least = most;
  while (least > 0 && !all_have(least, Sight::sure)) least -= align;
  const bool several_with_eagle =
      step.config.groups.size() > 1 &&
      std::ranges::any_of(step.config.groups, [](const GroupConfig& g) { return g.eagle; });
  if (hit->hit_tokens >= least && (hit->hit_tokens <= most || several_with_eagle)) {
    return std::nullopt;
  }
  return say("the hit of ", Named{r->name}, " has ", hit->hit_tokens, " tokens; all groups have ",
             hit->hit_tokens < least ? least : most);
}

extern const Scenes longest_hit_scenes = {
    {"hit too short", play::look_up,
     [](Scene& s) {
       s.hit() = Hit{2, {{1}}};
     }},
    {"hit of a hybrid too short", play::hit,
     [](Scene& s) {
       s.hit() = Hit{2, {{1}, {4}}};
     },
     with::hybrid},
};

}  // namespace kvproof::properties::law
