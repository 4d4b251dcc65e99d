// SPDX-License-Identifier: Apache-2.0
// Compiled with -Doptimized=mutated, and with the mutated copy before the sources: what it includes
// of optimized/ is that copy, in namespace kvproof::mutated.
#include "optimized/subjects.h"
#include "optimized/variants.h"
#include "properties/selftest/operators/operator_mutants.h"

namespace kvproof::properties {

std::vector<MutatedSubject> mutated_subjects() {
  std::vector<MutatedSubject> out;
  const auto add = [&out](const auto& row, std::string_view hash) {
    out.push_back({std::string(row.name),
                   [&row](const CacheConfig& config) { return open_row(row, config); },
                   std::string(hash)});
  };
  for (const auto& row : optimized::kAllSubjects) {
    if (!row.digest.empty()) add(row, row.hash);
  }
  for (const auto& row : optimized::kVariants) add(row, {});
  return out;
}

}  // namespace kvproof::properties
