// SPDX-License-Identifier: Apache-2.0
// Judges a recording by itself: its answers and states under the laws, without another allocator.
//
// Model:   a subject that answers each operation with what its line says, under the audit of
//          audit/audit.h. Nothing of the model is asked, so that it needs no profile.
// Partial: a law is evaluated if every line shows what it needs. Where a recording has tables alone
//          (detail "own"), these are few; where its states are sampled, there are none.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "properties/audit/audit.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

class RecordedSubject;

class RecordingJudge {
 public:
  explicit RecordingJudge(const TraceHeader& header);
  ~RecordingJudge();

  /// Judges the next operation of the trace. @throws TextError for a state that this manager cannot
  /// have
  void follow(const TraceLine& line);

  /// What broke a law first; everything after it would say nothing new.
  [[nodiscard]] const std::optional<Violation>& broken() const { return broken_; }

  /// How many laws were asked, and which not; or why none was.
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] bool judges() const { return why_silent_.empty() && audit_ != nullptr; }

 private:
  void begin(const TraceLine& line);

  TraceHeader header_;
  std::unique_ptr<RecordedSubject> subject_;
  std::unique_ptr<Audit> audit_;
  std::optional<Violation> broken_;
  std::string why_silent_;
  std::string left_out_;  // ids of laws
  std::size_t asked_ = 0;
};

}  // namespace kvproof::properties
