// SPDX-License-Identifier: Apache-2.0
#include "properties/story/operations.h"

#include <algorithm>
#include <map>
#include <utility>

#include "properties/story/watched.h"
#include "reference/operations.h"
#include "reference/prefix_cache.h"
#include "reference/recordings/golden.h"
#include "reference/support/say.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

/// Is told what a subject does, and watches its index.
class TraceExplainer {
 public:
  /// @param config, out outlive it
  TraceExplainer(const CacheConfig& config, std::vector<Explained>& out)
      : config_(config),
        out_(out),
        history_(config.groups.size(), config.hash_block_size),
        explainer_(config, history_, {.name = [this](std::uint32_t n) { return names_[n]; }},
                   config.num_blocks - 1) {}

  void take(const Told& told) {
    if (told.outcome == nullptr) return;
    const Operation& operation = told.operation;
    std::swap(state_, told.after);
    if (state_.work) now_.taken = state_.work->taken;
    if (!is_undone(told.outcome->result)) learn_tokens(operation);
    for (const RequestState& state : state_.requests) learn_contents(state);
    const auto* hit = std::get_if<Hit>(&told.outcome->result);
    const auto* lookup = std::get_if<op::Lookup>(&operation);
    if (lookup != nullptr && hit != nullptr) explain(*lookup, *hit);
    const std::string& who = request_of(operation);
    const std::string call = say("a call of ", kOperationNames[operation.index()]);
    follow_index(number_of(who.empty() ? call : who),
                 !std::holds_alternative<op::Evict>(operation) &&
                     !std::holds_alternative<op::Reset>(operation));
    ++now_.operation;
  }

 private:
  struct Request {
    std::uint32_t number = 0;
    std::vector<TokenId> tokens;
    ExtraKeys extra;
    bool skip_lookup = false;
    std::uint32_t computed = 0;
    std::vector<ContentId> contents = {};  // one per complete hash unit
  };
  using Entry = std::pair<ContentId, GroupId>;

  void learn_tokens(const Operation& operation);
  void learn_contents(const RequestState& state);
  void explain(const op::Lookup& lookup, const Hit& hit);
  void follow_index(std::uint32_t for_whom, bool for_room);
  [[nodiscard]] std::string computing(GroupId group, std::uint64_t end, ContentId content) const;
  std::uint32_t number_of(const std::string& name) {
    const auto next = static_cast<std::uint32_t>(names_.size());
    const auto [at, is_new] = numbers_.try_emplace(name, next);
    if (is_new) names_.push_back(name);
    return at->second;
  }

  const CacheConfig& config_;
  std::vector<Explained>& out_;
  Snapshot state_;
  IndexHistory history_;
  Explainer explainer_;
  Moment now_;
  std::map<std::string, Request> requests_;
  std::vector<Entry> index_;  // sorted
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> names_;
};

void TraceExplainer::learn_tokens(const Operation& operation) {
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

void TraceExplainer::learn_contents(const RequestState& state) {
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

void TraceExplainer::explain(const op::Lookup& lookup, const Hit& hit) {
  const Request& r = requests_[lookup.req];
  const std::uint64_t last = std::max<std::size_t>(r.tokens.size(), 1) - 1;
  out_.push_back(
      explainer_.explain({.request = lookup.req,
                          .now = now_,
                          .tokens = r.tokens.size(),
                          .limit = std::min<std::uint64_t>(last, lookup.max_tokens.value_or(~0U)),
                          .hit = hit.hit_tokens,
                          .off = !config_.enable_caching || r.skip_lookup,
                          .contents = r.contents,
                          .pending = [this](GroupId group, std::uint64_t end, ContentId content) {
                            return computing(group, end, content);
                          }}));
}

/// The request that has a block for this content and has not computed it.
std::string TraceExplainer::computing(GroupId group, std::uint64_t end, ContentId content) const {
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

void TraceExplainer::follow_index(std::uint32_t for_whom, bool for_room) {
  std::vector<Entry> index;
  for (const IndexEntry& shown : state_.index) {
    const Entry& entry = index.emplace_back(history_.find(shown.key), shown.group);
    const bool held = std::ranges::any_of(
        shown.blocks, [&](BlockId block) { return state_.blocks[block].ref_cnt > 0; });
    if (held) history_.use(entry.first, entry.second, now_);
  }
  std::ranges::sort(index);
  std::vector<Entry> moved;
  std::ranges::set_difference(index, index_, std::back_inserter(moved));
  for (const auto& [content, group] : moved) history_.enter(content, group, now_);
  moved.clear();
  std::ranges::set_difference(index_, index, std::back_inserter(moved));
  for (const auto& [content, group] : moved) {
    history_.leave(content, group, now_, for_whom, for_room);
  }
  index_ = std::move(index);
}

}  // namespace

void explain_traces(const std::string& path,
                    const std::function<std::unique_ptr<Subject>(const TraceHeader&)>& open,
                    const std::function<void(const TraceHeader&, const Explanations&)>& told) {
  GoldenReader reader(path);
  Explanations out;
  const auto make = [&](const TraceHeader& header) -> std::unique_ptr<Subject> {
    auto inner = open(header);
    if (inner == nullptr) return nullptr;
    const auto explainer = std::make_shared<TraceExplainer>(header.config, out.lookups);
    return std::make_unique<Watched>(std::move(inner),
                                     [explainer](const Told& step) { explainer->take(step); });
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
