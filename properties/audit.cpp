// SPDX-License-Identifier: Apache-2.0
// Applies, observes, folds, and asks each oracle.
#include "properties/audit.h"

#include <algorithm>

#include "properties/laws.h"

namespace kvproof::properties {

bool Violation::names(std::string_view id) const {
  return std::find(breaches_.begin(), breaches_.end(), id) != breaches_.end();
}

Counts& Counts::operator+=(const Counts& other) {
  operations += other.operations;
  grants += other.grants;
  hits += other.hits;
  evictions += other.evictions;
  refusals += other.refusals;
  rejections += other.rejections;
  revivals += other.revivals;
  preemptions += other.preemptions;
  blind += other.blind;
  return *this;
}

Audit::Audit(const CacheConfig& config, Subject& subject, Oracles oracles)
    : config_(config), subject_(subject), oracles_(oracles), history_(config) {
  if (oracles_.model) model_.emplace(config);
  if (oracles_.content) content_.emplace(config);
  subject_.observe(after_);
  history_.tally.count(after_, config_.num_blocks);
}

const Outcome& Audit::apply(const Operation& operation) {
  std::swap(before_, after_);
  try {
    outcome_ = subject_.apply(operation);
    subject_.observe(after_);
  } catch (const std::exception& error) {
    throw Violation({"exception"}, say("the subject threw: ", error.what()));
  }
  if (after_.blocks.size() != config_.num_blocks) {
    throw Violation({"I5"}, say("I5 conservation: the subject shows ", after_.blocks.size(),
                                " blocks of a pool of ", config_.num_blocks));
  }
  count(operation);
  history_.fold(before_, operation, outcome_, after_);
  if (oracles_.laws) check_laws(operation);
  if (content_) {
    if (const Finding finding = content_->follow(operation, outcome_, before_, after_)) {
      throw Violation({"content"}, "content: " + *finding);
    }
    counts_.blind += content_->caller_broke_contract() ? 1 : 0;
  }
  // Beyond the capacity that a subject was built for it may refuse what the model, which has none,
  // does.
  const auto* rejected = std::get_if<Rejected>(&outcome_.result);
  const bool full = rejected != nullptr && rejected->error.starts_with("capacity");
  if (model_ && !full) {
    if (const Finding finding = model_->follow(operation, outcome_, after_)) {
      throw Violation({"model"}, "model: " + *finding);
    }
  }
  return outcome_;
}

void Audit::check_laws(const Operation& operation) const {
  const Step step{config_, before_, operation, outcome_, after_, history_};
  std::vector<std::string> breaches;
  std::string text;
  for (const Law& row : kLaws) {
    const Finding finding = row.check(step);
    if (!finding) continue;
    breaches.emplace_back(row.id);
    text += say(text.empty() ? "" : "; ", row.id, " ", row.name, ": ", *finding);
  }
  if (!breaches.empty()) throw Violation(std::move(breaches), text);
}

void Audit::count(const Operation& operation) {
  ++counts_.operations;
  if (std::holds_alternative<Refused>(outcome_.result)) ++counts_.refusals;
  if (std::holds_alternative<Rejected>(outcome_.result)) ++counts_.rejections;
  if (std::holds_alternative<op::Free>(operation)) {
    const RequestState* r = before_.find(request_of(operation));
    if (r != nullptr && !table_of(*r).empty()) ++counts_.preemptions;
  }
  if (std::holds_alternative<Granted>(outcome_.result)) {
    ++counts_.grants;
    for (const Event& event : outcome_.events)
      counts_.evictions += std::holds_alternative<event::Removed>(event) ? 1 : 0;
    const auto* allocate = std::get_if<op::Allocate>(&operation);
    const RequestRecord* r = allocate != nullptr ? history_.find(allocate->req) : nullptr;
    if (r != nullptr && allocate->args.use_lookup && !r->hit.empty()) {
      ++counts_.hits;
      count_revivals(r->hit);
    }
  }
  if (const auto* touch = std::get_if<op::Touch>(&operation)) count_revivals(touch->blocks);
}

void Audit::count_revivals(const std::vector<BlockId>& blocks) {
  for (BlockId block : blocks) {
    if (block >= before_.blocks.size()) continue;
    const BlockState& was = before_.blocks[block];
    if (was.hashed && was.ref_cnt == 0 && after_.blocks[block].ref_cnt > 0) ++counts_.revivals;
  }
}

}  // namespace kvproof::properties
