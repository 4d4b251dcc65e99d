// SPDX-License-Identifier: Apache-2.0
// `sanitized_kernels_test address|thread PROGRAM SOURCE`: the sanitized kernels are silent as they
// are, and each seeded fault is reported: an element written past the end of shared memory, at its
// line of SOURCE, the copy with the faults; barriers removed one at a time.
//
// Where ThreadSanitizer cannot start, this exits with 77 and says so.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "optimized/concurrent/checks/sanitized_run.h"

namespace {

using kvproof::properties::run_sanitized;
using kvproof::properties::SanitizedRun;

/// "attention_general.cuh:<line>" of the first line with `text`.
std::string place_of(const char* source, const char* text) {
  std::ifstream in(source);
  std::string line;
  for (int n = 1; std::getline(in, line); ++n) {
    if (line.find(text) != std::string::npos) return "attention_general.cuh:" + std::to_string(n);
  }
  return "nowhere";
}

/// Whether the report's first frame is at `place`. GCC's sanitizer may know no line; binutils does.
bool is_at(const SanitizedRun& ended, const char* program, const std::string& place) {
  if (ended.says(place)) return true;
  const std::size_t frame = ended.output.find("#0 ");
  const std::size_t offset = ended.output.find("+0x", frame);
  const std::size_t end = ended.output.find(')', offset);
  if (frame == std::string::npos || offset == std::string::npos || end == std::string::npos) {
    return false;
  }
  const std::string address = ended.output.substr(offset + 1, end - offset - 1);
  const SanitizedRun line = run_sanitized({"addr2line", "-e", program, address});
  return line.says(place + "\n") || line.says(place + " (");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: sanitized_kernels_test address|thread PROGRAM SOURCE\n");
    return 2;
  }
  const bool threads = std::string(argv[1]) == "thread";
  const char* seeds = threads ? "3" : "8";
  const std::string overrun = place_of(argv[3], "patch_is_on(\"6\")");
  const char* report = threads ? "ThreadSanitizer: data race" : "heap-buffer-overflow";
  int result = 0;
  for (const char* fault : {"0", "1", "2", "3", "4", "5", "6"}) {
    const bool none = *fault == '0';
    if (!none && threads != (*fault < '6')) continue;
    const auto start = std::chrono::steady_clock::now();
    const SanitizedRun ended = run_sanitized({argv[2], fault, seeds});
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (ended.could_not_start()) {
      std::printf(
          "skipped: ThreadSanitizer cannot run where address-space randomisation cannot be "
          "switched off\n");
      return 77;
    }
    const bool reported = ended.says(report) && (threads || is_at(ended, argv[2], overrun));
    const bool expected = none ? ended.exit_code == 0 : reported;
    std::printf("%s, fault %s: %s, as %s (%.1f s)\n", argv[1], fault,
                reported ? "reported" : "silent", expected ? "expected" : "NOT expected", seconds);
    if (expected) continue;
    std::printf("%s\nagain: %s %s %s\n", ended.output.c_str(), argv[2], fault, seeds);
    result = 1;
  }
  return result;
}
