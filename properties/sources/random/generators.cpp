// SPDX-License-Identifier: Apache-2.0
// Decodes choices into operations against the state that they will meet.
#include "properties/sources/random/generators.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "properties/audit/within.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

constexpr std::uint32_t kTexts[] = {0, 0, 0, 1, 2};  // mostly one, so that prompts hit

constexpr const char* kAdapters[] = {"a", "b", "b@2"};

/// An image's length follows from its identity, as its content does.
struct Image {
  const char* id;
  std::uint32_t length;
};
constexpr Image kImages[] = {{"x-1234", 1}, {"y-1234", 3}};

// What a careless serialisation takes for each other: "x" at 12 and "x1" at 2, "x" before "1-x" and
// "x1" before "-x".
constexpr Image kImitators[] = {{"x", 1}, {"x1", 1}, {"1-x", 1}, {"-x", 1}, {"x-12345", 1}};

}  // namespace

Generator::Generator(const CacheConfig& config, const Swarm& swarm)
    : config_(config),
      swarm_(swarm),
      most_requests_(std::clamp<std::uint64_t>(swarm.calls.most_requests, 1, kMostRequests)),
      block_size_(config.groups.front().block_size),
      align_(static_cast<std::uint32_t>(alignment(config))),
      inside_(hits_inside_blocks(config)) {
  for (std::uint8_t weight : swarm.weight) total_weight_ += weight;
  for (const GroupConfig& group : config.groups) {
    block_size_ = std::min(block_size_, group.block_size);
    if (moves_state(group)) {
      state_size_ = group.block_size;
      draft_states_ = group.speculative_blocks;
      has_checkpoints_ = has_checkpoints_ || group.checkpoint_alignment > 0;
    }
    has_states_ = has_states_ || group.kind == LayerKind::mamba;
    if (group.kind == LayerKind::cross) encoder_units_ = group.block_size;
  }
}

// What is drawn is within the calls of the subject almost always; where it is not, a step passes.
Operation Generator::next(Choice choice, const Snapshot& state, const History& history) const {
  Operation drawn = draw(choice, state, history);
  if (swarm_.calls == Calls{} || is_within(swarm_.calls, drawn, state, history)) return drawn;
  return op::Step{};
}

Operation Generator::draw(Choice choice, const Snapshot& state, const History& history) const {
  Draws draws(choice);
  Moment m{state, history, draws};
  if (auto operation = follow_up(m)) return *operation;
  if (auto operation = relatives(m)) return *operation;
  std::uint32_t at = draws.below(total_weight_);
  std::size_t kind = 0;
  while (at >= swarm_.weight[kind]) at -= swarm_.weight[kind++];
  if (auto operation = make(static_cast<Kind>(kind), m)) return *operation;
  // No request fits the drawn kind. Another operation on the requests that are there is better than
  // one more arrival.
  constexpr Kind kInstead[] = {Kind::advance, Kind::append, Kind::allocate, Kind::lookup};
  const std::uint32_t first = draws.below(8);
  for (std::uint32_t i = 0; first < 7 && i < 4; ++i) {
    if (auto operation = make(kInstead[(first + i) % 4], m)) return *operation;
  }
  if (auto operation = complete(m)) return *operation;  // a transfer may hold up all requests
  if (history.book.requests().size() < most_requests_) return arrive(m);
  return op::Finish{pick(history, draws, [](const RequestRecord&) { return true; })->name};
}

