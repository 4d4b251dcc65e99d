// SPDX-License-Identifier: Apache-2.0
#include "properties/caller/caller_book.h"

#include <algorithm>
#include <limits>

#include "reference/layer_rules.h"
#include "reference/operations.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

/// Whether an operation may take blocks out of the free queue, and with them keys that a lookup
/// found.
bool may_evict(const Operation& operation) {
  return std::holds_alternative<op::Allocate>(operation) ||
         std::holds_alternative<op::Take>(operation) ||
         std::holds_alternative<op::Evict>(operation) ||
         std::holds_alternative<op::Reset>(operation) ||
         std::holds_alternative<op::SwapOut>(operation) ||
         std::holds_alternative<op::SwapIn>(operation) ||
         std::holds_alternative<op::Complete>(operation) ||
         std::holds_alternative<op::Decode>(operation);
}

/// Whether what an answer says may have taken blocks. Of a batch, each request is granted or
/// refused.
bool took_blocks(const Result& result, bool refusal_may_evict) {
  if (is_undone(result)) return false;
  if (std::holds_alternative<Refused>(result)) return refusal_may_evict;
  const auto* decoded = std::get_if<Decoded>(&result);
  if (decoded == nullptr || decoded->refused.size() < decoded->blocks.size()) return true;
  return refusal_may_evict && !decoded->refused.empty();
}

/// Whether a block is known to hold something: it has a key or a holder that is shown.
bool holds_content(const Snapshot& state, BlockId block) {
  if (block < state.blocks.size() &&
      (state.blocks[block].hashed || state.blocks[block].ref_cnt > 0)) {
    return true;
  }
  return std::ranges::any_of(state.requests, [&](const RequestState& r) {
    return std::ranges::any_of(r.tables, [&](const auto& table) {
      return std::ranges::find(table, block) != table.end();
    });
  });
}

bool has_blocks(const RequestState* r) {
  return r != nullptr &&
         std::ranges::any_of(r->tables, [](const auto& table) { return !table.empty(); });
}

template <class Named>
auto place_of(Named& sorted, std::string_view name) {
  return std::lower_bound(sorted.begin(), sorted.end(), name,
                          [](const auto& x, std::string_view n) { return x.name.compare(n) < 0; });
}

}  // namespace

bool FoundPrefix::empty() const {
  return std::ranges::all_of(blocks, [](const auto& list) { return list.empty(); });
}

RequestRecord* CallerBook::find(std::string_view name) {
  const auto at = place_of(requests_, name);
  return at != requests_.end() && at->name == name ? &*at : nullptr;
}

const RequestRecord* CallerBook::find(std::string_view name) const {
  const auto at = place_of(requests_, name);
  return at != requests_.end() && at->name == name ? &*at : nullptr;
}

const TransferRecord* CallerBook::find_transfer(std::string_view name) const {
  const auto at = std::ranges::find(transfers_, name, &TransferRecord::name);
  return at != transfers_.end() ? &*at : nullptr;
}

bool CallerBook::has_lease(const std::string& name) const {
  return std::ranges::find(leases_, name, &LeaseState::name) != leases_.end();
}

bool CallerBook::has(const std::vector<BlockId>& blocks) const {
  return std::ranges::all_of(
      blocks, [&](BlockId block) { return block != kNullBlock && block < config_->num_blocks; });
}

// A block that its tokens have completed may be published as soon as it is granted.
const char* CallerBook::breach_of_truncate(std::uint32_t tokens, const RequestRecord& r) const {
  if (tokens < r.computed) return "a cut below the computed tokens";
  for (const GroupConfig& group : config_->groups) {
    const std::uint64_t kept = ceil_div<std::uint64_t>(tokens, group.block_size);
    if (kept < r.published / group.block_size) {
      return "a cut below the published blocks";
    }
  }
  return nullptr;
}

