// SPDX-License-Identifier: Apache-2.0
// The state before and after an operation, drawn for people: one line for each queue, block,
// request and lease, with - and + where it changed.
#pragma once

#include <string>

#include "reference/snapshot.h"

namespace kvproof::properties {

/// Lines with a newline each. Keys are named A, B, ... in the order in which they are seen; blocks
/// that nobody holds and that carry no key are left out unless they changed.
[[nodiscard]] std::string draw_change(const Snapshot& before, const Snapshot& after);

[[nodiscard]] std::string draw_state(const Snapshot& state);

}  // namespace kvproof::properties
