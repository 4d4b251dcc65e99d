// SPDX-License-Identifier: Apache-2.0
// Draws the state before and after an operation for people: one line for each queue, block,
// request and lease, with - and + where it changed.
#pragma once

#include <string>

#include "reference/snapshot.h"

namespace kvproof::properties {

/// @return lines that end with a newline. Keys are named A, B, ... in the order in which they are
/// seen. Blocks without a holder and without a key are left out unless they changed.
[[nodiscard]] std::string draw_change(const Snapshot& before, const Snapshot& after);

[[nodiscard]] std::string draw_state(const Snapshot& state);

}  // namespace kvproof::properties
