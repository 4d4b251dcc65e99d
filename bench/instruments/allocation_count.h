// SPDX-License-Identifier: Apache-2.0
// How often this program asked for memory: operator new, counted per thread.
#pragma once

#include <cstdint>

namespace kvproof::bench {

/// Calls of operator new in this thread, since it started. Whoever links this counts.
[[nodiscard]] std::uint64_t num_allocations();

}  // namespace kvproof::bench
