// SPDX-License-Identifier: Apache-2.0
// Folds one operation after the other into the facts that laws and generators must remember.
#include "properties/laws/history.h"

#include <algorithm>
#include <array>
#include <utility>

#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

bool changed_nothing(const Result& result) {
  return std::holds_alternative<Refused>(result) || is_undone(result);
}

/// Finds the place of a name. The search begins at `from`, which becomes the start of the next.
template <class Named>
std::size_t place_of(const std::vector<Named>& sorted, std::string_view name, std::size_t& from) {
  if (from >= sorted.size() || sorted[from].name != name) {
    const auto at = std::ranges::lower_bound(
        sorted, name, {}, [](const Named& x) { return std::string_view(x.name); });
    from = static_cast<std::size_t>(at - sorted.begin());
    if (at == sorted.end() || at->name != name) return Places::kAbsent;
  }
  return from++;
}

/// Whether a position was copied, and the one behind it is still shared: that block may outlive the
/// one that stood before it.
bool copied_before_shared(const RequestState* was, const RequestState* now) {
  if (was == nullptr || now == nullptr) return false;
  for (std::size_t g = 0; g < std::min(was->tables.size(), now->tables.size()); ++g) {
    const std::vector<BlockId>& old = was->tables[g];
    const std::vector<BlockId>& table = now->tables[g];
    for (std::size_t i = 1; i < std::min(old.size(), table.size()); ++i) {
      const bool copied = old[i - 1] != table[i - 1] && old[i - 1] != kNullBlock;
      if (copied && old[i] == table[i] && old[i] != kNullBlock) return true;
    }
  }
  return false;
}

bool lets_go(const Operation& operation) {
  return std::holds_alternative<op::Free>(operation) ||
         std::holds_alternative<op::Finish>(operation) ||
         std::holds_alternative<op::Truncate>(operation) ||
         std::holds_alternative<op::Complete>(operation);
}

std::string_view request_if(bool holds, const Operation& operation) {
  return holds ? std::string_view(request_of(operation)) : std::string_view{};
}

}  // namespace

History::History(const CacheConfig& its_config, Promises its_promises)
    : config(its_config),
      promises(std::move(its_promises)),
      book(config, promises->traits),
      num_blocks(its_config.num_blocks),
      unit_tokens(std::max(its_config.hash_block_size, 1U)),
      resumption(resumption_of(its_config)),
      evicted(its_config.num_blocks, 0),
      forked(its_config.num_blocks, 0) {
  mirror.blocks.resize(its_config.num_blocks);
  const Traits& traits = promises->traits;
  if (traits.keys_are_partial()) resumption.hit_align = 1;
  if (traits.oldest_keeps() || traits.forgets_copies()) superseded.resize(its_config.num_blocks, 0);
  for (const GroupConfig& group : its_config.groups) {
    groups.push_back({cache_mask(its_config, group), group.block_size / unit_tokens});
    moves_states = moves_states || moves_state(group);
  }
}

bool History::holds_checkpoint(const RequestRecord& r, GroupId group, std::size_t position) const {
  if (group >= r.passed.size() || !r.passed[group]) return false;
  const std::uint64_t end = (position + 1) * std::uint64_t{config->groups[group].block_size};
  return r.passed[group]->position == position && r.passed[group]->tokens != end;
}

bool History::keeps(const RequestRecord& r, GroupId group, std::size_t position) const {
  const CacheMask& mask = groups[group].mask;
  const auto at = static_cast<std::uint32_t>(position);
  if (holds_checkpoint(r, group, position)) return false;
  if (mask.tail == 0) return mask.keeps(at);
  return mask.keeps(at, boundaries_of(resumption, config->groups[group], r.prompt_tokens, 0));
}

bool History::ends_prompt(const RequestRecord& r, GroupId group, std::size_t position) const {
  const GroupConfig& rules = config->groups[group];
  if (!config->profile.sparse || !moves_state(rules)) return false;
  return std::ranges::any_of(
      std::array{std::uint64_t{unit_tokens}, resumption.hit_align}, [&](std::uint64_t align) {
        const std::uint64_t end = state_boundary(resumption, r.prompt_tokens, align);
        return end > 0 && position + 1 == ceil_div<std::uint64_t>(end, rules.block_size);
      });
}

