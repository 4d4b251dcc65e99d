// SPDX-License-Identifier: Apache-2.0
// Program device_probe: launches one kernel of one case, for a profiler. Nothing is timed; L2 holds
// other bytes, and a profiler that waits for cudaProfilerStart sees those launches alone.
//   device_probe CASE [--launches=N] [--row=cuda/...]
//   ncu --profile-from-start off --set full build/device-90a/device_probe mla128
// Exit codes: 0 launched, 1 something went wrong on the device, 2 usage, 77 no device.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>

#include "bench/kernels/device/first_device.h"

namespace kvproof::bench {
namespace {

void decode(const Bench& bench, DecodeCase c) {
  if (!bench.probe->row.empty()) c.row = bench.probe->row;
  measure(bench, c, Cache::cold);
}

constexpr struct {
  const char* name;
  void (*run)(const Bench&);
} kCases[] = {
    {"prefill", [](const Bench& b) { measure(b, PrefillCase{}); }},
    {"mla16", [](const Bench& b) { measure(b, MlaCase{.num_heads = 16}); }},
    {"mla128", [](const Bench& b) { measure(b, MlaCase{}); }},
    {"e4m3", [](const Bench& b) { decode(b, {.cache_type = kernels::ElementType::fp8_e4m3}); }},
    {"one", [](const Bench& b) { decode(b, {.batch = 1}); }},
    {"full", [](const Bench& b) { decode(b, {}); }},
};

int usage(std::string_view word) {
  std::fprintf(stderr, "device_probe: '%s': expected a case (", std::string(word).c_str());
  for (const auto& known : kCases) std::fprintf(stderr, "%s ", known.name);
  std::fprintf(stderr, "), --launches=1 to 1000, --row=NAME\n");
  return 2;
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof::bench;
  Probe probe;
  void (*run)(const Bench&) = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--row=")) {
      probe.row = word.substr(6);
    } else if (word.starts_with("--launches=")) {
      const char* const end = word.data() + word.size();
      const auto [at, error] = std::from_chars(word.data() + 11, end, probe.launches);
      if (at != end || error != std::errc{} || probe.launches < 1 || probe.launches > 1000) {
        return usage(word);
      }
    } else {
      const auto* const known =
          std::ranges::find(kCases, word, [](const auto& c) { return std::string_view(c.name); });
      if (run != nullptr || known == std::end(kCases)) return usage(word);
      run = known->run;
    }
  }
  if (run == nullptr) return usage("");
  return on_first_device("device_probe", [&](Bench& bench) {
    bench.probe = &probe;
    run(bench);
  });
}
