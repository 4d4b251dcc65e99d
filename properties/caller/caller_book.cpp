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

}  // namespace

const CallerBook::Request* CallerBook::find(const std::string& name) const {
  const auto at = requests_.find(name);
  return at != requests_.end() ? &at->second : nullptr;
}

bool CallerBook::has(const std::vector<BlockId>& blocks) const {
  return std::ranges::all_of(
      blocks, [&](BlockId block) { return block != kNullBlock && block < config_.num_blocks; });
}

// A block that its tokens have completed may be published as soon as it is granted.
const char* CallerBook::breach_of_truncate(std::uint32_t tokens, const Request& r) const {
  if (tokens < r.computed) return "a cut below the computed tokens";
  for (const GroupConfig& group : config_.groups) {
    const std::uint64_t kept = ceil_div<std::uint64_t>(tokens, group.block_size);
    if (kept < r.published / group.block_size) {
      return "a cut below the published blocks";
    }
  }
  return nullptr;
}

const char* CallerBook::breach_of_swap(const std::string& transfer) const {
  if (config_.num_host_blocks == 0) return "a swap without a host tier";
  return transfer.empty() || transfers_.contains(transfer) ? "a transfer that is in use" : nullptr;
}

// A batch is valid if each of its calls is.
const char* CallerBook::breach_of_batch(const op::Decode& batch) const {
  if (batch.tokens.size() != batch.reqs.size()) return "a batch without a token for each request";
  std::map<std::string, std::uint64_t> appended;
  for (const std::string& req : batch.reqs) {
    const Request* r = find(req);
    if (r == nullptr) return "no request of that name";
    if (r->num_tokens + ++appended[req] > config_.max_model_len) {
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
    return arrive->tokens.size() > config_.max_model_len ? "more tokens than the model reads"
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
    if (leases_.contains(pin->lease)) return "a lease that is in use";
    if (!has(pin->blocks)) return kNoBlock;
    const bool kept = std::ranges::all_of(
        pin->blocks, [&](BlockId block) { return holds_content(state, block); });
    return kept ? nullptr : "a block without content";
  }
  if (const auto* unpin = std::get_if<op::Unpin>(&operation)) {
    return leases_.contains(unpin->lease) ? nullptr : "a lease that was not given";
  }
  if (const auto* complete = std::get_if<op::Complete>(&operation)) {
    return transfers_.contains(complete->transfer) ? nullptr : "no transfer in flight";
  }
  if (const auto* batch = std::get_if<op::Decode>(&operation)) return breach_of_batch(*batch);
  if (request_of(operation).empty()) return nullptr;
  const Request* r = find(request_of(operation));
  return r != nullptr ? breach_of_request(operation, *r, state) : "no request of that name";
}

const char* CallerBook::breach_of_request(const Operation& operation, const Request& r,
                                          const Snapshot& state) const {
  const bool resident = r.transfer.empty() && !r.on_host;
  if (const auto* append = std::get_if<op::Append>(&operation)) {
    const std::uint64_t all = std::uint64_t{r.num_tokens} + append->tokens.size();
    return all > config_.max_model_len ? "more tokens than the model reads" : nullptr;
  }
  if (const auto* advance = std::get_if<op::Advance>(&operation)) {
    if (advance->computed > r.num_tokens) return "more computed tokens than tokens";
    return advance->computed > r.scheduled ? "tokens that no grant covers" : nullptr;
  }
  if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    const AllocateArgs& args = allocate->args;
    if (args.new_tokens == 0 && args.external == 0) return "an allocation of nothing";
    if (!resident) return "an allocation of a request that is swapped";
    if (args.external > 0 && r.granted) return "external tokens behind computed ones";
    if (!args.use_lookup) return nullptr;
    const bool found = r.hit_fresh || traits_.looks_up_within();
    return r.granted || !found ? "a hit that is not of now" : nullptr;
  }
  if (const auto* recycle = std::get_if<op::Recycle>(&operation)) {
    if (!resident) return "a recycling of a request that is swapped";
    return recycle->processed > r.computed ? "tokens that are not computed" : nullptr;
  }
  if (const auto* cache = std::get_if<op::Cache>(&operation)) {
    return cache->computed > r.scheduled || !resident ? "tokens that no grant covers" : nullptr;
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
  const bool refused = std::holds_alternative<Refused>(result);
  const bool done = !refused && !is_undone(result);
  const bool copies =
      std::holds_alternative<op::Fork>(operation) && std::holds_alternative<Granted>(result);
  if (copies || (may_evict(operation) && took_blocks(result, traits_.refusal_may_evict()))) {
    for (auto& [name, r] : requests_) r.hit_fresh = false;
  }
  if (!done) return;
  if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
    requests_[arrive->req].num_tokens = static_cast<std::uint32_t>(arrive->tokens.size());
  } else if (const auto* take = std::get_if<Granted>(&result);
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
    leases_[pin->lease] = pin->blocks;
  } else if (const auto* decoded = std::get_if<Decoded>(&result)) {
    fold_batch(std::get<op::Decode>(operation), *decoded);
  } else if (const auto* unpin = std::get_if<op::Unpin>(&operation)) {
    leases_.erase(unpin->lease);
  } else if (const auto* complete = std::get_if<op::Complete>(&operation)) {
    settle(*complete);
  } else if (const auto at = requests_.find(request_of(operation)); at != requests_.end()) {
    fold_request(operation, result, at->second);
  }
  std::ranges::sort(raw_);
}

