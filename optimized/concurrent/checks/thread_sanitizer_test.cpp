// SPDX-License-Identifier: Apache-2.0
// `thread_sanitizer_test PROGRAM`: runs sanitized_stress, which must be silent with all locks and
// must be caught with any one of them removed.
//
// Where ThreadSanitizer cannot start, this exits with 77 and says so.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "optimized/concurrent/checks/sanitized_run.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: thread_sanitizer_test PROGRAM\n");
    return 2;
  }
  const char* seed = std::getenv("KVPROOF_SEED") != nullptr ? std::getenv("KVPROOF_SEED") : "1";
  int result = 0;
  for (const char* removed : {"none", "queue", "index", "readers"}) {
    const auto start = std::chrono::steady_clock::now();
    const auto ended = kvproof::properties::run_sanitized({argv[1], removed, seed});
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (ended.could_not_start()) {
      std::printf(
          "skipped: ThreadSanitizer cannot run where address-space randomisation cannot be "
          "switched off\n");
      return 77;
    }
    const bool raced = ended.says("WARNING: ThreadSanitizer: data race");
    const bool expected = std::string(removed) == "none" ? !raced && ended.exit_code == 0 : raced;
    std::printf("seed %s, removed lock: %s: %s, as %s (%.1f s)\n", seed, removed,
                raced ? "a data race" : "no data race", expected ? "expected" : "NOT expected",
                seconds);
    if (expected) continue;
    std::printf("%s\nagain: %s %s %s\n", ended.output.c_str(), argv[1], removed, seed);
    result = 1;
  }
  return result;
}
