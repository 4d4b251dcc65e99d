// SPDX-License-Identifier: Apache-2.0
// Program device_bench: measures the kernels on the first CUDA device and prints results as lines.
// Exit codes: 0 measured, 1 something went wrong on the device, 2 usage, 77 no device.
#include <cstdio>
#include <cstring>

#include "bench/kernels/device/first_device.h"

int main(int argc, char** argv) {
  using namespace kvproof::bench;
  const bool smoke = argc == 2 && std::strcmp(argv[1], "--smoke") == 0;
  if (argc > 1 && !smoke) {
    std::fprintf(stderr, "device_bench: unknown option '%s'; expected nothing or --smoke\n",
                 argv[1]);
    return 2;
  }
  return on_first_device("device_bench", [&](Bench& bench) {
    bench.rounds = smoke ? 3 : 15;
    bench.copy_bytes_per_us = measure_ceilings(bench);
    measure_multiply(bench);
    measure_decode(bench, smoke);
    measure_prefill(bench, smoke);
    measure_mla(bench, smoke);
    measure_reshape(bench, smoke);
  });
}
