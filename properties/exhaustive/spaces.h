// SPDX-License-Identifier: Apache-2.0
// The list of small spaces: those that close are searched by default, and at night also one that is
// cut off.
#pragma once

#include <string_view>

#include "properties/exhaustive/space.h"

namespace kvproof::properties::exhaustive {

inline constexpr GroupConfig kFull{.kind = LayerKind::full, .block_size = 2};
inline constexpr GroupConfig kWindow{
    .kind = LayerKind::sliding_window, .block_size = 2, .window = 2};

inline constexpr Space kSpaces[] = {
    {.name = "lone",
     .sentence = "one request against what it left behind",
     .usable_blocks = 3,
     .requests = 1,
     .shortest_prompt = 1,
     .longest_prompt = 3,
     .max_tokens = 4,
     .extras = kCommonPrefix,
     .groups = {kFull}},
    {.name = "full",
     .sentence = "prompts of a block, and a decoded token",
     .usable_blocks = 3,
     .requests = 2,
     .shortest_prompt = 2,
     .longest_prompt = 2,
     .max_tokens = 3,
     .extras = kNone,
     .groups = {kFull}},
    {.name = "full_chunks",
     .sentence = "prompts of a block and a half, in chunks",
     .usable_blocks = 3,
     .requests = 2,
     .shortest_prompt = 3,
     .longest_prompt = 3,
     .max_tokens = 3,
     .extras = kNone,
     .groups = {kFull}},
    {.name = "full_roomy",
     .sentence = "as full_chunks, with a block to spare",
     .usable_blocks = 4,
     .requests = 2,
     .shortest_prompt = 3,
     .longest_prompt = 3,
     .max_tokens = 3,
     .extras = kNone,
     .groups = {kFull}},
    {.name = "uncached",
     .sentence = "no prefix cache",
     .usable_blocks = 3,
     .requests = 2,
     .shortest_prompt = 3,
     .longest_prompt = 3,
     .max_tokens = 4,
     .caching = false,
     .extras = kCommonPrefix,
     .groups = {kFull}},
    {.name = "window",
     .sentence = "a window of two tokens",
     .usable_blocks = 3,
     .requests = 2,
     .shortest_prompt = 2,
     .longest_prompt = 2,
     .max_tokens = 3,
     .extras = kRecycle,
     .groups = {kWindow}},
    {.name = "hybrid",
     .sentence = "full attention beside a window",
     .usable_blocks = 4,
     .requests = 2,
     .shortest_prompt = 3,
     .longest_prompt = 3,
     .max_tokens = 3,
     .extras = kRecycle,
     .groups = {kFull, kWindow},
     .num_groups = 2},
    {.name = "raw",
     .sentence = "evictions, and a raw owner",
     .usable_blocks = 3,
     .requests = 1,
     .shortest_prompt = 2,
     .longest_prompt = 2,
     .max_tokens = 3,
     .extras = kEvict | kRaw,
     .groups = {kFull}},
    {.name = "drafts",
     .sentence = "lookahead, truncation, late publication, the whole-sequence gate",
     .usable_blocks = 3,
     .requests = 1,
     .shortest_prompt = 3,
     .longest_prompt = 3,
     .max_tokens = 4,
     .extras = kDelayed | kDrafts | kGate,
     .groups = {kFull}},
    {.name = "forks",
     .sentence = "copy before write",
     .usable_blocks = 3,
     .requests = 2,
     .shortest_prompt = 1,
     .longest_prompt = 1,
     .max_tokens = 3,
     .extras = kFork | kCommonPrefix,
     .groups = {kFull}},
    {.name = "three",
     .sentence = "three requests, longer prompts, more blocks",
     .usable_blocks = 5,
     .requests = 3,
     .shortest_prompt = 2,
     .longest_prompt = 4,
     .max_tokens = 6,
     .extras = kCommonPrefix,
     .groups = {kFull},
     .cut_at = 100'000'000},
};

[[nodiscard]] constexpr const Space* find_space(std::string_view name) {
  for (const Space& row : kSpaces) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::properties::exhaustive