// Acts like a scheduler: most lookups are used at once, because a hit does not last, and a shortage
// is answered by making room.
std::optional<Operation> Generator::follow_up(Moment& m) const {
  const bool resets = swarm_.of(Kind::reset) > 0;
  const bool idle = m.state.num_free + 1 == config_.num_blocks && !m.state.index.empty();
  if (resets && idle && m.draws.one_in(16)) return op::Reset{};  // it is refused if not idle
  if (!m.history.just_looked_up.empty() && !m.draws.one_in(8)) {
    const RequestState* r = m.state.find(m.history.just_looked_up);
    const RequestRecord* record = m.history.find(m.history.just_looked_up);
    if (r != nullptr && record != nullptr && record->resident() && without_blocks(*r) &&
        r->num_tokens > 0) {
      return admit(m, *r, *record);
    }
  }
  if (!m.history.just_refused.empty() && m.draws.below(4) >= 2) {
    const bool waits = !m.history.new_states.empty();
    if (waits && m.draws.below(2) == 0) return op::Step{};
    const auto* r = pick(m.history, m.draws, [](const RequestRecord& x) {
      return x.holds() && x.transfer.empty() && x.on_device;
    });
    const std::uint32_t how = m.draws.below(4);
    if (r != nullptr && how == 3 && config_.num_host_blocks > 0) {
      return op::SwapOut{r->name, std::string("t").append(std::to_string(m.history.book.names()))};
    }
    if (r != nullptr && how % 2 == 0) return op::Free{r->name};
    if (r != nullptr) return op::Finish{r->name};
    if (!m.state.raw.empty()) return op::Release{m.state.raw};
    if (!m.state.leases.empty()) return op::Unpin{m.state.leases.front().name};
    return op::Finish{m.history.just_refused};  // no request is in its way, so it will never fit
  }
  return std::nullopt;
}

std::optional<Operation> Generator::make(Kind kind, Moment& m) const {
  const auto any = [](const RequestRecord&) { return true; };
  switch (kind) {
    case Kind::arrive:
      if (m.history.book.requests().size() >= most_requests_) return std::nullopt;
      return arrive(m);
    case Kind::lookup: return lookup(m);
    case Kind::allocate: return allocate(m);
    case Kind::advance: return advance(m);
    case Kind::append: return append(m);
    case Kind::cache: return cache(m);
    case Kind::evict: return evict(m);
    case Kind::reset: return op::Reset{};
    case Kind::step: return op::Step{};
    case Kind::take: return op::Take{m.draws.one_in(8) ? m.state.num_free + 1 : m.draws.below(4)};
    case Kind::touch: return touch(m);
    case Kind::release: return release(m);
    case Kind::wrong: return wrong(m);
    case Kind::recycle: return recycle(m);
    case Kind::finish:
      if (const auto* r = pick(m.history, m.draws, any)) return op::Finish{r->name};
      return std::nullopt;
    case Kind::common_prefix:
      if (const auto* r = pick(m.history, m.draws, any)) return op::CommonPrefix{r->name};
      return std::nullopt;
    default: return make_rest(kind, m);
  }
}

std::optional<Operation> Generator::make_rest(Kind kind, Moment& m) const {
  switch (kind) {
    case Kind::decode: return decode(m);
    case Kind::free:
      if (const auto* r =
              pick(m.history, m.draws, [](const RequestRecord& x) { return x.holds(); }))
        return op::Free{r->name};
      return std::nullopt;
    case Kind::fork: return fork(m);
    case Kind::truncate: return truncate(m);
    case Kind::pin: return pin(m);
    case Kind::unpin: return unpin(m);
    case Kind::swap_out: return swap_out(m);
    case Kind::swap_in: return swap_in(m);
    case Kind::complete: return complete(m);
    default: return std::nullopt;
  }
}

