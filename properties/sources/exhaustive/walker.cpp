// SPDX-License-Identifier: Apache-2.0
// Walks paths and judges edges.
#include "properties/sources/exhaustive/walker.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "properties/laws/laws.h"
#include "reference/operations.h"

namespace kvproof::properties::exhaustive {
namespace {

std::size_t num_nulls(const RequestState& r) {
  std::size_t n = 0;
  for (const auto& table : r.tables) {
    n += static_cast<std::size_t>(std::ranges::count(table, kNullBlock));
  }
  return n;
}

}  // namespace

EdgeCounts& EdgeCounts::operator+=(const EdgeCounts& other) {
  for (auto field : {&EdgeCounts::edges, &EdgeCounts::hits, &EdgeCounts::evictions,
                     &EdgeCounts::refusals, &EdgeCounts::revivals, &EdgeCounts::recycled}) {
    this->*field += other.*field;
  }
  return *this;
}

Walker::Walker(const Space& space, MakeSubject make, Oracles oracles, bool own_memory)
    : space_(space),
      config_(with_eagle_kin(space.config())),
      make_(std::move(make)),
      oracles_(oracles),
      next_(config_) {
  levels_.emplace_back(config_);
  if (own_memory) arena_ = std::make_unique<Arena>();
  if (arena_ && !arena_->serves_operator_new()) arena_.reset();
  make_subject();
  if (oracles_.model || config_.profile.sparse) {
    const Arena::Scope scope(arena_.get());
    model_ = std::make_unique<ModelOracle>(config_);
  }
  Level& root = here();
  keep_both(root);
  subject_->observe(root.state);
  root.history.tally.count(root.state);
  operations_in(space_, root.state, root.history, root.known, root.operations);
}

void Walker::go(std::span<const std::uint8_t> choices) {
  std::size_t common = 0;
  while (common < choices.size() && common < depth_ && levels_[common].choice == choices[common]) {
    ++common;
  }
  if (common < depth_ || performed_.size() != depth_) left_ = true;
  depth_ = common;
  for (std::size_t i = common; i < choices.size(); ++i) descend(choices[i]);
}

void Walker::descend(std::uint8_t choice) {
  if (choice >= here().operations.size()) throw std::logic_error("a path that leads nowhere");
  if (depth_ + 1 == levels_.size()) levels_.emplace_back(config_);
  Level& from = levels_[depth_];
  Level& to = levels_[depth_ + 1];
  from.choice = choice;
  if (left_) bring_subject();
  step(from, from.operations[choice], to);
  if (wrong_) throw std::logic_error("a path that was found right is wrong: " + wrong_->text);
  operations_in(space_, to.state, to.history, to.known, to.operations);
  keep_both(to);
  ++depth_;
}

void Walker::keep_both(Level& at) const {
  if (arena_) {
    arena_->save(at.image);
  } else if (model_) {
    at.model = *model_;
  }
}

/// Brings subject and model to this state as if they had performed the path and nothing else.
void Walker::bring_subject() {
  left_ = false;
  performed_.clear();
  for (std::size_t i = 0; i < depth_; ++i) {
    performed_.push_back(&levels_[i].operations[levels_[i].choice]);
  }
  if (arena_) {
    arena_->restore(here().image);
  } else {
    make_subject();
    for (const Operation* operation : performed_) subject_->apply(*operation);
    if (model_) *model_ = *here().model;
  }
}

void Walker::make_subject() {
  const Arena::Scope scope(arena_.get());
  subject_ = make_(config_);
}

// The answer is copied out of the subject's memory, which may be put back.
void Walker::perform(const Operation& operation) {
  std::optional<Outcome> answer;
  {
    const Arena::Scope scope(arena_.get());
    answer = subject_->apply(operation);
  }
  if (arena_) {
    outcome_ = std::as_const(*answer);
  } else {
    outcome_ = std::move(*answer);
  }
}

// The subject stands at `from`. `to` becomes the next state, as far as the oracles agree.
void Walker::step(const Level& from, const Operation& operation, Level& to) {
  wrong_.reset();
  try {
    perform(operation);
    subject_->observe(to.state);
  } catch (const std::exception& error) {
    return object("exception", "", say("the subject threw: ", error.what()));
  }
  performed_.push_back(&operation);
  if (to.state.blocks.size() != config_.num_blocks) {
    return object("I5", "", say("the subject shows ", to.state.blocks.size(), " blocks"));
  }
  to.history = from.history;
  to.history.fold(from.state, operation, outcome_, to.state);
  to.known = from.known;
  note(config_, operation, outcome_.result, to.state, to.known);
  if (model_) ask_model(operation, to);
}

void Walker::object(std::string_view id, std::string_view name, Sentence what) {
  if (!wrong_) wrong_.emplace();
  wrong_->add(id, name, std::move(what));
}

// What it says is copied out of the arena, as the subject's answer is.
void Walker::ask_model(const Operation& operation, Level& to) {
  Finding finding;
  {
    const Arena::Scope scope(arena_.get());
    finding = model_->follow(operation, outcome_, to.state, to.history.occasions);
  }
  if (finding && oracles_.model) object("model", "", std::as_const(*finding));
  if (config_.profile.sparse) to.memory = model_->model().memory();
}

void Walker::judge(const Level& from, const Operation& operation, const Level& to) {
  if (!oracles_.laws || wrong_) return;
  const Step step{config_, from.state, operation, outcome_, to.state, to.history};
  for (const Law& row : kStateLaws) {
    if (!is_due(row.reach, to.history)) continue;
    if (Finding finding = row.check(step)) object(row.id, row.name, *std::move(finding));
  }
}

void Walker::expand(const std::function<void(const Edge&)>& visit) {
  const Level& from = here();
  if (from.operations.size() > std::numeric_limits<std::uint8_t>::max()) {
    throw std::logic_error("a state with more operations than a choice can number");
  }
  for (std::size_t i = 0; i < from.operations.size(); ++i) {
    if (left_) bring_subject();
    const Operation& operation = from.operations[i];
    step(from, operation, next_);
    judge(from, operation, next_);
    Edge edge{static_cast<std::uint8_t>(i), operation, false, {}, wrong_ ? &*wrong_ : nullptr};
    ++counts_.edges;
    if (!wrong_) {
      count(from, operation, next_);
      edge.same = alike(from, next_);
      edge.fingerprint =
          canonical_.fingerprint(next_.state, next_.history, next_.known, next_.memory);
    }
    visit(edge);
    left_ = !edge.same;
  }
}

// Fingerprints cannot decide this: they are equal for states that the subject can tell apart.
bool Walker::alike(const Level& a, const Level& b) {
  if (a.state != b.state || a.known.texts != b.known.texts || a.memory != b.memory) return false;
  if (a.history.book.requests().size() != b.history.book.requests().size()) return false;
  for (std::size_t i = 0; i < a.history.book.requests().size(); ++i) {
    const RequestRecord& one = a.history.book.requests()[i];
    const RequestRecord& other = b.history.book.requests()[i];
    if (one.hit.tokens != other.hit.tokens || one.hit.blocks != other.hit.blocks ||
        one.scheduled_tokens != other.scheduled_tokens || one.forked != other.forked) {
      return false;
    }
  }
  return a.history.evicted == b.history.evicted && a.history.forked == b.history.forked &&
         a.history.queue_evicted == b.history.queue_evicted &&
         a.history.chains_loose == b.history.chains_loose;
}

void Walker::count(const Level& from, const Operation& operation, const Level& to) {
  const bool granted = std::holds_alternative<Granted>(outcome_.result);
  counts_.refusals += std::holds_alternative<Refused>(outcome_.result) ? 1 : 0;
  const RequestState* was = from.state.find(request_of(operation));
  const RequestState* now = to.state.find(request_of(operation));
  if (was != nullptr && now != nullptr) counts_.recycled += num_nulls(*was) < num_nulls(*now);
  if (!granted) return;
  for (const Event& event : outcome_.events) {
    counts_.evictions += std::holds_alternative<event::Removed>(event) ? 1 : 0;
  }
  if (!to.history.asked || !to.history.asked->uses_hit) return;
  ++counts_.hits;
  for (const auto& blocks : from.history.find(request_of(operation))->hit.blocks) {
    for (const BlockId block : blocks) {
      counts_.revivals += block != kNullBlock && from.state.blocks[block].ref_cnt == 0 ? 1 : 0;
    }
  }
}

std::vector<Operation> Walker::trace() const {
  std::vector<Operation> out;
  for (std::size_t i = 0; i < depth_; ++i) out.push_back(levels_[i].operations[levels_[i].choice]);
  return out;
}

std::vector<Operation> Walker::performed() const {
  std::vector<Operation> out;
  for (const Operation* operation : performed_) out.push_back(*operation);
  return out;
}

Fingerprint Walker::fingerprint() {
  return canonical_.fingerprint(here().state, here().history, here().known, here().memory);
}

}  // namespace kvproof::properties::exhaustive
