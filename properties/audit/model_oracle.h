// SPDX-License-Identifier: Apache-2.0
// The model oracle: the naive manager runs beside the subject, and every answer and state must
// agree.
//
// Compared: outcome (a rejection by what was broken), events, and the state (same_state.h).
#pragma once

#include "properties/laws/occasion.h"
#include "properties/laws/same_state.h"
#include "reference/cache_manager.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// The parts of its own state that the model may change by an operation that it answered so.
[[nodiscard]] Occasions moved_by(const Snapshot& before, const Operation& operation,
                                 const Result& answer);

class ModelOracle {
 public:
  explicit ModelOracle(const CacheConfig& config, ComparedParts compared = {})
      : model_(config), compared_(compared) {}

  /// Performs the operation on the model. @param occasions of the subject's steps since the last
  /// call: what neither side has changed is not compared again
  /// @return the first difference between model and subject
  Finding follow(const Operation& operation, const Outcome& outcome, const Snapshot& after,
                 Occasions occasions);

  /// Whether the model would perform the operation; this does not perform it.
  [[nodiscard]] bool performs(const Operation& operation) const;

  [[nodiscard]] const reference::CacheManager& model() const { return model_; }
  /// What follow() found the subject to differ from: an answer, if that differs, and the state.
  [[nodiscard]] const std::optional<Outcome>& expected() const { return expected_; }
  [[nodiscard]] const Snapshot& state() const { return state_; }

 private:
  reference::CacheManager model_;
  ComparedParts compared_;
  Snapshot state_;         // of the model
  bool observed_ = false;  // state_ has been filled
  std::optional<Outcome> expected_;
};

}  // namespace kvproof::properties
