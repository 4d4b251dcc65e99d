// SPDX-License-Identifier: Apache-2.0
// The operations that callers may perform in a state of a small space.
#include "properties/sources/exhaustive/space.h"

#include <algorithm>
#include <bit>
#include <string>

#include "reference/operations.h"

namespace kvproof::properties::exhaustive {
namespace {

std::string name_of(std::size_t slot) { return {static_cast<char>('a' + slot)}; }

/// Collects the operations of one state.
class Collector {
 public:
  Collector(const Space& space, const Snapshot& state, const History& history, const Known& known,
            std::vector<Operation>& out)
      : space_(space), state_(state), history_(history), known_(known), out_(out) {}

  void collect() {
    for (std::size_t slot = 0; slot < space_.requests; ++slot) {
      if (known_.texts[slot] == 0) {
        if (unused_ == kMostRequests) unused_ = slot;
        continue;
      }
      const std::string name = name_of(slot);
      const RequestState* r = state_.find(name);
      const RequestRecord* record = history_.find(name);
      if (r == nullptr || record == nullptr) continue;  // the subject has lost it: I16 reports that
      record->holds() ? extend(*r, *record) : admit(*r, *record);
      out_.emplace_back(op::Finish{name});
      if (has(kCommonPrefix)) out_.emplace_back(op::CommonPrefix{name});
    }
    arrive();
    fork();
    blocks();
    if (has(kSteps)) out_.emplace_back(op::Step{});
    out_.emplace_back(op::Reset{});
  }

 private:
  [[nodiscard]] bool has(Extras extra) const { return (space_.extras & extra) != 0; }

  void allocate(const std::string& name, AllocateArgs args) {
    out_.emplace_back(op::Allocate{name, args});
    if (has(kGate)) {
      args.full_sequence_must_fit = true;
      out_.emplace_back(op::Allocate{name, args});
      args.full_sequence_must_fit = false;
    }
    if (has(kDelayed)) {
      args.delay_cache = true;
      out_.emplace_back(op::Allocate{name, args});
    }
  }

  void admit(const RequestState& r, const RequestRecord& record) {
    if (space_.caching) out_.emplace_back(op::Lookup{r.name});
    const bool hit_alone = find_profile(space_.profile)->grants_hits_alone && record.hit.tokens > 0;
    for (std::uint32_t n = hit_alone ? 0 : 1; n + record.hit.tokens <= r.num_tokens; ++n) {
      allocate(r.name, {.new_tokens = n, .use_lookup = space_.caching});
    }
  }

  void extend(const RequestState& r, const RequestRecord& record) {
    const auto granted =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(record.scheduled_tokens, r.num_tokens));
    out_.emplace_back(op::Free{r.name});
    if (r.computed < granted) {
      out_.emplace_back(op::Advance{r.name, granted});
      return;
    }
    for (std::uint32_t n = 1; r.computed + n <= r.num_tokens; ++n) {
      AllocateArgs args{.new_tokens = n, .status = RequestStatus::running};
      allocate(r.name, args);
      args.lookahead = 1;
      if (has(kDrafts)) allocate(r.name, args);
    }
    if (r.computed == r.num_tokens && r.num_tokens < space_.max_tokens) {
      for (TokenId token : {0, 1}) out_.emplace_back(op::Append{r.name, {token}});
    }
    if (has(kDrafts)) out_.emplace_back(op::Truncate{r.name, r.computed});
    if (has(kRecycle)) out_.emplace_back(op::Recycle{r.name, r.computed});
    if (has(kDelayed)) out_.emplace_back(op::Cache{r.name, r.computed});
  }

  void arrive() {
    if (unused_ == kMostRequests) return;
    for (std::uint32_t length = space_.shortest_prompt; length <= space_.longest_prompt; ++length) {
      const std::uint32_t differ = length - std::min(length, space_.same_tokens);
      for (Text text = 1U << length; text < (1U << length) + (1U << differ); ++text) {
        out_.emplace_back(
            op::Arrive{.req = name_of(unused_), .tokens = tokens_of(text), .extra = {}});
      }
    }
  }

  void fork() {
    if (!has(kFork) || unused_ == kMostRequests) return;
    for (const RequestState& r : state_.requests) {
      out_.emplace_back(op::Fork{r.name, name_of(unused_)});
    }
  }

  void blocks() {
    for (BlockId block = 1; block < state_.blocks.size(); ++block) {
      const BlockState& b = state_.blocks[block];
      if (has(kEvict) && b.hashed) out_.emplace_back(op::Evict{{block}});
      if (!has(kRaw)) continue;
      if (state_.raw.empty()) {
        out_.emplace_back(op::Touch{{block}});
        out_.emplace_back(op::Touch{{block, block}});
      }
    }
    if (!state_.raw.empty()) out_.emplace_back(op::Release{state_.raw});
  }

  const Space& space_;
  const Snapshot& state_;
  const History& history_;
  const Known& known_;
  std::vector<Operation>& out_;
  std::size_t unused_ = kMostRequests;  // the first slot without a request
};

// A key stands for the text up to the last token that it covers.
void add_tokens(const CacheConfig& config, const std::string& req,
                const std::vector<TokenId>& tokens, const Snapshot& after, Known& known) {
  Text& text = known.texts[slot_of(req)];
  for (const TokenId token : tokens) text = extended(text, token);
  const RequestState* r = after.find(req);
  if (r == nullptr) return;
  for (std::size_t i = 0; i < r->hashes.size(); ++i) {
    if (known.of_key->contains(r->hashes[i])) continue;
    const std::size_t covered = (i + 1) * config.hash_block_size + config.hash_lookahead;
    if (covered > r->num_tokens) return;  // I29 reports that
    known.of_key.change().emplace(r->hashes[i], text >> (r->num_tokens - covered));
  }
}

}  // namespace

std::vector<TokenId> tokens_of(Text text) {
  std::vector<TokenId> out;
  for (int bit = static_cast<int>(std::bit_width(text)) - 2; bit >= 0; --bit) {
    out.push_back(static_cast<TokenId>(text >> bit & 1U));
  }
  return out;
}

CacheConfig Space::config() const {
  CacheConfig out;
  out.profile = *find_profile(profile);
  out.num_blocks = usable_blocks + 1;
  out.enable_caching = caching;
  out.max_model_len = max_tokens;
  out.groups.assign(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(num_groups));
  out.hash_block_size = hash_unit > 0 ? hash_unit : groups.front().block_size;
  out.retention = retention;
  out.hash_lookahead = hash_lookahead;
  return out;
}

void operations_in(const Space& space, const Snapshot& state, const History& history,
                   const Known& known, std::vector<Operation>& out) {
  out.clear();
  Collector(space, state, history, known, out).collect();
}

void note(const CacheConfig& config, const Operation& operation, const Result& result,
          const Snapshot& after, Known& known) {
  if (is_undone(result)) return;
  if (const auto* fork = std::get_if<op::Fork>(&operation)) {
    known.texts[slot_of(fork->child)] = known.texts[slot_of(fork->req)];
  } else if (const auto* finish = std::get_if<op::Finish>(&operation)) {
    known.texts[slot_of(finish->req)] = 0;
  } else if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
    known.texts[slot_of(arrive->req)] = kEmptyText;
    add_tokens(config, arrive->req, arrive->tokens, after, known);
  } else if (const auto* append = std::get_if<op::Append>(&operation)) {
    add_tokens(config, append->req, append->tokens, after, known);
  }
}

}  // namespace kvproof::properties::exhaustive
