// SPDX-License-Identifier: Apache-2.0
#include "properties/explain/operations.h"

#include <algorithm>
#include <utility>

#include "properties/traces/golden.h"
#include "reference/mix64.h"
#include "reference/operations.h"
#include "reference/prefix_cache.h"
#include "reference/support/say.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

std::uint64_t number_of_tokens(std::span<const TokenId> tokens) {
  std::uint64_t out = 0;
  for (const TokenId token : tokens) out = mix64(out + static_cast<std::uint32_t>(token) + 1);
  return out;
}

/// Whether prompts are all that decides which blocks are worth keeping.
bool is_one_chain(const CacheConfig& config) {
  return config.groups.size() == 1 && reads_all(config.groups.front().kind) &&
         config.enable_caching;
}

}  // namespace

WatchedSubject::WatchedSubject(const CacheConfig& config, std::unique_ptr<Subject> inner,
                               Explanations& out)
    : config_(config),
      inner_(std::move(inner)),
      out_(out),
      history_(config.groups.size(), config.hash_block_size),
      explainer_(config, history_, {.name = [this](std::uint32_t n) { return names_[n]; }},
                 config.num_blocks - 1) {
  out_.pool_blocks = config.num_blocks - 1;
  out_.block_size = config.groups.front().block_size;
  inner_->observe(state_);
}

std::uint32_t WatchedSubject::number_of(const std::string& name) {
  const auto next = static_cast<std::uint32_t>(names_.size());
  const auto [at, is_new] = numbers_.try_emplace(name, next);
  if (is_new) names_.push_back(name);
  return at->second;
}

Outcome WatchedSubject::apply(const Operation& operation) {
  Outcome outcome = inner_->apply(operation);
  inner_->observe(state_);
  if (state_.work) now_.taken = state_.work->taken;
  if (!is_undone(outcome.result)) learn_tokens(operation);
  for (const RequestState& state : state_.requests) learn_contents(state);
  const auto* hit = std::get_if<Hit>(&outcome.result);
  if (const auto* lookup = std::get_if<op::Lookup>(&operation);
      lookup != nullptr && hit != nullptr) {
    explain(*lookup, *hit);
  }
  const std::string& who = request_of(operation);
  const std::string call = say("a call of ", kOperationNames[operation.index()]);
  follow_index(number_of(who.empty() ? call : who),
               !std::holds_alternative<op::Evict>(operation) &&
                   !std::holds_alternative<op::Reset>(operation));
  if (is_one_chain(config_)) {
    for (const RequestState& state : state_.requests) note_use(requests_[state.name]);
  }
  ++now_.operation;
  return outcome;
}

void WatchedSubject::learn_tokens(const Operation& operation) {
  const auto append = [this](const std::string& req, std::span<const TokenId> tokens) {
    std::vector<TokenId>& known = requests_[req].tokens;
    known.insert(known.end(), tokens.begin(), tokens.end());
  };
  if (const auto* arrive = std::get_if<op::Arrive>(&operation)) {
    requests_[arrive->req] = {.number = number_of(arrive->req),
                              .tokens = arrive->tokens,
                              .extra = arrive->extra,
                              .skip_lookup = arrive->skip_lookup};
  } else if (const auto* more = std::get_if<op::Append>(&operation)) {
    append(more->req, more->tokens);
  } else if (const auto* batch = std::get_if<op::Decode>(&operation)) {
    for (std::size_t i = 0; i < batch->reqs.size(); ++i) {
      append(batch->reqs[i], std::span(batch->tokens).subspan(i, 1));
    }
  } else if (const auto* fork = std::get_if<op::Fork>(&operation)) {
    requests_[fork->child] = requests_[fork->req];
    requests_[fork->child].number = number_of(fork->child);
  } else if (const auto* finish = std::get_if<op::Finish>(&operation)) {
    requests_.erase(finish->req);
  }
}

void WatchedSubject::learn_contents(const RequestState& state) {
  Request& r = requests_[state.name];
  const std::uint32_t unit = config_.hash_block_size;
  while (r.contents.size() < std::min(state.hashes.size(), r.tokens.size() / unit)) {
    const std::size_t i = r.contents.size();
    const auto start = static_cast<std::uint32_t>(i * unit);
    const auto tokens = std::span(r.tokens).subspan(start, unit);
    r.contents.push_back(history_.learn(
        state.hashes[i], i == 0 ? kNoContent : r.contents.back(),
        {number_of_tokens(tokens), tokens, reference::unit_extra(r.extra, start, start + unit)},
        r.number));
  }
  const std::uint32_t known =
      std::min<std::uint32_t>(state.computed / unit, static_cast<std::uint32_t>(r.contents.size()));
  for (std::uint32_t i = r.computed / unit; i < known; ++i) history_.compute(r.contents[i]);
  r.computed = state.computed;
}

