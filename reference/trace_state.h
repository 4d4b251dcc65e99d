// SPDX-License-Identifier: Apache-2.0
// The state of a line of a trace: read into what it says, written with every part.
#pragma once

#include <nlohmann/json.hpp>

#include "reference/snapshot.h"
#include "reference/trace_json.h"

namespace kvproof {

/// @throws TextError
[[nodiscard]] RecordedState read_state(const nlohmann::json& state);

/// Every part of a snapshot, so that reading it again loses nothing.
[[nodiscard]] nlohmann::ordered_json state_json(const Snapshot& state);

}  // namespace kvproof
