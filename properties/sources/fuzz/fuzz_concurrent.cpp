// SPDX-License-Identifier: Apache-2.0
// Fuzz target: threads use the concurrent pool, the input decides their interleaving, and each
// history is checked for linearizability against the pure model.
#include "optimized/concurrent/checks/broken_pools.h"
#include "properties/sources/fuzz/fuzz_target.h"
#include "properties/sources/fuzz/history_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvproof::properties;
  static concurrency::Runner runner(concurrency::tested_pool("sound"));
  const std::uint64_t before = runner.num_calls;
  concurrency::run_history_input(runner, {data, size});
  fuzz_meter.add_input(runner.num_calls - before);
  if (!runner.whole()) fuzz_failed(runner.complaint);
  return 0;
}
