// SPDX-License-Identifier: Apache-2.0
// Turns a name into an allocator: a row of the list, a shared library, or a program. No other file
// does that.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "optimized/subjects.h"
#include "properties/check/reach.h"
#include "properties/check/subject_options.h"
#include "properties/foreign/foreign_subject.h"

namespace kvproof::properties {

struct Opened {
  std::unique_ptr<Subject> subject;  // null if it cannot be built from this configuration
  Demands demands;
};

/// An allocator that can be built and asked.
struct Candidate {
  std::string name;
  std::string option = {};   // names it on a command line, for the replay
  std::string address = {};  // by which another process finds it: its name, or a library's path
  bool foreign = false;
  std::function<Opened(const CacheConfig&)> open;
  std::function<void(bool)> hurry = [](bool) {};  // as ForeignProgram::hurry
};

/// The row of that name. @throws std::invalid_argument that lists the names
[[nodiscard]] const optimized::SubjectRow& find_row(const std::string& name);

/// An implementation of ours.
[[nodiscard]] Candidate own_candidate(const optimized::SubjectRow& row);

/// Whether this looks like the path of a shared library.
[[nodiscard]] bool is_library(const std::string& text);

/// Whether this names a row of the list or looks like the path of a shared library.
[[nodiscard]] bool names_subject(const std::string& text);

/// @pre options.given(). @throws std::invalid_argument that lists the names
[[nodiscard]] Candidate find_candidate(const SubjectOptions& options);

/// As find_candidate; the name may also be that of a seeded bug.
[[nodiscard]] Candidate find_candidate_or_mutant(const SubjectOptions& options);

/// The folder of the recorded vectors: beside the sources in a checkout, beside the data of the
/// package when installed; empty if it is in neither place.
[[nodiscard]] std::string vectors_folder();

}  // namespace kvproof::properties
