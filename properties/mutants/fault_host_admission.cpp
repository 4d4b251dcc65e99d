// SPDX-License-Identifier: Apache-2.0
// Admission in the fault host: what an allocation needs, whether it is granted, and what it takes.
#include <algorithm>
#include <utility>

#include "properties/mutants/fault_host.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {

Result FaultHost::run(const op::Allocate& o) {
  Sequence& s = resident(o.req);
  const AllocateArgs& args = o.args;
  require(args.new_tokens > 0 || args.external > 0, "nothing_to_allocate: no tokens");
  const auto any = [&](const auto& holds) {
    return std::any_of(s.tables.begin(), s.tables.end(), holds);
  };
  Ask ask;
  ask.found = args.use_lookup && any([](const Table& t) { return !t.found.empty(); });
  if (ask.found) check_hit(s);
  const std::uint64_t limit = config_.max_model_len;
  ask.computed = std::uint64_t{s.computed} + (ask.found ? s.found_tokens : 0) + args.external;
  ask.external = args.external;
  require(ask.computed <= limit, "capacity: external tokens beyond the token limit");
  ask.starts = (ask.found || args.external > 0) &&
               !any([](const Table& t) { return t.cached || !t.blocks.empty(); });
  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  const std::uint64_t keep = admission ? config_.watermark_blocks() : 0;
  if (args.full_sequence_must_fit && !gate_opens(s, args, ask, keep)) return Refused{};

  const std::uint64_t base = is("slots_without_hit") ? s.computed : ask.computed;
  const std::uint64_t main = std::min(base + args.new_tokens, limit);
  ask.slots = std::min(main + args.lookahead, limit);
  std::uint64_t read = ask.computed;
  if (is("recycle_from_scheduled")) read = main;
  if (is("recycle_counts_drafts")) read += args.lookahead;
  for (GroupId g = 0; g < s.tables.size(); ++g) recycle(s, g, read);
  if (is("touch_before_check") && ask.starts && ask.found) {
    for (const Table& table : s.tables) pool_.touch(table.found);
  }
  if (!fits(s, args, ask, keep)) {
    refuse(s, ask);
    return Refused{};
  }
  const bool admitted = !any([](const Table& t) { return t.cached || !t.blocks.empty(); });
  if (ask.starts) start(s, ask);
  Granted granted = grow(s, ask);
  if (is("take_before_touch") && ask.starts && ask.found) {
    for (const Table& table : s.tables) pool_.touch(table.found);
  }
  const bool used = args.use_lookup || is("counts_found_not_used");
  if (used && admitted && !is("counts_at_lookup")) {
    count(s, args.status == RequestStatus::preempted);
  }
  const bool at_once = !args.delay_cache || is("delayed_blocks_published");
  if (at_once) publish(s, std::min<std::uint64_t>(main, s.tokens.size()));
  return granted;
}

void FaultHost::check_hit(const Sequence& s) const {
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    const Table& table = s.tables[g];
    require(table.blocks.empty() && !table.cached,
            "hit_on_running: a prefix for a running request");
    if (is("stale_hit_accepted")) continue;
    for (std::size_t i = 0; i < table.found.size(); ++i) {
      if (table.found[i] == kNullBlock) continue;
      const FaultHostPool::Block& b = pool_[table.found[i]];
      const FaultHostKey own = key(s, g, i);
      bool same = b.key.group == g && b.key.hash == own.hash;
      if (is("first_block_found_by_tokens")) same = b.key.tier_hash == own.tier_hash;
      if (is("lookup_compares_bucket_only")) same = true;
      require(b.hashed && (same || is("hit_checked_by_presence")),
              "stale_lookup: the prefix is gone");
    }
  }
}

// ---- what it takes ----

/// [blocks] that the table must have in the end
std::uint64_t FaultHost::wanted(const Sequence& s, GroupId group, const Ask& ask) const {
  const GroupConfig& config = config_.groups[group];
  const std::uint64_t capacity = config.block_size - s.lost_capacity;
  const std::uint64_t blocks = ceil_div(slots_with_drafts(config, ask.slots), capacity);
  const auto cap = admission_cap(config_, config);
  const bool capped = ask.gate && cap && !is("gate_charges_whole_window");
  return capped ? std::min(blocks, *cap) : blocks;
}

