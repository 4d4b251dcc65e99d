// SPDX-License-Identifier: Apache-2.0
// How far the oracles reach with a subject: which laws may be demanded of what it promises and
// shows, and on which steps each of them has something to say.
#pragma once

#include <cstddef>
#include <string>

#include "properties/audit/audit.h"
#include "properties/caller/promises.h"
#include "properties/laws/laws.h"

namespace kvproof::properties {

/// What a subject promises, and what it shows.
struct Demands {
  Promises promises;
  Parts shown = kAllParts;
};

/// @return why this law cannot be demanded; empty when it can.
[[nodiscard]] std::string why_left_out(const Law& law, const CacheConfig& config,
                                       const Demands& demands);

/// The oracles that can be consulted: laws row by row, content where blocks have ids, the model
/// where the subject promises this profile.
[[nodiscard]] Oracles oracles_for(const CacheConfig& config, const Demands& demands);

/// Whether a run with these operations should give a law something to say.
[[nodiscard]] bool is_about(const Law& law, const CacheConfig& config, const OperationSet& asked);

/// Whether the configuration has what the law is about.
[[nodiscard]] bool is_about(const Law& law, const CacheConfig& config);

}  // namespace kvproof::properties
