// SPDX-License-Identifier: Apache-2.0
// Opens the requests that studies play, as often as they need them.
#include "bench/requests/workloads.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {
namespace {

class FirstRequests final : public RequestSource {
 public:
  FirstRequests(std::unique_ptr<RequestSource> all, std::uint64_t most_blocks)
      : all_(std::move(all)), most_blocks_(most_blocks) {}
  [[nodiscard]] const SourceInfo& info() const override { return all_->info(); }
  bool next(Request& request) override {
    if (blocks_ >= most_blocks_ || !all_->next(request)) return false;
    blocks_ += request.block_ids.size();
    return true;
  }
  [[nodiscard]] double fraction() const override { return all_->fraction(); }

 private:
  std::unique_ptr<RequestSource> all_;
  std::uint64_t most_blocks_;
  std::uint64_t blocks_ = 0;
};

}  // namespace

ReopenableSource workload_source(std::string_view name, const StudyOptions& options) {
  const Workload& workload = *find_workload(name);
  const std::int64_t requests = options.smoke ? workload.smoke_requests : workload.full_requests;
  return workload.source(options.seed, requests);
}

std::vector<ReopenableSource> all_sources(const StudyOptions& options) {
  std::vector<ReopenableSource> sources = options.logs;
  if (!options.workloads) return sources;
  for (const Workload& workload : kWorkloads) {
    sources.push_back(workload_source(workload.name, options));
  }
  return sources;
}

ReopenableSource first_requests(const ReopenableSource& source, std::uint64_t most_blocks) {
  return {source.name, [open = source.open, most_blocks] {
            return std::make_unique<FirstRequests>(open(), most_blocks);
          }};
}

}  // namespace kvproof::bench
