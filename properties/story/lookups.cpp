// SPDX-License-Identifier: Apache-2.0
#include "properties/story/lookups.h"

#include <algorithm>
#include <span>
#include <utility>

#include "reference/prefix_cache.h"
#include "reference/recordings/golden.h"
#include "reference/support/say.h"

namespace kvproof::properties {

LookupExplainer::LookupExplainer(const CacheConfig& config, FramesOf source)
    : config_(config),
      source_(source),
      history_(config.groups.size(), config.hash_block_size),
      explainer_(config_, history_,
                 {.moment = source == FramesOf::events ? "line" : "operation",
                  .name = [this](std::uint32_t n) { return names_[n]; },
                  .tells_whom = source == FramesOf::operations},
                 source == FramesOf::events ? 0 : config.num_blocks - 1) {}

void LookupExplainer::take(const Frame& frame) {
  if (frame.operation != nullptr && frame.outcome == nullptr) return;
  now_ = {static_cast<std::uint32_t>(frame.number), frame.taken};
  for (const RequestState& state : frame.state.requests) {
    if (const auto known = frame.request(state.name)) learn(state, *known);
  }
  if (frame.lookup) explain(*frame.lookup, frame);
  follow_index(frame);
  if (frame.operation == nullptr) return;
  if (const auto* finish = std::get_if<op::Finish>(frame.operation)) requests_.erase(finish->req);
}

void LookupExplainer::learn(const RequestState& state, const FrameRequest& request) {
  Known& r = requests_[state.name];
  const std::uint32_t unit = config_.hash_block_size;
  const std::size_t units = std::min(state.hashes.size(), request.tokens.size() / unit);
  // What its next turn has cut off, or a request of the same name had, is learnt anew.
  while (!r.contents.empty() &&
         (r.contents.size() > units ||
          history_.find(state.hashes[r.contents.size() - 1]) != r.contents.back())) {
    r.contents.pop_back();
  }
  while (r.contents.size() < units) {
    const std::size_t i = r.contents.size();
    const auto start = static_cast<std::uint32_t>(i * unit);
    const auto tokens = request.tokens.subspan(start, unit);
    ContentUnit added{.own = number_of_tokens(tokens), .tokens = tokens};
    if (request.extra != nullptr) {
      added.extra = reference::unit_extra(*request.extra, start, start + unit);
    } else if (i == 0 && !request.keys.empty()) {
      added.extra = {say("keys:", request.keys)};
    }
    r.contents.push_back(history_.learn(state.hashes[i], i == 0 ? kNoContent : r.contents.back(),
                                        added, number_of(state.name)));
  }
  const auto known = std::min<std::size_t>(state.computed / unit, r.contents.size());
  for (std::size_t i = r.computed / unit; i < known; ++i) history_.compute(r.contents[i]);
  r.computed = state.computed;
}

void LookupExplainer::explain(Lookup lookup, const Frame& frame) {
  lookup.now = now_;
  lookup.tokens = frame.request(lookup.request)->tokens.size();
  lookup.contents = requests_[lookup.request].contents;
  lookup.pending = [&](GroupId group, std::uint64_t end, ContentId content) {
    return computing(frame, group, end, content);
  };
  explained.push_back(explainer_.explain(lookup));
}

/// The request that computes this content. Of operations it has a block for it and has not computed
/// it; of events it is in a row that was dispatched.
std::string LookupExplainer::computing(const Frame& frame, GroupId group, std::uint64_t end,
                                       ContentId content) const {
  const std::size_t position = (end - 1) / config_.groups[group].block_size;
  const std::size_t i = end / config_.hash_block_size - 1;
  const auto arrival = [&](const RequestState& r) { return frame.request(r.name)->number; };
  const RequestState* first = nullptr;
  for (const RequestState& state : frame.state.requests) {
    const auto known = requests_.find(state.name);
    if (known == requests_.end()) continue;
    const std::vector<ContentId>& contents = known->second.contents;
    if (i >= contents.size() || contents[i] != content) continue;
    if (source_ == FramesOf::events) {
      const bool earlier = first == nullptr || arrival(state) < arrival(*first);
      if (state.computed >= end && earlier) first = &state;
    } else if (state.computed < end && group < state.tables.size()) {
      const auto& table = state.tables[group];
      if (position < table.size() && table[position] != kNullBlock) return state.name;
    }
  }
  return first != nullptr ? first->name : "";
}

void LookupExplainer::follow_index(const Frame& frame) {
  const auto each = [&](const std::vector<IndexKey>& keys, const auto& act) {
    for (const auto& [key, group] : keys) {
      const ContentId content = history_.find(key);
      if (content != kNoContent && group < config_.groups.size()) act(content, group);
    }
  };
  each(frame.entered, [&](ContentId c, GroupId g) { history_.enter(c, g, now_); });
  each(frame.used, [&](ContentId c, GroupId g) {
    if (history_.holds(c, g)) history_.use(c, g, now_);
  });
  if (frame.left.empty()) return;
  const std::uint32_t whom = number_of(frame.left_for);
  each(frame.left, [&](ContentId c, GroupId g) {
    if (history_.holds(c, g)) history_.leave(c, g, now_, whom, frame.left_for_room);
  });
}

std::uint32_t LookupExplainer::number_of(const std::string& name) {
  const auto [at, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (is_new) names_.push_back(name);
  return at->second;
}

void explain_traces(const std::string& path,
                    const std::function<std::unique_ptr<Subject>(const TraceHeader&)>& open,
                    const std::function<void(const TraceHeader&, const Explanations&)>& take) {
  GoldenReader reader(path);
  std::shared_ptr<LookupExplainer> explainer;
  const auto make = [&](const TraceHeader& header) -> std::unique_ptr<Subject> {
    auto inner = open(header);
    if (inner == nullptr) return nullptr;
    explainer = std::make_shared<LookupExplainer>(header.config, FramesOf::operations);
    return with_frames(header.config, std::move(inner),
                       [explainer](const Frame& frame) { explainer->take(frame); });
  };
  std::uint64_t traces = 0;
  for (; const auto verdict = reader.next(make); ++traces) {
    Explanations out;
    if (explainer != nullptr) out.lookups = std::move(explainer->explained);
    explainer = nullptr;
    out.ends = verdict->skipped.empty() ? verdict->lost : verdict->skipped;
    if (verdict->difference) {
      out.ends = say("the subject answers otherwise than the recording at operation ",
                     verdict->difference->operation, ": ", verdict->difference->what);
    }
    take(verdict->header, out);
  }
  if (traces == 0) throw InputError(path, 0, "", "at least one trace, found an empty file");
}

Explanations explain_run(const std::string& path) {
  std::shared_ptr<LookupExplainer> explainer;
  const std::string ends = read_run(path, [&](const live::Header& header, const Snapshot&) {
    explainer = std::make_shared<LookupExplainer>(config_of(header), FramesOf::events);
    return [explainer](const Frame& frame) { explainer->take(frame); };
  });
  return {std::move(explainer->explained), ends};
}

}  // namespace kvproof::properties
