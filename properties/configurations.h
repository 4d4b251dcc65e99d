// SPDX-License-Identifier: Apache-2.0
// THE LIST of managers that random runs are made with: which groups, with or without a prefix cache
// and a host tier. Sizes are drawn per run.
//
// A row is named after its groups; where nothing is said, block sizes are equal, a prefix cache is
// there, and requests fork, truncate and are pinned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "reference/config.h"

namespace kvproof::properties {

/// One group of a row; its block size is so many units.
struct GroupShape {
  LayerKind kind = LayerKind::full;
  std::uint32_t units = 1;
  bool eagle = false;
  MambaMode mode = MambaMode::none;
  std::uint32_t speculative_blocks = 0;
};

struct Configuration {
  std::string_view name;
  std::string_view sentence;
  std::array<GroupShape, 3> shapes;
  std::size_t num_groups = 1;
  bool caching = true;
  bool sharing = true;     // fork, truncate, pin, unpin
  bool host_tier = false;  // swap_out, swap_in, complete
  bool tail_keys = false;  // the policy prompt_tail_keys

  [[nodiscard]] constexpr std::span<const GroupShape> groups() const {
    return std::span(shapes).first(num_groups);
  }
  [[nodiscard]] constexpr bool has(LayerKind kind) const {
    for (const GroupShape& shape : groups()) {
      if (shape.kind == kind) return true;
    }
    return false;
  }
  [[nodiscard]] constexpr bool can_fork() const { return sharing && !has(LayerKind::mamba); }
};

namespace shape {
inline constexpr GroupShape kFull{};
inline constexpr GroupShape kFullOf2{.units = 2};
inline constexpr GroupShape kEagle{.eagle = true};
inline constexpr GroupShape kWindow{.kind = LayerKind::sliding_window};
inline constexpr GroupShape kFullOf2Eagle{.units = 2, .eagle = true};
inline constexpr GroupShape kWindowOf2{.kind = LayerKind::sliding_window, .units = 2};
inline constexpr GroupShape kWindowOf3{.kind = LayerKind::sliding_window, .units = 3};
inline constexpr GroupShape kWindowEagle{.kind = LayerKind::sliding_window, .eagle = true};
inline constexpr GroupShape kChunks{.kind = LayerKind::chunked_local};
inline constexpr GroupShape kCross{.kind = LayerKind::cross};
constexpr GroupShape mamba(MambaMode mode, std::uint32_t drafts, std::uint32_t units = 1,
                           bool eagle = false) {
  return {LayerKind::mamba, units, eagle, mode, drafts};
}
}  // namespace shape

inline constexpr Configuration kConfigurations[] = {
    {"plain", "one full group without forks, leases and tiers", {shape::kFull}, 1, true, false},
    {"full", "one full or MLA group", {shape::kFull}},
    {"full_eagle", "a draft head drops the last hit block", {shape::kEagle}},
    {"full_uncached", "no prefix cache", {shape::kFull}, 1, false},
    {"full_host", "a host tier of few blocks", {shape::kFull}, 1, true, true, true},
    {"full_uncached_host", "swaps without keys", {shape::kFull}, 1, false, true, true},
    {"window", "one sliding window", {shape::kWindow}},
    {"window_eagle", "a window behind a draft head", {shape::kWindowEagle}},
    {"window_uncached", "recycling alone", {shape::kWindow}, 1, false},
    {"chunked", "one chunked local group", {shape::kChunks}},
    {"full_window", "the usual hybrid", {shape::kFull, shape::kWindow}, 2},
    {"full2_window", "full blocks twice as long", {shape::kFullOf2, shape::kWindow}, 2},
    {"full_window2", "window blocks twice as long", {shape::kFull, shape::kWindowOf2}, 2},
    {"full2_window3", "neither divides the other", {shape::kFullOf2, shape::kWindowOf3}, 2},
    {"full_window_eagle", "both drop", {shape::kEagle, shape::kWindowEagle}, 2},
    {"full2_window_eagle",
     "only the window drops, below the alignment",
     {shape::kFullOf2, shape::kWindowEagle},
     2},
    {"full_two_windows", "two windows", {shape::kFull, shape::kWindow, shape::kWindowOf2}, 3},
    {"two_fulls_window",
     "blocks of two lengths, and a window",
     {shape::kFull, shape::kFullOf2, shape::kWindow},
     3},
    {"eagle_two_windows",
     "a draft head before two windows",
     {shape::kEagle, shape::kWindowEagle, shape::kWindowOf2},
     3},
    {"full_two_windows_eagle",
     "two windows, one of which drops",
     {shape::kFull, shape::kWindowEagle, shape::kWindowOf2},
     3},
    {"full_window_host",
     "a hybrid with a host tier",
     {shape::kFull, shape::kWindow},
     2,
     true,
     true,
     true},
    {"full_chunked", "full and chunked local", {shape::kFull, shape::kChunks}, 2},
    {"full_cross", "encoder rows; no prefix cache", {shape::kFull, shape::kCross}, 2, false},
    {"full_mamba_none",
     "running states only",
     {shape::kFull, shape::mamba(MambaMode::none, 0)},
     2,
     false},
    {"full_mamba_none_drafts",
     "running states and two for drafts",
     {shape::kFull, shape::mamba(MambaMode::none, 2)},
     2,
     false},
    {"full_mamba_all", "a state per block", {shape::kFull, shape::mamba(MambaMode::all, 0)}, 2},
    {"full_mamba_all_drafts",
     "a state per block, two for drafts",
     {shape::kFull, shape::mamba(MambaMode::all, 2)},
     2},
    {"full_mamba_all_eagle",
     "a state per block behind a draft head",
     {shape::kEagle, shape::mamba(MambaMode::all, 0, 1, true)},
     2},
    {"full_mamba_align",
     "the running state moves",
     {shape::kFull, shape::mamba(MambaMode::align, 0)},
     2},
    {"full_mamba2_align_drafts",
     "running states move over longer blocks, two for drafts",
     {shape::kFull, shape::mamba(MambaMode::align, 2, 2)},
     2},
    {"full_mamba_align_eagle",
     "states behind a draft head",
     {shape::kEagle, shape::mamba(MambaMode::align, 2, 1, true)},
     2},
    {"full_mamba_host",
     "states in the host tier",
     {shape::kFull, shape::mamba(MambaMode::align, 0)},
     2,
     true,
     true,
     true},
    {"full_window_mamba",
     "three kinds at once",
     {shape::kFull, shape::kWindow, shape::mamba(MambaMode::all, 0)},
     3},
    {"prompt_tails",
     "a second key where a prompt ends inside a block",
     {shape::kFullOf2, shape::kWindow},
     2,
     true,
     true,
     false,
     true},
    {"prompt_tails_eagle",
     "a prompt's key comes before that of its block",
     {shape::kFullOf2Eagle, shape::kWindow},
     2,
     true,
     true,
     false,
     true},
};

/// @return the row of that name, or nullptr.
[[nodiscard]] constexpr const Configuration* find_configuration(std::string_view name) {
  for (const Configuration& row : kConfigurations) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::properties
