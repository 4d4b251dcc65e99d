// SPDX-License-Identifier: Apache-2.0
// Shared by all fuzz targets: the entry that fuzzers call, and the count of inputs and operations.
//
// Model:   a target is one source that defines LLVMFuzzerTestOneInput, the entry of libFuzzer, of
//          AFL++ and of OSS-Fuzz; fuzz_driver.cpp calls it for files, under any compiler.
// Ends:    an input that breaks something never returns: the target says what broke and aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace kvproof::properties {

/// Counts inputs and operations, and prints the counts when the program ends normally.
class FuzzMeter {
 public:
  FuzzMeter() = default;
  FuzzMeter(const FuzzMeter&) = delete;
  FuzzMeter& operator=(const FuzzMeter&) = delete;
  ~FuzzMeter() {
    if (inputs_ == 0) return;
    const double seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    std::fprintf(stderr, "fuzzed: %llu inputs, %llu operations, %.2f s of processor time\n",
                 static_cast<unsigned long long>(inputs_),
                 static_cast<unsigned long long>(operations_), seconds);
  }

  void add_input(std::uint64_t operations) {
    ++inputs_;
    operations_ += operations;
  }

 private:
  std::uint64_t inputs_ = 0;
  std::uint64_t operations_ = 0;
};

inline FuzzMeter fuzz_meter;

[[noreturn]] inline void fuzz_failed(const std::string& what) {
  std::fprintf(stderr, "fuzz target failed: %s\n", what.c_str());
  std::abort();
}

}  // namespace kvproof::properties
