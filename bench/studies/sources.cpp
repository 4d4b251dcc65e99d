// SPDX-License-Identifier: Apache-2.0
// Opens the requests that studies play, as often as they need.
#include <filesystem>

#include "bench/requests/open_log.h"
#include "bench/requests/workloads.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {

StudySource workload_source(std::string_view name, const StudyOptions& options) {
  const Workload& workload = *find_workload(name);
  const std::int64_t requests = options.smoke ? workload.smoke_requests : workload.full_requests;
  return {std::string(name),
          [&workload, requests, seed = options.seed] { return workload.open(seed, requests); }};
}

std::vector<StudySource> all_sources(const StudyOptions& options) {
  std::vector<StudySource> sources = options.traces;
  for (const Workload& workload : kWorkloads) {
    sources.push_back(workload_source(workload.name, options));
  }
  return sources;
}

StudySource trace_source(const std::string& path) {
  constexpr TraceOptions kOptions{.max_tokens = std::int64_t{1} << 20};
  return {std::filesystem::path(path).filename().string(),
          [path] { return open_trace(path, kOptions); }};
}

}  // namespace kvproof::bench