bool History::may_keep(const RequestRecord& r, GroupId group, std::size_t position) const {
  if (holds_checkpoint(r, group, position)) return false;
  if (keeps(r, group, position) || ends_prompt(r, group, position)) return true;
  const CacheMask& mask = groups[group].mask;
  if (mask.tail == 0 || r.parted_to <= r.parted_from) return false;
  const auto end_at = [&](std::uint64_t tokens) {
    return tokens / mask.align * mask.align / mask.block_size + mask.shift;
  };
  // A group that drops also keeps what lies one block before.
  const GroupConfig& rules = config->groups[group];
  const std::uint64_t dropped = rules.eagle ? rules.block_size : 0;
  const std::uint64_t from = r.parted_from - std::min(r.parted_from, dropped);
  return position < end_at(r.parted_to) && position + mask.tail >= end_at(from);
}

void History::fold(const Snapshot& before, const Operation& operation, const Outcome& outcome,
                   const Snapshot& after) {
  occasions = begun_ ? occasions_of(before, operation, outcome, after) : on::any;
  begun_ = true;
  clash.reset();
  asked.reset();
  tail_copies.assign(config->groups.size(), std::nullopt);
  copying.resize(config->groups.size());
  copied.clear();
  moved_keys.clear();
  const RequestRecord* r = find(request_of(operation));
  const std::size_t known_units = r != nullptr ? r->sequence->contents.size() : 0;
  const auto* allocate = std::get_if<op::Allocate>(&operation);
  if (allocate != nullptr) {
    const RequestState* state = before.find(allocate->req);
    if (r != nullptr && state != nullptr) {
      asked = extent_of(*config, *state, *r, allocate->args);
      asked->waits = asked->uses_hit && hits_new_state(*state, r->hit);
    }
  }
  if (!changed_nothing(outcome.result)) {
    fold_call(before, operation, outcome.result, after);
    fold_evicted(before, operation, outcome.result, after);
  }
  book.fold(operation, outcome.result);
  if (const bool looks_up = std::holds_alternative<op::Lookup>(operation);
      looks_up || std::holds_alternative<op::Arrive>(operation) ||
      std::holds_alternative<op::Append>(operation)) {
    RequestRecord* now =
        changed_nothing(outcome.result) ? nullptr : book.find(request_of(operation));
    if (now != nullptr) looks_up ? fold_lookup(*now, after) : fold_keys(*now, known_units, after);
  }
  if (!superseded.empty()) fold_superseded(before, after);
  just_looked_up.assign(request_if(std::holds_alternative<op::Lookup>(operation), operation));
  const bool refused = allocate != nullptr && std::holds_alternative<Refused>(outcome.result);
  just_refused.assign(request_if(refused, operation));
  fold_events(before, operation, outcome, after);
  fold_places(before, operation, after);
  if ((occasions & (on::pool | on::host | on::holders)) != 0) tally.count(after);
}

// Requests mostly stand in the same order in all three lists.
void History::list_places(const Snapshot& before, const Snapshot& after) {
  places.resize(after.requests.size());
  std::size_t was = 0;
  std::size_t known = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string_view name = after.requests[i].name;
    places[i] = {place_of(before.requests, name, was), i, place_of(book.requests(), name, known)};
  }
}

void History::fold_places(const Snapshot& before, const Operation& operation,
                          const Snapshot& after) {
  const bool knows_others =
      (occasions & on::done) != 0 && (std::holds_alternative<op::Arrive>(operation) ||
                                      std::holds_alternative<op::Fork>(operation) ||
                                      std::holds_alternative<op::Finish>(operation));
  if ((occasions & on::names) == 0 && !knows_others) {
    for (Places& p : places) p.before = p.after;
  } else {
    list_places(before, after);
  }
  const std::string_view name =
      book.settled() ? std::string_view(book.settled()->req) : request_of(operation);
  std::size_t first = 0;
  own.after = place_of(after.requests, name, first);
  if (own.after != Places::kAbsent) {
    own = places[own.after];
  } else {
    own.before = place_of(before.requests, name, first = 0);
    own.record = place_of(book.requests(), name, first = 0);
  }
}

