// SPDX-License-Identifier: Apache-2.0
// The occasions of a step: which parts of the state differ around it, and what was asked and
// answered. A law names the occasions on which a step can break it.
//
// Model:   a law that held after the operation before holds still on a step without any of its
//          occasions, because it would read the same. The parts are compared, not guessed from the
//          operation: what a subject changes in secret is an occasion, too. The first step of a run
//          has all occasions.
#pragma once

#include <cstdint>

#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

using Occasions = std::uint32_t;

namespace on {
// These parts differ:
inline constexpr Occasions pool = 1U << 0U;      // of the device
inline constexpr Occasions host = 1U << 1U;      // the host pool
inline constexpr Occasions names = 1U << 2U;     // of requests; then all that is theirs differs
inline constexpr Occasions holders = 1U << 3U;   // tables of both tiers, leases, raw blocks
inline constexpr Occasions tokens = 1U << 4U;    // how many requests have and have computed
inline constexpr Occasions hashes = 1U << 5U;    // of requests
inline constexpr Occasions progress = 1U << 6U;  // of requests
inline constexpr Occasions counters = 1U << 7U;  // of hits, of work
// What was answered:
inline constexpr Occasions refused = 1U << 8U;
inline constexpr Occasions rejected = 1U << 9U;
inline constexpr Occasions granted = 1U << 10U;
inline constexpr Occasions events = 1U << 11U;  // there are some
inline constexpr Occasions done = 1U << 12U;    // neither refused nor rejected, nor a pure read
inline constexpr Occasions held = 1U << 13U;    // the same of operations that move holders
// What was asked:
inline constexpr Occasions allocate = 1U << 14U;
inline constexpr Occasions take = 1U << 15U;
inline constexpr Occasions lookup = 1U << 16U;
inline constexpr Occasions common_prefix = 1U << 17U;
inline constexpr Occasions read = 1U << 18U;  // what only asks, step, recycle
inline constexpr Occasions cache = 1U << 19U;
inline constexpr Occasions reset = 1U << 20U;
inline constexpr Occasions fork = 1U << 21U;
inline constexpr Occasions free = 1U << 22U;
inline constexpr Occasions lease = 1U << 23U;  // pin and unpin, and while there are leases
inline constexpr Occasions swap = 1U << 24U;   // swap_out, swap_in, complete
inline constexpr Occasions decode = 1U << 25U;

inline constexpr Occasions of_requests = names | holders | tokens | hashes | progress;
inline constexpr Occasions any = ~Occasions{0};
}  // namespace on

[[nodiscard]] Occasions occasions_of(const Snapshot& before, const Operation& operation,
                                     const Outcome& outcome, const Snapshot& after);

}  // namespace kvproof::properties
