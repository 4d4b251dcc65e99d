// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/candidate_or_mutant.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "properties/check/beside.h"
#include "properties/selftest/kill_matrix.h"

namespace kvproof::properties {

Candidate find_candidate_or_mutant(const SubjectOptions& options) {
  const bool named = options.subject_command.empty() && !is_library(options.subject);
  if (!named || optimized::find_subject(options.subject) != nullptr) return find_candidate(options);
  std::string known;
  for (const Seeded& mutant : all_mutants()) {
    known += " " + mutant.id;
    if (mutant.id != options.subject) continue;
    Candidate out;
    out.name = mutant.id;
    out.open = [make = mutant.make](const CacheConfig& config) { return Opened{make(config), {}}; };
    return beside_other(std::move(out), options);
  }
  try {
    return find_candidate(options);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(error.what() + ("; and of seeded bugs:" + known));
  }
}

}  // namespace kvproof::properties