bool History::hits_new_state(const RequestState& state, const FoundPrefix& hit) const {
  const std::size_t unit = hit.tokens / unit_tokens;
  if (unit == 0 || unit > state.hashes.size()) return false;
  return std::ranges::any_of(new_states, [&](const auto& published) {
    return published.second == state.hashes[unit - 1];
  });
}

void History::fold_call(const Snapshot& before, const Operation& operation, const Result& result,
                        const Snapshot& after) {
  if (const auto* fork = std::get_if<op::Fork>(&operation)) return fold_fork(*fork, result, before);
  if (const auto* complete = std::get_if<op::Complete>(&operation)) return fold_complete(*complete);
  if (std::holds_alternative<op::Step>(operation)) {
    for (std::vector<BlockId>& held : copying) {
      copied.insert(copied.end(), held.begin(), held.end());
      held.clear();
    }
  }
  RequestRecord* r = book.find(request_of(operation));
  if (r == nullptr) return;
  if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    const RequestState* state = before.find(r->name);
    const auto* granted = std::get_if<Granted>(&result);
    if (state == nullptr) return;
    if (granted != nullptr) fold_tail_copies(*r, *granted, after);
    fold_grant(*r, *state, after);
    const std::uint64_t known = std::min<std::uint64_t>(asked->main, state->num_tokens);
    if (!allocate->args.delay_cache) fold_state_tails(*r, known, before, after);
  } else if (const auto* cache = std::get_if<op::Cache>(&operation)) {
    fold_state_tails(*r, cache->computed, before, after);
  } else if (const auto* advance = std::get_if<op::Advance>(&operation)) {
    if (advance->computed > r->scheduled_tokens) r->ahead = true;
  } else if (const auto* truncate = std::get_if<op::Truncate>(&operation)) {
    fold_truncate(*r, truncate->tokens);
  } else if (std::holds_alternative<op::Free>(operation)) {
    fold_free(*r);
  } else if (std::holds_alternative<op::SwapOut>(operation)) {
    r->swapped = true;
  } else if (std::holds_alternative<op::SwapIn>(operation)) {
    r->on_device = true;
  }
}

void History::fold_lookup(RequestRecord& r, const Snapshot& after) {
  r.looked_up_late = r.holds();
  for (GroupId g = 0; g < std::min(r.hit.blocks.size(), config->groups.size()); ++g) {
    const bool inside = r.hit.tokens % config->groups[g].block_size != 0;
    const bool ends = inside && !r.hit.blocks[g].empty();
    r.hit.end_keys.push_back(ends ? all_keys(after, r.hit.blocks[g].back())
                                  : std::vector<std::uint64_t>());
  }
  r.parted_from = r.parted_to = r.hit.tokens;
  const RequestState* state = after.find(r.name);
  const bool alone = config->groups.size() == 1;
  if (!config->retention || alone || r.skip_lookup || state == nullptr) return;
  // Chunks count what lies before them as found, and what a group drops was found.
  const bool chunks = std::ranges::any_of(
      config->groups, [](const GroupConfig& g) { return g.kind == LayerKind::chunked_local; });
  if (chunks) r.parted_to = state->num_tokens;
  for (std::size_t unit = 0; unit < state->hashes.size() && !chunks; ++unit) {
    const bool found = std::ranges::any_of(
        after.index, [&](const IndexEntry& entry) { return entry.key == state->hashes[unit]; });
    if (found) r.parted_to = (unit + 1) * std::uint64_t{unit_tokens};
  }
}

// Both may hold the same unpublished blocks from now on.
void History::fold_fork(const op::Fork& fork, const Result& result, const Snapshot& before) {
  RequestRecord* parent = book.find(fork.req);
  if (parent == nullptr || find(fork.child) != nullptr) return;
  if (config->hash_lookahead > 0) chains_loose = true;  // a key may cover what a relative has not
  parent->forked = true;
  const RequestState* state = before.find(fork.req);
  const auto* granted = std::get_if<Granted>(&result);
  const auto is_copied = [&](BlockId block) {
    return granted != nullptr &&
           std::ranges::find(granted->copies, block, &Copy::from) != granted->copies.end();
  };
  if (state == nullptr) return;
  for (const auto& table : state->tables) {
    for (BlockId block : table) {
      if (block < forked.size() && !is_copied(block)) forked[block] = 1;
    }
  }
}

