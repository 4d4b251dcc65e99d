// SPDX-License-Identifier: Apache-2.0
// Seeded faults of the kernels: they exist only in the build that the mutant tests link.
#pragma once

#if defined(KVPROOF_KERNEL_FAULTS)
namespace kvproof::kernels {

/// The mutant that is switched on: its id in properties/kernels/kernel_mutants.h, or 0.
inline int active_fault = 0;

/// A read that no compiler leaves out.
template <class T>
void read_once(const volatile T* at) {
  static_cast<void>(*at);
}

}  // namespace kvproof::kernels
#define KVPROOF_FAULT(id) (::kvproof::kernels::active_fault == (id))
#define KVPROOF_FAULTY_READ(id, place) \
  (KVPROOF_FAULT(id) ? ::kvproof::kernels::read_once(&(place)) : void())
#else
/// Whether mutant `id` is switched on; in all other builds a constant false.
#define KVPROOF_FAULT(id) false
/// With mutant `id` reads `place` and throws the value away; in all other builds nothing.
#define KVPROOF_FAULTY_READ(id, place) static_cast<void>(sizeof(place))
#endif
