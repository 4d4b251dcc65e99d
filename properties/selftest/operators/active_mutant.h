// SPDX-License-Identifier: Apache-2.0
// Says which operator mutant is in force; every schema of the mutated copy of optimized/ asks.
//
// Model:   one number per process, 0 = none: KVPROOF_MUTANT when it starts, then what was set last.
//          Inside of a constant expression none is in force. A run without a mutant leaves behind
//          which of them it would have met: all others behave in that run as if they were none.
// Source:  mutant schemata (Untch, Offutt, Harrold, ISSTA'93): one compile holds every mutant.
#pragma once

#include <cstdint>
#include <type_traits>

namespace kvproof::mutants {

extern std::uint32_t active;
extern bool met[];  // shape [the largest number + 1]

constexpr bool on(std::uint32_t number) {
  if (std::is_constant_evaluated()) return false;
  met[number] = true;
  return active == number;
}

}  // namespace kvproof::mutants
