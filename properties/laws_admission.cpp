// SPDX-License-Identifier: Apache-2.0
// Laws of single operations: what a lookup may answer, when an allocation is granted, what failure
// may touch, and where blocks enter and leave the free queue.
#include <algorithm>

#include "properties/law_checks.h"

namespace kvproof::properties::law {
namespace {

/// What a granted allocation has to take, computed from the state before it.
struct Demand {
  bool admits = false;        // the request had no blocks: a hit and external blocks may be added
  std::uint64_t hit = 0;      // [blocks] of the looked-up prefix
  std::uint64_t revived = 0;  // [blocks] of it that stand in the free queue
  std::uint64_t need = 0;     // [blocks] that leave the free queue
  std::uint64_t whole_need = 0;  // [blocks] the same for all tokens known now
  std::uint64_t watermark = 0;   // [blocks] that must stay free
  std::uint64_t reserved = 0;    // [blocks] promised to others
  bool beyond_limit = false;     // external tokens past max_model_len, which are not clamped
};

Demand demand_of(const Step& step, const AllocateArgs& args, const RequestState& r,
                 const RequestRecord& record) {
  const std::uint64_t block_size = step.config.groups.front().block_size;
  const std::uint64_t limit = step.config.max_model_len;
  Demand d;
  d.admits = table_of(r).empty() && !progress_of(r);
  if (args.use_lookup) {
    d.hit = record.hit.size();
    d.revived = static_cast<std::uint64_t>(
        std::count_if(record.hit.begin(), record.hit.end(), [&](BlockId block) {
          return block < step.before.blocks.size() && step.before.blocks[block].ref_cnt == 0;
        }));
  }
  const std::uint64_t local = r.computed + d.hit * block_size;
  const std::uint64_t slots =
      std::min(std::min(local + args.external, limit) + args.new_tokens + args.lookahead, limit);
  const std::uint64_t have = d.hit + table_of(r).size();
  const auto blocks_for = [&](std::uint64_t tokens) {
    const std::uint64_t wanted = ceil_div(tokens, block_size);
    return (wanted > have ? wanted - have : 0) + d.revived;
  };
  d.need = blocks_for(slots);
  d.whole_need = blocks_for(std::min<std::uint64_t>(r.num_tokens, limit));
  const bool gated = step.config.profile.admission_gates;
  if (args.has_scheduled && args.status != RequestStatus::running)
    d.watermark = step.config.watermark_blocks();
  d.reserved = gated ? args.reserved : 0;
  d.beyond_limit = d.admits && args.external > 0 && local + args.external > limit;
  return d;
}

/// The allocation of this step, if the request is known and its arguments are not at fault.
struct Call {
  const op::Allocate* allocate = nullptr;
  const RequestState* before = nullptr;
  const RequestRecord* record = nullptr;
};

bool fresh(const Step& step, const RequestState& r, const std::vector<BlockId>& hit) {
  for (std::size_t i = 0; i < hit.size(); ++i) {
    const bool carries = hit[i] < step.before.blocks.size() && i < r.hashes.size() &&
                         step.before.blocks[hit[i]].hashed &&
                         step.before.blocks[hit[i]].key == r.hashes[i];
    if (!carries) return false;
  }
  return true;
}

std::optional<Call> valid_call(const Step& step) {
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  if (allocate == nullptr) return std::nullopt;
  const RequestState* r = step.before.find(allocate->req);
  const RequestRecord* record = step.history.find(allocate->req);
  if (r == nullptr || record == nullptr) return std::nullopt;
  if (allocate->args.new_tokens == 0 && allocate->args.external == 0) return std::nullopt;
  if (allocate->args.use_lookup && !record->hit.empty()) {
    if (!table_of(*r).empty() || progress_of(*r) || !fresh(step, *r, record->hit))
      return std::nullopt;
  }
  return Call{allocate, r, record};
}

Finding check_hit(const Step& step, const RequestState& r, const Hit& hit) {
  const std::uint64_t unit = step.config.hash_block_size;
  const RequestRecord* record = step.history.find(r.name);
  if (hit.blocks.size() != 1 || hit.hit_tokens != hit.blocks.front().size() * unit) {
    return say("the hit of ", r.name, " is said to be ", hit.hit_tokens,
               " tokens long but does not list as many blocks");
  }
  const std::vector<BlockId>& blocks = hit.blocks.front();
  const bool may_hit = step.config.enable_caching && record != nullptr && !record->skip_lookup;
  const std::size_t limit = may_hit && r.num_tokens > 0 ? (r.num_tokens - 1) / unit : 0;
  if (blocks.size() > limit) {
    return say("the hit of ", r.name, " has ", blocks.size(), " blocks; at most ", limit,
               " of its ", r.num_tokens, " tokens' blocks may be found");
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::uint32_t entry =
        blocks[i] < step.history.num_blocks ? step.history.tally.entry[blocks[i]] : 0;
    if (entry == 0 || i >= r.hashes.size() || step.after.index[entry - 1].key != r.hashes[i]) {
      return say("position ", i, " of the hit of ", r.name, " is block ", blocks[i],
                 ", which is not published for it");
    }
    const BlockId oldest = step.after.index[entry - 1].blocks.front();
    if (oldest != blocks[i]) {
      return say("position ", i, " of the hit of ", r.name, " is block ", blocks[i],
                 "; the oldest copy is block ", oldest);
    }
  }
  const std::size_t next = blocks.size();
  if (next < limit && next < r.hashes.size() &&
      std::any_of(step.after.index.begin(), step.after.index.end(), [&](const IndexEntry& e) {
        return e.key == r.hashes[next] && !e.blocks.empty();
      })) {
    return say("the hit of ", r.name, " ends at block ", next, " although that one is published");
  }
  return std::nullopt;
}

// The blocks of an admitted prefix are the ones looked up, held, and still carry their content.
Finding check_admitted(const Step& step, const op::Allocate& allocate) {
  const RequestState* was = step.before.find(allocate.req);
  const RequestState* r = step.after.find(allocate.req);
  const RequestRecord* record = step.history.find(allocate.req);
  if (was == nullptr || r == nullptr || record == nullptr || !allocate.args.use_lookup)
    return std::nullopt;
  if (record->hit.empty()) return std::nullopt;
  if (!table_of(*was).empty())
    return say("a prefix was handed to ", r->name, ", which already had blocks");
  const std::vector<BlockId>& table = table_of(*r);
  for (std::size_t i = 0; i < record->hit.size(); ++i) {
    const BlockId block = record->hit[i];
    if (i >= table.size() || table[i] != block) {
      return say("position ", i, " of ", r->name, " is not block ", block,
                 " that its lookup found");
    }
    if (block >= step.after.blocks.size())
      return say("position ", i, " of ", r->name, " is no block of the pool");
    const BlockState& state = step.after.blocks[block];
    if (state.ref_cnt < 1)
      return say("block ", block, " of the prefix of ", r->name, " is held by nobody");
    if (!state.hashed || i >= r->hashes.size() || state.key != r->hashes[i]) {
      return say("block ", block, " was admitted at position ", i, " of ", r->name,
                 " without carrying its content");
    }
  }
  return std::nullopt;
}

}  // namespace

Finding lookup_contract(const Step& step) {
  if (const auto* lookup = std::get_if<op::Lookup>(&step.operation)) {
    const RequestState* r = step.after.find(lookup->req);
    const auto* hit = std::get_if<Hit>(&step.outcome.result);
    return r != nullptr && hit != nullptr ? check_hit(step, *r, *hit) : std::nullopt;
  }
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  if (allocate != nullptr && std::holds_alternative<Granted>(step.outcome.result)) {
    return check_admitted(step, *allocate);
  }
  return std::nullopt;
}

Finding admission_prediction(const Step& step) {
  const auto call = valid_call(step);
  if (!call) return std::nullopt;
  const Demand d = demand_of(step, call->allocate->args, *call->before, *call->record);
  if (d.beyond_limit) return std::nullopt;
  const std::uint64_t free = step.before.num_free;
  const std::uint64_t asked = d.need + d.watermark + d.reserved;
  const bool whole =
      !call->allocate->args.full_sequence_must_fit || d.whole_need + d.watermark <= free;
  if (std::holds_alternative<Granted>(step.outcome.result)) {
    if (asked > free) {
      return say(call->before->name, " was granted ", d.need, " blocks with ", free, " free, ",
                 d.watermark, " to stay free and ", d.reserved, " reserved");
    }
    const std::int64_t taken =
        std::int64_t{step.before.num_free} - std::int64_t{step.after.num_free};
    if (taken != static_cast<std::int64_t>(d.need)) {
      return say(call->before->name, " needs ", d.need, " blocks (", d.revived,
                 " of them a free hit); ", taken, " were taken");
    }
    return std::nullopt;
  }
  const auto* rejected = std::get_if<Rejected>(&step.outcome.result);
  if (rejected != nullptr && rejected->error.starts_with("capacity")) return std::nullopt;
  if (rejected == nullptr ? asked <= free && whole : asked > free || whole) {
    return say(
        call->before->name, " needs ", d.need, " of ", free, " free blocks, ", d.watermark,
        " to stay free and ", d.reserved, " reserved, and was ",
        rejected == nullptr ? "refused" : "rejected: ", rejected == nullptr ? "" : rejected->error);
  }
  return std::nullopt;
}

Finding whole_sequence_gate(const Step& step) {
  const auto call = valid_call(step);
  if (!call || !call->allocate->args.full_sequence_must_fit) return std::nullopt;
  const Demand d = demand_of(step, call->allocate->args, *call->before, *call->record);
  const bool granted = std::holds_alternative<Granted>(step.outcome.result);
  if (granted && d.whole_need + d.watermark > step.before.num_free) {
    return say(call->before->name, " was admitted though its ", call->before->num_tokens,
               " tokens need ", d.whole_need, " blocks, with ", step.before.num_free, " free and ",
               d.watermark, " to stay free");
  }
  return std::nullopt;
}

Finding failure_changes_nothing(const Step& step) {
  const bool refused = std::holds_alternative<Refused>(step.outcome.result);
  if (!refused && !std::holds_alternative<Rejected>(step.outcome.result)) return std::nullopt;
  const char* what = refused ? "refused" : "rejected";
  if (!step.outcome.events.empty()) {
    return say("a ", what, " operation announced ", step.outcome.events.size(), " events");
  }
  if (step.before == step.after) return std::nullopt;
  if (step.before.queue != step.after.queue) {
    return say("a ", what, " operation turned the queue ", list_of(step.before.queue), " into ",
               list_of(step.after.queue));
  }
  for (BlockId block = 0; block < step.history.num_blocks; ++block) {
    if (step.before.blocks[block] != step.after.blocks[block]) {
      return say("a ", what, " operation changed block ", block, ": ",
                 step.before.blocks[block].ref_cnt, " references became ",
                 step.after.blocks[block].ref_cnt);
    }
  }
  return say("a ", what, " operation changed the state");
}

Finding reads_are_pure(const Step& step) {
  const bool reads = std::holds_alternative<op::Lookup>(step.operation) ||
                     std::holds_alternative<op::CommonPrefix>(step.operation) ||
                     std::holds_alternative<op::Recycle>(step.operation) ||
                     std::holds_alternative<op::Step>(step.operation);
  if (!reads) return std::nullopt;
  if (!step.outcome.events.empty())
    return say("a read announced ", step.outcome.events.size(), " events");
  if (step.before != step.after) return say("a read changed the state");
  return std::nullopt;
}

}  // namespace kvproof::properties::law
