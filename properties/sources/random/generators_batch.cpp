// SPDX-License-Identifier: Apache-2.0
// Decode steps of batches, and mistakes in them.
#include <utility>

#include "properties/sources/random/generators.h"
#include "reference/operations.h"

namespace kvproof::properties {

// Whoever decodes has computed all that was granted, and the next token has a place. Mostly that is
// all there is; else the step computes a token of the prompt, for those who know chunks.
bool Generator::may_decode(const Moment& m, const RequestRecord& record) const {
  const RequestState* r = state_of(m, record);
  const bool runs = r != nullptr && record.holds() && record.resident();
  if (!runs || r->num_tokens >= config_.max_model_len) return false;
  const bool chunks = !has_states_ && swarm_.calls.chunks && swarm_.calls.long_appends;
  return r->computed == (chunks ? granted_tokens(record, *r) : r->num_tokens);
}

std::optional<Operation> Generator::decode(Moment& m) const {
  const bool errs = swarm_.of(Kind::wrong) > 0;
  op::Decode out;
  for (const RequestRecord& record : m.history.book.requests()) {
    const bool away = !record.resident() && errs && m.draws.one_in(16);
    if (may_decode(m, record) ? !m.draws.one_in(5) : away) out.reqs.push_back(record.name);
  }
  if (out.reqs.empty()) return advance(m);
  for (std::size_t i = out.reqs.size(); i > 1; --i) {
    std::swap(out.reqs[i - 1], out.reqs[m.draws.below(static_cast<std::uint32_t>(i))]);
  }
  const auto drawn = static_cast<std::uint32_t>(out.reqs.size());
  if (errs && m.draws.one_in(8)) out.reqs.push_back(out.reqs[m.draws.below(drawn)]);
  if (errs && m.draws.one_in(64)) out.reqs.emplace_back("nobody");
  for (const std::string& req : out.reqs) {
    const RequestState* r = m.state.find(req);
    out.tokens.push_back(token_at(m.draws.below(2), r != nullptr ? r->num_tokens : 0));
  }
  if (errs && m.draws.one_in(64)) out.tokens.pop_back();
  return out;
}

}  // namespace kvproof::properties