Operation Generator::arrive(Moment& m) const {
  const std::uint32_t text = kTexts[m.draws.below(std::size(kTexts))];
  // Mostly so long that several requests fit, sometimes longer than the pool.
  const std::uint32_t most = m.draws.one_in(6) ? config_.num_blocks : 1 + config_.num_blocks / 3;
  const std::uint32_t blocks = m.draws.below(most + 1);
  std::uint32_t n = blocks * block_size_ + m.draws.below(3);  // k*B-1, k*B, k*B+1 ...
  n = std::clamp(n > 0 ? n - 1 : 0, m.draws.one_in(16) ? 0U : 1U, config_.max_model_len);
  if (m.draws.one_in(24)) n = config_.max_model_len;
  op::Arrive out;
  out.req.append(1, 'r').append(std::to_string(m.history.book.arrivals()));
  out.tokens.resize(n);
  for (std::uint32_t i = 0; i < n; ++i) out.tokens[i] = token_at(text, i);
  if (n > 0 && m.draws.one_in(8)) {  // one token differs from the text
    TokenId& token = out.tokens[m.draws.below(n)];
    token = (token + 1) % 3;
  }
  out.skip_lookup = m.draws.one_in(10) && swarm_.calls.skip_lookup;
  if (encoder_units_ > 0) out.encoder_tokens = 1 + m.draws.below(3 * encoder_units_);
  const bool keys = swarm_.extra_one_in > 0 && m.draws.one_in(swarm_.extra_one_in);
  if (keys && swarm_.calls.extra) out.extra = extra(m, n);
  return out;
}

// Draws names that an adapter, a salt and a layout share, or an image and an embedded row; versions
// of an adapter; one image at two places; two images at one place, or with the same ending; and
// keys that imitate each other.
ExtraKeys Generator::extra(Moment& m, std::uint32_t num_tokens) const {
  if (m.draws.one_in(4)) return imitation(m, num_tokens);
  ExtraKeys out;
  const std::uint32_t what = m.draws.below(7);  // 2, 4 and 6: rows alone
  if (what == 0 || what == 3) out.lora = kAdapters[m.draws.below(3)];
  if (!out.lora.empty() && config_.profile.sparse) out.lora_path = kAdapters[m.draws.below(3)];
  if (what == 1) out.salt.assign(1, m.draws.below(2) == 0 ? 'a' : 's');
  if (what == 5) out.layout.assign(1, m.draws.below(2) == 0 ? 'a' : 'd');
  if (what < 2 || what == 5) return out;
  const Image& image = kImages[m.draws.one_in(4) ? 1 : 0];
  if (num_tokens >= image.length) {
    (what == 6 ? out.embeds : out.mm)
        .push_back({image.id,
                    m.draws.below(std::min(num_tokens - image.length + 1, block_size_ + 1)),
                    image.length});
  }
  return out;
}

// Different keys whose parts spell the same when they are written one behind the other, and an id
// at places whose digits continue it.
ExtraKeys Generator::imitation(Moment& m, std::uint32_t num_tokens) const {
  ExtraKeys out;
  if (m.draws.below(3) == 0) {  // an adapter and a salt: always "abc"
    const auto cut = static_cast<std::ptrdiff_t>(m.draws.below(4));
    constexpr std::string_view kWhole = "abc";
    out.lora.assign(kWhole.begin(), kWhole.begin() + cut);
    (m.draws.below(3) == 0 ? out.layout : out.salt).assign(kWhole.begin() + cut, kWhole.end());
    return out;
  }
  auto& items = m.draws.one_in(4) ? out.embeds : out.mm;
  std::uint32_t at = 0;
  for (std::uint32_t i = 1 + m.draws.below(2); i > 0; --i) {
    constexpr std::uint32_t kPlaces[] = {0, 1, 2, 12};
    at += kPlaces[m.draws.below(4)];
    const Image& image = kImitators[m.draws.below(std::size(kImitators))];
    if (at + image.length > num_tokens) break;
    items.push_back({image.id, at, image.length});
    at += image.length;
  }
  return out;
}

std::optional<Operation> Generator::lookup(Moment& m) const {
  if (swarm_.calls.lookup_within) return std::nullopt;
  const bool running_too = m.draws.one_in(8);
  const auto* r =
      pick(m.history, m.draws, [&](const RequestRecord& x) { return running_too || !x.holds(); });
  if (r == nullptr) return std::nullopt;
  return look_up(m, r->name);
}

