// SPDX-License-Identifier: Apache-2.0
// What every fuzz target shares: the entry that fuzzers call, and the count of what it did.
//
// Model:   a target is one source that defines LLVMFuzzerTestOneInput, the entry of libFuzzer, of
//          AFL++ and of OSS-Fuzz; fuzz_driver.cpp calls it for files, under any compiler.
// Refuses: to return from an input that breaks something: a target says what broke and aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace kvproof::properties {

/// Counts inputs and operations, and says so when the program ends as it should.
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
