// SPDX-License-Identifier: Apache-2.0
// Times every way to read and to copy memory: the ceilings that kernels are held against.
//
// Workload: 256 MiB that are read, 128 MiB that are copied to 128 others, in huge pages where there
//           are any. All ways run once in a round, one after the other; a rate counts the bytes
//           that are read and those that are written, not what a store reads first.
#include <algorithm>
#include <functional>

#include "bench/instruments/latency.h"
#include "bench/kernels/ceilings.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

struct MemoryAccess {
  std::string operation, kernel;
  int num_threads;
  std::function<void()> run;
  std::vector<double> rates;  // [GB/s] shape [rounds]

  [[nodiscard]] std::string name() const {
    return "memory/" + operation + "/" + kernel + "/threads:" + std::to_string(num_threads);
  }
};

/// @param buffer may be empty where only names are wanted
std::vector<MemoryAccess> all_ways(const HugeBuffer& buffer, std::uint64_t& sum) {
  std::vector<MemoryAccess> out;
  const std::span<std::byte> all(buffer.data(), buffer.size());
  const auto to = all.first(all.size() / 2), from = all.last(all.size() / 2);
  for (const int threads : {1, 2}) {
    for (const ReadKernel kernel : kReadKernels) {
      out.push_back({"read",
                     name_of(kernel),
                     threads,
                     [=, &sum] {
                       const std::span<const std::byte> part(all);
                       sum ^= read_all({&part, 1}, false, kernel, threads);
                     },
                     {}});
    }
    for (const CopyKernel kernel : kCopyKernels) {
      out.push_back(
          {"copy", name_of(kernel), threads, [=] { copy_all(to, from, kernel, threads); }, {}});
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> memory_cases(const BenchOptions&) {
  const HugeBuffer nothing(0);
  std::uint64_t sum = 0;
  std::vector<std::string> names;
  for (const MemoryAccess& way : all_ways(nothing, sum)) names.push_back(way.name());
  return names;
}

std::vector<Result> run_memory_suite(std::span<const std::string> selected,
                                     const BenchOptions& options) {
  const HugeBuffer buffer(options.smoke ? std::size_t{1} << 20 : std::size_t{256} << 20);
  std::uint64_t sum = 0;
  std::vector<MemoryAccess> ways = all_ways(buffer, sum);
  std::erase_if(ways, [&](const MemoryAccess& way) {
    return std::ranges::find(selected, way.name()) == selected.end();
  });
  options.progress->update(0, "memory");
  const double start = now_ns();
  const double enough = options.min_seconds_per_case * static_cast<double>(ways.size()) * 1e9;
  for (int round = 0; round < 5 || now_ns() - start < enough; ++round) {
    for (MemoryAccess& way : ways) {
      const double begin = now_ns();
      way.run();
      way.rates.push_back(static_cast<double>(buffer.size()) / (now_ns() - begin));
    }
  }
  std::vector<Result> out;
  for (MemoryAccess& way : ways) {
    Result& result = out.emplace_back();
    result.experiment = "memory";
    result.parameters = {{"operation", way.operation},
                         {"kernel", way.kernel},
                         {"threads", std::int64_t{way.num_threads}},
                         {"bytes", static_cast<std::int64_t>(buffer.size())},
                         {"checksum", std::to_string(sum)}};
    result.metrics.emplace_back("gb_per_second", metric_of(way.rates, "GB/s"));
  }
  return out;
}

}  // namespace kvproof::bench
