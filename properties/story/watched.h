// SPDX-License-Identifier: Apache-2.0
// A subject whose run is told to somebody who shows it, whoever drives it.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "properties/audit/audit.h"
#include "properties/story/story.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// What an operation did. `outcome` is null if it was not answered; then `why` says why.
struct Told {
  const Operation& operation;
  const Outcome* outcome;
  std::string why;
  Snapshot& after;  // may be taken
};

class Watched final : public Subject, public Objector {
 public:
  Watched(std::unique_ptr<Subject> inner, std::function<void(const Told&)> tell)
      : inner_(std::move(inner)), tell_(std::move(tell)) {}

  Outcome apply(const Operation& operation) override {
    Outcome outcome;
    try {
      outcome = inner_->apply(operation);
      inner_->observe(state_);
    } catch (const std::exception& error) {
      tell_({operation, nullptr, error.what(), state_});
      throw;
    }
    tell_({operation, &outcome, "", state_});
    return outcome;
  }
  void observe(Snapshot& snapshot) const override { inner_->observe(snapshot); }

  [[nodiscard]] Finding objection() const override {
    const auto* objector = dynamic_cast<const Objector*>(inner_.get());
    return objector != nullptr ? objector->objection() : std::nullopt;
  }

 private:
  std::unique_ptr<Subject> inner_;
  std::function<void(const Told&)> tell_;
  Snapshot state_;
};

/// Has a story told of a subject. @param story becomes a new one
[[nodiscard]] inline std::unique_ptr<Subject> with_story(const CacheConfig& config,
                                                         std::unique_ptr<Subject> inner,
                                                         std::shared_ptr<Story>& story) {
  Snapshot first;
  inner->observe(first);
  story = std::make_shared<Story>(config, std::move(first));
  return std::make_unique<Watched>(std::move(inner), [story](const Told& told) {
    if (told.outcome == nullptr) story->add_unanswered(told.operation, told.why);
    if (told.outcome != nullptr) story->add(told.operation, *told.outcome, told.after);
  });
}

}  // namespace kvproof::properties