std::optional<Operation> Generator::allocate(Moment& m) const {
  const auto computable = [&](const RequestRecord& x) {
    const RequestState* r = state_of(m, x);
    if (r == nullptr || (!x.resident() && !m.draws.one_in(16))) return false;
    if (r->num_tokens > r->computed) return true;
    return swarm_.calls.drafts && x.holds() && m.draws.one_in(8);
  };
  // Evaluated once per request, because the predicate above draws.
  std::array<const RequestRecord*, kMostRequests> found{};
  std::uint32_t n = 0;
  for (const RequestRecord& x : m.history.book.requests()) {
    if (n < found.size() && computable(x)) found[n++] = &x;
  }
  if (n == 0) return std::nullopt;
  const RequestRecord& record = *found[m.draws.below(n)];
  const RequestState& r = *state_of(m, record);
  if (!without_blocks(r)) return extend(m, r);
  const bool as_running = m.draws.one_in(12) && !swarm_.calls.lookup_within;
  if (as_running && !must_look_up(record)) return admit_as_running(m, r);
  if (swarm_.calls.lookup_within) return admit(m, r, record);
  if (must_look_up(record) && m.history.just_looked_up != r.name) return look_up(m, r.name);
  const bool could_hit = config_.enable_caching && !record.skip_lookup && !record.looked_up;
  if (could_hit && m.draws.below(2) == 0) return look_up(m, r.name);
  return admit(m, r, record);
}

/// Some callers know how long a hit is of use to them.
Operation Generator::look_up(Moment& m, const std::string& req) const {
  op::Lookup out{req};
  const RequestState* r = m.state.find(req);
  const bool may = config_.profile.sparse && swarm_.calls.max_tokens && r != nullptr;
  if (may && m.draws.one_in(8)) out.max_tokens = m.draws.below(r->num_tokens + 2);
  return out;
}

/// Whether an engine knows no admission of this request that uses no lookup.
bool Generator::must_look_up(const RequestRecord& record) const {
  return !swarm_.calls.without_lookup && config_.enable_caching && !record.skip_lookup;
}

// A part of the tokens that are left to compute; moving states stop at the ends of blocks.
std::uint32_t Generator::chunk(Moment& m, std::uint32_t start, std::uint32_t rest) const {
  const std::uint32_t n = 1 + m.draws.below(rest);
  if (!swarm_.calls.chunks) return rest;
  if (state_size_ == 0 || n == rest || m.draws.one_in(8)) return n;
  const std::uint32_t end = (start + n) / state_size_ * state_size_;
  return end > start ? end - start : rest;
}

// A scheduler ends its chunks on the blocks of moving states. @return at most `n`
std::uint32_t Generator::without_loss(std::uint64_t start, std::uint32_t n) const {
  const bool splits = state_size_ > 0 && swarm_.calls.chunks;
  const auto rest = !splits ? 0 : static_cast<std::uint32_t>(start % state_size_);
  if (rest == 0 || n <= 1 + draft_states_) return n;
  return std::min(n, state_size_ - rest);
}

// Where hits end inside blocks, a scheduler also ends a chunk where others will go on from a
// prompt. @return at most `n`
std::uint32_t Generator::to_boundary(Moment& m, std::uint32_t prompt_tokens, std::uint64_t start,
                                     std::uint32_t n) const {
  if (!inside_ || !swarm_.calls.chunks || m.draws.one_in(3)) return n;
  const std::uint64_t end =
      state_boundary(resumption_of(config_), prompt_tokens, config_.hash_block_size);
  return start < end && end < start + n ? static_cast<std::uint32_t>(end - start) : n;
}

