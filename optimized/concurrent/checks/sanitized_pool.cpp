// SPDX-License-Identifier: Apache-2.0
// `sanitized_pool [POOL]`: a long run of one of the tested pools, in a program that is compiled for
// ThreadSanitizer; without POOL, the pools that it must be silent about or report (sanitized_runs).
//
// Exits with 0, with 1 and a complaint about the run, or with the exit code of ThreadSanitizer.
// KVPROOF_SEED is the seed.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/run.h"

int main(int argc, char** argv) {
  namespace concurrency = kvproof::properties::concurrency;
  if (argc == 1) {
    for (const concurrency::PoolRow& row : concurrency::tested_pools()) {
      const bool reported = (row.rejected_by & concurrency::thread_sanitizer) != 0;
      if (!reported && row.rejected_by != 0) continue;
      std::printf("%s\t%s\n", row.name, reported ? "ThreadSanitizer: data race" : "");
    }
    return 0;
  }
  const concurrency::MakePool make = argc == 2 ? concurrency::tested_pool(argv[1]) : nullptr;
  if (make == nullptr) {
    std::fprintf(stderr, "usage: sanitized_pool [POOL]\n");
    return 2;
  }
  alarm(60);  // [s] a pool without a lock may never end
  const char* seed = std::getenv("KVPROOF_SEED");
  concurrency::Runner runner(make);
  runner.on_threads({.seed = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1,
                     .num_threads = std::max(2U, std::thread::hardware_concurrency()),
                     .num_calls = 10'000},
                    1);
  std::printf("%llu calls, %llu hits\n%s\n", static_cast<unsigned long long>(runner.num_calls),
              static_cast<unsigned long long>(runner.num_hits), runner.complaint.c_str());
  return runner.whole() ? 0 : 1;
}
