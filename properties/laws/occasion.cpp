// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/occasion.h"

namespace kvproof::properties {
namespace {

Occasions changes_between(const RequestState& was, const RequestState& now) {
  Occasions out = 0;
  if (was.tables != now.tables || was.host_tables != now.host_tables) out |= on::holders;
  if (was.num_tokens != now.num_tokens || was.computed != now.computed ||
      was.progress != now.progress || was.hashes != now.hashes) {
    out |= on::tokens;
  }
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
  if (was.raw != now.raw || was.leases != now.leases) out |= on::holders;
  constexpr Occasions kListedAnew = on::names | on::holders | on::tokens;
  if (was.requests.size() != now.requests.size()) return out | kListedAnew;
  for (std::size_t i = 0; i < was.requests.size(); ++i) {
    if (was.requests[i].name != now.requests[i].name) return out | kListedAnew;
    out |= changes_between(was.requests[i], now.requests[i]);
  }
  return out;
}

struct OfOperation {
  Occasions operator()(const op::Allocate&) const { return on::allocate; }
  Occasions operator()(const op::Take&) const { return on::take; }
  Occasions operator()(const op::Lookup&) const { return on::lookup | on::read; }
  Occasions operator()(const op::CommonPrefix&) const { return on::common_prefix | on::read; }
  Occasions operator()(const op::Step&) const { return on::read; }
  Occasions operator()(const op::Recycle&) const { return on::read; }
  Occasions operator()(const op::Reset&) const { return on::reset; }
  Occasions operator()(const op::Fork&) const { return on::fork; }
  Occasions operator()(const op::Free&) const { return on::free; }
  Occasions operator()(const op::Pin&) const { return on::lease; }
  Occasions operator()(const op::Unpin&) const { return on::lease; }
  Occasions operator()(const op::SwapOut&) const { return on::swap; }
  Occasions operator()(const op::SwapIn&) const { return on::swap; }
  Occasions operator()(const op::Complete&) const { return on::swap; }
  template <class Other>
  Occasions operator()(const Other&) const {
    return 0;
  }
};

}  // namespace

Occasions occasions_of(const Snapshot& before, const Operation& operation, const Outcome& outcome,
                       const Snapshot& after) {
  Occasions out = changes_between(before, after) | std::visit(OfOperation(), operation);
  const bool pure = std::holds_alternative<op::Lookup>(operation) ||
                    std::holds_alternative<op::CommonPrefix>(operation) ||
                    std::holds_alternative<op::Step>(operation);
  if (std::holds_alternative<Refused>(outcome.result)) {
    out |= on::refused;
  } else if (std::holds_alternative<Rejected>(outcome.result)) {
    out |= on::rejected;
  } else if (!pure) {
    out |= on::done;
  }
  if (std::holds_alternative<Granted>(outcome.result)) out |= on::granted;
  if (!outcome.events.empty()) out |= on::events;
  if (!before.leases.empty() || !after.leases.empty()) out |= on::lease;
  return out;
}

}  // namespace kvproof::properties
