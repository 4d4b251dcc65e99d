// SPDX-License-Identifier: Apache-2.0
// Switches a seeded fault on while an implementation runs, and off while its result is judged.
#pragma once

#include "kernels/fault.h"

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

#if defined(KVPROOF_KERNEL_FAULTS)
/// The fault that an ArmedFault switches on: a number in kernel_mutants.h; 0 for none.
inline int fault_to_arm = 0;
#endif

class ArmedFault {
 public:
#if defined(KVPROOF_KERNEL_FAULTS)
  ArmedFault() { kernels::active_fault = fault_to_arm; }
  ~ArmedFault() { kernels::active_fault = 0; }
#else
  ArmedFault() = default;
  ~ArmedFault() {}  // not trivial, so that no compiler calls the guard an unused variable
#endif
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;
};

}  // namespace kvproof::properties
