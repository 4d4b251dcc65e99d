// SPDX-License-Identifier: Apache-2.0
// Laws of admission: when an allocation is granted, what it takes, and what refusals and reads may
// change.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "properties/laws/pool_replay.h"
#include "reference/contract.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {

// A copy only reads what stands before the end of the prefix that it copies.
std::int64_t writers_of(const Snapshot& state, BlockId block) {
  return state.blocks[block].ref_cnt - std::ranges::count(state.copying, block);
}

std::vector<std::size_t> shared_in_range(const Step& step, const RequestState& r, GroupId group,
                                         std::uint64_t from, std::uint64_t slots) {
  std::vector<std::size_t> out;
  const GroupConfig& rules = step.config.groups[group];
  if (!is_written_again(rules.kind)) return out;
  const std::vector<BlockId>& table = table_of(r, group);
  const std::uint64_t block_size = rules.block_size;
  const auto end = std::min<std::uint64_t>(ceil_div(slots, block_size), table.size());
  for (std::uint64_t i = std::max<std::uint64_t>(from / block_size, progress_of(r, group)); i < end;
       ++i) {
    const BlockId block = table[i];
    if (block == kNullBlock || block >= step.before.blocks.size()) continue;
    if (writers_of(step.before, block) > 1) out.push_back(static_cast<std::size_t>(i));
  }
  return out;
}

bool is_found_key(const Step& step, const RequestState& r, GroupId group, std::size_t position,
                  std::uint64_t hit_tokens, std::uint64_t key) {
  const GroupConfig& rules = step.config.groups[group];
  const std::uint64_t unit = step.history.unit_tokens;
  const std::uint64_t block_end = (position + 1) * std::uint64_t{rules.block_size};
  if (block_end <= hit_tokens) return own_key(step, r, group, position) == key;
  // Full attention may have been found further, and a shorter prefix is a hit as well.
  const std::uint64_t last = reads_all(rules.kind) ? block_end : hit_tokens;
  for (std::uint64_t end = hit_tokens; end <= last; end += unit) {
    if (end / unit <= r.hashes.size() && end >= unit && r.hashes[end / unit - 1] == key)
      return true;
  }
  return false;
}

bool carries_found_key(const Step& step, const Snapshot& state, const RequestState& r,
                       GroupId group, std::size_t position, std::uint64_t hit_tokens,
                       BlockId block) {
  if (block >= state.blocks.size() || state.blocks[block].group != group) return false;
  return std::ranges::any_of(all_keys(state, block), [&](std::uint64_t key) {
    return is_found_key(step, r, group, position, hit_tokens, key);
  });
}

bool still_published(const Step& step, const RequestState& r, const FoundPrefix& found) {
  for (GroupId g = 0; g < found.blocks.size(); ++g) {
    for (std::size_t i = 0; i < found.blocks[g].size(); ++i) {
      const BlockId block = found.blocks[g][i];
      if (block == kNullBlock) continue;
      if (!carries_found_key(step, step.before, r, g, i, found.tokens, block)) return false;
    }
    if (g >= found.end_keys.size() || found.end_keys[g].empty()) continue;
    // Nobody says by which of its keys the last block was found, so all of them must be there.
    const std::vector<std::uint64_t> now = all_keys(step.before, found.blocks[g].back());
    const std::size_t last = found.blocks[g].size() - 1;
    for (std::uint64_t key : found.end_keys[g]) {
      const bool used = is_found_key(step, r, g, last, found.tokens, key);
      if (used && std::ranges::find(now, key) == now.end()) return false;
    }
  }
  return true;
}

