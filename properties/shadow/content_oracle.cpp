// SPDX-License-Identifier: Apache-2.0
// Keeps the slots up to date: writes the rows that a step would compute, and moves the rows
// that a transfer moves.
#include "properties/shadow/content_oracle.h"

#include <algorithm>
#include <utility>

#include "reference/operations.h"

namespace kvproof::properties {
namespace {

std::uint32_t longest_block(const CacheConfig& config) {
  std::uint32_t out = 1;
  for (const GroupConfig& group : config.groups) out = std::max(out, group.block_size);
  return out;
}

bool without_entries(const std::vector<std::vector<BlockId>>& tables) {
  return std::ranges::all_of(tables, [](const auto& table) { return table.empty(); });
}

}  // namespace

ContentOracle::ContentOracle(const CacheConfig& config, const Traits& traits)
    : config_(config),
      traits_(traits),
      device_(config.num_blocks, longest_block(config)),
      host_(config.num_host_blocks, longest_block(config)) {}

Finding ContentOracle::follow(const Operation& operation, const Outcome& outcome,
                              const Snapshot& before, const Snapshot& after,
                              const CallerBook& book) {
  const Result& result = outcome.result;
  handed_out_.clear();
  if (is_undone(result) || std::holds_alternative<Refused>(result)) return std::nullopt;
  const bool judge = perform(operation, result, before, after, book);
  if (!breach_of_caller_.empty()) return std::nullopt;
  const Request* own = book.find(request_of(operation));
  if (own != nullptr) {
    if (Finding finding = check_published(*own, outcome)) return finding;
  }
  if (!judge) return std::nullopt;
  if (Finding finding = check_leases()) return finding;
  if (const auto* hit = std::get_if<Hit>(&result)) {
    return own != nullptr ? check_hit(*own, *hit) : std::nullopt;
  }
  auto state = after.requests.begin();
  for (const Request& r : book.requests()) {
    for (; state != after.requests.end() && state->name != r.name; ++state) {
      if (r.name < state->name) break;
    }
    if (state == after.requests.end()) break;
    if (state->name != r.name) continue;
    if (Finding finding = check_request(r, *state++)) return finding;
  }
  return std::nullopt;
}

// Applies the operation to the rows. @return whether some request may read other rows after it
bool ContentOracle::perform(const Operation& operation, const Result& result,
                            const Snapshot& before, const Snapshot& after, const CallerBook& book) {
  const auto* granted = std::get_if<Granted>(&result);
  const Request* r = book.find(request_of(operation));
  if (std::holds_alternative<op::Take>(operation)) {
    for (std::size_t g = 0; granted != nullptr && g < granted->blocks.size(); ++g) {
      for (BlockId block : granted->blocks[g]) hand_out(block);
    }
    return true;
  }
  if (const auto* o = std::get_if<op::Arrive>(&operation)) {
    if (r != nullptr && book.arrivals() > names_.size()) arrive(*r, *o);
    return false;
  }
  if (const auto* o = std::get_if<op::Fork>(&operation)) {
    if (granted != nullptr) copy(*granted);
    if (r != nullptr && book.arrivals() > names_.size()) fork(*r, *book.find(o->child));
    return true;
  }
  if (const auto* o = std::get_if<op::Complete>(&operation)) {
    if (o->ok && book.settled() && book.find(book.settled()->req) != nullptr) {
      complete(*book.settled());
    }
    return true;
  }
  if (const auto* o = std::get_if<op::Pin>(&operation)) return pin(*o, after), false;
  if (const auto* o = std::get_if<op::Unpin>(&operation)) {
    std::erase_if(leased_, [&](const Leased& held) { return held.lease == o->lease; });
    return false;
  }
  if (const auto* o = std::get_if<op::Finish>(&operation)) return contiguous_.erase(o->req), true;
  return r != nullptr && perform_own(*r, book.before(), operation, result, before, after);
}

// @param old how far the request had come
bool ContentOracle::perform_own(const Request& r, const TokenCounts& old,
                                const Operation& operation, const Result& result,
                                const Snapshot& before, const Snapshot& after) {
  const auto* granted = std::get_if<Granted>(&result);
  if (const auto* append_o = std::get_if<op::Append>(&operation)) {
    return append(r, append_o->tokens), false;
  }
  if (const auto* cache = std::get_if<op::Cache>(&operation)) {
    if (std::min(cache->computed, r.num_tokens) > r.written) breach_of_caller_ = kNeverComputed;
    return false;
  }
  if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    const RequestState* was = before.find(r.name);
    const RequestState* now = after.find(r.name);
    if (granted != nullptr && was != nullptr && now != nullptr) {
      if (traits_.table_repointed()) note_kept(before, after);
      grant(r, old, *allocate, *granted, *was, *now);
    }
  } else if (const auto* advance_o = std::get_if<op::Advance>(&operation)) {
    if (const RequestState* now = after.find(r.name)) advance(r, old, advance_o->computed, *now);
  } else if (granted != nullptr) {  // a swap: the target is garbage until the transfer lands
    const bool out = std::holds_alternative<op::SwapOut>(operation);
    for (const Copy& copy : granted->copies) hand_out(copy.to, out);
  } else {
    return std::holds_alternative<Hit>(result) || std::holds_alternative<op::Recycle>(operation) ||
           std::holds_alternative<op::Truncate>(operation) ||
           std::holds_alternative<op::Free>(operation);
  }
  return true;
}

