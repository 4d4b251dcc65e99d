// SPDX-License-Identifier: Apache-2.0
#include "properties/audit/within.h"

#include <algorithm>
#include <cstdint>

#include "properties/laws/extent.h"

namespace kvproof::properties {
namespace {

/// A subject, and what is known before it is asked. A request that nobody knows is a mistake of the
/// caller, of which the abilities say nothing.
struct Asking {
  const Calls& calls;
  const Snapshot& state;
  const History& history;

  [[nodiscard]] bool has_room() const {
    return history.book.requests().size() < std::max<std::uint64_t>(calls.most_requests, 1);
  }

  bool operator()(const op::Arrive& o) const {
    return has_room() && (calls.extra || o.extra == ExtraKeys{}) &&
           (calls.skip_lookup || !o.skip_lookup);
  }

  bool operator()(const op::Append& o) const {
    const RequestState* r = state.find(o.req);
    const RequestRecord* record = history.find(o.req);
    if (calls.long_appends || r == nullptr || record == nullptr) return true;
    return o.tokens.size() == 1 && record->holds() && r->computed == r->num_tokens;
  }

  bool operator()(const op::Advance& o) const {
    const RequestState* r = state.find(o.req);
    const RequestRecord* record = history.find(o.req);
    if (calls.part_advances || r == nullptr || record == nullptr) return true;
    return o.computed == std::min<std::uint64_t>(record->scheduled_tokens, r->num_tokens);
  }

  bool operator()(const op::Fork& o) const {
    const RequestState* r = state.find(o.req);
    const RequestRecord* record = history.find(o.req);
    if (!has_room()) return false;
    if (calls.early_forks || r == nullptr || record == nullptr) return true;
    return record->scheduled_tokens <= r->computed;
  }

  bool operator()(const op::Lookup& o) const {
    return !calls.lookup_within && (calls.max_tokens || !o.max_tokens);
  }

  bool operator()(const op::Decode& o) const {
    if (calls.chunks && calls.long_appends) return true;
    return std::ranges::all_of(o.reqs, [&](const std::string& req) {
      const RequestState* r = state.find(req);
      return r == nullptr || r->computed == r->num_tokens;
    });
  }

  bool operator()(const op::Allocate& o) const {
    const AllocateArgs& a = o.args;
    const bool known = (calls.drafts || a.lookahead == 0) && (calls.external || a.external == 0) &&
                       (calls.delay_cache || !a.delay_cache) &&
                       (calls.full_sequence_must_fit || !a.full_sequence_must_fit) &&
                       (calls.reserved || a.reserved == 0) && (calls.in_flight || a.in_flight == 0);
    const RequestState* r = state.find(o.req);
    const RequestRecord* record = history.find(o.req);
    if (!known || r == nullptr || record == nullptr) return known;
    const bool starts = without_blocks(*r);
    const bool hits = starts && history.config->enable_caching && !record->skip_lookup;
    if (hits && !calls.without_lookup) {
      if (!a.use_lookup) return false;
      if (!calls.lookup_within && history.just_looked_up != o.req) return false;
    }
    const bool counted = starts && a.use_lookup && record->looked_up && !calls.lookup_within;
    const std::uint64_t end =
        r->computed + (counted ? record->hit.tokens : 0) + a.external + a.new_tokens;
    if (!calls.drafts && end > r->num_tokens) return false;
    const bool loads = a.external > 0 && a.new_tokens == 0;  // what is left is asked later
    return calls.chunks || loads || end >= r->num_tokens;
  }

  template <class Other>
  bool operator()(const Other&) const {
    return true;
  }
};

}  // namespace

bool is_within(const Calls& calls, const Operation& operation, const Snapshot& state,
               const History& history) {
  return std::visit(Asking{calls, state, history}, operation);
}

}  // namespace kvproof::properties
