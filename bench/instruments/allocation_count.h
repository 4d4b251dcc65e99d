// SPDX-License-Identifier: Apache-2.0
// Counts, per thread, how often this program asks for memory with operator new.
#pragma once

#include <cstdint>

namespace kvproof::bench {

/// Calls of operator new in this thread since it started. Every program that links this file
/// counts.
[[nodiscard]] std::uint64_t num_allocations();

}  // namespace kvproof::bench