void ContentOracle::arrive(const Request& r, const op::Arrive& o) {
  names_.push_back(o.req);
  digests_.emplace_back(o.extra, std::max(config_.hash_block_size, 1U));
  append(r, o.tokens);
}

void ContentOracle::fork(const Request& parent, const Request& child) {
  names_.push_back(child.name);
  digests_.push_back(digests_[parent.id]);
  contiguous_.place(child.name, child.num_tokens);
  std::copy_n(contiguous_.rows(parent.name), child.num_tokens, contiguous_.rows(child.name));
}

void ContentOracle::append(const Request& r, const std::vector<TokenId>& tokens) {
  if (tokens.empty()) return;
  contiguous_.place(r.name, r.num_tokens);
  std::uint64_t* rows = contiguous_.rows(r.name) + r.num_tokens - tokens.size();
  for (const TokenId token : tokens) *rows++ = digests_[r.id].next(token);
}

// Token axis: computed | hit | external | new (drafts last). The tokens behind the hit are computed
// now.
void ContentOracle::grant(const Request& r, const TokenCounts& old, const op::Allocate& allocate,
                          const Granted& granted, const RequestState& was,
                          const RequestState& now) {
  const AllocateArgs& args = allocate.args;
  const bool admits = without_entries(was.tables);
  const std::uint64_t hit = admits && args.use_lookup ? r.hit.tokens : 0;
  const std::uint64_t start = was.computed + hit;
  const std::uint64_t known = std::min<std::uint64_t>(start + args.external, config_.max_model_len);
  const std::uint64_t drafted = r.scheduled_tokens;
  const std::uint64_t end = std::min<std::uint64_t>(drafted, r.num_tokens);
  take(granted, was.tables, now.tables, hit);
  if (admits ? was.computed > 0 : start > old.written) {
    breach_of_caller_ = kNeverComputed;
    return;
  }
  if (!admits) judge_states(r, old, was.tables, start, end);
  if (admits) write_encoder_rows(r, now.tables);
  write(r, now, start, end, false);
  write(r, now, std::max<std::uint64_t>(end, start), drafted, true);
  write_states(r, now.tables, start, std::min<std::uint64_t>(known, r.num_tokens));
  write_states(r, now.tables, known, end);
  const Chunk chunk{known, drafted, prefill_end_of(was, r.prompt_tokens)};
  write_checkpoints(r, was.tables, now.tables, chunk, old.granted);
}

// Whoever points an entry at a block that is published shares what that block holds: it was held,
// or it carried the key that it still carries.
void ContentOracle::note_kept(const Snapshot& before, const Snapshot& after) {
  const std::size_t n = std::min(before.blocks.size(), after.blocks.size());
  kept_.assign(n, 0);
  for (std::size_t b = 0; b < n; ++b) {
    const BlockState& was = before.blocks[b];
    const BlockState& now = after.blocks[b];
    const bool same_key = was.hashed && now.hashed && was.key == now.key && was.group == now.group;
    kept_[b] = was.ref_cnt > 0 || same_key ? 1 : 0;
  }
}