/// [blocks] of the table once the tokens that a connector loads have room; 0 if none of them is
/// read
std::uint64_t FaultHost::loaded(GroupId group, const Ask& ask) const {
  const GroupConfig& config = config_.groups[group];
  const std::uint64_t read = ask.computed - skipped_tokens(config, ask.computed);
  if (std::min(read, ask.external) == 0) return 0;
  return ceil_div<std::uint64_t>(ask.computed, config.block_size);
}

std::uint64_t FaultHost::need(const Sequence& s, GroupId group, const Ask& ask) const {
  const GroupConfig& config = config_.groups[group];
  const Blocks found = ask.found ? s.tables[group].found : Blocks{};
  const std::size_t skipped = skipped_tokens(config, ask.computed) / config.block_size;
  const std::size_t have =
      ask.starts ? std::max(skipped, found.size()) : s.tables[group].blocks.size();
  // Found blocks may stand in the queue: they are free now, and will be held.
  const std::size_t unread = std::min(skipped, found.size());
  std::uint64_t queued =
      pool_.queued({found.begin() + static_cast<std::ptrdiff_t>(unread), found.end()});
  if (is("check_ignores_queued_hits") && !ask.gate) queued = 0;
  if (is("gate_ignores_queued_hits") && ask.gate) queued = 0;
  const std::uint64_t want = wanted(s, group, ask);
  return (want > have ? want - have : 0) + queued + to_copy(s, group, ask).size();
}

std::uint64_t FaultHost::need(const Sequence& s, const Ask& ask) const {
  std::uint64_t sum = 0;
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    const Blocks& found = s.tables[g].found;
    const bool state = config_.groups[g].kind == LayerKind::mamba && ask.found && !found.empty();
    if (state && new_states_.count({g, key(s, g, found.size() - 1).hash}) > 0 &&
        !is("state_hit_in_same_step")) {
      return pool_.size() + 1;  // it is not computed yet
    }
    sum += need(s, g, ask);
  }
  return sum;
}

bool FaultHost::gate_opens(const Sequence& s, const AllocateArgs& args, Ask ask,
                           std::uint64_t keep) const {
  ask.slots = is("gate_reserves_chunk_only") ? ask.computed + args.new_tokens : s.tokens.size();
  ask.gate = true;
  return need(s, ask) + keep <= pool_.free().size();
}

bool FaultHost::fits(const Sequence& s, const AllocateArgs& args, const Ask& ask,
                     std::uint64_t keep) const {
  const std::uint64_t block_size = config_.groups.front().block_size;
  const std::uint64_t reserved = config_.profile.admission_gates ? args.reserved : 0;
  std::uint64_t sum = need(s, ask);
  if (is("take_before_check")) sum = 0;
  if (is("check_counts_tokens")) {
    const std::uint64_t tokens = args.new_tokens * s.tables.size();
    sum = std::min(sum, tokens / block_size);
  }
  if (is("check_ignores_partial_block")) {
    sum = std::max(sum, ceil_div<std::uint64_t>(args.new_tokens + args.lookahead, block_size));
  }
  if (is("check_counts_prompt_twice")) sum += args.new_tokens / block_size;
  return sum + keep + reserved <= pool_.free().size();
}

// Refuses; no block was taken. A fault takes blocks first and gives them back wrongly.
void FaultHost::refuse(Sequence& s, const Ask& ask) {
  std::deque<BlockId>& free = pool_.free();
  if (free.empty()) return;
  if (is("rollback_to_tail")) {
    free.push_back(free.front());
    free.pop_front();
  }
  if (is("rollback_forgets_keys")) pool_.unpublish(free.front());
  const bool several = s.tables.size() > 1 && !ask.starts;
  if (is("refusal_keeps_first_group") && several && need(s, 0, ask) == 1) {
    std::vector<Copy> copies;
    grow_group(s, 0, ask, copies);
  }
}

// ---- taking it ----

