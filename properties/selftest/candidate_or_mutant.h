// SPDX-License-Identifier: Apache-2.0
// Turns a name into an allocator or into a seeded bug.
#pragma once

#include "properties/check/candidate.h"

namespace kvproof::properties {

/// As find_candidate; the name may also be that of a seeded bug.
[[nodiscard]] Candidate find_candidate_or_mutant(const SubjectOptions& options);

}  // namespace kvproof::properties
