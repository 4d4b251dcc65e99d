// SPDX-License-Identifier: Apache-2.0
// Decodes choices into forks, truncations, leases and swaps.
#include <string>

#include "properties/random/generators.h"

namespace kvproof::properties {
namespace {

std::string numbered(char letter, std::uint32_t n) {
  return std::string(1, letter).append(std::to_string(n));
}

}  // namespace

// Mostly of requests with blocks: the partial tail is what matters; most of all while drafts wait
// in it, of which the parent may accept some and the child others.
std::optional<Operation> Generator::fork(Moment& m) const {
  if (m.history.requests.size() >= kMostRequests) return std::nullopt;
  const bool any = m.draws.one_in(8);
  const auto shareable = [&](const RequestRecord& x) { return any || (x.resident() && x.holds()); };
  const auto* parent =
      m.draws.below(2) == 0 ? nullptr : pick(m.history, m.draws, [&](const auto& x) {
        return shareable(x) && x.scheduled_tokens > x.content_tokens;
      });
  if (parent == nullptr) parent = pick(m.history, m.draws, shareable);
  if (parent == nullptr) return std::nullopt;
  return op::Fork{parent->name, numbered('r', m.history.arrivals)};
}

// Down to the computed tokens, or to anything between them and what was granted.
std::optional<Operation> Generator::truncate(Moment& m) const {
  const auto* record =
      pick(m.history, m.draws, [](const RequestRecord& x) { return x.resident() && x.holds(); });
  const RequestState* r = record != nullptr ? state_of(m, *record) : nullptr;
  if (r == nullptr) return std::nullopt;
  std::uint32_t kept = r->computed;
  for (GroupId g = 0; g < r->progress.size(); ++g) {
    const bool grows = config_.groups[g].kind != LayerKind::mamba;
    if (grows && !m.draws.one_in(8)) {
      kept = std::max(kept, r->progress[g].value_or(0) * config_.groups[g].block_size);
    }
  }
  if (m.draws.below(2) == 0) kept += m.draws.below(2 * block_size_);
  return op::Truncate{r->name, std::min(kept, config_.max_model_len)};
}

// What is held, or free with content, mostly.
Operation Generator::pin(Moment& m) const {
  if (m.state.leases.size() >= 3) return op::Unpin{m.state.leases.front().name};
  op::Pin out{{}, numbered('l', m.history.names)};
  const std::uint32_t n = 1 + m.draws.below(3);
  for (std::uint32_t i = 0; i < n; ++i) {
    BlockId block = some_block(m);
    for (std::uint32_t tries = 0; tries < config_.num_blocks && !m.draws.one_in(64); ++tries) {
      const BlockState& state = m.state.blocks[block];
      if (state.hashed || state.ref_cnt > 0) break;
      block = 1 + block % (config_.num_blocks - 1);
    }
    out.blocks.push_back(block);
  }
  return out;
}

std::optional<Operation> Generator::unpin(Moment& m) const {
  if (m.state.leases.empty()) return std::nullopt;
  const auto n = static_cast<std::uint32_t>(m.state.leases.size());
  return op::Unpin{m.state.leases[m.draws.below(n)].name};
}

std::optional<Operation> Generator::swap_out(Moment& m) const {
  const auto* r =
      pick(m.history, m.draws, [](const RequestRecord& x) { return x.resident() && x.holds(); });
  if (r == nullptr) return std::nullopt;
  return op::SwapOut{r->name, numbered('t', m.history.names)};
}

std::optional<Operation> Generator::swap_in(Moment& m) const {
  const auto* r = pick(m.history, m.draws,
                       [](const RequestRecord& x) { return x.transfer.empty() && x.on_host; });
  if (r == nullptr) return std::nullopt;
  return op::SwapIn{r->name, numbered('t', m.history.names)};
}

std::optional<Operation> Generator::complete(Moment& m) const {
  if (m.history.transfers.empty()) return std::nullopt;
  const auto n = static_cast<std::uint32_t>(m.history.transfers.size());
  return op::Complete{m.history.transfers[m.draws.below(n)].name, !m.draws.one_in(4)};
}

}  // namespace kvproof::properties
