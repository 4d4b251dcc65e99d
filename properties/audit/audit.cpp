// SPDX-License-Identifier: Apache-2.0
// Applies an operation, observes the state, folds it into the history, and asks each oracle.
#include "properties/audit/audit.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "properties/laws/laws.h"
#include "properties/shadow/verdict.h"
#include "reference/contract.h"
#include "reference/decode_calls.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

Counts& Counts::operator+=(const Counts& other) {
  for (auto field :
       {&Counts::operations, &Counts::grants, &Counts::hits, &Counts::evictions, &Counts::refusals,
        &Counts::rejections, &Counts::revivals, &Counts::preemptions, &Counts::recycled,
        &Counts::forks, &Counts::copies, &Counts::truncations, &Counts::leases, &Counts::swaps,
        &Counts::failed_swaps, &Counts::skipped, &Counts::positions_read, &Counts::blind}) {
    this->*field += other.*field;
  }
  for (std::size_t i = 0; i < kNumOperations; ++i) {
    asked[i] += other.asked[i];
    declined[i] += other.declined[i];
  }
  return *this;
}

Audit::Audit(const CacheConfig& config, Subject& subject, Oracles oracles,
             std::unique_ptr<Subject> twin)
    : config_(with_eagle_kin(config)),
      subject_(subject),
      twin_(std::move(twin)),
      oracles_(std::move(oracles)),
      history_(config_, oracles_.promises),
      law_counts_(kStateLaws.size()) {
  for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
    if ((oracles_.laws_left_out >> i & 1U) == 0) laws_.push_back(&kStateLaws[i]);
  }
  if (oracles_.model) model_.emplace(config_, oracles_.compared);
  if (oracles_.content) content_.emplace(config_, oracles_.promises.traits);
  if (oracles_.content && oracles_.runs) runs_.emplace(config_);
  if (oracles_.promises.contents) readback_.emplace(config_, oracles_.promises.sinks);
  subject_.observe(*after_);
  history_.tally.count(*after_);
}

void Audit::complete(const Operation& operation, JudgedStep& step) const {
  if (step.operation) return;
  step.index = applied_ - 1;
  step.operation = operation;
  step.before = before_;
  if (!answered_) return;
  step.answer = outcome_;
  if (step.after == nullptr) step.after = after_;
}

// Everything else indexes by block, so that first there must be as many as the pool has.
void Audit::perform(Subject& subject, const Operation& operation,
                    const std::shared_ptr<Snapshot>& state) {
  answered_ = false;
  try {
    outcome_ = subject.apply(operation);
    subject.observe(*state);
  } catch (const Violation&) {
    throw;  // the subject's wrapper has said what happened: a crash, a hang, nonsense
  } catch (const std::exception& error) {
    Violation violation("exception", say("the subject threw: ", error.what()));
    violation.text = violation.said.front();
    throw violation;
  }
  answered_ = true;
  if (state->blocks.size() == config_.num_blocks) return;
  Violation violation(
      "I5",
      say("the subject shows ", state->blocks.size(), " blocks of a pool of ", config_.num_blocks),
      "conservation");
  violation.step.after = state;
  throw violation;
}

const Outcome& Audit::apply(const Operation& operation) {
  ++applied_;
  if (!twin_ && std::holds_alternative<op::Decode>(operation)) {
    throw std::logic_error("decode steps are audited beside a second subject");
  }
  before_.swap(after_);
  try {
    if (twin_) {
      apply_beside_twin(operation);
      check_objection(*twin_);
    } else {
      perform(subject_, operation, after_);
      judge_call(operation);
    }
    check_objection(subject_);
  } catch (Violation& violation) {
    complete(operation, violation.step);
    throw;
  }
  return outcome_;
}

// The oracles go first: a difference is also what a broken law leads to.
void Audit::check_objection(const Subject& subject) const {
  const auto* objector = dynamic_cast<const Objector*>(&subject);
  if (objector == nullptr) return;
  if (Finding finding = objector->objection()) {
    finding->insert(0, say("at operation ", applied_, " "));
    throw Violation("differs", *std::move(finding));
  }
}

void Audit::judge_call(const Operation& operation) {
  if (auto* granted = std::get_if<Granted>(&outcome_.result); granted && granted->hit) {
    judge_as_two(std::get<op::Allocate>(operation), *std::exchange(granted->hit, std::nullopt));
  } else {
    judge(operation);
  }
}

// An admission that looks up by itself is a lookup, which changes nothing, and an allocation that
// uses what it found. Its new tokens count the hit; one behind it is computed in any case.
void Audit::judge_as_two(op::Allocate allocate, Hit hit) {
  AllocateArgs& args = allocate.args;
  args.new_tokens = std::max(args.new_tokens, hit.hit_tokens + 1) - hit.hit_tokens;
  Outcome granted = std::move(outcome_);
  auto after = std::exchange(after_, std::make_shared<Snapshot>(*before_));
  outcome_ = {std::move(hit), {}};
  judge(op::Lookup{allocate.req});
  after_ = std::move(after);
  outcome_ = std::move(granted);
  judge(allocate);
}

