// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/occasion.h"

namespace kvproof::properties {
namespace {

Occasions changes_between(const RequestState& was, const RequestState& now) {
  Occasions out = 0;
  if (was.tables != now.tables || was.host_tables != now.host_tables) out |= on::holders;
  if (was.num_tokens != now.num_tokens || was.computed != now.computed) out |= on::tokens;
  if (was.hashes != now.hashes) out |= on::hashes;
  if (was.progress != now.progress) out |= on::progress;
  return out;
}

bool same_work(const std::optional<WorkCounters>& was, const std::optional<WorkCounters>& now) {
  return was == now && (!was || was->refusals == now->refusals);
}

Occasions changes_between(const Snapshot& was, const Snapshot& now) {
  const auto pool_of = [](const Snapshot& s) -> const PoolState& { return s; };
  Occasions out = 0;
  if (pool_of(was) != pool_of(now)) out |= on::pool;
  if (was.host != now.host) out |= on::host;
  if (was.counters != now.counters || !same_work(was.work, now.work)) out |= on::counters;
  const bool holders = was.raw != now.raw || was.leases != now.leases || was.copying != now.copying;
  if (holders) out |= on::holders;
  if (was.requests.size() != now.requests.size()) return out | on::of_requests;
  for (std::size_t i = 0; i < was.requests.size(); ++i) {
    if (was.requests[i].name != now.requests[i].name) return out | on::of_requests;
    out |= changes_between(was.requests[i], now.requests[i]);
  }
  return out;
}

template <class... Kinds>
bool is_one_of(const Operation& operation) {
  return (std::holds_alternative<Kinds>(operation) || ...);
}

struct OfOperation {
  Occasions operator()(const op::Allocate&) const { return on::allocate; }
  Occasions operator()(const op::Take&) const { return on::take; }
  Occasions operator()(const op::Lookup&) const { return on::lookup; }
  Occasions operator()(const op::CommonPrefix&) const { return on::common_prefix; }
  Occasions operator()(const op::Step&) const { return on::read; }
  Occasions operator()(const op::Recycle&) const { return on::read; }
  Occasions operator()(const op::Cache&) const { return on::cache; }
  Occasions operator()(const op::Reset&) const { return on::reset; }
  Occasions operator()(const op::Fork&) const { return on::fork; }
  Occasions operator()(const op::Free&) const { return on::free; }
  Occasions operator()(const op::Pin&) const { return on::lease; }
  Occasions operator()(const op::Unpin&) const { return on::lease; }
  Occasions operator()(const op::SwapOut&) const { return on::swap; }
  Occasions operator()(const op::SwapIn&) const { return on::swap; }
  Occasions operator()(const op::Complete&) const { return on::swap; }
  Occasions operator()(const op::Decode&) const { return on::decode; }
  template <class Other>
  Occasions operator()(const Other&) const {
    return 0;
  }
};

}  // namespace

Occasions occasions_of(const Snapshot& before, const Operation& operation, const Outcome& outcome,
                       const Snapshot& after) {
  const auto& [result, events] = outcome;
  const bool asks = only_asks(operation);
  Occasions out = changes_between(before, after) | std::visit(OfOperation(), operation);
  if (asks) out |= on::read;
  if (std::holds_alternative<Refused>(result)) {
    out |= on::refused;
  } else if (is_undone(result)) {
    out |= on::rejected;
  } else if (!asks && !std::holds_alternative<op::Step>(operation)) {
    out |= on::done;
    const bool stays =
        is_one_of<op::Arrive, op::Append, op::Advance, op::Cache, op::Evict, op::Reset>(operation);
    if (!stays) out |= on::held;
  }
  if (std::holds_alternative<Granted>(result)) out |= on::granted;
  if (!events.empty()) out |= on::events;
  if (!before.leases.empty() || !after.leases.empty()) out |= on::lease;
  return out;
}

}  // namespace kvproof::properties
