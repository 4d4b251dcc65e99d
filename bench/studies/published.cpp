// SPDX-License-Identifier: Apache-2.0
// Study: claims that others have published, simulated with the settings that they state.
#include "bench/studies/published.h"

#include <cmath>
#include <iterator>
#include <memory>
#include <string>

namespace kvproof::bench {
namespace {

Metric metric_over(const Band& band, const std::string& unit) {
  return {band.value, unit, band.low, band.high};
}

}  // namespace

double while_waiting(const Simulation& run, double ServingMoment::*part) {
  double sum = 0;
  double count = 0;
  for (const ServingMoment& sample : run.samples) {
    if (sample.waiting == 0) continue;
    sum += sample.*part;
    ++count;
  }
  return count > 0 ? sum / count : run.average.*part;
}

Simulation serve_drawn(std::uint64_t seed, std::uint64_t num_requests, std::int64_t ids_block_size,
                       const DrawRequest& draw, const SimulationOptions& options) {
  return simulate(drawn(seed, num_requests, ids_block_size, draw), options);
}

std::uint32_t blocks_for(double bytes, const SimulationOptions& options) {
  return static_cast<std::uint32_t>(
      bytes / (options.engine.time.model.kv_bytes_per_token * options.block_size));
}

std::vector<Result> published(const StudyOptions& options) {
  std::vector<Result> out;
  double done = 0;
  for (const PublishedClaim& claim : kPublishedClaims) {
    options.report(done++ / static_cast<double>(std::size(kPublishedClaims)));
    for (const PublishedRow& row : claim.run(options)) {
      Result& result = out.emplace_back(Result{"published",
                                               {{"claim", std::string(claim.key)},
                                                {"source", std::string(claim.source)},
                                                {"series", row.series},
                                                {"at", row.at}},
                                               {{"here", metric_over(row.here, row.unit)}}});
      if (!row.published) continue;
      result.metrics.emplace_back("published", metric_over(*row.published, row.unit));
    }
  }
  return out;
}

}  // namespace kvproof::bench