void WatchedSubject::explain(const op::Lookup& lookup, const Hit& hit) {
  const Request& r = requests_[lookup.req];
  const std::uint64_t last = std::max<std::size_t>(r.tokens.size(), 1) - 1;
  Lookup asked{.request = lookup.req,
               .now = now_,
               .tokens = r.tokens.size(),
               .limit = std::min<std::uint64_t>(last, lookup.max_tokens.value_or(~0U)),
               .hit = hit.hit_tokens,
               .off = !config_.enable_caching || r.skip_lookup,
               .contents = r.contents};
  asked.pending = [this](GroupId group, std::uint64_t end, ContentId content) {
    return computing(group, end, content);
  };
  out_.lookups.push_back(explainer_.explain(asked));
  if (!is_one_chain(config_) || out_.lookups.back().most == 0) return;
  add_use(r, out_.lookups.back().most / config_.hash_block_size, out_.lookups.back().most);
}

/// The leading blocks of a request as far as they were in the index, of at most so many units.
void WatchedSubject::add_use(const Request& r, std::size_t most_units, std::uint64_t tokens) {
  const std::size_t units = out_.block_size / config_.hash_block_size;
  BlockUse use{.tokens = tokens};
  for (std::size_t i = units; i <= most_units && history_.stay(r.contents[i - 1], 0).ever;
       i += units) {
    use.blocks.push_back(r.contents[i - 1]);
  }
  out_.uses.push_back(std::move(use));
}

/// The request that has a block for this content and has not computed it.
std::string WatchedSubject::computing(GroupId group, std::uint64_t end, ContentId content) const {
  const std::size_t position = (end - 1) / config_.groups[group].block_size;
  for (const RequestState& state : state_.requests) {
    const std::vector<ContentId>& contents = requests_.at(state.name).contents;
    const std::size_t i = end / config_.hash_block_size - 1;
    if (state.computed >= end || i >= contents.size() || contents[i] != content) continue;
    const auto& table = state.tables[group];
    if (position < table.size() && table[position] != kNullBlock) return state.name;
  }
  return "";
}

void WatchedSubject::follow_index(std::uint32_t for_whom, bool for_room) {
  std::vector<Entry> index;
  for (const IndexEntry& shown : state_.index) {
    const Entry before = index.size() < index_.size() ? index_[index.size()] : Entry{};
    const bool same = before.key == shown.key && before.group == shown.group;
    const ContentId content = same ? before.content : history_.find(shown.key);
    index.push_back({shown.key, shown.group, content});
    const bool held = std::ranges::any_of(
        shown.blocks, [&](BlockId block) { return state_.blocks[block].ref_cnt > 0; });
    if (held) history_.use(content, shown.group, now_);
  }
  if (index == index_) return;
  std::vector<Entry> after = index;
  std::vector<Entry> before = std::exchange(index_, std::move(index));
  std::ranges::sort(after);
  std::ranges::sort(before);
  std::vector<Entry> moved;
  std::ranges::set_difference(after, before, std::back_inserter(moved));
  for (const Entry& entry : moved) history_.enter(entry.content, entry.group, now_);
  moved.clear();
  std::ranges::set_difference(before, after, std::back_inserter(moved));
  for (const Entry& entry : moved) {
    history_.leave(entry.content, entry.group, now_, for_whom, for_room);
  }
}

/// Notes the blocks of a request up to the last that was in the index, where that is a new one.
void WatchedSubject::note_use(Request& request) {
  const std::size_t before = request.used;
  while (request.used < request.contents.size() &&
         history_.stay(request.contents[request.used], 0).ever) {
    ++request.used;
  }
  const std::size_t units = out_.block_size / config_.hash_block_size;
  if (request.used / units > before / units) add_use(request, request.used, 0);
}

void explain_traces(const std::string& path,
                    const std::function<std::unique_ptr<Subject>(const TraceHeader&)>& open,
                    const std::function<void(const TraceHeader&, const Explanations&)>& told) {
  GoldenReader reader(path);
  Explanations out;
  const auto make = [&](const TraceHeader& header) -> std::unique_ptr<Subject> {
    auto inner = open(header);
    if (inner == nullptr) return nullptr;
    return std::make_unique<WatchedSubject>(header.config, std::move(inner), out);
  };
  std::uint64_t traces = 0;
  for (; const auto verdict = reader.next(make); ++traces) {
    out.ends = verdict->skipped.empty() ? verdict->lost : verdict->skipped;
    if (verdict->difference) {
      out.ends = say("the subject answers otherwise than the recording at operation ",
                     verdict->difference->operation, ": ", verdict->difference->what);
    }
    told(verdict->header, out);
    out = {};
  }
  if (traces == 0) throw InputError(path, 0, "", "at least one trace, found an empty file");
}

}  // namespace kvproof::properties
