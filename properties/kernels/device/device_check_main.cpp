// SPDX-License-Identifier: Apache-2.0
// Program device_check: the properties of the kernels on the first CUDA device.
// Exit codes: 0 holds, 1 violated, 2 usage, 77 no device.
#include <cuda_runtime_api.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <string_view>

#include "properties/kernels/attention_checks.h"
#include "properties/kernels/movement_checks.h"

namespace {

using namespace kvproof::properties;
using kvproof::Finding;

struct Options {
  int rounds = 40;
  int size = 8;
  int seconds = 100;  // no round starts later
};

bool read_number(std::string_view text, std::string_view name, int& out) {
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0;
}

/// Prints the findings. @return whether there are none
bool holds(const Finding& finding) {
  if (finding) std::printf("violated: %s\n", finding->c_str());
  return !finding;
}

constexpr int kEnough = 20;  // rounds after which a row that never ran is a fault of the check

/// Prints how every row fared. @return whether every row of the device ran
template <class Row>
bool all_ran(const std::map<std::string, Row>& rows, int rounds) {
  bool out = !rows.empty();
  for (const auto& [name, row] : rows) {
    std::printf("  %s: ran %d, refused %d\n", name.c_str(), row.ran, row.refused);
    if (row.ran > 0 || rounds < kEnough || name.find("cuda/") == std::string::npos) continue;
    if (row.reason.find("compute capability") != std::string::npos) continue;  // another's
    std::printf("violated: %s never ran: %s\n", name.c_str(), row.reason.c_str());
    out = false;
  }
  return out;
}

bool check_everything(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto rows = attention_rows("cuda/");
  AttentionTally attention;
  MovementTally movement;
  if (!holds(check_attention_grid(rows, attention)) ||
      !holds(check_long_prefills(rows, attention)) ||
      !holds(check_latent_pieces(rows, attention)) ||
      !holds(check_attention_tiles(rows, attention))) {
    return false;
  }
  int done = 0;
  for (; done < options.rounds; ++done) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > options.seconds) break;
    const auto seed = static_cast<std::uint64_t>(done);
    if (!holds(attention_round(seed, options.size, rows, attention)) ||
        !holds(movement_round(seed, options.size + 1, "", movement))) {
      std::printf("seed %d, size %d\n", done, options.size);
      return false;
    }
  }
  std::printf("%d rounds of %d\n", done, options.rounds);
  if (options.size > 0 && (!holds(check_attention_refusals()) || !holds(check_movement_refusals())))
    return false;
  const bool attention_ran = all_ran(attention.rows, done);
  const bool movement_ran = all_ran(movement.rows, done);
  return done > 0 && attention_ran && movement_ran;
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
  try {
    return check_everything(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("violated: %s\n", error.what());
    return 1;
  }
}
