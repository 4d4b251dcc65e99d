// SPDX-License-Identifier: Apache-2.0
// Compares a subject's answers and states with those of the naive manager.
#include "properties/audit/model_oracle.h"

#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

// Of a rejection, what was broken is compared, not the words.
bool same_answer(const Result& model, const Result& subject) {
  if (std::holds_alternative<Declined>(model)) return std::holds_alternative<Declined>(subject);
  const auto* expected = std::get_if<Rejected>(&model);
  if (expected == nullptr) return model == subject;
  const auto* rejected = std::get_if<Rejected>(&subject);
  return rejected != nullptr && rejected->breach == expected->breach;
}

}  // namespace

Occasions moved_by(const Snapshot& before, const Operation& operation, const Result& answer) {
  if (is_undone(answer) || only_asks(operation)) return 0;
  if (std::holds_alternative<op::Step>(operation)) return before.copying.empty() ? 0 : on::any;
  if (std::holds_alternative<op::Arrive>(operation) ||
      std::holds_alternative<op::Append>(operation) ||
      std::holds_alternative<op::Advance>(operation)) {
    return on::of_requests;
  }
  return on::any;
}

Finding ModelOracle::follow(const Operation& operation, const Outcome& outcome,
                            const Snapshot& after, Occasions occasions) {
  Outcome expected = model_.apply(operation);
  if (!same_answer(expected.result, outcome.result) || expected.events != outcome.events) {
    model_.observe(state_);
    expected_ = std::move(expected);
    return say("the subject answered ", to_json(outcome), ", the model ", to_json(*expected_));
  }
  const Occasions moved = observed_ ? moved_by(state_, operation, expected.result) : on::any;
  observed_ = true;
  if (moved == on::any) {
    model_.observe(state_);
  } else if (moved != 0) {
    model_.observe_requests(state_.requests);
  }
  return difference(state_, after, moved | occasions, compared_);
}

bool ModelOracle::performs(const Operation& operation) const {
  reference::CacheManager copy = model_;
  return !is_undone(copy.apply(operation).result);
}

}  // namespace kvproof::properties
