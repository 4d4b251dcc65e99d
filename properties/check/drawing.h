// SPDX-License-Identifier: Apache-2.0
// Draws the state before and after an operation for people: one line for each queue, block,
// request and lease, with - and + where it changed.
#pragma once

#include <string>

#include "properties/story/key_numbers.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// @param names Keys are named by their numbers; new ones get the next. Without it they start at A.
/// @return lines that end with a newline. Blocks without a holder and without a key are left out
/// unless they changed.
[[nodiscard]] std::string draw_change(const Snapshot& before, const Snapshot& after,
                                      KeyNumbers& names);
[[nodiscard]] std::string draw_change(const Snapshot& before, const Snapshot& after);

[[nodiscard]] std::string draw_state(const Snapshot& state, KeyNumbers& names);
[[nodiscard]] std::string draw_state(const Snapshot& state);

}  // namespace kvproof::properties
