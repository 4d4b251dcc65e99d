// SPDX-License-Identifier: Apache-2.0
// Measures times with the device's own events.
#include <algorithm>

#include "bench/kernels/device/device.h"

namespace kvproof::bench {
namespace {

constexpr int kHotLaunches = 20;

std::size_t flush_bytes() {
  int device = 0, l2 = 0;
  expect(cudaGetDevice(&device), "cudaGetDevice");
  expect(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device), "L2 size");
  return std::max<std::size_t>(std::size_t{4} * static_cast<std::size_t>(l2), 64u << 20);
}

}  // namespace

Stopwatch::Stopwatch(int num_processors)
    : num_processors_(num_processors), flush_(flush_bytes()), sink_(sizeof(std::uint32_t)) {
  expect(cudaEventCreate(&start_), "cudaEventCreate");
  expect(cudaEventCreate(&stop_), "cudaEventCreate");
  expect(cudaMemset(flush_.as<void>(), 1, flush_.size()), "cudaMemset");
}

Stopwatch::~Stopwatch() {
  static_cast<void>(cudaEventDestroy(start_));
  static_cast<void>(cudaEventDestroy(stop_));
}

double Stopwatch::once(const std::function<void()>& launch, Cache cache) {
  const int launches = cache == Cache::hot ? kHotLaunches : 1;
  if (cache == Cache::cold) {  // fills L2 by reading: modified lines would be written back later
    read_all(flush_.as<void>(), flush_.size(), sink_.as<std::uint32_t>(), num_processors_);
  } else {
    launch();
  }
  expect(cudaEventRecord(start_), "cudaEventRecord");
  for (int i = 0; i < launches; ++i) launch();
  expect(cudaEventRecord(stop_), "cudaEventRecord");
  expect(cudaEventSynchronize(stop_), "what was timed");
  float milliseconds = 0;
  expect(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
  return double{milliseconds} * 1000 / launches;
}

std::vector<Times> Stopwatch::time(std::span<const std::function<void()>> launches, Cache cache,
                                   int rounds) {
  std::vector<std::vector<double>> found(launches.size());
  for (const auto& launch : launches) static_cast<void>(once(launch, cache));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      found[i].push_back(once(launches[i], cache));
    }
  }
  std::vector<Times> out;
  for (auto& of_launch : found) {
    std::ranges::sort(of_launch);
    out.push_back({of_launch[of_launch.size() / 2], of_launch.front(), of_launch.back()});
  }
  return out;
}

}  // namespace kvproof::bench
