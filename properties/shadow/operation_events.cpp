// SPDX-License-Identifier: Apache-2.0
// Tells the judge of runs what each operation does.
#include "properties/shadow/operation_events.h"

#include <algorithm>
#include <limits>

#include "properties/laws/extent.h"

namespace kvproof::properties {
namespace {

namespace run = live::event;

std::vector<GroupId> groups_with_rows(const CacheConfig& config) {
  std::vector<GroupId> out;
  for (GroupId g = 0; g < config.groups.size(); ++g) {
    if (is_written_again(config.groups[g].kind)) out.push_back(g);
  }
  return out;
}

/// Of chunks and R-SWA a row reads itself; what else they read is looked at slot by slot.
live::Header header_of(const CacheConfig& config) {
  live::Header out;
  out.engine = "operations";
  out.tiers = {{"device", config.num_blocks}, {"host", config.num_host_blocks}};
  out.null_block = true;
  out.patience = std::numeric_limits<std::uint32_t>::max();
  for (const GroupId g : groups_with_rows(config)) {
    const GroupConfig& group = config.groups[g];
    const bool all = group.kind == LayerKind::full || group.kind == LayerKind::mla;
    const bool window = group.kind == LayerKind::sliding_window;
    out.groups.push_back({group.block_size, window ? group.window : all ? 0U : 1U, false, false});
  }
  return out;
}

const std::vector<BlockId>& table_of(const std::vector<std::vector<BlockId>>& tables, GroupId g) {
  static const std::vector<BlockId> kNone;
  return g < tables.size() ? tables[g] : kNone;
}

const std::vector<Copy>& copies_of(const Result& result) {
  static const std::vector<Copy> kNone;
  const auto* granted = std::get_if<Granted>(&result);
  return granted != nullptr ? granted->copies : kNone;
}

constexpr std::uint32_t narrow(std::uint64_t tokens) { return static_cast<std::uint32_t>(tokens); }

}  // namespace

OperationEvents::OperationEvents(const CacheConfig& config)
    : config_(config), groups_(groups_with_rows(config)), judge_(header_of(config)) {}

const live::Found* OperationEvents::follow(const Operation& operation, const Outcome& outcome,
                                           const Snapshot& before, const Snapshot& after,
                                           const CallerBook& book, const ContentOracle& content) {
  const Result& result = outcome.result;
  if (is_undone(result) || !content.breach_of_caller().empty()) return nullptr;
  content_ = &content;
  const std::size_t found = judge_.findings().size();
  if (std::holds_alternative<Refused>(result)) return tell_tables(after, book), nullptr;
  for (const auto& [tier, block] : content.handed_out()) judge_.clear({tier, block});
  const Request* own = book.find(request_of(operation));
  if (own != nullptr) tell_own(*own, operation, result, before, after, book);
  if (const auto* o = std::get_if<op::Finish>(&operation)) {
    const auto told = told_.extract(o->req);
    if (!told.empty()) tell(run::Leave{run::Way::finish, told.mapped().number});
  } else if (const auto* complete = std::get_if<op::Complete>(&operation)) {
    const bool lands = complete->ok && book.settled() && book.find(book.settled()->req) != nullptr;
    tell(run::Settle{complete->transfer, lands ? run::Ended::done : run::Ended::abandoned, {}});
  } else if (const auto* unpin = std::get_if<op::Unpin>(&operation)) {
    tell(run::Settle{"lease " + unpin->lease, run::Ended::done, {}});
  } else if (const auto* pin = std::get_if<op::Pin>(&operation)) {
    run::Start start{"lease " + pin->lease, run::Kind::send, {}, {}, 0, {}, {}, {}, 0, true};
    for (const BlockId block : pin->blocks) {  // states go on in their places
      if (is_of(0, block) && !content.has_states()) start.from.push_back({0, block});
    }
    tell(std::move(start));
  }
  tell_tables(after, book);
  const auto* hit = std::get_if<Hit>(&result);
  if (hit != nullptr && own != nullptr) {
    look(live::kHit, *own, {hit->hit_tokens, hit->hit_tokens, hit->hit_tokens}, hit->blocks, 0);
  }
  for (const Request& r : book.requests()) {
    const RequestState* state = hit != nullptr ? nullptr : after.find(r.name);
    if (state == nullptr) continue;
    look(live::kContent, r, {r.processed, r.written, r.prompt_tokens},
         r.reads_host() ? state->host_tables : state->tables, r.reads_host() ? 1 : 0);
  }
  return judge_.findings().size() > found ? &judge_.findings()[found] : nullptr;
}

void OperationEvents::tell_own(const Request& r, const Operation& operation, const Result& result,
                               const Snapshot& before, const Snapshot& after,
                               const CallerBook& book) {
  const RequestState* was = before.find(r.name);
  const RequestState* now = after.find(r.name);
  const std::vector<Copy>& copies = copies_of(result);
  const auto* append = std::get_if<op::Append>(&operation);
  const auto* truncate = std::get_if<op::Truncate>(&operation);
  if (const auto* fork = std::get_if<op::Fork>(&operation)) {
    const Request* child = book.find(fork->child);
    const RequestState* state = after.find(fork->child);
    if (child == nullptr || state == nullptr || copies.empty()) return;
    step(*child, {}, copies, state->tables);
  } else if (append != nullptr || truncate != nullptr) {
    // What was fed as drafts behind the tokens that stay is none of them.
    const std::uint32_t from = append ? r.num_tokens - narrow(append->tokens.size())
                                      : std::min(truncate->tokens, r.num_tokens);
    tell(run::Tokens{told(r).number, from, tokens_of(r, from)});
  } else if (std::holds_alternative<op::Free>(operation)) {
    tell(run::Leave{run::Way::preempt, told(r).number});
    told(r).tables.clear();
  } else if (const auto* allocate = std::get_if<op::Allocate>(&operation)) {
    if (was != nullptr && now != nullptr) {
      grant(r, book.before(), *allocate, copies, *was, now->tables);
    }
  } else if (std::holds_alternative<op::Advance>(operation) && now != nullptr) {
    // Accepted drafts were computed with the right tokens before them: they are right after all.
    know(r, r.reads_host() ? now->host_tables : now->tables, narrow(book.before().written),
         narrow(r.written));
  } else if (const auto* out = std::get_if<op::SwapOut>(&operation)) {
    swap(r, out->transfer, true, copies);
  } else if (const auto* in = std::get_if<op::SwapIn>(&operation)) {
    swap(r, in->transfer, false, copies);
  }
}

std::vector<TokenId> OperationEvents::tokens_of(const Request& r, std::uint64_t from) const {
  std::vector<TokenId> out;
  const Identity* const chain = r.num_tokens > 0 ? content_->chain_of(r) : nullptr;
  for (std::uint64_t p = from; p < r.num_tokens; ++p) out.push_back(static_cast<TokenId>(chain[p]));
  return out;
}

OperationEvents::Told& OperationEvents::told(const Request& r) {
  const auto [at, is_new] = told_.try_emplace(r.name);
  if (is_new) {
    at->second.number = judge_.names().add(r.name);
    tell(run::Request{at->second.number, tokens_of(r, 0), ""});
  }
  return at->second;
}

// Token axis: computed | hit | external | new (drafts last). What is there already, what was loaded
// and what is skipped for good is no part of the row.
void OperationEvents::grant(const Request& r, const TokenCounts& old, const op::Allocate& allocate,
                            const std::vector<Copy>& copies, const RequestState& was,
                            const Tables& now) {
  const AllocateArgs& args = allocate.args;
  const std::uint32_t hit = without_blocks(was) && args.use_lookup ? r.hit.tokens : 0;
  const std::uint64_t start = was.computed + hit;
  const std::uint64_t loaded =
      std::min<std::uint64_t>(start + args.external, config_.max_model_len);
  const std::uint64_t stop = std::max(start, r.scheduled_tokens);
  const std::uint64_t known = std::max(start, std::min<std::uint64_t>(stop, r.num_tokens));
  const std::uint64_t first = std::max({loaded, old.written, r.processed});
  const std::uint64_t begin = first <= known ? first : stop;
  if (begin > start) {
    step(r, {}, copies, now);
    know(r, now, narrow(start), narrow(std::min(begin, known)));
  }
  if (hit > 0) tell(run::Hit{told(r).number, hit, ""});
  step(r, {narrow(begin), narrow(known), narrow(stop)}, begin > start ? copies_of({}) : copies,
       now);
}

/// One step with a row of the request, or with its tables and copies alone.
void OperationEvents::step(const Request& r, const Span& span, const std::vector<Copy>& copies,
                           const Tables& now) {
  run::Dispatch dispatch{++steps_, {row_of(told(r), now)}, {}, {}};
  for (const Copy& copy : copies) {
    if (!is_of(0, copy.to) || !is_of(0, copy.from) || groups_.empty()) continue;
    std::uint32_t group = 0;  // also of what is in no table
    for (std::uint32_t i = 0; i < groups_.size(); ++i) {
      const std::vector<BlockId>& table = table_of(now, groups_[i]);
      if (std::ranges::find(table, copy.to) != table.end()) group = i;
    }
    dispatch.copies.push_back({group, copy.from, copy.to});
  }
  run::Row& row = dispatch.rows.back();
  row.start = span.start;
  row.n = span.end - span.start;
  run::Run ran;
  ran.step = steps_;
  if (span.end > span.known && row.n > 0) {
    row.drafts = span.end - span.known;
    std::vector<TokenId> fed = tokens_of(r, span.start);
    while (fed.size() < row.n) fed.push_back(++draft_);
    fed.resize(row.n);
    ran.inputs.emplace_back(row.req, std::move(fed));
  }
  tell(std::move(dispatch));
  tell(std::move(ran));
  tell(run::Retire{steps_, {}, {}});
}

/// @return a row without tokens, that says how the tables differ from those that were told
live::event::Row OperationEvents::row_of(Told& told, const Tables& now) const {
  run::Row out;
  out.req = told.number;
  told.tables.resize(groups_.size());
  bool same = true;
  bool longer = true;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::vector<BlockId>& old = told.tables[i];
    const std::vector<BlockId>& table = table_of(now, groups_[i]);
    same = same && old == table;
    longer = longer && std::ranges::mismatch(old, table).in1 == old.end();
  }
  if (same) return out;
  out.told = longer ? run::Row::Tables::appended : run::Row::Tables::replaced;
  out.tables.resize(groups_.size());
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::vector<BlockId>& table = table_of(now, groups_[i]);
    for (std::size_t e = longer ? told.tables[i].size() : 0; e < table.size(); ++e) {
      out.tables[i].push_back(std::min<std::uint32_t>(table[e], config_.num_blocks));
    }
    told.tables[i] = table;
  }
  return out;
}

