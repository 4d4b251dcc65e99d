// SPDX-License-Identifier: Apache-2.0
// The audit: performs operations on a subject and consults the oracles after every one of them.
//
// Oracles: laws (laws.h), the model (model_oracle.h), content (content_oracle.h); each can be
//          switched on alone, so that a catch can be credited to it.
// Partial: when a subject declines an operation, the model does not perform it either. It is asked
//          once more, because a call that is performed the second time could have been performed at
//          once. Such operations are counted, so that a test can demand that there are none.
// Ends:    with the first violation; everything after it would say nothing new.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/audit/model_oracle.h"
#include "properties/laws/history.h"
#include "properties/laws/law_counts.h"
#include "properties/laws/violation.h"
#include "properties/shadow/content_oracle.h"
#include "properties/shadow/content_readback.h"
#include "properties/shadow/operation_events.h"
#include "reference/subject.h"

namespace kvproof::properties {

struct Law;  // laws.h

/// Which oracles are consulted.
struct Oracles {
  bool laws = true;
  bool model = true;
  bool content = true;
  std::uint64_t laws_left_out = 0;  // bit i: not the i-th row of the list
  ComparedParts compared = {};      // the parts that the model compares
  Promises promises = {};           // of the subject
  bool every_law = false;  // on every step, though it has no occasion to break most of them
  bool runs = false;       // beside content: the judge of runs, told what each operation does
};

/// Counts of events. A run in which an event never happened proves nothing about it.
struct Counts {
  std::uint64_t operations = 0;
  std::uint64_t grants = 0;
  std::uint64_t hits = 0;       // grants that started from a looked-up prefix
  std::uint64_t evictions = 0;  // keys lost because their block was handed out again
  std::uint64_t refusals = 0;
  std::uint64_t rejections = 0;
  std::uint64_t revivals = 0;     // free blocks with content that were held again
  std::uint64_t preemptions = 0;  // requests with blocks that were freed but not finished
  std::uint64_t recycled = 0;     // entries that became null because no token reads them any more
  std::uint64_t forks = 0;
  std::uint64_t copies = 0;       // copies of blocks with another holder, before they were written
  std::uint64_t truncations = 0;  // truncations that gave back blocks
  std::uint64_t leases = 0;
  std::uint64_t swaps = 0;         // swaps that landed
  std::uint64_t failed_swaps = 0;  // swaps that did not
  std::uint64_t skipped = 0;  // operations that the subject does not perform, but the model does
  std::uint64_t positions_read = 0;  // read back from real tensors, and compared
  std::uint64_t blind = 0;  // operations after a mistake of the caller that hides the content
  std::array<std::uint64_t, kNumOperations> asked = {};     // by kind
  std::array<std::uint64_t, kNumOperations> declined = {};  // of these; see declines()

  Counts& operator+=(const Counts& other);
};

/// What a subject may be besides: one that has something to say of its own answers.
class Objector {
 public:
  virtual ~Objector() = default;
  /// What is wrong so far. The audit asks it after its oracles.
  [[nodiscard]] virtual Finding objection() const = 0;
};

class Audit {
 public:
  /// The subject must be new. @pre unsupported(config) is empty
  /// @param twin another new one of its kind, which performs the calls of each decode step; null if
  /// there will be no such steps
  Audit(const CacheConfig& config, Subject& subject, Oracles oracles = {},
        std::unique_ptr<Subject> twin = nullptr);

  /// Performs one operation. @return what the subject answered. @throws Violation, which shares the
  /// states around it: nothing may be applied after it
  const Outcome& apply(const Operation& operation);

  /// Fills in the last operation where a violation does not carry it yet.
  void complete(const Operation& operation, JudgedStep& step) const;

  [[nodiscard]] const CacheConfig& config() const { return config_; }
  [[nodiscard]] const Snapshot& state() const { return *after_; }
  [[nodiscard]] const Snapshot& state_before() const { return *before_; }  // the last operation
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }        // of the last operation
  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// What traits of the subject exempt of each law of a state, in the order of the list.
  [[nodiscard]] const std::vector<LawCount>& law_counts() const { return law_counts_; }

 private:
  void judge(const Operation& operation);
  void judge_as_two(op::Allocate allocate, Hit hit);
  void perform(Subject& subject, const Operation& operation,
               const std::shared_ptr<Snapshot>& state);
  void apply_beside_twin(const Operation& operation);
  void check_objection(const Subject& subject) const;
  void judge_call(const Operation& operation);
  Outcome judge_batch(const op::Decode& batch);
  void check_declined(const Operation& operation);
  void check_content(const Operation& operation);
  void check_readback(const Snapshot& state);
  void check_model(const Operation& operation);
  void count(const Operation& operation);
  void count_sharing(const Operation& operation);
  void count_recycled(const Operation& operation);
  void count_revivals(const std::vector<BlockId>& blocks);
  void check_laws(const Operation& operation) const;

  CacheConfig config_;
  Subject& subject_;
  std::unique_ptr<Subject> twin_;
  std::shared_ptr<Snapshot> subject_state_ = std::make_shared<Snapshot>();  // beside its twin
  std::uint64_t applied_ = 0;                                               // [operations]
  bool answered_ = false;                                                   // the last of them
  bool has_decoded_ = false;  // from then on the two are compared
  Oracles oracles_;
  std::vector<const Law*> laws_;  // those that are demanded
  // Two snapshots that change places: moving a snapshot would move some twenty vectors.
  std::shared_ptr<Snapshot> before_ = std::make_shared<Snapshot>();
  std::shared_ptr<Snapshot> after_ = std::make_shared<Snapshot>();
  Outcome outcome_;
  History history_;
  std::optional<ModelOracle> model_;
  Occasions uncompared_ = 0;  // of the steps that the model has not followed
  std::optional<ContentOracle> content_;
  std::optional<OperationEvents> runs_;
  std::optional<ContentReadback> readback_;
  Counts counts_;
  mutable std::vector<LawCount> law_counts_;
};

}  // namespace kvproof::properties