// A batch has no states in between. So all oracles judge the twin, which makes its calls one after
// the other, and from the first batch on the subject must answer and be what the twin is.
void Audit::apply_beside_twin(const Operation& operation) {
  const auto* batch = std::get_if<op::Decode>(&operation);
  if (batch != nullptr) *after_ = *before_;
  perform(subject_, operation, subject_state_);
  const Outcome answer = outcome_;
  ThreeCalls calls{.outcome = answer, .state = nullptr, .compared = oracles_.compared};
  calls.compared.whose = "by single calls";
  if (batch != nullptr && !is_undone(answer.result)) {
    auto start = std::exchange(before_, std::make_shared<Snapshot>());
    calls.outcome = judge_batch(*batch);
    before_ = std::move(start);
  } else {
    if (batch == nullptr) perform(*twin_, operation, after_);
    calls.outcome = outcome_;
    judge_call(operation);
  }
  has_decoded_ = has_decoded_ || batch != nullptr;
  calls.state = after_.get();
  history_.three_calls = std::move(calls);
  outcome_ = answer;
  const Law& law = *find_law("C15");
  if (has_decoded_ && oracles_.laws && std::ranges::find(laws_, &law) != laws_.end()) {
    const Step step{config_, *before_, operation, answer, *subject_state_, history_};
    if (Finding finding = law.check(step)) {
      Violation violation(law.id, *std::move(finding), law.name);
      violation.step.after = subject_state_;
      throw violation;
    }
  }
}

Outcome Audit::judge_batch(const op::Decode& batch) {
  Outcome all;
  const std::uint64_t operations = counts_.operations;
  const auto computed = [&](const std::string& req) { return after_->find(req)->computed; };
  all.result = by_three_calls(batch, computed, [&](const Operation& call) -> Result {
    before_.swap(after_);
    perform(*twin_, call, after_);
    if (is_undone(outcome_.result)) return outcome_.result;
    all.events.insert(all.events.end(), outcome_.events.begin(), outcome_.events.end());
    Result result = outcome_.result;
    try {
      judge(call);
    } catch (Violation& violation) {
      violation.text = say("at ", to_json(call), " of the batch: ", violation.text);
      complete(call, violation.step);
      throw;
    }
    return result;
  });
  counts_.operations = operations + 1;
  if (readback_) check_readback(*subject_state_);  // so far the twin's was
  ++counts_.asked[Operation(batch).index()];
  return all;
}

void Audit::judge(const Operation& operation) {
  history_.three_calls.reset();
  count(operation);
  history_.fold(*before_, operation, outcome_, *after_);
  count_sharing(operation);
  if (oracles_.laws) check_laws(operation);
  check_declined(operation);
  check_content(operation);
  if (readback_) check_readback(*after_);
  check_model(operation);
}

void Audit::check_content(const Operation& operation) {
  if (!content_) return;
  Finding finding = content_->follow(operation, outcome_, *before_, *after_, history_.book);
  const live::Found* found = nullptr;
  if (runs_) {
    found = runs_->follow(operation, outcome_, *before_, *after_, history_.book, *content_);
  }
  counts_.blind += content_->breach_of_caller().empty() ? 0 : 1;
  if (!finding && found == nullptr) return;
  Broken wrong;
  if (finding) wrong.add("content", "", *std::move(finding));
  if (found != nullptr) {
    const Law& law = kRunLaws[found->law];
    wrong.add(law.id, law.name, say(found->what, found->wrote.empty() ? "" : "; ", found->wrote));
  }
  throw Violation(std::move(wrong));
}

void Audit::check_readback(const Snapshot& state) {
  if (Finding finding = readback_->read(state, history_.book))
    throw Violation("content", *std::move(finding));
  counts_.positions_read = readback_->compared();
}

void Audit::check_declined(const Operation& operation) {
  const Result& answer = outcome_.result;
  if (std::holds_alternative<NotAsked>(answer)) return;
  // Without a host tier nobody swaps: it is not the subject that declines.
  if (config_.num_host_blocks == 0 && std::holds_alternative<op::SwapOut>(operation)) return;
  ++counts_.asked[operation.index()];
  if (!declines(oracles_.promises, operation, answer)) return;
  ++counts_.declined[operation.index()];
  if (!oracles_.laws || !oracles_.promises.declines[operation.index()].empty()) return;
  const bool single = twin_ && !std::holds_alternative<op::Decode>(operation);
  if ((single ? *twin_ : subject_).apply(operation).result == answer) return;
  throw Violation("C12",
                  say(error_text(answer), "; asked the same once more, it answered otherwise"),
                  "rejection has its cause");
}

