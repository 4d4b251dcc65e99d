// SPDX-License-Identifier: Apache-2.0
// The shadow store: writes what a step would compute, then reads it back through the subject's
// tables.
#include "properties/content_oracle.h"

#include <algorithm>

#include "properties/history.h"

namespace kvproof::properties {
namespace {

constexpr std::uint64_t kFirstArena = 1024;  // [tokens]; doubles when requests do not fit

template <class Requests>
auto position_of(Requests& requests, std::string_view name) {
  return std::lower_bound(requests.begin(), requests.end(), name,
                          [](const auto& r, std::string_view n) { return r.name.compare(n) < 0; });
}

reference::ContiguousCache arena_of(std::uint64_t capacity) {
  return {capacity, capacity, reference::Reservation::grow_and_copy};
}

}  // namespace

ContentOracle::ContentOracle(const CacheConfig& config)
    : num_blocks_(config.num_blocks),
      block_size_(config.groups.front().block_size),
      max_model_len_(config.max_model_len),
      slots_(std::size_t{config.num_blocks} * block_size_),
      contiguous_(arena_of(kFirstArena)),
      rows_(kFirstArena) {}

ContentOracle::Request* ContentOracle::find(std::string_view name) {
  const auto at = position_of(requests_, name);
  return at != requests_.end() && at->name == name ? &*at : nullptr;
}

Finding ContentOracle::follow(const Operation& operation, const Outcome& outcome,
                              const Snapshot& before, const Snapshot& after) {
  const Result& result = outcome.result;
  if (std::holds_alternative<Refused>(result) || std::holds_alternative<Rejected>(result)) {
    return std::nullopt;
  }
  const bool judge = perform(operation, result, before, after) && !caller_broke_contract_;
  if (!judge) return std::nullopt;
  if (const auto* hit = std::get_if<Hit>(&result)) {
    const Request* r = find(request_of(operation));
    return r != nullptr ? check_hit(*r, *hit) : std::nullopt;
  }
  auto state = after.requests.begin();
  for (const Request& r : requests_) {
    while (state != after.requests.end() && state->name < r.name) ++state;
    if (state == after.requests.end() || state->name != r.name) continue;
    if (Finding finding = check_request(r, *state)) return finding;
  }
  return std::nullopt;
}

// What the operation does to rows. @return whether somebody may read something else after it.
bool ContentOracle::perform(const Operation& operation, const Result& result,
                            const Snapshot& before, const Snapshot& after) {
  if (const auto* granted = std::get_if<Granted>(&result);
      granted != nullptr && std::holds_alternative<op::Take>(operation)) {
    if (!granted->blocks.empty()) poison(granted->blocks.front(), 0);
    return true;
  }
  if (const auto* o = std::get_if<op::Arrive>(&operation)) return arrive(*o), false;
  Request* r = find(request_of(operation));
  if (r == nullptr) return false;
  const RequestState* now = after.find(r->name);
  if (const auto* hit = std::get_if<Hit>(&result)) {
    r->hit_tokens = hit->hit_tokens;
  } else if (const auto* append_o = std::get_if<op::Append>(&operation)) {
    return append(*r, append_o->tokens), false;
  } else if (const auto* cache = std::get_if<op::Cache>(&operation)) {
    if (std::min(cache->computed, r->num_tokens) > r->written) caller_broke_contract_ = true;
    return false;
  } else if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    const RequestState* was = before.find(r->name);
    if (was != nullptr && now != nullptr) grant(*r, allocate->args, *was, *now);
  } else if (const auto* advance_o = std::get_if<op::Advance>(&operation)) {
    if (now != nullptr) advance(*r, advance_o->computed, *now);
  } else if (std::holds_alternative<op::Free>(operation)) {
    r->written = r->draft_end = r->hit_tokens = 0;
  } else if (std::holds_alternative<op::Finish>(operation)) {
    if (r->num_tokens > 0) contiguous_.erase(r->name);
    requests_.erase(requests_.begin() + (r - requests_.data()));
  } else {
    return false;
  }
  return true;
}

void ContentOracle::arrive(const op::Arrive& o) {
  const auto at = position_of(requests_, o.req);
  if (at != requests_.end() && at->name == o.req) return;
  const auto id = static_cast<std::uint32_t>(names_.size());
  names_.push_back(o.req);
  const auto placed =
      requests_.insert(at, Request{o.req, id, PrefixDigest(o.extra, block_size_), {}, 0, 0, 0, 0});
  append(*placed, o.tokens);
}

void ContentOracle::append(Request& r, const std::vector<TokenId>& tokens) {
  if (tokens.empty()) return;
  const std::uint32_t old = r.num_tokens;
  place(r, old + static_cast<std::uint32_t>(tokens.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    rows_[r.run.offset + old + i] = r.digest.next(tokens[i]);
}

// Gives a request room for its tokens in the arena and takes its rows along when the run moves.
void ContentOracle::place(Request& r, std::uint32_t num_tokens) {
  const auto try_once = [&] {
    if (r.num_tokens == 0) return contiguous_.insert(r.name, num_tokens, num_tokens);
    return contiguous_.extend(r.name, num_tokens);
  };
  while (!try_once())
    rebuild_arena(std::max<std::uint64_t>(2 * rows_.size(), 2 * std::uint64_t{num_tokens}));
  if (const auto& move = contiguous_.last_move()) {
    std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(move->from.offset), move->from.length,
                rows_.begin() + static_cast<std::ptrdiff_t>(move->to.offset));
  }
  r.run = *contiguous_.find(r.name);
  r.num_tokens = num_tokens;
}

// A bigger arena with the same requests; the old one was too small or too fragmented.
void ContentOracle::rebuild_arena(std::uint64_t capacity) {
  reference::ContiguousCache bigger = arena_of(capacity);
  std::vector<std::uint64_t> rows(capacity);
  for (Request& r : requests_) {
    if (r.num_tokens == 0 || !bigger.insert(r.name, r.num_tokens, r.num_tokens)) continue;
    const reference::Run run = *bigger.find(r.name);
    std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(r.run.offset), r.num_tokens,
                rows.begin() + static_cast<std::ptrdiff_t>(run.offset));
    r.run = run;
  }
  contiguous_ = std::move(bigger);
  rows_ = std::move(rows);
}

