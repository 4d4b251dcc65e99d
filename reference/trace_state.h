// SPDX-License-Identifier: Apache-2.0
// Reads the state of a line of a trace, which may lack parts, and writes one with every part.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "reference/ids.h"
#include "reference/snapshot.h"
#include "reference/trace_json.h"

namespace kvproof {

/// Writes an id as its integer. The JSON library finds this function by the namespace of the id.
template <class Json, class Kind>
void to_json(Json& out, Id<Kind> id) {
  out = std::uint32_t{id};
}

/// Reads what parse_answer reads, parsed already. @throws TextError
[[nodiscard]] TraceLine answer_of(const Operation& operation, const nlohmann::json& parsed);

/// @throws TextError
[[nodiscard]] RecordedState read_state(const nlohmann::json& state);

/// Every part of a snapshot, so that reading it again loses nothing.
[[nodiscard]] nlohmann::ordered_json state_json(const Snapshot& state);

}  // namespace kvproof