const char* CallerBook::breach_of_swap(const std::string& transfer) const {
  if (config_->num_host_blocks == 0) return "a swap without a host tier";
  const bool used = transfer.empty() || find_transfer(transfer) != nullptr;
  return used ? "a transfer that is in use" : nullptr;
}

// A batch is valid if each of its calls is.
const char* CallerBook::breach_of_batch(const op::Decode& batch) const {
  if (batch.tokens.size() != batch.reqs.size()) return "a batch without a token for each request";
  std::map<std::string, std::uint64_t> appended;
  for (const std::string& req : batch.reqs) {
    const RequestRecord* r = find(req);
    if (r == nullptr) return "no request of that name";
    if (r->num_tokens + ++appended[req] > config_->max_model_len) {
      return "more tokens than the model reads";
    }
    if (!r->transfer.empty() || r->on_host) return "an allocation of a request that is swapped";
  }
  return nullptr;
}

const char* CallerBook::breach(const Operation& operation, const Snapshot& state) const {
  constexpr const char* kNoBlock = "a block that the pool does not have";
  if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
    if (arrive->req.empty() || find(arrive->req) != nullptr) return "a name in use";
    return arrive->tokens.size() > config_->max_model_len ? "more tokens than the model reads"
                                                          : nullptr;
  }
  if (const auto* evict = std::get_if<op::Evict>(&operation)) {
    return has(evict->blocks) ? nullptr : kNoBlock;
  }
  if (const auto* touch = std::get_if<op::Touch>(&operation)) {
    return has(touch->blocks) ? nullptr : kNoBlock;
  }
  if (const auto* release = std::get_if<op::Release>(&operation)) {
    std::vector<BlockId> wanted = release->blocks;
    std::ranges::sort(wanted);
    return std::ranges::includes(raw_, wanted) ? nullptr : "a block that the raw owner has not";
  }
  if (const auto* pin = std::get_if<op::Pin>(&operation)) {
    if (has_lease(pin->lease)) return "a lease that is in use";
    if (!has(pin->blocks)) return kNoBlock;
    const bool kept = std::ranges::all_of(
        pin->blocks, [&](BlockId block) { return holds_content(state, block); });
    return kept ? nullptr : "a block without content";
  }
  if (const auto* unpin = std::get_if<op::Unpin>(&operation)) {
    return has_lease(unpin->lease) ? nullptr : "a lease that was not given";
  }
  if (const auto* complete = std::get_if<op::Complete>(&operation)) {
    return find_transfer(complete->transfer) != nullptr ? nullptr : "no transfer in flight";
  }
  if (const auto* batch = std::get_if<op::Decode>(&operation)) return breach_of_batch(*batch);
  if (request_of(operation).empty()) return nullptr;
  const RequestRecord* r = find(request_of(operation));
  return r != nullptr ? breach_of_request(operation, *r, state) : "no request of that name";
}