// The block in which the hit ends is copied into the table. That of an own state stays there, and
// its keys go to the copy, unannounced.
void History::fold_tail_copies(RequestRecord& r, const Granted& granted, const Snapshot& after) {
  const RequestState* now = after.find(r.name);
  for (GroupId g = 0; now != nullptr && g < asked->groups.size() && g < now->tables.size(); ++g) {
    if (asked->groups[g].copies == 0) continue;
    const bool state = g < r.tails.size() && r.tails[g].block != kNullBlock;
    const BlockId from = state ? r.tails[g].block : r.hit.blocks[g].back();
    const auto copy = std::ranges::find(granted.copies, from, &Copy::from);
    if (copy == granted.copies.end() || copy->to >= mirror.blocks.size()) continue;
    tail_copies[g] = *copy;
    if (promises->traits.keys_are_partial()) continue;  // the source is let go at once
    copying[g].insert(copying[g].end(), {copy->from, copy->to});
    if (state && from < mirror.blocks.size()) moved_keys.push_back(*copy);
  }
  r.tails.clear();
}

// A state at the end of the prompt is published inside its block. The request will overwrite it.
void History::fold_state_tails(RequestRecord& r, std::uint64_t tokens, const Snapshot& before,
                               const Snapshot& after) {
  const RequestState* was = before.find(r.name);
  const RequestState* now = after.find(r.name);
  if (!config->profile.hits_inside_blocks || !config->enable_caching || now == nullptr) return;
  const std::uint64_t known = std::min<std::uint64_t>(tokens, now->num_tokens);
  const std::uint64_t end = state_boundary(resumption, r.prompt_tokens, unit_tokens);
  if (end == 0 || end > now->hashes.size() * std::uint64_t{unit_tokens}) return;
  if (r.state_tokens != end) return;  // it has gone on
  for (GroupId g = 0; g < now->tables.size() && g < config->groups.size(); ++g) {
    const GroupConfig& group = config->groups[g];
    const std::vector<BlockId>& table = now->tables[g];
    const std::uint64_t at = end / group.block_size;
    if (!moves_state(group) || end % group.block_size == 0 || at >= table.size()) continue;
    const std::uint64_t align = publish_alignment(*config);
    if (publishable_tokens(config->profile, group, align, known) != end) continue;
    if (table[at] == kNullBlock || table[at] >= after.blocks.size()) continue;
    if (g < r.checkpoints.size() && r.checkpoints[g]) continue;
    const bool held = was != nullptr && g < was->tables.size() && at < was->tables[g].size() &&
                      was->tables[g][at] == table[at];
    const BlockState& block = before.blocks[table[at]];
    if (held && block.hashed && block.key == now->hashes[end / unit_tokens - 1]) continue;
    r.tails.resize(config->groups.size());
    r.tails[g] = {static_cast<std::size_t>(at), table[at]};
  }
}

void History::fold_grant(RequestRecord& r, const RequestState& state, const Snapshot& after) {
  for (const GroupConfig& group : config->groups) {
    if (!moves_state(group)) continue;
    const bool many = asked->main - asked->total > 1 + std::uint64_t{group.speculative_blocks};
    const bool drafts = asked->main > state.num_tokens || r.scheduled_tokens > r.written;
    if (many && (drafts || r.decoding)) r.ahead = true;
    r.decoding = r.decoding || asked->main % group.block_size != 0;
  }
  const bool stands_still = asked->total <= r.granted_from || state.computed < r.written;
  if (r.holds() && stands_still) r.ahead = true;
  r.granted_from = asked->total;
  r.in_flight = asked->total - asked->processed;
  r.state_tokens = std::min<std::uint64_t>(asked->main, state.num_tokens);
  r.lengths.clear();
  r.passed.resize(config->groups.size());
  for (GroupId g = 0; g < r.checkpoints.size(); ++g) {
    if (r.checkpoints[g]) r.passed[g] = r.checkpoints[g];
  }
  r.checkpoints.clear();
  const RequestState* now = promises->traits.reserves_prompt() ? after.find(r.name) : nullptr;
  for (GroupId g = 0; g < asked->groups.size(); ++g) {
    const GroupExtent& group = asked->groups[g];
    const std::uint64_t shown =
        now != nullptr && g < now->tables.size() ? now->tables[g].size() : 0;
    r.lengths.push_back(
        std::clamp(shown, group.length, now != nullptr ? group.most : group.length));
    r.checkpoints.push_back(group.checkpoint);
  }
}

