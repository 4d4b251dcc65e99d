// SPDX-License-Identifier: Apache-2.0
// Decodes choices into forks, truncations, leases and swaps.
#include <algorithm>
#include <string>

#include "properties/sources/random/generators.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

std::string numbered(char letter, std::uint32_t n) {
  return std::string(1, letter).append(std::to_string(n));
}

}  // namespace

// Forks mostly requests with blocks, because the partial tail matters, above all while drafts wait
// in it: the parent may accept some of them and the child others.
std::optional<Operation> Generator::fork(Moment& m) const {
  if (m.history.book.requests().size() >= most_requests_) return std::nullopt;
  const bool any = m.draws.one_in(8);
  const auto shareable = [&](const RequestRecord& x) {
    return (any || (x.resident() && x.holds())) && may_fork(m, x);
  };
  const auto* parent =
      m.draws.below(2) == 0 ? nullptr : pick(m.history, m.draws, [&](const auto& x) {
        return shareable(x) && x.scheduled_tokens > x.written;
      });
  if (parent == nullptr) parent = pick(m.history, m.draws, shareable);
  if (parent == nullptr) return std::nullopt;
  return op::Fork{parent->name, numbered('r', m.history.book.arrivals())};
}

bool Generator::may_fork(const Moment& m, const RequestRecord& record) const {
  if (swarm_.calls.early_forks) return true;
  const RequestState* r = state_of(m, record);
  return r != nullptr && record.scheduled_tokens <= r->computed;
}

// Drafts fill a block, a fork shares it, and the two part ways: one takes the drafts, publishes the
// block under its own tokens, and leaves; the other then writes on in it.
std::optional<Operation> Generator::relatives(Moment& m) const {
  if (swarm_.of(Kind::fork) == 0 || !m.draws.one_in(4)) return std::nullopt;
  for (const RequestRecord& x : m.history.book.requests()) {
    const RequestState* r = x.resident() && x.holds() ? m.state.find(x.name) : nullptr;
    if (r == nullptr) continue;
    const std::vector<BlockId>& table = r->tables.front();
    const std::uint32_t at = r->progress.front().value_or(0);
    if (at >= table.size() || table[at] == kNullBlock) continue;
    const BlockState& block = m.state.blocks[table[at]];
    if (block.hashed) return write_on(m, *r, table[at]);
    const std::uint32_t end =
        ceil_div((at + 1) * config_.groups.front().block_size, align_) * align_;
    if (x.scheduled_tokens < end) continue;
    if (block.ref_cnt > 1 && x.written >= end) return op::Cache{x.name, end};
    if (r->num_tokens >= end) continue;
    if (block.ref_cnt < 2 && m.history.book.requests().size() < most_requests_ && may_fork(m, x))
      return op::Fork{x.name, numbered('r', m.history.book.arrivals())};
    op::Append more{x.name, {}};
    for (std::uint32_t i = r->num_tokens; i < end; ++i) more.tokens.push_back(token_at(1, i));
    return more;
  }
  return std::nullopt;
}

// Waits until no other request holds the block that a relative has published.
std::optional<Operation> Generator::write_on(Moment& m, const RequestState& r,
                                             BlockId block) const {
  if (m.state.blocks[block].ref_cnt > 1) {
    const auto* other = pick(m.history, m.draws, [&](const RequestRecord& x) {
      const RequestState* holder =
          x.resident() && x.name != r.name ? m.state.find(x.name) : nullptr;
      return holder != nullptr && std::ranges::count(holder->tables.front(), block) > 0;
    });
    if (other == nullptr) return std::nullopt;
    return op::Finish{other->name};
  }
  if (r.num_tokens > r.computed) return extend(m, r);
  if (r.num_tokens >= config_.max_model_len) return std::nullopt;
  return op::Append{r.name, {token_at(2, r.num_tokens)}};
}

// Truncates to the computed tokens, or to a length between them and the granted tokens.
std::optional<Operation> Generator::truncate(Moment& m) const {
  const auto* record =
      pick(m.history, m.draws, [](const RequestRecord& x) { return x.resident() && x.holds(); });
  const RequestState* r = record != nullptr ? state_of(m, *record) : nullptr;
  if (r == nullptr) return std::nullopt;
  std::uint32_t kept = has_states_ ? granted_tokens(*record, *r) : r->computed;
  for (GroupId g = 0; g < r->progress.size(); ++g) {
    const bool grows = config_.groups[g].kind != LayerKind::mamba;
    if (grows && !m.draws.one_in(8)) {
      kept = std::max(kept, r->progress[g].value_or(0) * config_.groups[g].block_size);
    }
  }
  if (m.draws.below(2) == 0) kept += m.draws.below(2 * block_size_);
  return op::Truncate{r->name, std::min(kept, config_.max_model_len)};
}

// Draws mostly blocks that are held, or free with content.
Operation Generator::pin(Moment& m) const {
  if (m.state.leases.size() >= 3) return op::Unpin{m.state.leases.front().name};
  op::Pin out{{}, numbered('l', m.history.book.names())};
  const std::uint32_t n = 1 + m.draws.below(3);
  for (std::uint32_t i = 0; i < n; ++i) {
    BlockId block = some_block(m);
    for (std::uint32_t tries = 0; tries < config_.num_blocks && !m.draws.one_in(64); ++tries) {
      const BlockState& state = m.state.blocks[block];
      if (state.hashed || state.ref_cnt > 0) break;
      block = BlockId(1 + block % (config_.num_blocks - 1));
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
  return op::SwapOut{r->name, numbered('t', m.history.book.names())};
}

std::optional<Operation> Generator::swap_in(Moment& m) const {
  const auto* r = pick(m.history, m.draws,
                       [](const RequestRecord& x) { return x.transfer.empty() && x.on_host; });
  if (r == nullptr) return std::nullopt;
  return op::SwapIn{r->name, numbered('t', m.history.book.names())};
}

std::optional<Operation> Generator::complete(Moment& m) const {
  if (m.history.book.transfers().empty()) return std::nullopt;
  const auto n = static_cast<std::uint32_t>(m.history.book.transfers().size());
  return op::Complete{m.history.book.transfers()[m.draws.below(n)].name, !m.draws.one_in(4)};
}

}  // namespace kvproof::properties
