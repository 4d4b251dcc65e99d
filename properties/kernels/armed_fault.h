// SPDX-License-Identifier: Apache-2.0
// Switches a seeded fault on while an implementation runs, and off while its result is judged.
#pragma once

#include "kernels/fault.h"

namespace kvproof::properties {

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