const char* CallerBook::breach_of_request(const Operation& operation, const RequestRecord& r,
                                          const Snapshot& state) const {
  const bool resident = r.transfer.empty() && !r.on_host;
  if (const auto* append = std::get_if<op::Append>(&operation)) {
    const std::uint64_t all = std::uint64_t{r.num_tokens} + append->tokens.size();
    return all > config_->max_model_len ? "more tokens than the model reads" : nullptr;
  }
  if (const auto* advance = std::get_if<op::Advance>(&operation)) {
    if (advance->computed > r.num_tokens) return "more computed tokens than tokens";
    return advance->computed > r.covered ? "tokens that no grant covers" : nullptr;
  }
  if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    const AllocateArgs& args = allocate->args;
    if (args.new_tokens == 0 && args.external == 0) return "an allocation of nothing";
    if (!resident) return "an allocation of a request that is swapped";
    if (args.external > 0 && r.granted) return "external tokens behind computed ones";
    if (!args.use_lookup) return nullptr;
    const bool found = r.found_at == losses_ + 1 || traits_.looks_up_within();
    return r.granted || !found ? "a hit that is not of now" : nullptr;
  }
  if (const auto* recycle = std::get_if<op::Recycle>(&operation)) {
    if (!resident) return "a recycling of a request that is swapped";
    return recycle->processed > r.computed ? "tokens that are not computed" : nullptr;
  }
  if (const auto* cache = std::get_if<op::Cache>(&operation)) {
    return cache->computed > r.covered || !resident ? "tokens that no grant covers" : nullptr;
  }
  if (const auto* fork = std::get_if<op::Fork>(&operation)) {
    if (fork->child.empty() || find(fork->child) != nullptr) return "a name in use";
    return resident ? nullptr : "a fork of a request that is swapped";
  }
  if (const auto* truncate = std::get_if<op::Truncate>(&operation)) {
    if (!r.granted || !resident) return "a cut of what is not there";
    return breach_of_truncate(truncate->tokens, r);
  }
  if (const auto* out = std::get_if<op::SwapOut>(&operation)) {
    const bool there = resident && r.granted && has_blocks(state.find(out->req));
    return there ? breach_of_swap(out->transfer) : "a swap of what is not there";
  }
  if (const auto* in = std::get_if<op::SwapIn>(&operation)) {
    return r.on_host && r.transfer.empty() ? breach_of_swap(in->transfer)
                                           : "a swap of what is not there";
  }
  const bool ends =
      std::holds_alternative<op::Free>(operation) || std::holds_alternative<op::Finish>(operation);
  return ends && !r.transfer.empty() ? "a transfer is in flight" : nullptr;
}

void CallerBook::fold(const Operation& operation, const Result& result) {
  settled_.reset();
  RequestRecord* r = find(request_of(operation));
  before_ = r != nullptr ? TokenCounts(*r) : TokenCounts();
  const bool copies =
      std::holds_alternative<op::Fork>(operation) && std::holds_alternative<Granted>(result);
  if (copies || (may_evict(operation) && took_blocks(result, traits_.refusal_may_evict()))) {
    ++losses_;
  }
  if (is_undone(result)) return;
  if (std::holds_alternative<Refused>(result)) {  // blocks that its tokens skipped may be gone
    const auto* asked = std::get_if<op::Allocate>(&operation);
    if (asked == nullptr || r == nullptr) return;
    const std::uint32_t known = r->computed - std::min(asked->args.in_flight, r->computed);
    r->processed = std::max<std::uint64_t>(r->processed, known);
  } else if (const auto* o = std::get_if<op::Arrive>(&operation)) {
    if (r == nullptr) arrive(*o);
  } else if (const auto* complete = std::get_if<op::Complete>(&operation)) {
    settle(*complete);
  } else if (const auto* batch = std::get_if<op::Decode>(&operation)) {
    if (const auto* decoded = std::get_if<Decoded>(&result)) fold_batch(*batch, *decoded);
  } else if (r != nullptr) {
    fold_request(operation, result, *r);
  } else {
    fold_raw(operation, result);
  }
}

void CallerBook::arrive(const op::Arrive& o) {
  const std::uint32_t unit = std::max(config_->hash_block_size, 1U);
  RequestRecord r(o.req, {o.extra, {}, UnitDigest(o.extra, unit, config_->hash_lookahead)});
  r.encoder = r.id = arrivals_++;
  r.encoder_tokens = o.encoder_tokens;
  r.prompt_tokens = static_cast<std::uint32_t>(o.tokens.size());
  r.skip_lookup = o.skip_lookup;
  append(r, o.tokens.data(), o.tokens.size());
  requests_.insert(place_of(requests_, o.req), std::move(r));
}

void CallerBook::append(RequestRecord& r, const TokenId* tokens, std::size_t n) {
  r.num_tokens += static_cast<std::uint32_t>(n);
  Sequence& sequence = r.sequence.change();
  sequence.tokens.insert(sequence.tokens.end(), tokens, tokens + n);
  for (std::size_t i = 0; i < n; ++i) sequence.digest.next(tokens[i], sequence.contents);
}

