// SPDX-License-Identifier: Apache-2.0
// Explains the lookups of a request log, and bounds what any pool of its size could have kept.
#pragma once

#include "bench/hit_rate/replay_prompts.h"
#include "properties/explain/operations.h"

namespace kvproof::bench {

/// Replays the prompts as replay_prompts.h does and explains the lookup of each. A request is named
/// by its position in the log, from 0. A refused prompt hits nothing, as there.
[[nodiscard]] properties::Explanations explain_log(const ReopenableSource& source,
                                                   const ReplayOptions& options);

/// The tokens that the offline optimum of bounds.h hits, of what these blocks are used for.
[[nodiscard]] std::uint64_t optimum_of(const properties::Explanations& explanations);

}  // namespace kvproof::bench