namespace law {
namespace {

/// What a granted allocation has to take over all groups, by the state before it. [blocks]
struct Demand {
  std::uint64_t revived = 0;     // blocks of the looked-up prefix that stand in the free queue
  std::uint64_t copies = 0;      // blocks that are about to be written and have another holder
  std::uint64_t need = 0;        // blocks that leave the free queue
  std::uint64_t whole_need = 0;  // the same for all tokens known now
  std::uint64_t for_prompt = 0;  // blocks beyond those of `need` for all tokens known now
  std::uint64_t watermark = 0;   // blocks that must stay free
  std::uint64_t reserved = 0;    // blocks that are promised to others
  std::uint64_t free = 0;        // free blocks once those out of the window have been given back
};

/// The allocation of this step, if the request is known and the arguments are valid.
struct Call {
  const AllocateArgs* args = nullptr;
  const RequestState* before = nullptr;
  const RequestRecord* record = nullptr;
  const Extent* asked = nullptr;
};

std::uint64_t revived_in(const Step& step, const Call& call, GroupId group) {
  std::uint64_t out = 0;
  const FoundPrefix& found = call.record->hit;
  if (!call.asked->uses_hit || group >= found.blocks.size()) return out;
  const std::vector<BlockId>& hit = found.blocks[group];
  for (std::size_t i = static_cast<std::size_t>(call.asked->groups[group].skipped); i < hit.size();
       ++i) {
    const bool known = hit[i] != kNullBlock && hit[i] < step.before.blocks.size();
    out += known && step.before.blocks[hit[i]].ref_cnt == 0 ? 1 : 0;
  }
  return out;
}

// A refusal must have counted the blocks that recycling gives back, even if it kept them.
std::uint64_t recycled_blocks(const Step& step, const Call& call, GroupId group) {
  const RequestState* now = own_after(step);
  if (now == nullptr) return 0;
  const Recycled gone = recycled_in(step, *call.before, *now, group);
  std::uint64_t out = 0;
  for (const auto* positions : {&gone.run, &gone.states}) {
    for (const std::size_t i : *positions) {
      const BlockId block = call.before->tables[group][i];
      out += block < step.before.blocks.size() && step.before.blocks[block].ref_cnt == 1 ? 1 : 0;
    }
  }
  return out;
}

Demand demand_of(const Step& step, const Call& call) {
  const Extent& e = *call.asked;
  const RequestState& r = *call.before;
  const std::uint64_t whole = std::min<std::uint64_t>(r.num_tokens, step.config.max_model_len);
  Demand d;
  d.free = step.before.num_free;
  for (GroupId g = 0; g < e.groups.size() && g < r.tables.size(); ++g) {
    const std::uint64_t revived = revived_in(step, call, g);
    const std::uint64_t copies = shared_in_range(step, r, g, e.total, e.slots).size();
    const std::uint64_t whole_copies = shared_in_range(step, r, g, e.total, whole).size();
    d.revived += revived;
    d.copies += copies;
    const std::uint64_t tail = e.groups[g].copies;
    d.need += e.groups[g].loaded - e.groups[g].begun + e.groups[g].fresh + revived + copies + tail;
    d.whole_need += e.groups[g].whole_new + revived + whole_copies + tail;
    d.for_prompt += e.groups[g].most - e.groups[g].length;
    d.free += recycled_blocks(step, call, g);
  }
  // A state that was published in this very step is not computed yet: no pool is large enough.
  if (e.waits) d.need = d.whole_need = std::uint64_t{step.config.num_blocks} + 1;
  if (call.args->has_scheduled && call.args->status != RequestStatus::running)
    d.watermark = step.config.watermark_blocks();
  d.reserved = step.config.profile.admission_gates ? call.args->reserved : 0;
  return d;
}

std::optional<Call> valid_call(const Step& step) {
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  if (allocate == nullptr || !step.history.asked) return std::nullopt;
  const RequestState* r = own_before(step);
  const RequestRecord* record = own_record(step);
  if (r == nullptr || record == nullptr || !record->resident()) return std::nullopt;
  const bool adopts = step.config.profile.grants_hits_alone && step.history.asked->uses_hit;
  if (allocate->args.new_tokens == 0 && allocate->args.external == 0 && !adopts) {
    return std::nullopt;
  }
  if (step.history.asked->uses_hit) {
    if (!without_blocks(*r) || !without_progress(*r) || !still_published(step, *r, record->hit))
      return std::nullopt;
  }
  return Call{&allocate->args, r, record, &*step.history.asked};
}

bool whole_fits(const Step& step, const Call& call, const Demand& d) {
  return !call.args->full_sequence_must_fit || d.whole_need + d.watermark <= step.before.num_free;
}

bool is_excused(const Step& step) {
  const auto* rejected = std::get_if<Rejected>(&step.outcome.result);
  return declines(*step.history.promises, step.operation, step.outcome.result) ||
         (rejected != nullptr && rejected->breach == Breach::capacity);
}

Finding check_granted(const Step& step, const Call& call, const Demand& d) {
  if (d.need + d.watermark + d.reserved > d.free) {
    return say(Named{call.before->name}, " was granted ", d.need, " blocks with ", d.free,
               " free, ", d.watermark, " to stay free and ", d.reserved, " reserved");
  }
  const std::int64_t taken = static_cast<std::int64_t>(d.free) - std::int64_t{step.after.num_free};
  const auto need = static_cast<std::int64_t>(d.need);
  if (taken == need) return std::nullopt;
  const Traits& traits = step.history.promises->traits;
  const bool more = taken > need && taken - need <= static_cast<std::int64_t>(d.for_prompt);
  if (exempted(step, more && traits.reserves_prompt())) return std::nullopt;
  if (exempted(step, taken < need && traits.table_repointed())) return std::nullopt;
  return say(Named{call.before->name}, " needs ", d.need, " blocks (", d.revived,
             " of them a free hit, ", d.copies, " for copies); ", taken, " were taken");
}

}  // namespace

Finding admission_prediction(const Step& step) {
  if (const auto* take = std::get_if<op::Take>(&step.operation)) {
    const bool fits = take->n <= step.before.num_free;
    if (fits == std::holds_alternative<Granted>(step.outcome.result)) return std::nullopt;
    return say("to take ", take->n, " of ", step.before.num_free, " free blocks was ",
               fits ? "refused" : "granted");
  }
  const auto call = valid_call(step);
  if (!call) return std::nullopt;
  const Demand d = demand_of(step, *call);
  if (std::holds_alternative<Granted>(step.outcome.result)) return check_granted(step, *call, d);
  const bool fits = d.need + d.watermark + d.reserved <= d.free && whole_fits(step, *call, d);
  const std::string error = error_text(step.outcome.result);
  // Whether a rejection has another cause is for C12 to say; a shortage is none.
  if (fits ? !error.empty() : error.empty() || is_excused(step)) return std::nullopt;
  return say(Named{call->before->name}, " needs ", d.need, " of ", d.free, " free blocks, ",
             d.watermark, " to stay free and ", d.reserved, " reserved, and was ",
             error.empty() ? "refused" : "rejected: ", error);
}

extern const Scenes admission_prediction_scenes = {
    {"one block too many taken", play::share, [](Scene& s) { --s.after.num_free; }},
    {"refused though it fits", play::share, [](Scene& s) { s.outcome.result = Refused{}; }},
    {"rejected for a shortage", play::refuse_third,
     [](Scene& s) { s.outcome.result = result_of_error("no free blocks"); }},
    {"granted though it does not fit", play::refuse_third,
     [](Scene& s) { s.outcome.result = Granted{{{}}}; }},
    {"copy not counted", play::copy, [](Scene& s) { ++s.after.num_free; }},
    {"refused what recycling made room for", play::decode,
     [](Scene& s) { s.outcome.result = Refused{}; }, with::window},
    {"taken though there are none", play::take_all, [](Scene& s) { s.outcome.result = Granted{}; }},
    {"raw owner refused", play::take_while_pinned, [](Scene& s) { s.outcome.result = Refused{}; }},
};

Finding whole_sequence_gate(const Step& step) {
  const auto call = valid_call(step);
  if (!call || !call->args->full_sequence_must_fit) return std::nullopt;
  const Demand d = demand_of(step, *call);
  if (whole_fits(step, *call, d)) return std::nullopt;
  if (std::holds_alternative<Granted>(step.outcome.result)) {
    return say(Named{call->before->name}, " was admitted though its ", call->before->num_tokens,
               " tokens need ", d.whole_need, " blocks, with ", step.before.num_free, " free and ",
               d.watermark, " to stay free");
  }
  if (step.before == step.after) return std::nullopt;
  if (step.history.promises->traits.refusal_may_evict()) return std::nullopt;  // I20
  return say("the gate refused ", Named{call->before->name}, " and something changed");
}

extern const Scenes whole_sequence_gate_scenes = {
    {"admitted though the whole cannot fit", play::gate,
     [](Scene& s) { s.outcome.result = Granted{{{5}}}; }},
};

namespace {

bool contains(const std::vector<IndexEntry>& index, const IndexEntry& part) {
  return std::ranges::any_of(index, [&](const IndexEntry& whole) {
    const auto listed = [&](BlockId block) {
      return std::ranges::find(whole.blocks, block) != whole.blocks.end();
    };
    return whole.key == part.key && whole.group == part.group &&
           std::ranges::all_of(part.blocks, listed);
  });
}

/// The expected state without the keys of blocks that nobody holds and that a refusal has evicted.
void forget_evicted(const Step& step, Snapshot& expected) {
  for (BlockId block = 1; block < step.history.num_blocks; ++block) {
    BlockState& was = expected.blocks[block];
    const BlockState& now = step.after.blocks[block];
    if (was.ref_cnt == 0 && now.ref_cnt == 0 && was.hashed && !now.hashed) was = now;
  }
  const bool fewer = std::ranges::all_of(
      step.after.index, [&](const IndexEntry& e) { return contains(expected.index, e); });
  if (fewer) expected.index = step.after.index;  // I9 compares it with the blocks
  if (expected.num_free == step.after.num_free) {
    expected.queue = step.after.queue;  // I1 and I2
    expected.queue_backward = step.after.queue_backward;
  }
}

bool only_removals(const std::vector<Event>& events) {
  return std::ranges::all_of(
      events, [](const Event& e) { return std::holds_alternative<event::Removed>(e); });
}

/// The state before the operation, without the blocks that the refused request has skipped.
Snapshot after_recycling(const Step& step) {
  Snapshot expected = step.before;
  PoolReplay pool(step.config, step.before);
  const RequestState* was = own_before(step);
  const RequestState* now = own_after(step);
  if (was == nullptr || now == nullptr) return expected;
  RequestState& r = expected.requests[static_cast<std::size_t>(was - step.before.requests.data())];
  for (GroupId g = 0; g < step.config.groups.size() && g < was->tables.size(); ++g) {
    const Recycled gone = recycled_in(step, *was, *now, g);
    pool.recycle(was->tables[g], gone);
    for (const auto* positions : {&gone.run, &gone.states}) {
      for (const std::size_t i : *positions) r.tables[g][i] = kNullBlock;
    }
  }
  pool.write_to(expected);
  expected.usage = step.after.usage;  // I31
  const Promises& promises = *step.history.promises;
  if (promises.level >= Level::policy) return expected;
  expected.queue = step.after.queue;  // I1 and I2; their order is policy
  expected.queue_backward = step.after.queue_backward;
  if (!promises.block_ids) expected.num_free = std::max(expected.num_free, step.after.num_free);
  return expected;
}

}  // namespace

Finding failure_changes_nothing(const Step& step) {
  const bool refused = std::holds_alternative<Refused>(step.outcome.result);
  if (!refused && !is_undone(step.outcome.result)) return std::nullopt;
  const char* what = refused ? "refused" : "rejected";
  const bool asked = refused && step.history.asked.has_value();
  const bool may_evict = asked && step.history.promises->traits.refusal_may_evict();
  const auto& events = step.outcome.events;
  if (!events.empty() && !exempted(step, may_evict && only_removals(events))) {
    return say("a ", what, " operation announced ", events.size(), " events");
  }
  if (step.before == step.after) return std::nullopt;
  Snapshot expected = asked ? after_recycling(step) : step.before;
  if (expected == step.after) return std::nullopt;
  if (may_evict) {
    forget_evicted(step, expected);
    if (exempted(step, expected == step.after)) return std::nullopt;
  }
  if (expected.queue != step.after.queue) {
    return say("a ", what, " operation turned the queue ", list_of(expected.queue), " into ",
               list_of(step.after.queue));
  }
  for (BlockId block = 0; block < step.history.num_blocks; ++block) {
    if (expected.blocks[block] != step.after.blocks[block]) {
      return say("a ", what, " operation changed block ", block, ": ",
                 expected.blocks[block].ref_cnt, " references became ",
                 step.after.blocks[block].ref_cnt);
    }
  }
  return say("a ", what, " operation changed the state");
}

extern const Scenes failure_changes_nothing_scenes = {
    {"refusal moved the queue", play::refuse_third, [](Scene& s) { s.after.queue.push_back(1); }},
    {"refusal kept a reference", play::refuse_third, [](Scene& s) { ++s.block(1).ref_cnt; }},
    {"refusal was announced", play::refuse_third,
     [](Scene& s) { s.outcome.events.emplace_back(event::Cleared{}); }},
    {"refusal changed a request", play::refuse_third,
     [](Scene& s) { ++s.after.requests[0].computed; }},
    {"refusal recycled what is read", play::refuse, [](Scene& s) { table(s, 0, 0)[2] = 0; },
     with::window},
};

Finding reads_are_pure(const Step& step) {
  const bool all_read = std::ranges::all_of(step.config.groups, [](const GroupConfig& g) {
    const bool all = reads_all(g.kind) && g.kind != LayerKind::rswa;
    return all || g.kind == LayerKind::cross || g.kind == LayerKind::ring;
  });
  const bool recycles = std::holds_alternative<op::Recycle>(step.operation);
  const bool reads = only_asks(step.operation) || std::holds_alternative<op::Step>(step.operation);
  if (!reads && !recycles) return std::nullopt;
  if (!step.outcome.events.empty())
    return say("a read announced ", step.outcome.events.size(), " events");
  if (!reads && !all_read) return std::nullopt;
  if (step.before == step.after) return std::nullopt;
  if (std::holds_alternative<op::Step>(step.operation) && !step.before.copying.empty()) {
    Snapshot expected = step.before;  // copies have run, so what they held is given back
    PoolReplay pool(step.config, step.before);
    pool.release(step.history.copied);
    pool.write_to(expected);
    expected.copying.clear();
    expected.usage = step.after.usage;  // I31
    if (expected == step.after) return std::nullopt;
  }
  return say("a read changed the state");
}

extern const Scenes reads_are_pure_scenes = {
    {"lookup took a reference", play::look_up, [](Scene& s) { ++s.block(1).ref_cnt; }},
    {"lookup announced", play::look_up,
     [](Scene& s) { s.outcome.events.emplace_back(event::Cleared{}); }},
    {"recycling announced", play::recycle,
     [](Scene& s) { s.outcome.events.emplace_back(event::Cleared{}); }, with::window},
};

}  // namespace law
}  // namespace kvproof::properties
