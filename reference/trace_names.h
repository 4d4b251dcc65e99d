// SPDX-License-Identifier: Apache-2.0
// The words of a trace for enumerations, in the order of their values.
#pragma once

#include <string_view>

namespace kvproof {

inline constexpr std::string_view kStatusNames[] = {"waiting", "running", "preempted"};
inline constexpr std::string_view kKindNames[] = {"full",          "mla",   "sliding_window",
                                                  "chunked_local", "mamba", "cross"};
inline constexpr std::string_view kModeNames[] = {"none", "all", "align"};

}  // namespace kvproof