/// Tells the tables that changed otherwise than by a grant.
void OperationEvents::tell_tables(const Snapshot& after, const CallerBook& book) {
  for (const Request& r : book.requests()) {
    const RequestState* state = after.find(r.name);
    if (state == nullptr) continue;
    run::Row row = row_of(told(r), state->tables);
    if (row.told == run::Row::Tables::as_before) continue;
    tell(run::Dispatch{++steps_, {std::move(row)}, {}, {}});
    tell(run::Retire{steps_, {}, {}});
  }
}

void OperationEvents::know(const Request& r, const Tables& tables, std::uint32_t from,
                           std::uint32_t to) {
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    judge_.know(
        {told(r).number, i, r.reads_host() ? 1U : 0U, table_of(tables, groups_[i]), from, to});
  }
}

void OperationEvents::swap(const Request& r, const std::string& transfer, bool out,
                           const std::vector<Copy>& copies) {
  run::Start start;
  start.transfer = transfer;
  start.kind = out ? run::Kind::store : run::Kind::load;
  start.req = told(r).number;
  const std::uint32_t from = out ? 0 : 1;
  for (const Copy& copy : copies) {
    if (!is_of(1 - from, copy.to) || !is_of(from, copy.from)) continue;
    start.from.push_back({from, copy.from});
    start.to.push_back({1 - from, copy.to});
  }
  tell(std::move(start));
}

void OperationEvents::look(live::LawId law, const Request& r, const Progress& now,
                           const Tables& tables, std::uint32_t tier) {
  const std::uint32_t number = told(r).number;
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    const Reads reads = reads_of(config_.groups[groups_[i]], now);
    const std::vector<BlockId>& table = table_of(tables, groups_[i]);
    judge_.look(law, {number, i, tier, table, 0, narrow(reads.kept)});
    judge_.look(law, {number, i, tier, table, narrow(reads.from), narrow(reads.to)});
  }
}

}  // namespace kvproof::properties
