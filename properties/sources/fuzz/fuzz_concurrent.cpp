// SPDX-License-Identifier: Apache-2.0
// Fuzz target: threads use the concurrent pool, the input decides their interleaving, and each
// history is checked for linearizability against the pure model.
#include "optimized/concurrent/checks/scheduled_pool.h"
#include "properties/sources/fuzz/fuzz_target.h"
#include "properties/sources/fuzz/history_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvproof;
  using Holders = properties::concurrency::Interrupted<optimized::AtomicHolders>;
  constexpr auto kMakePool =
      properties::concurrency::make_pool<optimized::ScheduledPool<optimized::Key128, Holders>>;
  static properties::concurrency::HistoryFibers fibers(kMakePool);
  const std::uint64_t before = fibers.report.num_calls;
  properties::concurrency::run_history_input(fibers, kMakePool, {data, size});
  properties::fuzz_meter.add_input(fibers.report.num_calls - before);
  if (!fibers.report.complaint.empty()) properties::fuzz_failed(fibers.report.complaint);
  return 0;
}
