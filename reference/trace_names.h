// SPDX-License-Identifier: Apache-2.0
// The words that a trace uses for the values of enumerations, in the order of the values.
#pragma once

#include <iterator>
#include <string_view>
#include <variant>

#include "reference/operations.h"

namespace kvproof {

inline constexpr std::string_view kOperationNames[] = {
    "arrive", "append",   "advance", "lookup",        "allocate", "free",    "finish",   "recycle",
    "cache",  "evict",    "reset",   "common_prefix", "step",     "take",    "touch",    "release",
    "fork",   "truncate", "pin",     "unpin",         "swap_out", "swap_in", "complete", "decode"};
static_assert(std::size(kOperationNames) == std::variant_size_v<OperationVariant>);
inline constexpr std::string_view kStatusNames[] = {"waiting", "running", "preempted"};
inline constexpr std::string_view kKindNames[] = {
    "full", "mla", "sliding_window", "chunked_local", "mamba", "cross", "rswa", "ring"};
inline constexpr std::string_view kModeNames[] = {"none", "all", "align"};

}  // namespace kvproof