// New blocks hold garbage; then all copies are made; only then is anything written.
void ContentOracle::take(const Granted& granted, const Tables& was, const Tables& now,
                         std::uint64_t hit_tokens) {
  for (GroupId g = 0; g < now.size() && g < config_.groups.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    static const std::vector<BlockId> kNone;
    const std::vector<BlockId>& old = g < was.size() ? was[g] : kNone;
    const std::uint64_t whole = hit_tokens / group.block_size;
    const std::uint64_t found =
        traits_.keys_are_partial() ? ceil_div<std::uint64_t>(hit_tokens, group.block_size) : whole;
    const std::size_t from = old.empty() ? static_cast<std::size_t>(found) : old.size();
    for (std::size_t i = from; i < now[g].size(); ++i) {
      const bool moved = moves_state(group) && std::ranges::find(old, now[g][i]) != old.end();
      const bool kept = now[g][i] < kept_.size() && kept_[now[g][i]] != 0;
      if (!moved && !kept) hand_out(now[g][i]);
    }
  }
  copy(granted);
}

void ContentOracle::hand_out(BlockId block, bool host) {
  (host ? host_ : device_).clear(block);
  handed_out_.emplace_back(host ? 1 : 0, block);
}

void ContentOracle::copy(const Granted& granted) {
  for (const Copy& copy : granted.copies) hand_out(copy.to);
  for (const Copy& copy : granted.copies) device_.copy(copy.from, device_, copy.to);
}

// Accepted drafts were computed with the right tokens before them: their rows are right after all.
void ContentOracle::advance(const Request& r, const TokenCounts& old, std::uint32_t computed,
                            const RequestState& now) {
  if (computed <= old.written) return;
  if (computed > r.num_tokens || computed > r.scheduled_tokens) {
    breach_of_caller_ = kNeverComputed;
    return;
  }
  write(r, now, old.written, computed, false);
  write_states(r, tables_of(r, now), old.written, computed);
  // That was written when it was granted, and is only known now.
  for (Leased& held : leased_) held.slots = held_by(held.block);
}

void ContentOracle::complete(const TransferRecord& transfer) {
  TierSlots& to = transfer.out ? host_ : device_;
  const TierSlots& from = transfer.out ? device_ : host_;
  for (const Copy& copy : transfer.copies) to.copy(copy.from, from, copy.to);
}

bool ContentOracle::has_states() const {
  return std::ranges::any_of(
      config_.groups, [](const GroupConfig& group) { return group.kind == LayerKind::mamba; });
}

// A state goes on in its place, whoever else holds that, until its block is complete and published:
// of states only those are read under a lease.
void ContentOracle::pin(const op::Pin& o, const Snapshot& after) {
  const bool states = has_states();
  for (const BlockId block : o.blocks) {
    if (!device_.has(block)) continue;
    const BlockState& state = after.blocks[block];
    const bool complete = state.hashed && state.group < config_.groups.size() &&
                          state.prefix_tokens > 0 &&
                          state.prefix_tokens % config_.groups[state.group].block_size == 0;
    if (!states || complete) leased_.push_back({o.lease, block, held_by(block)});
  }
}

// A chunk begins with the state of its first token, and where states move it leaves one: that of
// its last token, in the place of the one that the chunk before left in the same block.
void ContentOracle::judge_states(const Request& r, const TokenCounts& old, const Tables& tables,
                                 std::uint64_t start, std::uint64_t end) {
  if (!config_.enable_caching || end <= start) return;
  for (GroupId g = 0; g < config_.groups.size() && g < tables.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    if (group.kind != LayerKind::mamba) continue;
    if (start > 0 && start < old.state_end) {
      const auto slots = slots_of(device_, tables[g], (start - 1) / group.block_size);
      const bool there = !slots.empty() && slots[0].identity == identity_of(r, g, start - 1);
      if (!there) breach_of_caller_ = kStateMovedBack;
    }
    const std::uint64_t from = std::max(start, old.state_end);
    const bool in_one_go = end - start <= 1 + std::uint64_t{group.speculative_blocks};
    // The block of `from` has a place for its state, because a grant ended there or drafts did.
    const bool waits = from % group.block_size != 0 || old.reach > from;
    const bool leaves = end > (from / group.block_size + 1) * group.block_size;
    if (moves_state(group) && !in_one_go && waits && leaves) {
      breach_of_caller_ = kUnalignedChunk;
    }
  }
}

void ContentOracle::write_states(const Request& r, const Tables& tables, std::uint64_t from,
                                 std::uint64_t to) {
  if (from >= to) return;
  for (GroupId g = 0; g < tables.size() && g < config_.groups.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    if (group.kind != LayerKind::mamba) continue;
    const auto write_state = [&](std::uint64_t length) {
      const auto slots = slots_of(tier_of(r), tables[g], (length - 1) / group.block_size);
      if (!slots.empty()) slots[0] = slot_of(r, g, length - 1);
    };
    const bool each = !moves_state(group) || to - from <= 1 + group.speculative_blocks;
    for (std::uint64_t end = (from / group.block_size + 1) * group.block_size; each && end <= to;
         end += group.block_size) {
      write_state(end);
    }
    write_state(to);
  }
}