// Token axis: computed | hit | external | new, the drafts last.
void CallerBook::allocate(RequestRecord& r, const AllocateArgs& args, const Granted* granted) {
  const std::uint64_t limit = config_->max_model_len;
  const bool within = granted != nullptr && granted->hit.has_value();
  if (within) r.hit = {granted->hit->hit_tokens, granted->hit->blocks};  // of the new tokens
  const std::uint64_t start = std::uint64_t{r.computed} + (args.use_lookup ? r.hit.tokens : 0);
  const std::uint64_t fresh =
      within ? std::max(args.new_tokens, r.hit.tokens + 1) - r.hit.tokens : args.new_tokens;
  const std::uint64_t loaded = start + args.external;
  const std::uint64_t known = std::min(loaded, limit);
  r.granted = true;
  r.status = RequestStatus::running;
  r.scheduled_tokens = std::min(loaded + fresh, limit);
  r.covered = std::max(r.covered, loaded + fresh);
  const bool publishes = config_->enable_caching && !args.delay_cache;
  const std::uint64_t whole = std::min<std::uint64_t>(r.covered, r.num_tokens);
  r.published = std::max({r.published, loaded, publishes ? whole : loaded});
  r.reach = std::max(r.reach, r.scheduled_tokens);
  r.processed = std::max(r.processed, known - std::min<std::uint64_t>(args.in_flight, known));
  const std::uint64_t end = std::min<std::uint64_t>(r.scheduled_tokens, r.num_tokens);
  r.written = std::max(r.written, end);
  if (end <= start) return;
  r.last_state = end;
  r.state_end = std::max(r.state_end, end);
}

// Accepted drafts were computed with the right tokens before them.
void CallerBook::advance(RequestRecord& r, std::uint32_t computed) {
  r.computed = computed;
  if (computed <= r.written) return;
  r.written = r.last_state = computed;
  r.state_end = std::max<std::uint64_t>(r.state_end, computed);
}

// Accepted drafts of the parent belong to the child, too; later ones do not.
void CallerBook::fork(const op::Fork& fork, RequestRecord child) {
  const auto at = place_of(requests_, fork.child);
  if (at != requests_.end() && at->name == fork.child) return;
  child.name = fork.child;
  child.id = arrivals_++;
  child.hit = {};
  child.found_at = 0;
  child.looked_up = false;
  child.scheduled_tokens = std::min<std::uint64_t>(child.scheduled_tokens, child.num_tokens);
  requests_.insert(at, std::move(child));
}

void CallerBook::start(RequestRecord& r, const std::string& transfer, bool out,
                       const Result& result) {
  r.transfer = transfer;
  r.leaving = out;
  r.on_host = true;
  ++names_;
  const auto* granted = std::get_if<Granted>(&result);
  transfers_.push_back(
      {transfer, r.name, out, granted != nullptr ? granted->copies : std::vector<Copy>()});
}

void CallerBook::settle(const op::Complete& complete) {
  const auto at = std::ranges::find(transfers_, complete.transfer, &TransferRecord::name);
  if (at == transfers_.end()) return;
  settled_ = std::move(*at);
  transfers_.erase(at);
  RequestRecord* r = find(settled_->req);
  if (r == nullptr) return;
  r->transfer.clear();
  r->leaving = false;
  r->on_host = settled_->out == complete.ok;
  if (settled_->out && complete.ok) r->hit = {};
}

