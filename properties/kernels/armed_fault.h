// SPDX-License-Identifier: Apache-2.0
// Switches a seeded fault on while an implementation runs, and off while its result is judged.
#pragma once

#include "properties/selftest/active_patch.h"

namespace kvproof::properties {

/// Whether the kernels of this build run under AddressSanitizer: it ends a program that reads or
/// writes outside of an array.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressesAreChecked = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressesAreChecked = true;
#else
inline constexpr bool kAddressesAreChecked = false;
#endif
#else
inline constexpr bool kAddressesAreChecked = false;
#endif

/// The patch that an ArmedFault puts in force: a fault of kernel_mutants.h. Only the copy of
/// kernels/ asks for it.
inline patched::PatchId fault_to_arm;

class ArmedFault {
 public:
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;
  ArmedFault() = default;

 private:
  patched::PatchScope scope_{fault_to_arm};
};

}  // namespace kvproof::properties
