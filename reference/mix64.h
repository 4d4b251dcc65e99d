// SPDX-License-Identifier: Apache-2.0
// A scrambler of 64 bits, by which tests and measurements make numbers out of seeds and positions.
//
// Source:  the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA'14), a bijection.
#pragma once

#include <cstdint>

#include "reference/layout.h"

namespace kvproof {

/// What SplitMix64 adds to its state before it scrambles it.
inline constexpr std::uint64_t kMixStep = 0x9e3779b97f4a7c15U;

[[nodiscard]] KVPROOF_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// The next number of SplitMix64.
[[nodiscard]] constexpr std::uint64_t next_mix64(std::uint64_t& state) {
  return mix64(state += kMixStep);
}

}  // namespace kvproof
