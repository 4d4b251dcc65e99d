// SPDX-License-Identifier: Apache-2.0
// Folds one operation after the other into what laws and generators must remember.
#include "properties/history.h"

#include <algorithm>

namespace kvproof::properties {
namespace {

template <class Records>
auto position(Records& records, std::string_view name) {
  return std::lower_bound(
      records.begin(), records.end(), name,
      [](const RequestRecord& r, std::string_view n) { return r.name.compare(n) < 0; });
}

bool changed_nothing(const Result& result) {
  return std::holds_alternative<Refused>(result) || std::holds_alternative<Rejected>(result);
}

}  // namespace

void Tally::add(std::vector<std::uint32_t>& counts, BlockId block, const char* place) {
  if (block < counts.size()) {
    ++counts[block];
  } else if (!stray) {
    stray = Stray{place, block};
  }
}

void Tally::count(const Snapshot& state, std::uint32_t num_blocks) {
  repeat.reset();
  stray.reset();
  for (auto* counts : {&queued, &tabled, &sharers, &raw, &indexed, &entry, &last_holder_}) {
    counts->assign(num_blocks, 0);
  }
  for (BlockId block : state.queue) add(queued, block, "the free queue");
  for (BlockId block : state.raw) add(raw, block, "the raw owner's references");
  for (std::size_t i = 0; i < state.index.size(); ++i) {
    for (BlockId block : state.index[i].blocks) {
      add(indexed, block, "the prefix index");
      if (block < num_blocks) entry[block] = static_cast<std::uint32_t>(i) + 1;
    }
  }
  count_tables(state);
}

void Tally::count_tables(const Snapshot& state) {
  for (std::size_t r = 0; r < state.requests.size(); ++r) {
    const auto holder = static_cast<std::uint32_t>(r) + 1;
    for (BlockId block : table_of(state.requests[r])) {
      add(tabled, block, "a block table");
      if (block >= last_holder_.size()) continue;
      if (last_holder_[block] != holder) {
        last_holder_[block] = holder;
        ++sharers[block];
      } else if (block != kNullBlock && !repeat) {
        repeat = Repeat{r, block};
      }
    }
  }
}

History::History(const CacheConfig& config)
    : num_blocks(config.num_blocks),
      unit_tokens(config.hash_block_size),
      max_model_len(config.max_model_len),
      evicted(config.num_blocks, 0) {
  mirror.blocks.resize(config.num_blocks);
}

const RequestRecord* History::find(std::string_view name) const {
  const auto at = position(requests, name);
  return at != requests.end() && at->name == name ? &*at : nullptr;
}

RequestRecord* History::record(std::string_view name) {
  const auto at = position(requests, name);
  return at != requests.end() && at->name == name ? &*at : nullptr;
}

void History::fold(const Snapshot& before, const Operation& operation, const Outcome& outcome,
                   const Snapshot& after) {
  keys.clash.reset();
  if (!changed_nothing(outcome.result)) {
    fold_call(before, operation, outcome.result);
    fold_evicted(before, operation, outcome.result, after);
    if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
      fold_tokens(*record(arrive->req), arrive->tokens, after);
    } else if (const auto* append = std::get_if<op::Append>(&operation)) {
      if (RequestRecord* r = record(append->req)) fold_tokens(*r, append->tokens, after);
    }
  }
  const auto* lookup = std::get_if<op::Lookup>(&operation);
  just_looked_up.assign(lookup != nullptr ? std::string_view(lookup->req) : std::string_view{});
  const auto* allocate = std::get_if<op::Allocate>(&operation);
  const bool refused = allocate != nullptr && std::holds_alternative<Refused>(outcome.result);
  just_refused.assign(refused ? std::string_view(allocate->req) : std::string_view{});
  fold_events(operation, outcome, after);
  tally.count(after, num_blocks);
}

void History::fold_call(const Snapshot& before, const Operation& operation, const Result& result) {
  if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
    const auto at = position(requests, arrive->req);
    if (at != requests.end() && at->name == arrive->req) return;  // a subject that let it pass
    ++arrivals;
    requests.insert(at, RequestRecord{arrive->req,
                                      arrive->skip_lookup,
                                      RequestStatus::waiting,
                                      false,
                                      {},
                                      0,
                                      0,
                                      0,
                                      {},
                                      PrefixDigest(arrive->extra, unit_tokens)});
    return;
  }
  RequestRecord* r = record(request_of(operation));
  if (r == nullptr) return;
  if (std::holds_alternative<op::Lookup>(operation)) {
    r->looked_up = true;
    r->hit.clear();
    const auto* hit = std::get_if<Hit>(&result);
    if (hit != nullptr && !hit->blocks.empty()) r->hit = hit->blocks.front();
  } else if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    if (const RequestState* state = before.find(r->name)) fold_grant(*state, allocate->args);
  } else if (const auto* advance = std::get_if<op::Advance>(&operation)) {
    r->content_tokens = std::max<std::uint64_t>(r->content_tokens, advance->computed);
  } else if (std::holds_alternative<op::Free>(operation)) {
    r->status = r->granted_tokens > 0 ? RequestStatus::preempted : r->status;
    r->looked_up = false;
    r->hit.clear();
    r->granted_tokens = r->scheduled_tokens = r->content_tokens = 0;
  } else if (std::holds_alternative<op::Finish>(operation)) {
    requests.erase(requests.begin() + (r - requests.data()));
  }
}