// Drafts that were not accepted leave a place for a state at the block in which they ended. A chunk
// that passes over it would not write the state.
bool Generator::waits_for_state(const RequestState& r) const {
  for (GroupId g = 0; g < r.tables.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    const std::size_t next = r.computed / group.block_size;
    const bool fresh = moves_state(group) && r.computed % group.block_size == 0;
    if (fresh && next + group.speculative_blocks < r.tables[g].size()) return true;
  }
  return false;
}

Operation Generator::admit(Moment& m, const RequestState& r, const RequestRecord& record) const {
  AllocateArgs args;
  args.status = record.status;
  const bool whole = swarm_.calls.lookup_within;  // it always looks up, and counts its hit in
  const bool must = must_look_up(record);
  args.use_lookup = record.looked_up && (!m.draws.one_in(8) || must);
  const std::uint32_t hit = args.use_lookup && !whole ? record.hit.tokens : 0;
  const std::uint32_t rest = r.num_tokens > r.computed + hit ? r.num_tokens - r.computed - hit : 1;
  args.new_tokens = rest;
  const std::uint32_t how = m.draws.below(8);  // 0, 1: a chunk of the prompt
  if (how < 2) args.new_tokens = chunk(m, r.computed + hit, rest);
  if (!record.looked_up) args.use_lookup = how == 7;  // no lookup since preemption: there is no hit
  if (whole) {
    args.use_lookup = !record.skip_lookup;
  }
  args.use_lookup = args.use_lookup || must;
  const bool loads = swarm_.external_one_in > 0 && m.draws.one_in(swarm_.external_one_in);
  if (loads && swarm_.calls.external && !whole && rest > 1) {
    args.external = 1 + m.draws.below(rest - 1);
    // A load may leave no token to compute, above all one that ends at the token limit.
    if (m.draws.one_in(r.num_tokens == config_.max_model_len ? 2 : 8)) args.external = rest;
    args.new_tokens = std::min(args.new_tokens, rest - args.external);
    const bool nothing = args.new_tokens == 0;
    if (nothing || (m.draws.below(2) == 0 && swarm_.calls.delay_cache)) {  // asynchronous
      args.new_tokens = 0;
      args.delay_cache = true;
    }
  }
  const std::uint32_t start = r.computed + hit + args.external;
  args.new_tokens = without_loss(start, args.new_tokens);
  args.new_tokens = to_boundary(m, record.prompt_tokens, start, args.new_tokens);
  const std::uint32_t gates = m.draws.below(16);
  args.has_scheduled = (gates & 1) != 0;
  args.full_sequence_must_fit = (gates & 2) != 0 && swarm_.calls.full_sequence_must_fit;
  const bool reserves = config_.profile.admission_gates && swarm_.calls.reserved;
  if (reserves && gates >= 12) args.reserved = 1 + m.draws.below(3);
  if (m.draws.one_in(4)) args.lookahead = 1 + m.draws.below(4);
  if (m.draws.one_in(10)) args.delay_cache = true;
  return within_calls(r.name, args);
}

// A caller that takes the request for a running one: no lookup and no gate, but it has no blocks.
Operation Generator::admit_as_running(Moment& m, const RequestState& r) const {
  const std::uint32_t rest = r.num_tokens > r.computed ? r.num_tokens - r.computed : 1;
  AllocateArgs args{.has_scheduled = true, .status = RequestStatus::running};
  args.new_tokens = without_loss(r.computed, chunk(m, r.computed, rest));
  if (m.draws.one_in(6)) args.lookahead = 1 + m.draws.below(4);
  return within_calls(r.name, args);
}

/// The allocation without what the subject is not asked.
Operation Generator::within_calls(const std::string& req, AllocateArgs args) const {
  if (!swarm_.calls.drafts) args.lookahead = 0;
  if (!swarm_.calls.delay_cache) args.delay_cache = false;
  if (has_checkpoints_ && args.new_tokens > 0) args.delay_cache = false;  // only loads wait
  return op::Allocate{req, args};
}

