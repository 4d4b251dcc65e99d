// SPDX-License-Identifier: Apache-2.0
// Whether an operation stays within the ways of calling that a subject knows.
//
// Model:   the meaning of the abilities (caller/abilities.h), call by call. What is drawn, shrunk
//          or replayed from a file is held to it, so that nobody is asked what he said he is not.
#pragma once

#include "properties/caller/abilities.h"
#include "properties/laws/history.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// @param state, history as they are before the operation
[[nodiscard]] bool is_within(const Calls& calls, const Operation& operation, const Snapshot& state,
                             const History& history);

}  // namespace kvproof::properties
