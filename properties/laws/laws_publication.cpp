// SPDX-License-Identifier: Apache-2.0
// Laws of keys and counts over a step: when content is published, when it may be forgotten, and
// when a hit is counted.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties::law {
namespace {

bool rejected(const Step& step) { return is_undone(step.outcome.result); }

bool names(const std::vector<BlockId>& blocks, BlockId block) {
  return std::ranges::find(blocks, block) != blocks.end();
}

/// Whether the block was handed out in this step and lost its content.
bool handed_out(const Step& step, BlockId block) {
  const auto* granted = std::get_if<Granted>(&step.outcome.result);
  if (granted == nullptr) return false;
  for (const std::vector<BlockId>& group : granted->blocks) {
    if (names(group, block)) return true;
  }
  const auto copied = [block](const auto& copy) { return copy && copy->to == block; };
  if (std::ranges::any_of(step.history.tail_copies, copied)) return true;
  const bool loads = when::is<op::SwapIn, op::Fork>(step);
  if (loads && std::ranges::find(granted->copies, block, &Copy::to) != granted->copies.end()) {
    return true;
  }
  if (!step.history.asked || !step.history.asked->starts) return false;
  const RequestState* now = step.after.find(step.history.asked->request);
  for (GroupId g = 0; now != nullptr && g < step.history.asked->groups.size(); ++g) {
    const std::vector<BlockId>& table = table_of(*now, g);  // it has room for the loaded tokens
    const auto begun = std::min<std::size_t>(step.history.asked->groups[g].begun, table.size());
    if (std::find(table.begin() + static_cast<std::ptrdiff_t>(begun), table.end(), block) !=
        table.end()) {
      return true;
    }
  }
  return false;
}

/// Whether the grant of this step writes into the block, or moves a state out of it.
bool written_anew(const Step& step, BlockId block) {
  const auto& asked = step.history.asked;
  if (!asked || !std::holds_alternative<Granted>(step.outcome.result)) return false;
  const RequestState* was = step.before.find(asked->request);
  for (GroupId g = 0; was != nullptr && g < step.config.groups.size(); ++g) {
    const std::vector<BlockId>& table = table_of(*was, g);
    const auto at = std::ranges::find(table, block);
    if (at == table.end()) continue;
    const auto position = static_cast<std::uint64_t>(at - table.begin());
    const std::uint64_t from = std::max<std::uint64_t>(
        asked->total / step.config.groups[g].block_size, progress_of(*was, g));
    return moves_state(step.config.groups[g]) ||
           (position >= from && step.before.blocks[block].key != own_key(step, *was, g, position));
  }
  return false;
}

/// Whether a block has been copied to one that does not carry its key.
bool lost_by_copy(const Step& step, BlockId block) {
  const BlockState& was = step.before.blocks[block];
  return std::ranges::any_of(step.history.tail_copies, [&](const std::optional<Copy>& copy) {
    if (!copy || copy->from != block) return false;
    const BlockState& now = step.after.blocks[copy->to];
    return !now.hashed || now.key != was.key;
  });
}

/// Whether the block is the checkpoint of a request that was looked up again while it runs. What
/// lookups find decides which checkpoints are kept.
bool unwanted_checkpoint(const Step& step, BlockId block) {
  const RequestRecord* r = own_record(step);
  const RequestState* now = own_after(step);
  if (r == nullptr || now == nullptr || !r->looked_up_late) return false;
  for (GroupId g = 0; g < step.config.groups.size(); ++g) {
    if (step.config.groups[g].checkpoint_alignment == 0) continue;
    if (std::ranges::find(table_of(*now, g), block) != table_of(*now, g).end()) return true;
  }
  return false;
}

bool may_lose_its_key(const Step& step, BlockId block) {
  if (lost_by_copy(step, block)) return false;
  if (const auto* evict = std::get_if<op::Evict>(&step.operation)) {
    return !rejected(step) && names(evict->blocks, block);
  }
  if (std::holds_alternative<op::Reset>(step.operation)) {
    return step.outcome.result == Result(true);
  }
  const BlockState& was = step.before.blocks[block];
  const BlockState& now = step.after.blocks[block];
  const bool promoted = now.hashed && now.prefix_tokens > was.prefix_tokens;  // was a prompt's end
  return promoted || handed_out(step, block) || written_anew(step, block) ||
         unwanted_checkpoint(step, block);
}

}  // namespace