void CallerBook::fold_request(const Operation& operation, const Result& result, RequestRecord& r) {
  if (const auto* more = std::get_if<op::Append>(&operation)) {
    append(r, more->tokens.data(), more->tokens.size());
  } else if (const auto* step = std::get_if<op::Advance>(&operation)) {
    advance(r, step->computed);
  } else if (std::holds_alternative<op::Lookup>(operation)) {
    const auto* hit = std::get_if<Hit>(&result);
    r.looked_up = true;
    r.hit = hit != nullptr ? FoundPrefix{hit->hit_tokens, hit->blocks} : FoundPrefix{};
    r.found_at = hit != nullptr ? losses_ + 1 : 0;
  } else if (const auto* grant = std::get_if<op::Allocate>(&operation)) {
    allocate(r, grant->args, std::get_if<Granted>(&result));
  } else if (const auto* cache = std::get_if<op::Cache>(&operation)) {
    r.published = std::max<std::uint64_t>(r.published, std::min(cache->computed, r.num_tokens));
  } else if (const auto* recycle = std::get_if<op::Recycle>(&operation)) {
    r.processed = std::max<std::uint64_t>(r.processed, recycle->processed);
  } else if (const auto* cut = std::get_if<op::Truncate>(&operation)) {
    for (std::uint64_t* tokens : {&r.scheduled_tokens, &r.covered, &r.written}) {
      *tokens = std::min<std::uint64_t>(*tokens, cut->tokens);
    }
  } else if (std::holds_alternative<op::Free>(operation)) {
    if (r.granted) r.status = RequestStatus::preempted;
    static_cast<TokenCounts&>(r) = {};
    r.hit = {};
    r.found_at = 0;
    r.looked_up = r.on_host = false;
  } else if (std::holds_alternative<op::Finish>(operation)) {
    requests_.erase(requests_.begin() + (&r - requests_.data()));
  } else if (const auto* forked = std::get_if<op::Fork>(&operation)) {
    fork(*forked, r);
  } else if (const auto* out = std::get_if<op::SwapOut>(&operation)) {
    start(r, out->transfer, true, result);
  } else if (const auto* in = std::get_if<op::SwapIn>(&operation)) {
    start(r, in->transfer, false, result);
  }
}

void CallerBook::fold_batch(const op::Decode& batch, const Decoded& decoded) {
  for (std::size_t i = 0; i < batch.reqs.size(); ++i) {
    RequestRecord* r = find(batch.reqs[i]);
    if (r == nullptr) continue;
    append(*r, &batch.tokens[i], 1);
    const auto& refused = decoded.refused;
    if (std::ranges::find(refused, i) != refused.end()) continue;
    allocate(*r, kDecodeStep, nullptr);
    advance(*r, r->computed + 1);
  }
}

void CallerBook::fold_raw(const Operation& operation, const Result& result) {
  if (const auto* take = std::get_if<Granted>(&result);
      take != nullptr && std::holds_alternative<op::Take>(operation)) {
    for (const auto& blocks : take->blocks) raw_.insert(raw_.end(), blocks.begin(), blocks.end());
  } else if (const auto* touch = std::get_if<op::Touch>(&operation)) {
    raw_.insert(raw_.end(), touch->blocks.begin(), touch->blocks.end());
  } else if (const auto* release = std::get_if<op::Release>(&operation)) {
    for (const BlockId block : release->blocks) {
      const auto at = std::ranges::find(raw_, block);
      if (at != raw_.end()) raw_.erase(at);
    }
  } else if (const auto* pin = std::get_if<op::Pin>(&operation)) {
    ++names_;
    const auto at = place_of(leases_, pin->lease);
    if (at == leases_.end() || at->name != pin->lease)
      leases_.insert(at, {pin->lease, pin->blocks});
  } else if (const auto* unpin = std::get_if<op::Unpin>(&operation)) {
    std::erase_if(leases_, [&](const LeaseState& lease) { return lease.name == unpin->lease; });
  }
  std::ranges::sort(raw_);
}

std::optional<Outcome> answer_unasked(const Operation& operation, const Promises& promises,
                                      const CallerBook& book, const Snapshot& state) {
  if (!promises.operations.test(operation.index())) {
    return Outcome{NotAsked{"it does not declare this operation"}, {}};
  }
  const char* breach = promises.valid_calls_only ? book.breach(operation, state) : nullptr;
  if (breach == nullptr) return std::nullopt;
  return Outcome{NotAsked{say("for the caller would be at fault: ", breach)}, {}};
}

}  // namespace kvproof::properties
