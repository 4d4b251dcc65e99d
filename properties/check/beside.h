// SPDX-License-Identifier: Apache-2.0
// Two allocators as one subject: the same operations go to both, and what both show must be equal.
//
// Asked:    valid calls that both declare, within the abilities of both.
// Judged:   the oracles judge the first alone; where they hold, a difference is an objection.
// Compared: answers, and of events and states the parts that both show, block id for block id. Keys
//           may be other ones: a key of the first must always be the same key of the second.
#pragma once

#include "properties/check/candidate.h"

namespace kvproof::properties {

/// The allocator beside the one that the options name; alone if they name none. @throws
/// std::invalid_argument
[[nodiscard]] Candidate beside_other(Candidate first, const SubjectOptions& options);

}  // namespace kvproof::properties