Finding keys_leave_with_cause(const Step& step) {
  const std::size_t n = std::min(step.before.blocks.size(), step.after.blocks.size());
  for (BlockId block = 1; block < n; ++block) {
    const BlockState& was = step.before.blocks[block];
    const BlockState& now = step.after.blocks[block];
    const bool kept = now.hashed && now.key == was.key && now.group == was.group;
    if (!was.hashed || kept || may_lose_its_key(step, block)) continue;
    const bool refused = std::holds_alternative<Refused>(step.outcome.result);
    const bool evicted = refused && was.ref_cnt == 0 && now.ref_cnt == 0 && !now.hashed;
    if (overtaken(step, block)) continue;
    if (exempted(step, evicted && step.history.promises->traits.refusal_may_evict())) continue;
    return say("block ", block, " lost its key, and was neither handed out, evicted, written anew ",
               "nor reset");
  }
  return std::nullopt;
}

extern const Scenes keys_leave_with_cause_scenes = {
    {"key lost by a lookup", play::hit, [](Scene& s) { s.block(1).hashed = false; }},
    {"key changed by a grant", play::admit_hit, [](Scene& s) { ++s.block(1).key; }},
    {"evicted beyond what was named", play::evict, [](Scene& s) { s.block(2).hashed = false; }},
    {"copied without its key", play::move_state,
     [](Scene& s) { s.block(granted(s).copies.at(0).to).hashed = false; }, with::states_inside},
};

namespace {

/// Leading table positions that must have been considered once so many tokens are published.
std::uint32_t published_at(const Step& step, const RequestState& r, GroupId group,
                           std::uint64_t tokens, std::uint32_t at_least) {
  const GroupConfig& rules = step.config.groups[group];
  if (!step.config.enable_caching || !is_cacheable(rules.kind)) return at_least;
  const std::uint64_t align = publish_alignment(step.config);
  const std::uint64_t keyed = r.hashes.size() * std::uint64_t{step.history.unit_tokens};
  const std::uint64_t publishable =
      std::min(publishable_tokens(step.config.profile, rules, align, tokens), keyed);
  const std::uint64_t end =
      std::min<std::uint64_t>(publishable / rules.block_size, table_of(r, group).size());
  return std::max(static_cast<std::uint32_t>(end), at_least);
}

// No hit ends where it would need a masked block, so a key there only takes room in the index.
Finding check_masked(const Step& step, const RequestState& r, GroupId group, std::uint64_t from,
                     std::uint64_t to) {
  const RequestRecord* record = record_of(step, r);
  if (from >= to || record == nullptr) return std::nullopt;
  for (std::uint64_t i = from; i < to; ++i) {
    const BlockId block = table_of(r, group)[i];
    if (block == kNullBlock || step.history.may_keep(*record, group, i)) continue;
    const BlockState& was = step.before.blocks[block];
    const BlockState& now = step.after.blocks[block];
    const bool own = now.hashed && now.key == own_key(step, r, group, i);
    if (own && !(was.hashed && was.key == now.key)) {
      return say("position ", TableEntry{i}, " of ", Named{r.name}, " in group ", group,
                 " is masked out, and its block ", block, " was given a key");
    }
  }
  return std::nullopt;
}

// No key covers more tokens than were said to be computed.
Finding check_not_ahead(const Step& step) {
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  const auto* cache = std::get_if<op::Cache>(&step.operation);
  const RequestState* now = own_after(step);
  if (now == nullptr || (cache == nullptr && !step.history.asked)) return std::nullopt;
  const std::uint64_t computed = cache != nullptr             ? cache->computed
                                 : allocate->args.delay_cache ? 0
                                                              : step.history.asked->main;
  const std::uint64_t told = std::min<std::uint64_t>(computed, now->num_tokens);
  for (const Event& event : step.outcome.events) {
    const auto* stored = std::get_if<event::Stored>(&event);
    if (stored == nullptr || stored->group >= step.config.groups.size()) continue;
    const std::uint64_t most =
        publishable_tokens(step.config.profile, step.config.groups[stored->group],
                           publish_alignment(step.config), told);
    for (const StoredBlock& block : stored->blocks) {
      if (block.prefix_tokens <= most) continue;
      return say("block ", block.block, " was published with a key of ", block.prefix_tokens,
                 " tokens of ", Named{now->name}, "; told were ", told);
    }
  }
  return std::nullopt;
}

}  // namespace

