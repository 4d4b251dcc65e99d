// SPDX-License-Identifier: Apache-2.0
// `thread_sanitizer_test PROGRAM`: runs sanitized_pool, which must be silent about the sound pool
// and must report a race of each pool that lacks a lock.
//
// Where ThreadSanitizer cannot start, this exits with 77 and says so.
#include <cstdio>
#include <cstdlib>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/sanitized_run.h"

int main(int argc, char** argv) {
  namespace concurrency = kvproof::properties::concurrency;
  if (argc != 2) {
    std::fprintf(stderr, "usage: thread_sanitizer_test PROGRAM\n");
    return 2;
  }
  const char* seed = std::getenv("KVPROOF_SEED") != nullptr ? std::getenv("KVPROOF_SEED") : "1";
  int result = 0;
  for (const concurrency::PoolRow& row : concurrency::tested_pools()) {
    const bool sound = row.rejected_by == 0;
    if (!sound && (row.rejected_by & concurrency::thread_sanitizer) == 0) continue;
    const auto ended = kvproof::properties::run_sanitized({argv[1], row.name, seed});
    if (ended.could_not_start()) {
      std::printf(
          "skipped: ThreadSanitizer cannot run where address-space randomisation cannot be "
          "switched off\n");
      return 77;
    }
    const bool raced = ended.says("WARNING: ThreadSanitizer: data race");
    const bool expected = sound ? !raced && ended.exit_code == 0 : raced;
    std::printf("seed %s, %s: %s, as %s\n", seed, row.name, raced ? "a data race" : "no data race",
                expected ? "expected" : "NOT expected");
    if (expected) continue;
    std::printf("%s\nagain: %s '%s' %s\n", ended.output.c_str(), argv[1], row.name, seed);
    result = 1;
  }
  return result;
}
