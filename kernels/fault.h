// SPDX-License-Identifier: Apache-2.0
// Seeded faults of the kernels: nothing in every build but the one that the mutant tests link.
#pragma once

#if defined(KVPROOF_KERNEL_FAULTS)
namespace kvproof::kernels {

/// Which mutant is switched on: its id in properties/kernels/kernel_mutants.h; 0: none.
inline int active_fault = 0;

}  // namespace kvproof::kernels
#define KVPROOF_FAULT(id) (::kvproof::kernels::active_fault == (id))
#else
/// True where mutant `id` is switched on; a constant false otherwise.
#define KVPROOF_FAULT(id) false
#endif
