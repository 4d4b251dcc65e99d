// SPDX-License-Identifier: Apache-2.0
// Says which source patch is in force; every patched place of a copy asks.
//
// Model:   one number per thread, made from the id of the patch, 0 = none. Inside of a constant
//          expression no patch is in force.
// Source:  mutant schemata (Untch, Offutt, Harrold, ISSTA'93): one compile holds every mutant.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace kvproof::patched {

/// Which patch. Two ids of one list never have the same number: the writer of the copy refuses it.
struct PatchId {
  std::uint32_t number = 0;  // none

  constexpr PatchId() = default;
  consteval PatchId(const char* id) : PatchId(std::string_view(id)) {}  // NOLINT: implicit
  constexpr explicit PatchId(std::string_view id) {
    for (const char c : id) number = (number ^ static_cast<unsigned char>(c)) * 16777619U + 1;
  }
  bool operator==(const PatchId&) const = default;
};

struct FaultMemory;  // what a patch may remember: museum_faults.h

inline constinit thread_local PatchId active_patch;
inline constinit thread_local FaultMemory* active_memory = nullptr;

constexpr bool patch_is_on(PatchId id) {
  return !std::is_constant_evaluated() && active_patch == id;
}

/// Reads a place and throws the value away; no compiler leaves that out.
template <class T>
void read_once(const volatile T& place) {
  static_cast<void>(*&place);
}

/// Puts a patch in force until the end of the scope.
class PatchScope {
 public:
  explicit PatchScope(PatchId id, FaultMemory* memory = nullptr)
      : before_(active_patch), memory_before_(active_memory) {
    active_patch = id;
    active_memory = memory;
  }
  ~PatchScope() {
    active_patch = before_;
    active_memory = memory_before_;
  }
  PatchScope(const PatchScope&) = delete;
  PatchScope& operator=(const PatchScope&) = delete;

 private:
  PatchId before_;
  FaultMemory* memory_before_;
};

}  // namespace kvproof::patched