Operation Generator::extend(Moment& m, const RequestState& r) const {
  const RequestRecord* record = m.history.find(r.name);
  const std::uint32_t granted = record == nullptr ? 0 : granted_tokens(*record, r);
  const bool whole = has_states_ || !swarm_.calls.part_advances;
  if (whole && granted > r.computed) return op::Advance{r.name, granted};
  AllocateArgs args;
  args.status = RequestStatus::running;
  args.has_scheduled = true;
  const std::uint32_t rest = r.num_tokens > r.computed ? r.num_tokens - r.computed : 0;
  args.new_tokens = rest > 1 && m.draws.one_in(4) ? chunk(m, r.computed, rest) : rest;
  const bool drafts = swarm_.draft_one_in > 0 && m.draws.one_in(swarm_.draft_one_in);
  std::uint32_t most = 3;
  if (state_size_ > 0) most = std::min(most, draft_states_);
  // A checkpoint is for known tokens: drafts come behind the prefill, fewer than a block of states.
  if (has_checkpoints_) most = rest > 1 ? 0 : std::min(most, state_size_ - 1);
  if (most > 0 && swarm_.calls.drafts && args.new_tokens == rest && (drafts || rest == 0)) {
    args.new_tokens += 1 + m.draws.below(most);
  }
  args.new_tokens = std::max(args.new_tokens, 1U);
  args.new_tokens = without_loss(r.computed, args.new_tokens);
  const std::uint32_t prompt_tokens = record == nullptr ? 0 : record->prompt_tokens;
  args.new_tokens = to_boundary(m, prompt_tokens, r.computed, args.new_tokens);
  if (swarm_.calls.chunks && waits_for_state(r))
    args.new_tokens = std::min(args.new_tokens, 1 + draft_states_);
  if (m.draws.one_in(6)) args.lookahead = 1 + m.draws.below(4);
  if (m.draws.one_in(12)) args.delay_cache = true;
  const bool ahead = config_.profile.sparse && swarm_.calls.in_flight && r.computed > 0;
  if (ahead && m.draws.one_in(3)) args.in_flight = 1 + m.draws.below(r.computed);
  return within_calls(r.name, args);
}

// Advances only over scheduled tokens: a caller that advances over tokens that were never computed
// reads garbage. Sometimes it goes back by one, as after a load that left no token to compute; not
// where there are states, which cannot go back.
std::optional<Operation> Generator::advance(Moment& m) const {
  const auto reach = [&](const RequestRecord& x) -> std::uint32_t {
    const RequestState* r = state_of(m, x);
    if (r == nullptr) return 0;
    const std::uint32_t end = granted_tokens(x, *r);
    return end > r->computed ? end - r->computed : 0;
  };
  const auto* record =
      pick(m.history, m.draws, [&](const RequestRecord& x) { return reach(x) > 0; });
  if (record == nullptr) return std::nullopt;
  const std::uint32_t now = state_of(m, *record)->computed;
  const std::uint32_t most = reach(*record);
  if (has_states_ || !swarm_.calls.part_advances) return op::Advance{record->name, now + most};
  if (now > 0 && m.draws.one_in(16)) return op::Advance{record->name, now - 1};
  const std::uint32_t by = m.draws.one_in(4) ? m.draws.below(most + 1) : most;
  return op::Advance{record->name, now + by};
}

std::optional<Operation> Generator::append(Moment& m) const {
  const auto* record = pick(m.history, m.draws, [&](const RequestRecord& x) {
    const RequestState* r = state_of(m, x);
    return r != nullptr && r->num_tokens < config_.max_model_len &&
           (x.holds() || r->num_tokens == 0) &&
           (swarm_.calls.long_appends || (x.holds() && r->computed == r->num_tokens));
  });
  if (record == nullptr) return std::nullopt;
  const std::uint32_t have = state_of(m, *record)->num_tokens;
  std::uint32_t n = 1 + m.draws.below(3);
  const auto scheduled = static_cast<std::uint32_t>(record->scheduled_tokens);
  if (scheduled > have && m.draws.below(2) == 1) n = scheduled - have;  // all drafts are accepted
  n = std::min(n, swarm_.calls.long_appends ? config_.max_model_len - have : 1);
  const std::uint32_t text = m.draws.one_in(4) ? 1 : 0;
  op::Append out{record->name, std::vector<TokenId>(n)};
  for (std::uint32_t i = 0; i < n; ++i) out.tokens[i] = token_at(text, have + i);
  return out;
}

