// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>
#include <vector>

#include "properties/audit/audit.h"
#include "properties/caller/caller_book.h"
#include "properties/story/frame.h"
#include "reference/support/say.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

/// What an allocation asks of the free queue, its watermark and its reserve among it.
std::optional<reference::Need> need_of(const Operation& operation, const CacheConfig& config,
                                       std::optional<reference::Need> need) {
  const auto* allocate = std::get_if<op::Allocate>(&operation);
  if (!need || allocate == nullptr) return {};
  const AllocateArgs& args = allocate->args;
  if (args.has_scheduled && args.status != RequestStatus::running) {
    need->blocks += config.watermark_blocks();
  }
  const bool all_fit = !args.full_sequence_must_fit || need->blocks <= need->free;
  if (config.profile.admission_gates && all_fit) need->blocks += args.reserved;
  return need;
}

/// Whether it was not performed by what the subject is, of which the model knows nothing. The audit
/// does not hold it against the model either.
bool is_own_limit(const Result& result) {
  const auto* rejected = std::get_if<Rejected>(&result);
  return std::holds_alternative<Declined>(result) || std::holds_alternative<NotAsked>(result) ||
         (rejected != nullptr && rejected->breach == Breach::capacity);
}

/// Whether both did the same; of a call that was not performed the words do not matter.
bool same_answer(const Outcome& expected, const Outcome& outcome) {
  if (is_undone(expected.result) || is_undone(outcome.result)) {
    return is_undone(expected.result) == is_undone(outcome.result);
  }
  return expected.result == outcome.result;
}

class OperationFrames final : public Subject, public Objector {
 public:
  OperationFrames(const CacheConfig& config, std::unique_ptr<Subject> inner, FrameReader read,
                  bool by_model)
      : config_(config), inner_(std::move(inner)), read_(std::move(read)), book_(config) {
    if (by_model && !unsupported(config)) {
      model_ = std::make_shared<reference::CacheManager>(config);
    }
    inner_->observe(state_);
  }

  Outcome apply(const Operation& operation) override {
    Frame frame{.request = request_,
                .state = state_,
                .transfers = transfers_,
                .number = number_++,
                .operation = &operation};
    Outcome outcome;
    try {
      outcome = inner_->apply(operation);
      inner_->observe(state_);
    } catch (const std::exception& error) {
      const std::string why = error.what();
      frame.raised = why;
      read_(frame);
      throw;
    }
    frame.outcome = &outcome;
    const bool asked = model_ != nullptr && !is_own_limit(outcome.result);
    const Outcome expected = asked ? model_->apply(operation) : Outcome();
    if (asked) {
      frame.expected = {&expected, model_, need_of(operation, config_, model_->last_need()),
                        same_answer(expected, outcome)};
    }
    if (!is_undone(outcome.result)) {
      book_.fold(operation, outcome.result);
      follow_transfers();
    }
    const auto* hit = std::get_if<Hit>(&outcome.result);
    const auto* lookup = std::get_if<op::Lookup>(&operation);
    if (lookup != nullptr && hit != nullptr) add_lookup(*lookup, *hit, frame);
    if (state_.work) frame.taken = state_.work->taken;
    frame.left_for = request_of(operation);
    if (frame.left_for.empty()) {
      frame.left_for = say("a call of ", kOperationNames[operation.index()]);
    }
    frame.left_for_room = !std::holds_alternative<op::Evict>(operation) &&
                          !std::holds_alternative<op::Reset>(operation);
    follow_index(frame);
    read_(frame);
    if (!frame.expected.same) model_.reset();  // what follows is another history
    return outcome;
  }

  [[nodiscard]] Finding objection() const override {
    const auto* objector = dynamic_cast<const Objector*>(inner_.get());
    return objector != nullptr ? objector->objection() : std::nullopt;
  }

  void observe(Snapshot& snapshot) const override { inner_->observe(snapshot); }

 private:
  [[nodiscard]] std::optional<FrameRequest> find(const std::string& name) const {
    const RequestRecord* r = book_.find(name);
    if (r == nullptr) return {};
    return FrameRequest{
        .tokens = r->sequence->tokens, .extra = &r->sequence->extra, .number = r->id};
  }

  void follow_transfers() {
    transfers_.clear();
    for (const TransferRecord& transfer : book_.transfers()) {
      auto& pairs = transfers_[transfer.name];
      for (const auto& [from, to] : transfer.copies) {
        transfer.out ? pairs.emplace_back(from, to) : pairs.emplace_back(to, from);
      }
    }
  }

  void add_lookup(const op::Lookup& lookup, const Hit& hit, Frame& frame) const {
    const RequestRecord* r = std::as_const(book_).find(lookup.req);
    if (r == nullptr) return;
    const std::uint64_t last = std::max<std::size_t>(r->sequence->tokens.size(), 1) - 1;
    frame.lookup = {.request = lookup.req,
                    .limit = std::min<std::uint64_t>(last, lookup.max_tokens.value_or(~0U)),
                    .hit = hit.hit_tokens,
                    .off = !config_.enable_caching || r->skip_lookup};
  }

  void follow_index(Frame& frame) {
    std::vector<IndexKey> index;
    for (const IndexEntry& shown : state_.index) {
      index.push_back({shown.key, shown.group});
      const bool held = std::ranges::any_of(shown.blocks, [&](BlockId block) {
        return block < state_.blocks.size() && state_.blocks[block].ref_cnt > 0;
      });
      if (held) frame.used.push_back(index.back());
    }
    std::ranges::sort(index);
    std::ranges::set_difference(index, index_, std::back_inserter(frame.entered));
    std::ranges::set_difference(index_, index, std::back_inserter(frame.left));
    index_ = std::move(index);
  }

  CacheConfig config_;
  std::unique_ptr<Subject> inner_;
  FrameReader read_;
  std::shared_ptr<reference::CacheManager> model_;  // null: it is not asked
  std::uint64_t number_ = 0;
  Snapshot state_;
  CallerBook book_;
  FindRequest request_ = [this](const std::string& name) { return find(name); };
  Transfers transfers_;
  std::vector<IndexKey> index_;  // sorted
};

}  // namespace

std::unique_ptr<Subject> with_frames(const CacheConfig& config, std::unique_ptr<Subject> inner,
                                     FrameReader read, bool by_model) {
  return std::make_unique<OperationFrames>(config, std::move(inner), std::move(read), by_model);
}

}  // namespace kvproof::properties