// Token axis: computed | hit | external | new (drafts last). What lies behind the hit is computed
// now.
void ContentOracle::grant(Request& r, const AllocateArgs& args, const RequestState& was,
                          const RequestState& now) {
  const std::vector<BlockId>& table = table_of(now);
  const std::size_t had = table_of(was).size();
  const bool admits = had == 0;
  const std::uint64_t hit = admits && args.use_lookup ? r.hit_tokens : 0;
  const std::uint64_t start = was.computed + hit;
  const std::uint64_t known = std::min(start + args.external, max_model_len_);
  const std::uint64_t drafted = std::min(known + args.new_tokens, max_model_len_);
  const std::uint64_t end = std::min<std::uint64_t>(drafted, r.num_tokens);
  poison(table, had + hit / block_size_);
  if (admits ? was.computed > 0 : start > r.written) {
    caller_broke_contract_ = true;  // tokens before `start` were never computed
    return;
  }
  write(r, table, start, end, false);
  write(r, table, std::max<std::uint64_t>(end, start), drafted, true);
  r.written = std::max({r.written, hit, end});
  r.draft_end = drafted;
}

// Accepted drafts were computed with the right tokens before them: their rows are right after all.
void ContentOracle::advance(Request& r, std::uint32_t computed, const RequestState& now) {
  if (computed <= r.written) return;
  if (computed > r.num_tokens || computed > r.draft_end) {
    caller_broke_contract_ = true;
    return;
  }
  write(r, table_of(now), r.written, computed, false);
  r.written = computed;
}

void ContentOracle::poison(const std::vector<BlockId>& blocks, std::size_t from) {
  for (std::size_t i = from; i < blocks.size(); ++i) {
    if (blocks[i] >= num_blocks_) continue;
    Row* row = &slots_[std::size_t{blocks[i]} * block_size_];
    for (std::uint32_t offset = 0; offset < block_size_; ++offset) {
      row[offset] = {scramble(++poisons_), kNobody, offset};
    }
  }
}

void ContentOracle::write(const Request& r, const std::vector<BlockId>& table, std::uint64_t from,
                          std::uint64_t to, bool draft) {
  for (std::uint64_t position = from; position < to; ++position) {
    const std::uint64_t index = position / block_size_;
    if (index >= table.size() || table[index] >= num_blocks_) return;
    const std::uint64_t digest = draft ? scramble(++poisons_) : rows_[r.run.offset + position];
    slots_[std::size_t{table[index]} * block_size_ + position % block_size_] = {
        digest, r.id, static_cast<std::uint32_t>(position)};
  }
}

Finding ContentOracle::check_row(const Request& r, std::uint64_t position,
                                 const std::vector<BlockId>& table) const {
  const std::uint64_t index = position / block_size_;
  if (index >= table.size()) {
    return say("request ", r.name, " must read position ", position, ", its table ends after ",
               table.size() * block_size_, " tokens");
  }
  const BlockId block = table[index];
  if (block >= num_blocks_)
    return say("request ", r.name, " reads block ", block, " of ", num_blocks_);
  const std::uint64_t offset = position % block_size_;
  const Row& row = slots_[std::size_t{block} * block_size_ + offset];
  if (row.digest == rows_[r.run.offset + position]) return std::nullopt;
  const bool own = row.writer == r.id && row.position == position;
  return say("request ", r.name, " reads position ", position, " from block ", block, " offset ",
             offset, ", which holds ",
             row.writer == kNobody ? "poison"
             : own                 ? "its own rejected draft"
                                   : say("position ", row.position, " of ", names_[row.writer]));
}

Finding ContentOracle::check_request(const Request& r, const RequestState& state) const {
  const std::vector<BlockId>& table = table_of(state);
  for (std::uint64_t position = 0; position < r.written; ++position) {
    const std::uint64_t index = position / block_size_;
    const bool right =
        index < table.size() && table[index] < num_blocks_ &&
        slots_[std::size_t{table[index]} * block_size_ + position % block_size_].digest ==
            rows_[r.run.offset + position];
    if (!right) return check_row(r, position, table);
  }
  return std::nullopt;
}

// What a lookup promises must be there already.
Finding ContentOracle::check_hit(const Request& r, const Hit& hit) const {
  if (hit.hit_tokens > r.num_tokens)
    return say("a hit of ", hit.hit_tokens, " tokens for ", r.name, " with ", r.num_tokens);
  for (std::uint64_t position = 0; position < hit.hit_tokens; ++position) {
    if (hit.blocks.empty())
      return say("a hit of ", hit.hit_tokens, " tokens without blocks for ", r.name);
    if (Finding finding = check_row(r, position, hit.blocks.front())) return finding;
  }
  return std::nullopt;
}

}  // namespace kvproof::properties