namespace {

/// The block that the index names alone under each of its keys.
const IndexEntry* entry_of(const PoolState& pool, const IndexEntry& like) {
  const auto at = std::ranges::find_if(
      pool.index, [&](const IndexEntry& e) { return e.key == like.key && e.group == like.group; });
  return at != pool.index.end() ? &*at : nullptr;
}

bool names(const IndexEntry* entry, BlockId block) {
  return entry != nullptr && std::ranges::find(entry->blocks, block) != entry->blocks.end();
}

/// Whether another block has got the key that this one had. Without an index, the blocks say so.
/// @param any also one that had it before
bool lost_to_another(const PoolState& before, const PoolState& after, BlockId block, bool any) {
  for (const IndexEntry& was : before.index) {
    if (!names(&was, block)) continue;
    const IndexEntry* now = entry_of(after, was);
    return now != nullptr && !names(now, block) &&
           std::ranges::any_of(now->blocks,
                               [&](BlockId other) { return any || !names(&was, other); });
  }
  if (!before.index.empty() || !after.index.empty()) return false;
  const BlockState& mine = before.blocks[block];
  if (!mine.hashed || after.blocks[block].hashed) return false;
  for (std::size_t b = 0; b < after.blocks.size(); ++b) {
    const BlockState& other = after.blocks[b];
    const bool has = other.hashed && other.key == mine.key && other.group == mine.group;
    if (has && (any || !(before.blocks[b].hashed && before.blocks[b].key == mine.key))) return true;
  }
  return false;
}

}  // namespace

// A block stays superseded until it is taken for other content, or named again.
void History::fold_superseded(const Snapshot& before, const Snapshot& after) {
  const std::size_t n = std::min({before.blocks.size(), after.blocks.size(), superseded.size()});
  for (BlockId block(1); block < n; ++block) {
    const bool taken = before.blocks[block].ref_cnt == 0 && after.blocks[block].ref_cnt > 0;
    if (taken) superseded[block] = 0;
    const bool any = promises->traits.free_first();
    if (promises->traits.forgets_copies() && lost_to_another(before, after, block, any)) {
      superseded[block] = 1;
    }
  }
  if (promises->traits.oldest_keeps()) fold_outdone(before, after);
  for (const IndexEntry& entry : after.index) {
    for (const BlockId block : entry.blocks) {
      if (block < n) superseded[block] = 0;
    }
  }
}

// A block below the progress that never had a key, while another block has it: that one was
// published before.
void History::fold_outdone(const Snapshot& before, const Snapshot& after) {
  const std::size_t known = std::min(before.blocks.size(), superseded.size());
  for (const RequestState& r : after.requests) {
    for (GroupId g = 0; g < r.tables.size() && g < groups.size(); ++g) {
      const std::size_t progress = g < r.progress.size() ? r.progress[g].value_or(0) : 0;
      for (std::size_t i = 0; i < std::min(progress, r.tables[g].size()); ++i) {
        const BlockId block = r.tables[g][i];
        const std::size_t units = (i + 1) * groups[g].units_per_block;
        if (block >= known || after.blocks[block].hashed) continue;
        const BlockState& was = before.blocks[block];
        if (was.hashed && was.ref_cnt > 0) continue;  // it had the key, and lost it
        if (units > r.hashes.size()) continue;
        if (entry_of(after, {g, r.hashes[units - 1], {}}) != nullptr) superseded[block] = 1;
      }
    }
  }
}

void History::fold_truncate(RequestRecord& r, std::uint32_t tokens) {
  r.ahead = true;
  for (GroupId g = 0; g < r.lengths.size(); ++g) {
    const GroupConfig& group = config->groups[g];
    if (!is_written_again(group.kind)) continue;
    r.lengths[g] =
        std::min(r.lengths[g], ceil_div<std::uint64_t>(tokens, std::uint64_t{group.block_size}));
  }
}