/// Positions about to be written that are not published.
std::vector<std::size_t> FaultHost::to_write(const Sequence& s, GroupId group,
                                             const Ask& ask) const {
  const GroupConfig& config = config_.groups[group];
  const Table& table = s.tables[group];
  std::vector<std::size_t> out;
  if (config.kind == LayerKind::mamba) return out;
  const std::uint64_t end = std::min<std::uint64_t>(
      ceil_div<std::uint64_t>(ask.slots, config.block_size), table.blocks.size());
  std::uint64_t at =
      std::max<std::uint64_t>(ask.computed / config.block_size, table.cached.value_or(0));
  for (; at < end; ++at) out.push_back(at);
  return out;
}

/// Those of them that have another holder, too.
std::vector<std::size_t> FaultHost::to_copy(const Sequence& s, GroupId group,
                                            const Ask& ask) const {
  std::vector<std::size_t> out = to_write(s, group, ask);
  if (is("write_without_copy")) return {};
  std::erase_if(out, [&](std::size_t at) { return pool_[s.tables[group].blocks[at]].refs <= 1; });
  return out;
}

// All found blocks are held before any block is taken, because they may stand in the queue.
void FaultHost::start(Sequence& s, const Ask& ask) {
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    const GroupConfig& config = config_.groups[g];
    Table& table = s.tables[g];
    const std::size_t skipped = skipped_tokens(config, ask.computed) / config.block_size;
    table.blocks.assign(skipped, kNullBlock);
    const Blocks found = ask.found ? table.found : Blocks{};
    for (std::size_t i = skipped; i < found.size(); ++i) {
      const bool last = i + 1 == found.size();
      const bool skips = is("touch_before_check") || is("take_before_touch") ||
                         (last && is("hit_touches_all_but_last"));
      if (!skips) pool_.touch({found[i]});
      const bool marked =
          is("hit_prefix_freed_to_front") ||
          (is("window_hit_freed_to_front") && config.kind == LayerKind::sliding_window);
      pool_[found[i]].hit = marked && found[i] != kNullBlock;
      table.blocks.push_back(found[i]);
    }
    table.cached = static_cast<std::uint32_t>(table.blocks.size());
  }
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    Blocks& blocks = s.tables[g].blocks;
    const std::uint64_t end = loaded(g, ask);
    if (end <= blocks.size()) continue;
    const Blocks room = pool_.take(end - blocks.size());
    blocks.insert(blocks.end(), room.begin(), room.end());
  }
}

Granted FaultHost::grow(Sequence& s, const Ask& ask) {
  Granted out;
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    out.blocks.push_back(grow_group(s, g, ask, out.copies));
  }
  return out;
}

/// @return copies, then the new blocks of the table
FaultHost::Blocks FaultHost::grow_group(Sequence& s, GroupId group, const Ask& ask,
                                        std::vector<Copy>& copies) {
  Table& table = s.tables[group];
  Blocks fresh;
  for (const std::size_t at : to_copy(s, group, ask)) {
    const BlockId copy = pool_.take(1).front();
    copies.push_back({table.blocks[at], copy});
    fresh.push_back(copy);
    pool_.release({std::exchange(table.blocks[at], copy)});
  }
  // A relative may have published a block under the content that it wrote there, and left.
  for (const std::size_t at : to_write(s, group, ask)) {
    const FaultHostPool::Block& b = pool_[table.blocks[at]];
    if (!b.hashed) continue;
    const std::size_t unit = b.key.prefix_tokens / config_.hash_block_size;
    const bool own = unit <= s.hashes.size() && s.hashes[unit - 1] == b.key.hash;
    if (!own) pool_.unpublish(table.blocks[at]);
  }
  const std::uint64_t want = wanted(s, group, ask);
  const std::size_t have = table.blocks.size();
  std::uint64_t missing = want > have ? want - have : 0;
  if (is("slots_from_computed") && have > 0) {
    const std::uint64_t used =
        ceil_div<std::uint64_t>(ask.computed, config_.groups[group].block_size);
    missing = want > used ? want - used : 0;
  }
  for (const BlockId block : pool_.take(missing)) {
    const bool counts = is("take_counts_as_published") && table.cached == table.blocks.size();
    table.blocks.push_back(block);
    fresh.push_back(block);
    if (counts) table.cached = static_cast<std::uint32_t>(table.blocks.size());
  }
  return fresh;
}

}  // namespace kvproof::properties
