// SPDX-License-Identifier: Apache-2.0
// The laws of saying no: a rejection names a precondition, which the caller must have broken, and
// whoever refuses for lack of room must be short of it.
#include <algorithm>
#include <map>
#include <string_view>

#include "properties/laws/law_scenes.h"
#include "reference/contract.h"
#include "reference/operations.h"

namespace kvproof::properties::law {
namespace {

bool knows(const Step& step, const std::string& request) {
  return step.before.find(request) != nullptr;
}

bool leases(const Step& step, const std::string& name) {
  return std::ranges::find(step.before.leases, name, &LeaseState::name) != step.before.leases.end();
}

const std::string* new_request(const Operation& operation) {
  if (const auto* arrive = std::get_if<op::Arrive>(&operation)) return &arrive->req;
  const auto* fork = std::get_if<op::Fork>(&operation);
  return fork != nullptr ? &fork->child : nullptr;
}

const std::string* new_transfer(const Operation& operation) {
  if (const auto* out = std::get_if<op::SwapOut>(&operation)) return &out->transfer;
  const auto* in = std::get_if<op::SwapIn>(&operation);
  return in != nullptr ? &in->transfer : nullptr;
}

/// The blocks that an operation names, if it is about blocks that need not be the caller's.
const std::vector<BlockId>* named_blocks(const Operation& operation) {
  if (const auto* evict = std::get_if<op::Evict>(&operation)) return &evict->blocks;
  if (const auto* touch = std::get_if<op::Touch>(&operation)) return &touch->blocks;
  const auto* pin = std::get_if<op::Pin>(&operation);
  return pin != nullptr ? &pin->blocks : nullptr;
}

bool uses_hit(const Step& step) { return step.history.asked && step.history.asked->uses_hit; }

/// The first precondition that a batch breaks, request by request.
std::optional<Breach> breach_of_batch(const Step& s) {
  const auto* batch = std::get_if<op::Decode>(&s.operation);
  if (batch == nullptr) return std::nullopt;
  if (batch->tokens.size() != batch->reqs.size()) return Breach::capacity;
  std::map<std::string_view, std::uint64_t> appended;
  for (const std::string& req : batch->reqs) {
    const RequestState* r = s.before.find(req);
    if (r == nullptr) return Breach::unknown_request;
    if (r->num_tokens + ++appended[req] > s.config.max_model_len) return Breach::capacity;
    const RequestRecord* record = s.history.find(req);
    if (record != nullptr && !record->resident()) return Breach::in_transfer;
  }
  return std::nullopt;
}

// Breach by breach: whether this call breaks the precondition.

bool unknown_request(const Step& s) {
  if (when::is<op::Decode>(s)) return breach_of_batch(s) == Breach::unknown_request;
  const std::string& name = request_of(s.operation);
  return !std::holds_alternative<op::Arrive>(s.operation) && !name.empty() && !knows(s, name);
}
bool duplicate_request(const Step& s) {
  const std::string* name = new_request(s.operation);
  return name != nullptr && knows(s, *name);
}
bool nothing_to_allocate(const Step& s) {
  const auto* allocate = std::get_if<op::Allocate>(&s.operation);
  return allocate != nullptr && allocate->args.new_tokens == 0 && allocate->args.external == 0;
}
bool hit_on_running(const Step& s) {
  const RequestState* r = own_before(s);
  return uses_hit(s) && r != nullptr && (!without_blocks(*r) || !without_progress(*r));
}
bool stale_lookup(const Step& s) {
  return uses_hit(s) && own_before(s) != nullptr && own_record(s) != nullptr &&
         !still_published(s, *own_before(s), own_record(s)->hit);
}
bool computed_beyond_tokens(const Step& s) {
  const auto* advance = std::get_if<op::Advance>(&s.operation);
  const RequestState* r = own_before(s);
  return advance != nullptr && r != nullptr && advance->computed > r->num_tokens;
}
bool block_out_of_range(const Step& s) {
  const bool evicts = std::holds_alternative<op::Evict>(s.operation);
  const auto* blocks = named_blocks(s.operation);
  return blocks != nullptr && std::ranges::any_of(*blocks, [&](BlockId block) {
           return block >= s.config.num_blocks || (block == kNullBlock && !evicts);
         });
}
bool not_held(const Step& s) {
  const auto* release = std::get_if<op::Release>(&s.operation);
  if (release == nullptr) return false;
  std::vector<BlockId> blocks = release->blocks;
  std::ranges::sort(blocks);
  return !std::ranges::includes(s.before.raw, blocks);
}
bool published_tail(const Step& s) {
  const auto* truncate = std::get_if<op::Truncate>(&s.operation);
  const RequestState* r = own_before(s);
  if (truncate == nullptr || r == nullptr) return false;
  if (truncate->tokens < r->computed) return true;
  for (GroupId g = 0; g < s.config.groups.size(); ++g) {
    const GroupConfig& group = s.config.groups[g];
    const bool grows = group.kind != LayerKind::mamba && group.kind != LayerKind::cross;
    if (grows && ceil_div(truncate->tokens, group.block_size) < progress_of(*r, g)) return true;
  }
  return false;
}
bool no_content(const Step& s) {
  const auto* pin = std::get_if<op::Pin>(&s.operation);
  return pin != nullptr && std::ranges::any_of(pin->blocks, [&](BlockId block) {
           return block < s.before.blocks.size() && s.before.blocks[block].ref_cnt == 0 &&
                  !s.before.blocks[block].hashed;
         });
}
bool unknown_lease(const Step& s) {
  const auto* unpin = std::get_if<op::Unpin>(&s.operation);
  return unpin != nullptr && !leases(s, unpin->lease);
}
bool duplicate_lease(const Step& s) {
  const auto* pin = std::get_if<op::Pin>(&s.operation);
  return pin != nullptr && leases(s, pin->lease);
}
bool unknown_transfer(const Step& s) {
  const auto* complete = std::get_if<op::Complete>(&s.operation);
  return complete != nullptr && s.history.book.find_transfer(complete->transfer) == nullptr;
}
bool duplicate_transfer(const Step& s) {
  const std::string* name = new_transfer(s.operation);
  return name != nullptr && (name->empty() || s.history.book.find_transfer(*name) != nullptr);
}
bool in_transfer(const Step& s) {
  if (when::is<op::Decode>(s)) return breach_of_batch(s) == Breach::in_transfer;
  const RequestRecord* r = own_record(s);
  if (r == nullptr) return false;
  if (when::is<op::Free, op::Finish, op::SwapIn>(s)) return !r->transfer.empty();
  return when::is<op::Allocate, op::Recycle, op::Cache, op::Truncate, op::Fork, op::SwapOut>(s) &&
         !r->resident();
}
bool not_in_transfer(const Step& s) {
  const RequestRecord* record = own_record(s);
  const RequestState* r = own_before(s);
  if (std::holds_alternative<op::SwapOut>(s.operation)) return r != nullptr && without_blocks(*r);
  return std::holds_alternative<op::SwapIn>(s.operation) && record != nullptr && !record->on_host;
}

/// More tokens than the configuration allows, or more than the subject says that it has room for.
bool capacity(const Step& s) {
  const Capacities& room = s.history.promises->capacity;
  const std::uint64_t limit = s.config.max_model_len;
  const RequestState* r = own_before(s);
  if (new_request(s.operation) != nullptr &&
      s.before.requests.size() >= room.requests.value_or(~0ULL)) {
    return true;
  }
  if (const auto* arrive = std::get_if<op::Arrive>(&s.operation)) {
    return arrive->tokens.size() > limit;
  }
  if (const auto* append = std::get_if<op::Append>(&s.operation)) {
    return r != nullptr && r->num_tokens + append->tokens.size() > limit;
  }
  if (breach_of_batch(s) == Breach::capacity) return true;
  std::uint64_t entries = 0;
  for (const RequestState& other : s.before.requests) {
    for (const auto& table : other.tables) entries += table.size();
  }
  if (const auto* batch = std::get_if<op::Decode>(&s.operation)) {
    const std::uint64_t most = batch->reqs.size() * s.config.groups.size();
    return entries + most > room.table_entries.value_or(~0ULL);
  }
  if (!s.history.asked) return false;
  for (GroupId g = 0; r != nullptr && g < s.history.asked->groups.size(); ++g) {
    const std::uint64_t held = table_of(*r, g).size();
    const GroupExtent& asked = s.history.asked->groups[g];
    const bool whole = s.history.promises->traits.reserves_prompt();
    entries += std::max(whole ? asked.most : asked.length, held) - held;
  }
  return s.history.asked->total > limit || entries > room.table_entries.value_or(~0ULL);
}

/// What a code says, and when it is so.
struct Precondition {
  Breach breach;
  bool (*broken)(const Step&);
};

constexpr Precondition kPreconditions[] = {
    {Breach::unknown_request, unknown_request},
    {Breach::duplicate_request, duplicate_request},
    {Breach::nothing_to_allocate, nothing_to_allocate},
    {Breach::hit_on_running, hit_on_running},
    {Breach::stale_lookup, stale_lookup},
    {Breach::computed_beyond_tokens, computed_beyond_tokens},
    {Breach::block_out_of_range, block_out_of_range},
    {Breach::not_held, not_held},
    {Breach::capacity, capacity},
    {Breach::published_tail, published_tail},
    {Breach::no_content, no_content},
    {Breach::unknown_lease, unknown_lease},
    {Breach::duplicate_lease, duplicate_lease},
    {Breach::unknown_transfer, unknown_transfer},
    {Breach::duplicate_transfer, duplicate_transfer},
    {Breach::in_transfer, in_transfer},
    {Breach::not_in_transfer, not_in_transfer},
};

}  // namespace

Finding rejection_has_cause(const Step& step) {
  const auto* rejected = std::get_if<Rejected>(&step.outcome.result);
  const Promises& promises = *step.history.promises;
  if (rejected == nullptr || declines(promises, step.operation, *rejected)) return std::nullopt;
  const std::string error = error_text(*rejected);
  if (promises.valid_calls_only) {
    if (capacity(step)) return std::nullopt;
    return say("a valid call was answered by an error: ", error);
  }
  const auto* row = std::ranges::find_if(
      kPreconditions, [&](const Precondition& p) { return rejected->breach == p.breach; });
  if (row == std::end(kPreconditions)) {
    return say("the rejection names no precondition: ", error);
  }
  if (row->broken(step)) return std::nullopt;
  return say("a call that breaks no such precondition was rejected as ", error);
}

extern const Scenes rejection_has_cause_scenes = {
    {"full without being full", play::share,
     [](Scene& s) { s.outcome.result = result_of_error("capacity: full"); }},
    {"no code", play::share, [](Scene& s) { s.outcome.result = result_of_error("no"); }},
    {"an append rejected", play::append,
     [](Scene& s) { s.outcome.result = result_of_error("capacity: full"); }},
    {"a known request unknown", play::append,
     [](Scene& s) { s.outcome.result = result_of_error("unknown_request: who"); }},
    {"a fresh hit stale", play::hit,
     [](Scene& s) { s.outcome.result = result_of_error("stale_lookup: gone"); }},
};

namespace {

/// So many free blocks are enough for this call, whatever the subject reserves for the request.
std::uint64_t most_needed(const Step& step) {
  const auto* take = std::get_if<op::Take>(&step.operation);
  if (take != nullptr) return take->n;
  const RequestState* r = own_before(step);
  std::uint64_t out = 0;
  const auto count = [&out](const std::vector<std::vector<BlockId>>& tables) {
    for (const auto& table : tables) out += table.size();
  };
  if (r != nullptr && std::holds_alternative<op::SwapOut>(step.operation)) count(r->tables);
  if (r != nullptr && std::holds_alternative<op::SwapIn>(step.operation)) count(r->host_tables);
  const auto& asked = step.history.asked;
  if (r == nullptr || !asked) return out;
  const std::uint64_t tokens = std::max<std::uint64_t>(asked->slots, r->num_tokens);
  for (GroupId g = 0; g < step.config.groups.size(); ++g) {
    const GroupConfig& group = step.config.groups[g];
    const std::uint64_t whole = ceil_div<std::uint64_t>(tokens, group.block_size);
    out += std::max(whole, asked->groups[g].length) + group.speculative_blocks + 1;
    out += whole - std::min<std::uint64_t>(whole, asked->total / group.block_size);  // copies
  }
  return out;
}

}  // namespace

Finding refusal_has_cause(const Step& step) {
  if (!std::holds_alternative<Refused>(step.outcome.result)) return std::nullopt;
  // A hit on a state that was published in this very step waits for the next one.
  const bool states = std::ranges::any_of(
      step.config.groups, [](const GroupConfig& g) { return g.kind == LayerKind::mamba; });
  if (states && uses_hit(step)) return std::nullopt;
  const bool host = std::holds_alternative<op::SwapOut>(step.operation);
  const PoolState& pool = host ? step.before.host : step.before;
  const std::uint64_t most = most_needed(step);
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  const std::uint64_t kept =
      allocate == nullptr
          ? 0
          : (pool.blocks.size() + 3) / 4 + step.config.watermark_blocks() + allocate->args.reserved;
  if (most + kept > pool.num_free) return std::nullopt;
  return say("refused with ", pool.num_free, " free blocks, where all that it can need is ", most);
}

extern const Scenes refusal_has_cause_scenes = {
    {"refused in an empty pool", play::admit_six,
     [](Scene& s) {
       s.before.num_free = 40;
       s.outcome.result = Refused{};
     }},
    {"raw owner refused", play::take_while_pinned,
     [](Scene& s) {
       s.before.num_free = 40;
       s.outcome.result = Refused{};
     }},
};

}  // namespace kvproof::properties::law
