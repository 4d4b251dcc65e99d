// SPDX-License-Identifier: Apache-2.0
// The stress of a concurrent pool that lacks one of its locks.
#pragma once

#include <string_view>

#include "optimized/concurrent/checks/concurrent_stress_thread.h"

namespace kvproof::properties::concurrency {

/// @param removed "queue", "index", or "readers" (the readers of the index do not lock)
[[nodiscard]] StressReport stress_without(std::string_view removed, const StressPlan& plan);

}  // namespace kvproof::properties::concurrency
