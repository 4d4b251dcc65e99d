// SPDX-License-Identifier: Apache-2.0
// A sound allocator that lies in one way about one operation, as a candidate of a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "properties/check/candidate.h"
#include "properties/selftest/lies/lies.h"

namespace kvproof::properties {

/// What the liar promises, and how much of its state it shows.
struct View {
  std::string_view name;
  Level level;
  bool block_ids;  // if not, it shows numbers only
};

inline constexpr View kViews[] = {{"safety", Level::safety, true},
                                  {"hits", Level::hits, true},
                                  {"policy", Level::policy, true},
                                  {"profile", Level::profile, true},
                                  {"counts_only", Level::safety, false}};

/// How often it lies.
struct Frequency {
  std::string_view name;
  std::uint32_t one_in;  // calls of the operation
};

inline constexpr Frequency kFrequencies[] = {{"seldom", 50}, {"often", 8}, {"always", 1}};

/// @param told counts the lies that could be seen at once: the answer or what is shown differs
[[nodiscard]] Candidate liar(const Lie& lie, std::size_t operation, const View& view,
                             const Frequency& frequency, std::uint64_t seed, std::uint64_t& told);

}  // namespace kvproof::properties
