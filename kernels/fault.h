// SPDX-License-Identifier: Apache-2.0
// Seeded faults of the kernels: they exist only in the build that the mutant tests link.
#pragma once

#if defined(KVPROOF_KERNEL_FAULTS)
namespace kvproof::kernels {

/// The mutant that is switched on: its id in properties/kernels/kernel_mutants.h, or 0.
inline int active_fault = 0;

}  // namespace kvproof::kernels
#define KVPROOF_FAULT(id) (::kvproof::kernels::active_fault == (id))
#else
/// Whether mutant `id` is switched on; in all other builds a constant false.
#define KVPROOF_FAULT(id) false
#endif
