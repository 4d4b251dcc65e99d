// SPDX-License-Identifier: Apache-2.0
// Says which source patch is in force; every patched place of the copy of optimized/ asks.
//
// Model:   one number per thread, 0 = none. Inside of a constant expression no patch is in force.
// Source:  mutant schemata (Untch, Offutt, Harrold, ISSTA'93): one compile holds every mutant.
#pragma once

#include <cstddef>
#include <type_traits>

namespace kvproof::patched {

inline constinit thread_local std::size_t active_patch = 0;

constexpr bool patch_is_on(std::size_t number) {
  return !std::is_constant_evaluated() && active_patch == number;
}

/// Puts a patch in force until the end of the scope.
class PatchScope {
 public:
  explicit PatchScope(std::size_t number) : before_(active_patch) { active_patch = number; }
  ~PatchScope() { active_patch = before_; }
  PatchScope(const PatchScope&) = delete;
  PatchScope& operator=(const PatchScope&) = delete;

 private:
  std::size_t before_;
};

}  // namespace kvproof::patched
