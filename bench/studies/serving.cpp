// SPDX-License-Identifier: Apache-2.0
// Study: the same requests served from the same memory by every storage.
#include <iterator>
#include <string>

#include "bench/requests/log_size.h"
#include "bench/requests/sources.h"
#include "bench/serving/simulate.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kClients = 256;  // a closed loop: some request always waits
constexpr std::uint64_t kLongest = 8;    // so many of the longest request fit: memory is the limit
constexpr std::uint64_t kMostRequests = 2'000;

}  // namespace

std::vector<Result> serving(const StudyOptions& options) {
  std::vector<ReopenableSource> sources = options.logs;
  for (const char* name : {"chat", "long_tail"}) {
    if (options.workloads) sources.push_back(workload_source(name, options));
  }
  const std::uint64_t most = options.smoke ? 50 : kMostRequests;
  std::vector<Result> out;
  double done = 0;
  for (const ReopenableSource& source : sources) {
    const ReopenableSource first = leading(source, most);
    const std::uint64_t longest =
        size_of(*first.open(), SimulationOptions{}.block_size, TokenMode::as_recorded).max_tokens;
    for (const StorageRow& row : kStorages) {
      SimulationOptions run;
      run.clients = kClients;
      run.capacity_blocks =
          static_cast<std::uint32_t>(kLongest * ceil_div<std::uint64_t>(longest, run.block_size));
      run.storage = row.name;
      run.engine.max_running = kClients;
      const Simulation found = simulate(first, run);
      const Parameters parameters = {{"source", source.name},
                                     {"storage", std::string(row.name)},
                                     {"card", std::string(run.engine.time.card.name)},
                                     {"model", std::string(run.engine.time.model.name)},
                                     {"block_size", std::int64_t{run.block_size}},
                                     {"capacity_blocks", std::int64_t{*run.capacity_blocks}},
                                     {"clients", std::int64_t{kClients}}};
      Metrics metrics = metrics_of(found);
      std::erase_if(metrics, [](const auto& metric) { return metric.first == "wall_seconds"; });
      out.push_back({"serving_run", parameters, std::move(metrics)});
      std::ranges::move(samples_of(found, parameters), std::back_inserter(out));
      options.report(++done / static_cast<double>(sources.size() * std::size(kStorages)));
    }
  }
  return out;
}

}  // namespace kvproof::bench