void History::fold_free(RequestRecord& r) {
  r.looked_up_late = false;
  r.lengths.clear();
  r.tails.clear();
  r.checkpoints.clear();
  r.passed.clear();
  r.granted_from = 0;
  r.forked = r.swapped = r.decoding = r.ahead = false;
  r.on_device = true;
}

void History::fold_complete(const op::Complete& complete) {
  const TransferRecord* transfer = book.find_transfer(complete.transfer);
  RequestRecord* r = transfer != nullptr ? book.find(transfer->req) : nullptr;
  if (r == nullptr) return;
  if (transfer->out == complete.ok) r->on_device = false;
  if (!transfer->out || !complete.ok) return;
  r->tails.clear();
  r->checkpoints.clear();
}

void History::fold_evicted(const Snapshot& before, const Operation& operation, const Result& result,
                           const Snapshot& after) {
  const std::size_t n = std::min({before.blocks.size(), after.blocks.size(), evicted.size()});
  for (std::size_t b = 0; b < n; ++b) {
    if (after.blocks[b].ref_cnt == 0) forked[b] = 0;
  }
  if (const auto* evict = std::get_if<op::Evict>(&operation)) {
    for (BlockId block : evict->blocks) {
      if (block >= n || !before.blocks[block].hashed) continue;
      evicted[block] = 1;
      chains_loose = true;
      if (before.blocks[block].ref_cnt == 0) queue_evicted = true;
    }
  } else if (const auto* touch = std::get_if<op::Touch>(&operation)) {
    if (!touch->blocks.empty()) chains_loose = true;  // a child may now outlive its parent
  } else if (std::holds_alternative<op::Pin>(operation)) {
    chains_loose = true;
  } else if (lets_go(operation)) {
    // A block that this step still copies outlives those before it.
    chains_loose = chains_loose || !before.copying.empty();
  } else if (std::holds_alternative<op::Reset>(operation)) {
    const bool* done = std::get_if<bool>(&result);
    if (done != nullptr && *done) chains_loose = queue_evicted = false;
  } else if (std::holds_alternative<Granted>(result)) {
    for (std::size_t b = 0; b < n; ++b) {
      const bool taken = before.blocks[b].ref_cnt == 0 && after.blocks[b].ref_cnt != 0;
      if (after.blocks[b].hashed || taken) evicted[b] = 0;
      // A relative of the request that had published the block writes it anew: the keys behind it
      // are cut off. The block may carry the writer's own key at once.
      const BlockState& was = before.blocks[b];
      const BlockState& now = after.blocks[b];
      const bool kept =
          now.hashed && (now.key == was.key || now.prefix_tokens != was.prefix_tokens);
      if (was.ref_cnt > 0 && now.ref_cnt > 0 && was.hashed && !kept) chains_loose = true;
    }
    const std::string& name = request_of(operation);
    if (copied_before_shared(before.find(name), after.find(name))) chains_loose = true;
  }
}

void History::fold_keys(const RequestRecord& r, std::size_t known, const Snapshot& after) {
  const RequestState* state = after.find(r.name);
  if (state == nullptr) return;
  const std::vector<std::uint64_t>& contents = r.sequence->contents;
  const std::size_t units = std::min(contents.size(), state->hashes.size());
  for (std::size_t i = known; i < units; ++i) {
    const std::uint64_t key = state->hashes[i];
    const std::uint64_t content = contents[i];
    if (keys->knows(key, content)) continue;
    KeyBook& all = keys.change();
    const auto [by_key, new_key] =
        all.of_key.try_emplace(key, KeyBook::Facts{content, i > 0 ? state->hashes[i - 1] : 0, i});
    const auto [by_content, new_content] = all.key_of_content.try_emplace(content, key);
    if (clash) continue;
    if (by_key->second.content != content) {
      clash = KeyBook::Clash{i, true};
    } else if (by_content->second != key) {
      clash = KeyBook::Clash{i, false};
    }
  }
}

}  // namespace kvproof::properties
