// SPDX-License-Identifier: Apache-2.0
#include "properties/check/recording_judge.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "properties/caller/caller_book.h"
#include "properties/check/reach.h"
#include "properties/engines/kit/foreign_state.h"
#include "properties/laws/laws.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {

/// Answers an operation with what the line says that it was told last.
class RecordedSubject final : public Subject {
 public:
  RecordedSubject(const TraceHeader& header, Demands demands)
      : has_events_(header.has_events),
        demands_(std::move(demands)),
        book_(header.config),
        state_(header.config) {
    const std::uint32_t usable = header.config.num_blocks - 1;
    last_.num_free = usable;
    if (shows(kQueue)) {
      last_.queue.emplace(usable);
      std::iota(last_.queue->begin(), last_.queue->end(), BlockId{1});
    }
    if (shows(kReferences)) last_.ref.emplace();
    if (shows(kCached)) last_.cached.emplace();
    state_.read(last_, demands_.promises, book_);
  }

  void tell(const TraceLine& line) { line_ = &line; }

  Outcome apply(const Operation& operation) override {
    Outcome outcome;
    if (line_->result) outcome.result = *line_->result;
    if (has_events_ && line_->events) outcome.events = *line_->events;
    state_.check(outcome);
    book_.fold(operation, outcome.result);
    if (line_->state) last_ = *line_->state;
    if (!shows(kReferences)) last_ = counts_and_tables(last_);
    state_.read(last_, demands_.promises, book_);
    return outcome;
  }

  void observe(Snapshot& snapshot) const override { snapshot = state_.snapshot(); }

 private:
  [[nodiscard]] bool shows(Parts parts) const { return (demands_.shown & parts) == parts; }

  /// What every line shows, where only some show more.
  static RecordedState counts_and_tables(const RecordedState& state) {
    RecordedState out;
    out.num_free = state.num_free;
    out.tables = state.tables;
    out.copying = state.copying;
    return out;
  }

  bool has_events_;
  Demands demands_;
  CallerBook book_;
  ForeignState state_;
  RecordedState last_;
  const TraceLine* line_ = nullptr;
};

/// Whether a law needs references and keys once entries of a table may be recycled or copied.
bool needs_more(const Law& law, const CacheConfig& config) {
  const auto grows_only = [](const GroupConfig& group) { return reads_all(group.kind); };
  constexpr std::array kLawsOfChange = {"I16", "I20", "I22"};
  return std::ranges::find(kLawsOfChange, law.id) != kLawsOfChange.end() &&
         !std::ranges::all_of(config.groups, grows_only);
}

RecordingJudge::RecordingJudge(const TraceHeader& header) : header_(header) {
  if (header.detail == "sampled") why_silent_ = "its states are sampled";
}

RecordingJudge::~RecordingJudge() = default;

void RecordingJudge::begin(const TraceLine& line) {
  Demands demands;
  demands.promises.level = Level::hits;
  demands.promises.valid_calls_only = true;
  demands.shown = kIds | (header_.has_events ? kEvents : 0U);
  if (header_.detail != "own") {
    if (!line.state) why_silent_ = "its lines have no states";
    if (line.state) demands.shown |= parts_of(*line.state) & ~Parts{kEvents};
  }
  if (!why_silent_.empty()) return;
  Oracles oracles = oracles_for(header_.config, demands);
  const bool partial = (demands.shown & kReferences) == 0;
  for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
    if (partial && needs_more(kStateLaws[i], header_.config)) oracles.laws_left_out |= 1ULL << i;
    const bool left_out = (oracles.laws_left_out >> i & 1U) != 0;
    if (left_out) left_out_ += (left_out_.empty() ? "" : ", ") + std::string(kStateLaws[i].id);
    asked_ += left_out ? 0 : 1;
  }
  subject_ = std::make_unique<RecordedSubject>(header_, std::move(demands));
  audit_ = std::make_unique<Audit>(header_.config, *subject_, oracles);
}

void RecordingJudge::follow(const TraceLine& line) {
  if (broken_) return;
  if (!line.raised.empty()) {
    broken_ = Violation("raised", "the call raised in the engine: " + line.raised);
    return;
  }
  if (std::holds_alternative<op::Decode>(line.operation)) {
    why_silent_ = "a batch shows no states between its calls";
  }
  if (why_silent_.empty() && audit_ == nullptr) begin(line);
  if (!why_silent_.empty()) return;
  subject_->tell(line);
  try {
    audit_->apply(line.operation);
  } catch (const Violation& violation) {
    broken_ = violation;
  }
}

std::string RecordingJudge::summary() const {
  if (!why_silent_.empty()) return "no law is evaluated: " + why_silent_;
  if (audit_ == nullptr) return "no law is evaluated: there is no operation";
  return say(asked_, " laws hold", left_out_.empty() ? "" : "; not evaluated: ", left_out_);
}

}  // namespace kvproof::properties