// The state at a checkpoint, besides the running one.
void ContentOracle::write_checkpoints(const Request& r, const Tables& was, const Tables& now,
                                      const Chunk& chunk, bool had_states) {
  static const std::vector<BlockId> kNone;
  for (GroupId g = 0; g < now.size() && g < config_.groups.size(); ++g) {
    if (!moves_state(config_.groups[g])) continue;
    const std::vector<BlockId>& table = g < was.size() ? was[g] : kNone;
    const auto at = checkpoint_of(config_, config_.groups[g], table, chunk, had_states);
    if (!at) continue;
    const auto slots = slots_of(device_, now[g], at->position);
    if (!slots.empty()) slots[0] = slot_of(r, g, at->tokens - 1);
  }
}

namespace {

/// Whether a key that is announced is taken back in the same answer.
bool takes_back(const std::vector<Event>& events, GroupId group, const StoredBlock& stored) {
  return std::ranges::any_of(events, [&](const Event& event) {
    const auto* removed = std::get_if<event::Removed>(&event);
    return removed != nullptr && removed->group == group && removed->block == stored.block &&
           removed->prefix_tokens == stored.prefix_tokens;
  });
}

}  // namespace

Finding ContentOracle::check_published(const Request& r, const Outcome& outcome) const {
  for (const Event& event : outcome.events) {
    const auto* stored = std::get_if<event::Stored>(&event);
    if (stored == nullptr || stored->group >= config_.groups.size()) continue;
    if (config_.groups[stored->group].kind != LayerKind::mamba) continue;
    for (const StoredBlock& block : stored->blocks) {
      if (!device_.has(block.block) || block.prefix_tokens == 0) continue;
      if (takes_back(outcome.events, stored->group, block)) continue;
      if (block.prefix_tokens > r.num_tokens) continue;
      const Slot& slot = device_.of(block.block)[0];
      if (slot.identity == identity_of(r, stored->group, block.prefix_tokens - 1)) continue;
      return say("block ", block.block, " of group ", stored->group,
                 " was published as the state of ", Named{r.name}, " after ", block.prefix_tokens,
                 " tokens, and holds ",
                 slot.writer == Slot::kNobody
                     ? std::string("poison")
                     : say("that of ", names_[slot.writer], " after ", slot.at + 1));
    }
  }
  return std::nullopt;
}

// Each position of a range is written where the table says, as far as there are blocks.
template <class IdentityAt>
void ContentOracle::fill(TierSlots& tier, const Request& r, const std::vector<BlockId>& table,
                         std::uint64_t block_size, std::uint64_t from, std::uint64_t to,
                         IdentityAt identity_at) {
  for (std::uint64_t position = from; position < to;) {
    const std::uint64_t begin = position - position % block_size;
    const std::uint64_t stop = std::min(to, begin + block_size);
    const auto slots = slots_of(tier, table, begin / block_size);
    for (; position < stop && !slots.empty(); ++position) {
      slots[position - begin] = {identity_at(position), static_cast<std::uint32_t>(position), r.id};
    }
    position = stop;
  }
}

void ContentOracle::write(const Request& r, const RequestState& now, std::uint64_t from,
                          std::uint64_t to, bool drafts) {
  if (from >= to) return;
  const Tables& tables = tables_of(r, now);
  const Identity* const chain = contiguous_.rows(r.name);
  for (GroupId g = 0; g < tables.size() && g < config_.groups.size(); ++g) {
    if (!is_written_again(config_.groups[g].kind)) continue;
    fill(tier_of(r), r, tables[g], config_.groups[g].block_size, from, to,
         [&](std::uint64_t position) { return drafts ? draft() : in_group(chain[position], g); });
  }
}

void ContentOracle::write_encoder_rows(const Request& r, const Tables& tables) {
  for (GroupId g = 0; g < tables.size() && g < config_.groups.size(); ++g) {
    if (config_.groups[g].kind != LayerKind::cross) continue;
    fill(device_, r, tables[g], config_.groups[g].block_size, 0, r.encoder_tokens,
         [&](std::uint64_t position) { return identity_of(r, g, position); });
  }
}

}  // namespace kvproof::properties