// The slots that a grant covers: see the segment layout of an allocation, computed | hit | external
// | new | lookahead, of which only what lies below the model's limit gets slots.
void History::fold_grant(const RequestState& state, const AllocateArgs& args) {
  RequestRecord& r = *record(state.name);
  const bool admits = table_of(state).empty() && !progress_of(state);
  const std::uint64_t hit = args.use_lookup && admits ? r.hit.size() * unit_tokens : 0;
  const std::uint64_t local = state.computed + hit;
  const std::uint64_t known = std::min(local + args.external, max_model_len);
  const std::uint64_t slots = std::min(known + args.new_tokens + args.lookahead, max_model_len);
  const std::uint64_t loaded = admits && args.external > 0 ? local + args.external : 0;
  r.granted_tokens = std::max({r.granted_tokens, hit, loaded, slots});
  r.scheduled_tokens = std::min(known + args.new_tokens, max_model_len);
  r.content_tokens =
      std::max(r.content_tokens, std::min<std::uint64_t>(r.scheduled_tokens, state.num_tokens));
  r.status = RequestStatus::running;
}

void History::fold_evicted(const Snapshot& before, const Operation& operation, const Result& result,
                           const Snapshot& after) {
  if (const auto* evict = std::get_if<op::Evict>(&operation)) {
    for (BlockId block : evict->blocks) {
      if (block >= num_blocks || block >= before.blocks.size() || !before.blocks[block].hashed)
        continue;
      evicted[block] = 1;
      chains_loose = true;
      if (before.blocks[block].ref_cnt == 0) queue_evicted = true;
    }
  } else if (const auto* touch = std::get_if<op::Touch>(&operation)) {
    if (!touch->blocks.empty()) chains_loose = true;  // a child may now outlive its parent
  } else if (std::holds_alternative<op::Reset>(operation)) {
    const bool* done = std::get_if<bool>(&result);
    if (done != nullptr && *done) chains_loose = queue_evicted = false;
  } else if (std::holds_alternative<op::Allocate>(operation) ||
             std::holds_alternative<op::Take>(operation)) {
    const std::size_t n = std::min({before.blocks.size(), after.blocks.size(), evicted.size()});
    for (std::size_t b = 0; b < n; ++b) {
      if (after.blocks[b].hashed ||
          (before.blocks[b].ref_cnt == 0 && after.blocks[b].ref_cnt != 0)) {
        evicted[b] = 0;
      }
    }
  }
}

void History::fold_tokens(RequestRecord& r, const std::vector<TokenId>& tokens,
                          const Snapshot& after) {
  const std::size_t known = r.contents.size();
  for (TokenId token : tokens) {
    const std::uint64_t content = r.digest.next(token);
    if (r.digest.num_tokens() % unit_tokens == 0) r.contents.push_back(content);
  }
  const RequestState* state = after.find(r.name);
  if (state == nullptr) return;
  const std::size_t units = std::min(r.contents.size(), state->hashes.size());
  for (std::size_t i = known; i < units; ++i) {
    const std::uint64_t key = state->hashes[i];
    const std::uint64_t content = r.contents[i];
    const auto [by_key, new_key] = keys.of_key.try_emplace(
        key, KeyBook::Facts{content, i > 0 ? state->hashes[i - 1] : 0, i == 0});
    const auto [by_content, new_content] = keys.key_of_content.try_emplace(content, key);
    if (keys.clash) continue;
    if (by_key->second.content != content) {
      keys.clash = KeyBook::Clash{i, true};
    } else if (by_content->second != key) {
      keys.clash = KeyBook::Clash{i, false};
    }
  }
}

void History::fold_events(const Operation& operation, const Outcome& outcome,
                          const Snapshot& after) {
  mirror.fault.reset();
  for (const Event& event : outcome.events) {
    if (const auto* stored = std::get_if<event::Stored>(&event)) {
      mirror_stored(*stored, after.find(request_of(operation)));
    } else if (const auto* removed = std::get_if<event::Removed>(&event)) {
      const bool known = removed->block < num_blocks && mirror.blocks[removed->block].present &&
                         mirror.blocks[removed->block].prefix_tokens == removed->prefix_tokens;
      if (known) {
        mirror.blocks[removed->block].present = false;
      } else if (!mirror.fault) {
        mirror.fault = Mirror::Fault{"removed without having been stored", removed->block,
                                     removed->prefix_tokens};
      }
    } else {
      for (Mirror::Entry& entry : mirror.blocks) entry.present = false;
    }
  }
}

void History::mirror_stored(const event::Stored& stored, const RequestState* request) {
  const auto fail = [this](const char* what, const StoredBlock& block) {
    if (!mirror.fault) mirror.fault = Mirror::Fault{what, block.block, block.prefix_tokens};
  };
  if (stored.to <= stored.from || stored.blocks.size() != (stored.to - stored.from) / unit_tokens) {
    return fail("a registration whose range does not match its blocks", {0, stored.to});
  }
  std::uint32_t prefix = stored.from;
  for (const StoredBlock& block : stored.blocks) {
    prefix += unit_tokens;
    const std::size_t unit = block.prefix_tokens / unit_tokens;
    if (request == nullptr || block.prefix_tokens != prefix || unit > request->hashes.size()) {
      fail("stored for a prefix that the request does not have there", block);
    } else if (block.block >= num_blocks) {
      fail("stored, but the pool has no such block", block);
    } else if (mirror.blocks[block.block].present) {
      fail("stored while it still holds another key", block);
    } else {
      mirror.blocks[block.block] = {true, request->hashes[unit - 1], prefix};
    }
  }
}

}  // namespace kvproof::properties
