// SPDX-License-Identifier: Apache-2.0
// Program device_bench: measures the kernels on the first CUDA device and prints results as lines.
// Exit codes: 0 measured, 1 something went wrong on the device, 2 usage, 77 no device.
#include <cstdio>
#include <cstring>

#include "bench/kernels/device/cases.h"

int main(int argc, char** argv) {
  using namespace kvproof::bench;
  const bool smoke = argc == 2 && std::strcmp(argv[1], "--smoke") == 0;
  if (argc > 1 && !smoke) {
    std::fprintf(stderr, "device_bench: unknown option '%s'; expected nothing or --smoke\n",
                 argv[1]);
    return 2;
  }
  int devices = 0, num_processors = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices);
      error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "device_bench: no CUDA device: %s\n",
                 error == cudaSuccess ? "none is there" : cudaGetErrorString(error));
    return 77;
  }
  try {
    expect(cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, 0),
           "processors");
    Stopwatch stopwatch(num_processors);
    Bench bench{num_processors, smoke ? 3 : 15, 0, stopwatch};
    bench.copy_bytes_per_us = measure_ceilings(bench);
    measure_multiply(bench);
    measure_decode(bench, smoke);
    measure_prefill(bench, smoke);
    measure_mla(bench, smoke);
    measure_reshape(bench, smoke);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
