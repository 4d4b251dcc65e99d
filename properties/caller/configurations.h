// SPDX-License-Identifier: Apache-2.0
// The list of managers for random runs: which groups, with or without a prefix cache and a host
// tier. Sizes are drawn per run.
//
// A row is named after its groups. Unless the row says otherwise, block sizes are equal, there is a
// prefix cache, and requests fork, truncate and are pinned. What no row of the list has is drawn:
// draw_row() in sources/random/generators.h makes a row of features.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "reference/config.h"

namespace kvproof::properties {

struct Abilities;  // caller/abilities.h

/// How long a window is, beside its block.
enum class WindowLength { drawn, third_of_block, block };

/// One group of a row; `units` gives its block size in hash units.
struct GroupShape {
  LayerKind kind = LayerKind::full;
  std::uint32_t units = 1;
  bool eagle = false;
  MambaMode mode = MambaMode::none;
  std::uint32_t speculative_blocks = 0;
  WindowLength window = WindowLength::drawn;
  bool twin = false;  // like the group before it, whatever was drawn for that; eagle may differ
};

/// At most six, as one list.
class GroupShapes {
 public:
  constexpr GroupShapes(std::initializer_list<GroupShape> shapes) : size_(shapes.size()) {
    std::copy(shapes.begin(), shapes.end(), shapes_.begin());
  }
  constexpr void push_back(const GroupShape& shape) { shapes_.at(size_++) = shape; }
  [[nodiscard]] constexpr auto begin() { return shapes_.begin(); }
  [[nodiscard]] constexpr auto end() { return begin() + size_; }
  [[nodiscard]] constexpr auto begin() const { return shapes_.begin(); }
  [[nodiscard]] constexpr auto end() const { return begin() + size_; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }

 private:
  std::array<GroupShape, 6> shapes_{};
  std::size_t size_;
};

/// The blocks of a pool: some for each group; hardly enough for one request; or so many that the
/// index has more chunks than they need at least.
enum class PoolSize { usual, tight, wide };

struct Configuration {
  std::string_view name;
  std::string_view sentence;
  GroupShapes groups;
  bool caching = true;
  bool sharing = true;     // fork, truncate, pin, unpin
  bool host_tier = false;  // swap_out, swap_in, complete
  bool tail_keys = false;  // the policy prompt_tail_keys
  PoolSize pool = PoolSize::usual;
  std::uint32_t unit_tokens = 0;      // per hash unit; 0 = drawn, 1 to 4
  const Abilities* within = nullptr;  // of a subject that has not all; what is drawn stays inside