Finding published_as_told(const Step& step) {
  if (Finding finding = check_not_ahead(step)) return finding;
  const std::string& own = request_of(step.operation);
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  const auto* cache = std::get_if<op::Cache>(&step.operation);
  const auto& asked = step.history.asked;
  const bool granted = std::holds_alternative<Granted>(step.outcome.result);
  for (const RequestState& now : step.after.requests) {
    const RequestState* was = before_of(step, now);
    const bool settled =
        step.history.book.settled() && step.history.book.settled()->req == now.name;
    const bool freed = std::holds_alternative<op::Free>(step.operation) && own == now.name;
    if (was == nullptr || settled || freed) continue;
    for (GroupId g = 0; g < step.config.groups.size(); ++g) {
      std::uint32_t expected = progress_of(*was, g);
      if (own == now.name && allocate != nullptr && granted && asked) {
        const bool inside = asked->starts && asked->groups[g].copies > 0;  // not a whole block
        if (asked->starts) expected = static_cast<std::uint32_t>(asked->groups[g].begun) - inside;
        const std::uint64_t known = std::min<std::uint64_t>(asked->main, now.num_tokens);
        if (!allocate->args.delay_cache) expected = published_at(step, now, g, known, expected);
      }
      if (own == now.name && cache != nullptr && !rejected(step)) {
        const std::uint64_t known = std::min(cache->computed, now.num_tokens);
        expected = published_at(step, now, g, known, expected);
      }
      if (progress_of(now, g) == expected) {
        if (auto finding = check_masked(step, now, g, progress_of(*was, g), expected))
          return finding;
        continue;
      }
      return say(Named{now.name}, " has considered ", progress_of(now, g), " blocks of group ", g,
                 " for the cache; told were ", expected);
    }
  }
  return std::nullopt;
}

extern const Scenes published_as_told_scenes = {
    {"published too far", play::admit_hit, [](Scene& s) { s.after.requests[1].progress = {3}; }},
    {"not published", play::admit_six, [](Scene& s) { s.after.requests[0].progress = {2}; }},
    {"published though delayed", play::delay, [](Scene& s) { s.after.requests[0].progress = {1}; }},
    {"cache did nothing", play::publish, [](Scene& s) { s.after.requests[0].progress = {0}; }},
    {"published late", play::admit_six, [](Scene& s) { s.after.requests[0].progress[0] = 1; }},
    {"a key of tokens to come", play::admit_six,
     [](Scene& s) {
       std::get<event::Stored>(s.outcome.events.back()).blocks.back().prefix_tokens = 8;
     }},
    {"published ahead", play::decode, [](Scene& s) { ++*s.after.requests[0].progress[0]; }},
};

Finding preemption_starts_over(const Step& step) {
  const bool freed =
      std::holds_alternative<op::Free>(step.operation) && !is_undone(step.outcome.result);
  const RequestState* r = freed ? step.after.find(request_of(step.operation)) : nullptr;
  if (r == nullptr) return std::nullopt;
  const bool clean =
      without_blocks(*r) && without_progress(*r) && r->host_tables.empty() && r->computed == 0;
  if (clean) return std::nullopt;
  return say("request ", Named{r->name}, " was preempted and has ", r->computed,
             " computed tokens, blocks ", lists_of(r->tables), " and ", lists_of(r->host_tables));
}

extern const Scenes preemption_starts_over_scenes = {
    {"preempted and computed", play::preempt, [](Scene& s) { s.after.requests[0].computed = 4; }},
    {"preempted and published", play::preempt,
     [](Scene& s) { s.after.requests[0].progress[0] = 0; }},
};

Finding counted_at_admission(const Step& step) {
  if (!step.before.counters || !step.after.counters) return std::nullopt;
  HitCounters expected = *step.before.counters;
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  const auto& asked = step.history.asked;
  if (allocate != nullptr && asked && std::holds_alternative<Granted>(step.outcome.result)) {
    const RequestState* was = step.before.find(allocate->req);
    const RequestRecord* record = step.history.find(allocate->req);
    const bool admits = allocate->args.use_lookup && was != nullptr && record != nullptr &&
                        without_blocks(*was) && without_progress(*was);
    const bool resumes = allocate->args.status == RequestStatus::preempted;
    if (admits && !resumes && step.config.enable_caching && !record->skip_lookup &&
        was->num_tokens > 0) {
      ++expected.lookups;
      expected.lookup_tokens += was->num_tokens - 1;
      expected.hit_tokens += asked->total - was->computed - allocate->args.external;
    }
  }
  const HitCounters& now = *step.after.counters;
  if (now == expected) return std::nullopt;
  return say("counted are ", now.hit_tokens, " of ", now.lookup_tokens, " tokens hit in ",
             now.lookups, " admissions; it should be ", expected.hit_tokens, " of ",
             expected.lookup_tokens, " in ", expected.lookups);
}

extern const Scenes counted_at_admission_scenes = {
    {"lookup counted", play::hit, [](Scene& s) { counted(s, 1, 4, 4); }},
    {"admission not counted", play::admit_hit, [](Scene& s) { counted(s, 0, 0, 0); }},
    {"found instead of used", play::admit_hit, [](Scene& s) { counted(s, 1, 4, 2); }},
};

}  // namespace kvproof::properties::law
