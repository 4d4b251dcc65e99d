// SPDX-License-Identifier: Apache-2.0
// Fuzz target: operations on optimized/, windows, chunks, states and several groups, audited by all
// oracles.
#include "properties/sources/fuzz/fuzz_target.h"
#include "properties/sources/fuzz/manager_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvproof::properties;
  fuzz_manager({data, size}, FuzzScope::all_others, fuzzed_optimized());
  return 0;
}
