// SPDX-License-Identifier: Apache-2.0
// Switches a seeded fault on while an implementation runs, and off while its result is judged.
#pragma once

#include "kernels/fault.h"

namespace kvproof::properties {

#if defined(KVPROOF_KERNEL_FAULTS)
/// What an ArmedFault switches on: a number in kernel_mutants.h; 0: nothing.
inline int fault_to_arm = 0;
#endif

class ArmedFault {
 public:
#if defined(KVPROOF_KERNEL_FAULTS)
  ArmedFault() { kernels::active_fault = fault_to_arm; }
  ~ArmedFault() { kernels::active_fault = 0; }
#else
  ArmedFault() = default;
  ~ArmedFault() {}  // not trivial: a guard is no unused variable
#endif
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;
};

}  // namespace kvproof::properties
