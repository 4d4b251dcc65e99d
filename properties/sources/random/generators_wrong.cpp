// SPDX-License-Identifier: Apache-2.0
// Decodes choices into calls that break the caller's side of the contract.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "properties/sources/random/generators.h"
#include "reference/operations.h"

namespace kvproof::properties {

/// A request that has finished, if there is one: its blocks may belong to another request by now.
std::string Generator::someone_gone(Moment& m) {
  if (m.history.book.arrivals() == 0) return "nobody";
  const std::uint32_t back = m.draws.below(std::min(m.history.book.arrivals(), 4U));
  std::string name(1, 'r');
  name.append(std::to_string(m.history.book.arrivals() - 1 - back));
  return m.history.find(name) == nullptr ? name : "nobody";
}

// Calls that break the caller's side of the contract. Each must be rejected and change nothing.
Operation Generator::wrong(Moment& m) const {
  const std::uint32_t about = m.draws.below(8);
  if (about < 5) {
    auto operation = about < 2 ? wrong_sharing(m) : about < 4 ? wrong_swap(m) : wrong_length(m);
    if (operation) return std::move(*operation);
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
  const bool on = swarm_.of(Kind::pin) > 0 || swarm_.of(Kind::truncate) > 0;
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

// Swaps without a host tier, of a request in flight, and under the name of another transfer; and a
// lookup that is used by a request with blocks, as one that was looked up before it was swapped.
std::optional<Operation> Generator::wrong_swap(Moment& m) const {
  const bool swapped = config_.num_host_blocks > 0 && m.draws.below(2) == 0;
  const RequestRecord* holder = pick(m.history, m.draws, [&](const RequestRecord& x) {
    return x.holds() && x.resident() && (x.swapped || !swapped);
  });
  const RequestRecord* busy =
      pick(m.history, m.draws, [](const RequestRecord& x) { return !x.transfer.empty(); });
  const std::uint32_t how = m.draws.below(4);
  const auto in = std::ranges::find(m.history.book.transfers(), false, &TransferRecord::out);
  if (in != m.history.book.transfers().end() && how < 2) return op::SwapIn{in->req, "wrong"};
  if (busy != nullptr && how == 0) return op::SwapIn{busy->name, "wrong"};
  if (busy != nullptr && how == 1) return op::SwapOut{busy->name, "wrong"};
  if (holder == nullptr) return std::nullopt;
  if (busy != nullptr && how == 2) return op::SwapOut{holder->name, busy->transfer};
  if (config_.num_host_blocks == 0 && how < 3) return op::SwapOut{holder->name, "wrong"};
  Operation out = extend(m, *state_of(m, *holder));
  if (auto* allocate = std::get_if<op::Allocate>(&out)) allocate->args.use_lookup = true;
  return out;
}

// A token more than the limit, or as many as can be written.
std::optional<Operation> Generator::wrong_length(Moment& m) const {
  const std::uint32_t limit = config_.max_model_len;
  const std::uint32_t what = m.draws.below(3);
  if (what == 0) return op::Arrive{"long", std::vector<TokenId>(limit + 1)};
  const RequestRecord* known =
      pick(m.history, m.draws, [&](const RequestRecord& x) { return what == 1 || x.resident(); });
  const RequestState* r = known != nullptr ? state_of(m, *known) : nullptr;
  if (r == nullptr) return std::nullopt;
  if (what == 1) return op::Append{r->name, std::vector<TokenId>(limit - r->num_tokens + 1)};
  AllocateArgs args{.new_tokens = 1, .external = limit - r->computed + 1};
  if (m.draws.one_in(4)) args.external = std::numeric_limits<std::uint32_t>::max();
  return op::Allocate{r->name, args};
}

}  // namespace kvproof::properties
