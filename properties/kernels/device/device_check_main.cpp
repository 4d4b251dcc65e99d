// SPDX-License-Identifier: Apache-2.0
// Program device_check: the properties of the kernels on the first CUDA device.
// Exit codes: 0 holds, 1 violated, 2 usage, 77 no device.
#include <cuda_runtime_api.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "properties/kernels/attention_checks.h"

namespace {

using namespace kvproof::properties;

struct Options {
  int rounds = 40;
  int size = 2;
  int seconds = 100;  // no round starts later
};

bool read_number(std::string_view text, std::string_view name, int& out) {
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0;
}

int violated(const Finding& finding) {
  std::printf("violated: %s\n", finding->c_str());
  return 1;
}

int check_attention_rows(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto rows = attention_rows("cuda/");
  AttentionTally tally;
  int done = 0;
  for (; done < options.rounds; ++done) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > options.seconds) break;
    const auto seed = static_cast<std::uint64_t>(done);
    if (const Finding finding = attention_round(seed, options.size, rows, tally)) {
      return violated(finding);
    }
  }
  std::printf("attention: %d rounds of %d\n", done, options.rounds);
  for (const auto& [name, row] : tally.rows) {
    std::printf("  %s: ran %d, refused %d, largest error %.3f of its bound\n", name.c_str(),
                row.ran, row.refused, row.most_used);
    if (row.ran == 0) {
      std::printf("violated: %s never ran: %s\n", name.c_str(), row.reason.c_str());
      return 1;
    }
  }
  return done == 0 || tally.rows.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (read_number(argv[i], "--rounds=", options.rounds)) continue;
    if (read_number(argv[i], "--size=", options.size)) continue;
    if (read_number(argv[i], "--seconds=", options.seconds)) continue;
    std::fprintf(stderr,
                 "device_check: '%s': expected --rounds=N, --size=N or --seconds=N, 0 or more\n",
                 argv[i]);
    return 2;
  }
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices);
      error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "device_check: no CUDA device: %s\n",
                 error == cudaSuccess ? "none is there" : cudaGetErrorString(error));
    return 77;
  }
  return check_attention_rows(options);
}
