// SPDX-License-Identifier: Apache-2.0
// Fuzz target: two logical threads at the concurrent pool, their interleaving from the input.
#include "properties/fuzz/fuzz_target.h"
#include "properties/fuzz/pool_script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvproof;
  const auto result = properties::run_pool_script<optimized::AtomicHolders>({data, size});
  properties::fuzz_meter.add_input(result.num_calls);
  if (!result.complaint.empty()) properties::fuzz_failed(result.complaint);
  return 0;
}
