// SPDX-License-Identifier: Apache-2.0
// How a command line names an allocator; candidate.h turns it into one.
#pragma once

#include <string>

#include "properties/engines/kit/answer_limits.h"

namespace kvproof::properties {

/// The options of a command line that name a subject.
struct SubjectOptions {
  std::string subject;          // a name in the list, or the path of a shared library
  std::string subject_command;  // a command line for the shell
  AnswerLimits limits;
  std::string beside;  // the same of one that it is compared with; both empty: none
  std::string beside_command;
  bool beside_counts = false;  // compare how many blocks there are, not which

  [[nodiscard]] bool given() const { return !subject.empty() || !subject_command.empty(); }
};

}  // namespace kvproof::properties
