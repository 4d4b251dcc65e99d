// SPDX-License-Identifier: Apache-2.0
// Measures times with the device's own events.
#include <algorithm>
#include <cstdio>

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
    : num_processors_(num_processors),
      flush_(flush_bytes()),
      sink_(sizeof(std::uint32_t)),
      stamps_(static_cast<std::size_t>(num_processors) * 4 * sizeof(std::uint64_t)) {
  expect(cudaEventCreate(&start_), "cudaEventCreate");
  expect(cudaEventCreate(&stop_), "cudaEventCreate");
  expect(cudaMemset(flush_.as<void>(), 1, flush_.size()), "cudaMemset");
}

Stopwatch::~Stopwatch() {
  static_cast<void>(cudaEventDestroy(start_));
  static_cast<void>(cudaEventDestroy(stop_));
}

Stopwatch::Taken Stopwatch::once(const std::function<void()>& launch, Cache cache) {
  const int launches = cache == Cache::hot ? kHotLaunches : 1;
  auto* const stamps = stamps_.as<std::uint64_t>();
  expect(cudaMemset(stamps, 0, stamps_.size()), "cudaMemset");
  if (cache == Cache::cold) {  // fills L2 by reading: modified lines would be written back later
    read_all(flush_.as<void>(), flush_.size(), sink_.as<std::uint32_t>(), num_processors_);
  } else {
    launch();
  }
  stamp_clocks(stamps, num_processors_);
  expect(cudaEventRecord(start_), "cudaEventRecord");
  for (int i = 0; i < launches; ++i) launch();
  expect(cudaEventRecord(stop_), "cudaEventRecord");
  stamp_clocks(stamps + 2 * num_processors_, num_processors_);
  expect(cudaEventSynchronize(stop_), "what was timed");
  float milliseconds = 0;
  expect(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
  const double us = double{milliseconds} * 1000 / launches;
  return {us, us * cycles_per_us()};
}

/// The clock between the stamps, a median over the processors that have both; 0 if none has.
double Stopwatch::cycles_per_us() const {
  const auto count = static_cast<std::size_t>(num_processors_);
  std::vector<std::uint64_t> stamps(4 * count);
  expect(cudaMemcpy(stamps.data(), stamps_.as<void>(), stamps_.size(), cudaMemcpyDeviceToHost),
         "stamps");
  std::vector<double> clocks;
  for (std::size_t i = 0; i < 2 * count; i += 2) {
    const std::uint64_t* const before = &stamps[i];
    const std::uint64_t* const after = before + 2 * count;
    if (before[1] == 0 || after[1] <= before[1]) continue;
    clocks.push_back(1000 * static_cast<double>(after[0] - before[0]) /
                     static_cast<double>(after[1] - before[1]));
  }
  std::ranges::sort(clocks);
  return clocks.empty() ? 0 : clocks[clocks.size() / 2];
}

void Stopwatch::probe(const Probe& probe, std::string_view row,
                      const std::function<void()>& launch) {
  for (int i = 0; i < probe.launches; ++i) {
    read_all(flush_.as<void>(), flush_.size(), sink_.as<std::uint32_t>(), num_processors_);
    expect(cudaDeviceSynchronize(), "the flush");
    expect(cudaProfilerStart(), "cudaProfilerStart");
    launch();
    expect(cudaDeviceSynchronize(), "the launch");
    expect(cudaProfilerStop(), "cudaProfilerStop");
  }
  std::printf("%s, %d launches\n", std::string(row).c_str(), probe.launches);
}

std::vector<Times> Stopwatch::time(std::span<const std::function<void()>> launches, Cache cache,
                                   int rounds) {
  std::vector<std::vector<Taken>> found(launches.size());
  for (const auto& launch : launches) static_cast<void>(once(launch, cache));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      found[i].push_back(once(launches[i], cache));
    }
  }
  std::vector<Times> out;
  for (auto& of_launch : found) {
    const std::size_t middle = of_launch.size() / 2;
    std::ranges::sort(of_launch, {}, &Taken::cycles);
    const double cycles = of_launch[middle].cycles;
    std::ranges::sort(of_launch, {}, &Taken::us);
    out.push_back({of_launch[middle].us, of_launch.front().us, of_launch.back().us, cycles});
  }
  return out;
}

}  // namespace kvproof::bench
