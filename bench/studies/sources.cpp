// SPDX-License-Identifier: Apache-2.0
// Opens the requests that studies play, as often as they need them.
#include "bench/requests/workloads.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {

ReopenableSource workload_source(std::string_view name, const StudyOptions& options) {
  const Workload& workload = *find_workload(name);
  const std::int64_t requests = options.smoke ? workload.smoke_requests : workload.full_requests;
  return workload.source(options.seed, requests);
}

std::vector<ReopenableSource> all_sources(const StudyOptions& options) {
  std::vector<ReopenableSource> sources = options.logs;
  for (const Workload& workload : kWorkloads) {
    sources.push_back(workload_source(workload.name, options));
  }
  return sources;
}

}  // namespace kvproof::bench