std::optional<Operation> Generator::cache(Moment& m) const {
  const auto* record =
      pick(m.history, m.draws, [](const RequestRecord& x) { return x.written > 0; });
  if (record == nullptr) return std::nullopt;
  const auto most = static_cast<std::uint32_t>(record->written);
  return op::Cache{record->name, m.draws.one_in(4) ? m.draws.below(most + 1) : most};
}

// Any block, but more often one that carries a key.
BlockId Generator::some_block(Moment& m) const {
  const BlockId start(1 + m.draws.below(config_.num_blocks - 1));
  if (m.draws.one_in(4)) return start;
  for (std::uint32_t i = 0; i + 1 < config_.num_blocks; ++i) {
    const BlockId block(1 + (start - 1 + i) % (config_.num_blocks - 1));
    if (m.state.blocks[block].hashed) return block;
  }
  return start;
}

Operation Generator::evict(Moment& m) const {
  op::Evict out;
  const std::uint32_t n = 1 + m.draws.below(3);
  for (std::uint32_t i = 0; i < n; ++i)
    out.blocks.push_back(m.draws.one_in(16) ? kNullBlock : some_block(m));
  return out;
}

Operation Generator::touch(Moment& m) const {
  op::Touch out;
  if (2 * m.state.raw.size() >= config_.num_blocks) return op::Release{m.state.raw};
  const std::uint32_t n = 1 + m.draws.below(3);
  out.blocks.push_back(some_block(m));
  for (std::uint32_t i = 1; i < n; ++i)
    out.blocks.push_back(m.draws.one_in(3) ? out.blocks.front() : some_block(m));
  return out;
}

// Never beyond what was computed: the caller still reads the rest.
std::optional<Operation> Generator::recycle(Moment& m) const {
  const auto* record = pick(m.history, m.draws, [](const RequestRecord&) { return true; });
  const RequestState* r = record != nullptr ? state_of(m, *record) : nullptr;
  if (r == nullptr) return std::nullopt;
  const std::uint32_t back = m.draws.one_in(4) ? m.draws.below(r->computed + 1) : 0;
  return op::Recycle{r->name, r->computed - back};
}

// Draws from the blocks of the raw owner, so that one call sometimes releases duplicates.
std::optional<Operation> Generator::release(Moment& m) const {
  const std::vector<BlockId>& raw = m.state.raw;
  if (raw.empty()) return std::nullopt;
  const auto held = static_cast<std::uint32_t>(raw.size());
  const std::uint32_t from = m.draws.below(held);
  const std::uint32_t n =
      m.draws.one_in(4) ? held - from : std::min(held - from, 1 + m.draws.below(3));
  op::Release out;
  for (std::uint32_t i = 0; i < n; ++i) out.blocks.push_back(raw[from + i]);
  return out;
}

std::optional<Operation> Generator::drain(const Snapshot& state, const History& history) {
  if (!history.book.transfers().empty())
    return op::Complete{history.book.transfers().back().name, true};
  if (!history.book.requests().empty()) return op::Finish{history.book.requests().back().name};
  if (!state.leases.empty()) return op::Unpin{state.leases.back().name};
  if (!state.raw.empty()) return op::Release{state.raw};
  if (!state.index.empty() || !state.host.index.empty()) return op::Reset{};
  return std::nullopt;
}

}  // namespace kvproof::properties
