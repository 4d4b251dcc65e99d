// SPDX-License-Identifier: Apache-2.0
// Turns a name into an allocator: a row of the list, a shared library, or a program. No other file
// does that.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimized/subjects.h"
#include "optimized/variants.h"
#include "properties/check/reach.h"
#include "properties/check/subject_options.h"
#include "properties/engines/kit/foreign_subject.h"

namespace kvproof::properties {

/// What is compared with another allocator.
struct Beside {
  std::string name = {};         // of the other one; empty: there is none
  Parts compared = 0;            // that both show
  bool in_order = true;          // the free queue; false: as a set
  Level level = Level::profile;  // of the other one
  std::string left_out = {};     // operations that one of the two does not declare
};

struct Opened {
  std::unique_ptr<Subject> subject;  // null if it cannot be built from this configuration
  Demands demands;
  Beside beside = {};
};

/// An allocator that can be built and asked.
struct Candidate {
  std::string name;
  std::string option = {};   // names it on a command line, for the replay
  std::string address = {};  // by which another process finds it: its name, or a library's path
  std::string hash = {};     // the named block hash whose keys it makes; empty: none
  std::string beside = {};   // the name of the other one if this is two; see beside.h
  bool foreign = false;
  std::function<Opened(const CacheConfig&)> open;
  std::function<void(bool)> hurry = [](bool) {};  // as ForeignProgram::hurry
  /// As ForeignProgram::suppose; null if it cannot be judged by other traits.
  std::function<void(std::optional<Traits>)> suppose = {};
};

/// The row of that name. @throws std::invalid_argument that lists the names
[[nodiscard]] const optimized::SubjectRow& find_row(const std::string& name);

/// Builds a row of subjects.h, or of a copy of it. Our managers are whole.
template <class Row>
[[nodiscard]] Opened open_row(const Row& row, const CacheConfig& config) {
  Opened out;
  out.demands.promises.whole = true;
  if constexpr (requires { row.digest; }) {
    out.demands.promises.whole = !row.digest.empty();
  } else {  // a variant
    out.demands.promises.unsupported = row.unsupported(config);
    for (const std::string_view name : row.declines) {
      out.demands.promises.operations &= ~operation_set({name});
    }
    if (!row.shows_keys) out.demands.shown &= ~Parts{kKeys | kIndex | kHashes};
  }
  if (out.demands.promises.unsupported.empty()) out.subject = row.make(config);
  return out;
}

/// An implementation of ours.
[[nodiscard]] Candidate own_candidate(const optimized::SubjectRow& row);
[[nodiscard]] Candidate own_candidate(const optimized::VariantRow& row);

/// All of them.
[[nodiscard]] std::vector<Candidate> own_candidates();

/// Whether this looks like the path of a shared library.
[[nodiscard]] bool is_library(const std::string& text);

/// Whether this names a row of the list or looks like the path of a shared library.
[[nodiscard]] bool names_subject(const std::string& text);

/// Two as one, where another one is named beside it. @pre options.given(). @throws
/// std::invalid_argument that lists the names
[[nodiscard]] Candidate find_candidate(const SubjectOptions& options);

/// The folders of the recorded vectors, of the regressions and of the lens's scenes: beside the
/// sources in a checkout, beside the data of the package when installed; empty if it is in neither
/// place.
[[nodiscard]] std::string vectors_folder();
[[nodiscard]] std::string regressions_folder();
[[nodiscard]] std::string scenes_folder();

}  // namespace kvproof::properties
