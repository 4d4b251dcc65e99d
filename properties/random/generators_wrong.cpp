// SPDX-License-Identifier: Apache-2.0
// Decodes choices into calls that break the caller's side of the contract.
#include <algorithm>
#include <string>

#include "properties/random/generators.h"
#include "reference/operations.h"

namespace kvproof::properties {

/// A request that has finished, if there is one: its blocks may belong to another request by now.
std::string Generator::someone_gone(Moment& m) {
  if (m.history.arrivals == 0) return "nobody";
  const std::uint32_t back = m.draws.below(std::min(m.history.arrivals, 4U));
  std::string name(1, 'r');
  name.append(std::to_string(m.history.arrivals - 1 - back));
  return m.history.find(name) == nullptr ? name : "nobody";
}

// Calls that break the caller's side of the contract. Each must be rejected and change nothing.
Operation Generator::wrong(Moment& m) const {
  if (m.draws.below(3) == 0) {
    if (auto operation = wrong_sharing(m)) return *operation;
  }
  const auto running = [](const RequestRecord& r) { return r.holds(); };
  const RequestRecord* known = pick(m.history, m.draws, [](const RequestRecord&) { return true; });
  const RequestRecord* holder = pick(m.history, m.draws, running);
  const BlockId beyond(config_.num_blocks + m.draws.below(3));
  const std::string gone = someone_gone(m);
  switch (m.draws.below(11)) {
    case 0: return op::Lookup{gone};
    case 1: return op::Finish{gone};
    case 9: return op::Free{gone};
    case 2: return op::Evict{{some_block(m), beyond}};
    case 3: return op::Touch{{some_block(m), beyond}};
    case 4: return op::Touch{{some_block(m), kNullBlock}};
    case 5: return op::Release{{m.state.raw.empty() ? beyond : m.state.raw.front(), beyond}};
    case 6: return op::Release{{some_block(m), some_block(m), some_block(m)}};  // mostly not held
    case 7:
      if (known != nullptr) return op::Allocate{known->name, {}};  // asks for nothing
      return op::Allocate{"nobody", {}};
    case 8:
      if (known != nullptr) return op::Arrive{known->name, {1}};
      return op::Free{"nobody"};
    default: break;
  }
  const RequestState* r = holder != nullptr ? state_of(m, *holder) : nullptr;
  if (r != nullptr) return op::Advance{r->name, r->num_tokens + 1};
  return op::Append{"nobody", {0}};
}

// Calls that break the contract of sharing and of tiers. Each must be rejected.
std::optional<Operation> Generator::wrong_sharing(Moment& m) const {
  const bool on = swarm_.weight[static_cast<std::size_t>(Kind::pin)] > 0 ||
                  swarm_.weight[static_cast<std::size_t>(Kind::truncate)] > 0;
  if (!on) return std::nullopt;
  const RequestRecord* known = pick(m.history, m.draws, [](const RequestRecord&) { return true; });
  const RequestState* r = known != nullptr ? state_of(m, *known) : nullptr;
  const BlockId beyond(config_.num_blocks + m.draws.below(3));
  switch (m.draws.below(8)) {
    case 0: return op::Unpin{"no lease"};
    case 1: return op::Complete{"no transfer", true};
    case 2: return op::Pin{{some_block(m), beyond}, "wrong"};
    case 3: return op::Pin{{some_block(m), kNullBlock}, "wrong"};
    case 4:
      if (!m.state.leases.empty()) return op::Pin{{}, m.state.leases.front().name};
      return op::Fork{"nobody", "child"};
    case 5:
      if (known != nullptr) return op::Fork{known->name, known->name};
      return op::SwapIn{"nobody", "wrong"};
    case 6:
      if (r != nullptr && r->computed > 0) return op::Truncate{r->name, r->computed - 1};
      return op::Truncate{"nobody", 0};
    default: break;
  }
  const RequestRecord* busy =
      pick(m.history, m.draws, [](const RequestRecord& x) { return !x.transfer.empty(); });
  if (busy != nullptr) return op::SwapIn{busy->name, "wrong"};
  if (known != nullptr && !known->on_host) return op::SwapIn{known->name, "wrong"};
  return op::SwapOut{"nobody", "wrong"};
}

}  // namespace kvproof::properties