void CallerBook::fold_request(const Operation& operation, const Result& result, Request& r) {
  if (const auto* append = std::get_if<op::Append>(&operation)) {
    r.num_tokens += static_cast<std::uint32_t>(append->tokens.size());
  } else if (const auto* advance = std::get_if<op::Advance>(&operation)) {
    r.computed = advance->computed;
  } else if (const auto* hit = std::get_if<Hit>(&result)) {
    r.hit_tokens = hit->hit_tokens;
    r.hit_fresh = true;
  } else if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    const AllocateArgs& args = allocate->args;
    const auto* granted = std::get_if<Granted>(&result);
    const bool within = granted != nullptr && granted->hit.has_value();
    if (within) r.hit_tokens = granted->hit->hit_tokens;  // of the new tokens
    const std::uint64_t start = std::uint64_t{r.computed} + (args.use_lookup ? r.hit_tokens : 0);
    const std::uint64_t fresh =
        within ? std::max(args.new_tokens, r.hit_tokens + 1) - r.hit_tokens : args.new_tokens;
    r.scheduled = std::max(r.scheduled, start + args.external + fresh);
    const std::uint64_t whole = std::min<std::uint64_t>(r.scheduled, r.num_tokens);
    const std::uint64_t loaded = start + args.external;
    const bool publishes = config_.enable_caching && !args.delay_cache;
    r.published = std::max({r.published, loaded, publishes ? whole : loaded});
    r.granted = true;
  } else if (const auto* cache = std::get_if<op::Cache>(&operation)) {
    r.published = std::max<std::uint64_t>(r.published, std::min(cache->computed, r.num_tokens));
  } else if (const auto* truncate = std::get_if<op::Truncate>(&operation)) {
    r.scheduled = std::min<std::uint64_t>(r.scheduled, truncate->tokens);
  } else if (std::holds_alternative<op::Free>(operation)) {
    const std::uint32_t tokens = r.num_tokens;
    r = {};
    r.num_tokens = tokens;
  } else if (std::holds_alternative<op::Finish>(operation)) {
    requests_.erase(request_of(operation));
  } else if (const auto* fork = std::get_if<op::Fork>(&operation)) {
    Request child = r;
    child.hit_fresh = false;
    requests_[fork->child] = child;
  } else if (const auto* out = std::get_if<op::SwapOut>(&operation)) {
    r.transfer = out->transfer;
    r.on_host = true;
    transfers_[out->transfer] = {out->req, true};
  } else if (const auto* in = std::get_if<op::SwapIn>(&operation)) {
    r.transfer = in->transfer;
    transfers_[in->transfer] = {in->req, false};
  }
}

void CallerBook::fold_batch(const op::Decode& batch, const Decoded& decoded) {
  for (std::size_t i = 0; i < batch.reqs.size(); ++i) {
    Request& r = requests_[batch.reqs[i]];
    fold_request(op::Append{batch.reqs[i], {batch.tokens[i]}}, {}, r);
    const auto& refused = decoded.refused;
    if (std::ranges::find(refused, i) != refused.end()) continue;
    fold_request(op::Allocate{batch.reqs[i], kDecodeStep}, Granted{}, r);
    fold_request(op::Advance{batch.reqs[i], r.computed + 1}, {}, r);
  }
}

void CallerBook::settle(const op::Complete& complete) {
  const auto at = transfers_.find(complete.transfer);
  if (at == transfers_.end()) return;
  const auto r = requests_.find(at->second.req);
  if (r != requests_.end()) {
    r->second.transfer.clear();
    r->second.on_host = at->second.out == complete.ok;
  }
  transfers_.erase(at);
}

std::vector<LeaseState> CallerBook::leases() const {
  std::vector<LeaseState> out;
  for (const auto& [name, blocks] : leases_) out.push_back({name, blocks});
  return out;
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
