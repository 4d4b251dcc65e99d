// SPDX-License-Identifier: Apache-2.0
// `sanitized_pool POOL SEED`: a long run of one of the tested pools, in a program that is compiled
// for ThreadSanitizer.
//
// Exits with 0, with 1 and a complaint about the run, or with the exit code of ThreadSanitizer.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/run.h"

int main(int argc, char** argv) {
  namespace concurrency = kvproof::properties::concurrency;
  const concurrency::MakePool make = argc == 3 ? concurrency::tested_pool(argv[1]) : nullptr;
  if (make == nullptr) {
    std::fprintf(stderr, "usage: sanitized_pool POOL SEED\n");
    return 2;
  }
  alarm(60);  // [s] a pool without a lock may never end
  concurrency::Runner runner(make);
  runner.on_threads({.seed = std::strtoull(argv[2], nullptr, 10),
                     .num_threads = std::max(2U, std::thread::hardware_concurrency()),
                     .num_calls = 10'000},
                    1);
  std::printf("%llu calls, %llu hits\n%s\n", static_cast<unsigned long long>(runner.num_calls),
              static_cast<unsigned long long>(runner.num_hits), runner.complaint.c_str());
  return runner.whole() ? 0 : 1;
}
