// SPDX-License-Identifier: Apache-2.0
// The subject that a command line names: a row of a list, a shared library, or a program.
#pragma once

#include <string>

#include "properties/check/candidate.h"

namespace kvproof::bench {

struct SubjectOptions {
  std::string subject;          // a name in the list, or the path of a shared library
  std::string subject_command;  // a command line for the shell
  properties::AnswerLimits limits;

  [[nodiscard]] bool given() const { return !subject.empty() || !subject_command.empty(); }
};

/// Whether this names a file, not a row of a list.
[[nodiscard]] bool is_library(const std::string& subject);

/// @pre options.given(). @throws std::invalid_argument that lists the names
[[nodiscard]] properties::Candidate find_candidate(const SubjectOptions& options);

/// The recorded vectors that a check plays: in a checkout beside the sources, installed beside the
/// package's data; empty: nowhere.
[[nodiscard]] std::string vectors_folder();

}  // namespace kvproof::bench
