// SPDX-License-Identifier: Apache-2.0
// What both programs for the first CUDA device begin and end with.
#pragma once

#include <cstdio>

#include "bench/kernels/device/cases.h"

namespace kvproof::bench {

/// @return the program's exit code: 0 done, 1 something went wrong on the device, 77 no device
template <class Body>
int on_first_device(const char* program, const Body& body) {
  int devices = 0, num_processors = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices);
      error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "%s: no CUDA device: %s\n", program,
                 error == cudaSuccess ? "none is there" : cudaGetErrorString(error));
    return 77;
  }
  try {
    expect(cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, 0),
           "processors");
    Stopwatch stopwatch(num_processors);
    Bench bench{num_processors, 0, 0, stopwatch};
    body(bench);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
  return 0;
}

}  // namespace kvproof::bench