  [[nodiscard]] constexpr bool has(LayerKind kind) const {
    for (const GroupShape& shape : groups) {
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
constexpr GroupShape mamba(MambaMode mode, std::uint32_t drafts, GroupShape shape = {}) {
  shape.kind = LayerKind::mamba;
  shape.mode = mode;
  shape.speculative_blocks = drafts;
  return shape;
}
}  // namespace shape

inline constexpr Configuration kConfigurations[] = {
    {.name = "plain",
     .sentence = "one full group without forks, leases and tiers",
     .groups = {shape::kFull},
     .sharing = false},
    {"full", "one full or MLA group", {shape::kFull}},
    {"full_eagle", "a draft head drops the last hit block", {shape::kEagle}},
    {.name = "full_uncached",
     .sentence = "no prefix cache",
     .groups = {shape::kFull},
     .caching = false},
    {.name = "full_host",
     .sentence = "a host tier of few blocks",
     .groups = {shape::kFull},
     .host_tier = true},
    {.name = "full_uncached_host",
     .sentence = "swaps without keys",
     .groups = {shape::kFull},
     .caching = false,
     .host_tier = true},
    {"window", "one sliding window", {shape::kWindow}},
    {"window_eagle", "a window behind a draft head", {shape::kWindowEagle}},
    {.name = "window_uncached",
     .sentence = "recycling alone",
     .groups = {shape::kWindow},
     .caching = false},
    {"chunked", "one chunked local group", {shape::kChunks}},
    {"full_window", "the usual hybrid", {shape::kFull, shape::kWindow}},
    {"full2_window", "full blocks twice as long", {shape::kFullOf2, shape::kWindow}},
    {"full_window2", "window blocks twice as long", {shape::kFull, shape::kWindowOf2}},
    {"full2_window3", "neither divides the other", {shape::kFullOf2, shape::kWindowOf3}},
    {"full_window_eagle", "both drop", {shape::kEagle, shape::kWindowEagle}},
    {"full2_window_eagle",
     "only the window drops, below the alignment",
     {shape::kFullOf2, shape::kWindowEagle}},
    {"full_two_windows", "two windows", {shape::kFull, shape::kWindow, shape::kWindowOf2}},
    {"two_fulls_window",
     "blocks of two lengths, and a window",
     {shape::kFull, shape::kFullOf2, shape::kWindow}},
    {"eagle_two_windows",
     "a draft head before two windows",
     {shape::kEagle, shape::kWindowEagle, shape::kWindowOf2}},
    {"full_two_windows_eagle",
     "two windows, one of which drops",
     {shape::kFull, shape::kWindowEagle, shape::kWindowOf2}},
    {.name = "full_window_host",
     .sentence = "a hybrid with a host tier",
     .groups = {shape::kFull, shape::kWindow},
     .host_tier = true},
    {"full_chunked", "full and chunked local", {shape::kFull, shape::kChunks}},
    {.name = "full_cross",
     .sentence = "encoder rows; no prefix cache",
     .groups = {shape::kFull, shape::kCross},
     .caching = false},
    {.name = "full_mamba_none",
     .sentence = "running states only",
     .groups = {shape::kFull, shape::mamba(MambaMode::none, 0)},
     .caching = false},
    {.name = "full_mamba_none_drafts",
     .sentence = "running states and two for drafts",
     .groups = {shape::kFull, shape::mamba(MambaMode::none, 2)},
     .caching = false},
    {"full_mamba_all", "a state per block", {shape::kFull, shape::mamba(MambaMode::all, 0)}},
    {"full_mamba_all_drafts",
     "a state per block, two for drafts",
     {shape::kFull, shape::mamba(MambaMode::all, 2)}},
    {"full_mamba_all_eagle",
     "a state per block behind a draft head",
     {shape::kEagle, shape::mamba(MambaMode::all, 0, {.eagle = true})}},
    {"full_mamba_align",
     "the running state moves",
     {shape::kFull, shape::mamba(MambaMode::align, 0)}},
    {"full_mamba2_align_drafts",
     "running states move over longer blocks, two for drafts",
     {shape::kFull, shape::mamba(MambaMode::align, 2, {.units = 2})}},
    {"full_mamba_align_eagle",
     "states behind a draft head",
     {shape::kEagle, shape::mamba(MambaMode::align, 2, {.eagle = true})}},
    {.name = "full_mamba_host",
     .sentence = "states in the host tier",
     .groups = {shape::kFull, shape::mamba(MambaMode::align, 0)},
     .host_tier = true},
    {"full_window_mamba",
     "three kinds at once",
     {shape::kFull, shape::kWindow, shape::mamba(MambaMode::all, 0)}},
    {.name = "prompt_tails",
     .sentence = "a second key where a prompt ends inside a block",
     .groups = {shape::kFullOf2, shape::kWindow},
     .tail_keys = true},
    {.name = "prompt_tails_eagle",
     .sentence = "a prompt's key comes before that of its block",
     .groups = {shape::kFullOf2Eagle, shape::kWindow},
     .tail_keys = true},
    {"full2_mamba2_align",
     "hits inside of blocks, where a profile has them",
     {shape::kFullOf2, shape::mamba(MambaMode::align, 0, {.units = 2})}},
};

/// Stands for the rows that draw_row() makes, and has what some of them have.
inline constexpr Configuration kSwarm{
    .name = "swarm",
    .sentence = "drawn for each run, so that no pair of features is absent",
    .groups = {shape::kFull, shape::kWindow},
    .host_tier = true,
    .tail_keys = true};

[[nodiscard]] constexpr const Configuration* find_configuration(std::string_view name) {
  if (name == kSwarm.name) return &kSwarm;
  for (const Configuration& row : kConfigurations) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::properties
