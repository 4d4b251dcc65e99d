// SPDX-License-Identifier: Apache-2.0
// The small spaces that are searched: by default those that close, at night one that is cut off.
#pragma once

#include <string_view>

#include "properties/exhaustive/space.h"

namespace kvproof::properties::exhaustive {

inline constexpr GroupConfig kFull{.kind = LayerKind::full, .block_size = 2};
inline constexpr GroupConfig kWindow{
    .kind = LayerKind::sliding_window, .block_size = 2, .window = 2};

inline constexpr Space kSpaces[] = {
    {"lone",
     "one request against what it left behind",
     3,
     1,
     1,
     3,
     4,
     true,
     kCommonPrefix,
     {kFull}},
    {"full", "prompts of a block, and a decoded token", 3, 2, 2, 2, 3, true, kNone, {kFull}},
    {"full_chunks",
     "prompts of a block and a half, in chunks",
     3,
     2,
     3,
     3,
     3,
     true,
     kNone,
     {kFull}},
    {"full_roomy", "as full_chunks, with a block to spare", 4, 2, 3, 3, 3, true, kNone, {kFull}},
    {"uncached", "no prefix cache", 3, 2, 3, 3, 4, false, kCommonPrefix, {kFull}},
    {"window", "a window of two tokens", 3, 2, 2, 2, 3, true, kRecycle, {kWindow}},
    {"hybrid",
     "full attention beside a window",
     4,
     2,
     3,
     3,
     3,
     true,
     kRecycle,
     {kFull, kWindow},
     2},
    {"raw", "evictions, and a raw owner", 3, 1, 2, 2, 3, true, kEvict | kRaw, {kFull}},
    {"drafts",
     "lookahead, truncation, late publication, the whole-sequence gate",
     3,
     1,
     3,
     3,
     4,
     true,
     kDelayed | kDrafts | kGate,
     {kFull}},
    {"forks", "copy before write", 3, 2, 1, 1, 3, true, kFork | kCommonPrefix, {kFull}},
    {"three",
     "three requests, longer prompts, more blocks",
     5,
     3,
     2,
     4,
     6,
     true,
     kCommonPrefix,
     {kFull},
     1,
     100'000'000},
};

/// @return the row of that name, or nullptr.
[[nodiscard]] constexpr const Space* find_space(std::string_view name) {
  for (const Space& row : kSpaces) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::properties::exhaustive
