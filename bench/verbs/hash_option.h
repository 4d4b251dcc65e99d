// SPDX-License-Identifier: Apache-2.0
// The option --hash of the verbs that run one of our own managers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/verbs/command_line.h"
#include "optimized/subjects.h"
#include "properties/check/subject_options.h"

namespace kvproof::bench {

/// @param hash empty until it is given; it must outlive the parse
/// @param subjects the options that name an allocator, in whose place this one stands
inline CommandLine::Option add_hash_option(CommandLine& line, std::string& hash,
                                           std::vector<CommandLine::Option> subjects) {
  std::vector<std::string> hashes;
  for (const auto& row : optimized::kAllSubjects) {
    if (!row.hash.empty()) hashes.emplace_back(row.hash);
  }
  return line
      .option("--hash", hash, "of the blocks: our own manager with these keys, for --subject")
      .one_of(std::move(hashes))
      .not_with(std::move(subjects));
}

/// Makes the manager with that hash the subject, if one was given.
inline void choose_by_hash(const std::string& hash, properties::SubjectOptions& subject) {
  if (!hash.empty()) subject.subject = optimized::find_manager(hash)->name;
}

}  // namespace kvproof::bench
