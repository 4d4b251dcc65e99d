// SPDX-License-Identifier: Apache-2.0
// The stress of the concurrent pool as a program of its own, compiled for ThreadSanitizer:
// `sanitized_stress none|queue|index|readers SEED`, the lock that is removed and the seed.
//
// Exits with 0, with 1 and a complaint of the stress, or with the exit code of ThreadSanitizer.
#include "optimized/concurrent/checks/sanitized_stress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "optimized/concurrent/checks/concurrent_stress.h"
#include "optimized/concurrent/concurrent_pool.h"

int main(int argc, char** argv) {
  using namespace kvproof;
  namespace concurrency = kvproof::properties::concurrency;
  if (argc != 3) return 2;
  alarm(60);  // [s] a pool without a lock may never end
  const std::string_view removed = argv[1];
  const concurrency::StressPlan plan{
      .num_threads = std::max(2U, std::thread::hardware_concurrency()),
      .num_calls = 10'000,
      .seed = std::strtoull(argv[2], nullptr, 10)};
  const concurrency::StressReport report =
      removed == "none"
          ? concurrency::stress<optimized::ConcurrentPool<optimized::Key128>, std::uint64_t>(plan)
          : concurrency::stress_without(removed, plan);
  std::printf("%u threads, %u calls each, %llu takes, %llu hits\n", plan.num_threads,
              plan.num_calls, static_cast<unsigned long long>(report.num_taken),
              static_cast<unsigned long long>(report.num_hits));
  if (report.complaint.empty()) return 0;
  std::printf("%s\n", report.complaint.c_str());
  return 1;
}