// A subject need not have every mechanism, and may reject what is beyond its capacity, while the
// model has no limit. Whether it is beyond is for a law to say (C12).
void Audit::check_model(const Operation& operation) {
  if (!model_) return;
  uncompared_ |= history_.occasions;
  const auto* rejected = std::get_if<Rejected>(&outcome_.result);
  const bool declined = declines(oracles_.promises, operation, outcome_.result);
  const bool full = rejected != nullptr && rejected->breach == Breach::capacity;
  const Promises& promises = oracles_.promises;
  const bool declared = promises.operations.test(operation.index());
  if ((declined || full) && model_->performs(operation)) {
    if (declined && declared && promises.whole) {
      throw Violation("model",
                      say("it performs what the subject declines: ", error_text(outcome_.result)));
    }
    counts_.skipped += declined ? 1 : 0;
    return;
  }
  if (declined && (promises.valid_calls_only || !declared)) return;
  if (Finding finding = model_->follow(operation, outcome_, *after_, uncompared_)) {
    Violation violation("model", *std::move(finding));
    violation.step.expected = model_->expected();
    violation.step.expected_after = std::make_shared<Snapshot>(model_->state());
    throw violation;
  }
  uncompared_ = 0;
}

void Audit::check_laws(const Operation& operation) const {
  Step step{config_, *before_, operation, outcome_, *after_, history_};
  std::optional<Broken> wrong;
  std::string states;  // behind what laws of calls say, which has the subject's own words
  for (const Law* row : laws_) {
    if (!is_due(row->reach, history_) && !oracles_.every_law) continue;
    step.count = &law_counts_[static_cast<std::size_t>(row - kLaws)];
    Finding finding = row->check(step);
    if (!finding) continue;
    if (!wrong) wrong.emplace();
    if (row->id.front() != 'C') wrong->text.swap(states);
    wrong->add(row->id, row->name, *std::move(finding));
    if (row->id.front() != 'C') wrong->text.swap(states);
  }
  if (!wrong) return;
  wrong->text += (wrong->text.empty() || states.empty() ? "" : "\n") + states;
  throw Violation(*std::move(wrong));
}

void Audit::count(const Operation& operation) {
  ++counts_.operations;
  if (std::holds_alternative<Refused>(outcome_.result)) ++counts_.refusals;
  if (is_undone(outcome_.result)) ++counts_.rejections;
  if (std::holds_alternative<op::Free>(operation)) {
    const RequestState* r = before_->find(request_of(operation));
    if (r != nullptr && !without_blocks(*r)) ++counts_.preemptions;
  }
  const bool forks = std::holds_alternative<op::Fork>(operation);
  if (std::holds_alternative<Granted>(outcome_.result) && !forks) {
    ++counts_.grants;
    for (const Event& event : outcome_.events)
      counts_.evictions += std::holds_alternative<event::Removed>(event) ? 1 : 0;
    const auto* allocate = std::get_if<op::Allocate>(&operation);
    const RequestRecord* r = allocate != nullptr ? history_.find(allocate->req) : nullptr;
    if (r != nullptr && allocate->args.use_lookup && !r->hit.empty()) {
      ++counts_.hits;
      for (const auto& blocks : r->hit.blocks) count_revivals(blocks);
    }
  }
  if (const auto* touch = std::get_if<op::Touch>(&operation)) count_revivals(touch->blocks);
  if (const auto* pin = std::get_if<op::Pin>(&operation)) count_revivals(pin->blocks);
}

void Audit::count_sharing(const Operation& operation) {
  count_recycled(operation);
  if (std::holds_alternative<Refused>(outcome_.result) || is_undone(outcome_.result)) {
    return;
  }
  const auto* granted = std::get_if<Granted>(&outcome_.result);
  const auto* complete = std::get_if<op::Complete>(&operation);
  const bool forks = std::holds_alternative<op::Fork>(operation);
  counts_.forks += forks ? 1 : 0;
  if (std::holds_alternative<op::Pin>(operation)) ++counts_.leases;
  if (std::holds_alternative<op::Truncate>(operation) && before_->num_free != after_->num_free) {
    ++counts_.truncations;
  }
  if ((forks || std::holds_alternative<op::Allocate>(operation)) && granted != nullptr) {
    counts_.copies += granted->copies.size();
  }
  if (complete != nullptr) ++(complete->ok ? counts_.swaps : counts_.failed_swaps);
}

void Audit::count_recycled(const Operation& operation) {
  if (!history_.asked && !std::holds_alternative<op::Recycle>(operation)) return;
  const Places& own = history_.own;
  if (own.before == Places::kAbsent || own.after == Places::kAbsent) return;
  const RequestState* was = &before_->requests[own.before];
  const RequestState* now = &after_->requests[own.after];
  if (was->tables.size() != now->tables.size()) return;
  for (std::size_t g = 0; g < was->tables.size(); ++g) {
    for (std::size_t i = 0; i < was->tables[g].size() && i < now->tables[g].size(); ++i) {
      const bool gone = was->tables[g][i] != kNullBlock && now->tables[g][i] == kNullBlock;
      counts_.recycled += gone ? 1 : 0;
    }
  }
}

void Audit::count_revivals(const std::vector<BlockId>& blocks) {
  for (BlockId block : blocks) {
    if (block == kNullBlock || block >= before_->blocks.size()) continue;
    const BlockState& was = before_->blocks[block];
    if (was.hashed && was.ref_cnt == 0 && after_->blocks[block].ref_cnt > 0) ++counts_.revivals;
  }
}

}  // namespace kvproof::properties
