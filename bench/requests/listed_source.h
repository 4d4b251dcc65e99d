// SPDX-License-Identifier: Apache-2.0
// Requests in a list as a source: of a test, or what another source left.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bench/requests/request.h"

namespace kvproof::bench {

/// Hands out a list of requests.
class ListedSource final : public RequestSource {
 public:
  ListedSource(std::vector<Request> requests, SourceInfo info)
      : requests_(std::move(requests)), info_(std::move(info)) {}
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  bool next(Request& request) override {
    if (next_ == requests_.size()) return false;
    request = requests_[next_++];
    return true;
  }
  [[nodiscard]] double fraction() const override { return 0; }

 private:
  std::vector<Request> requests_;
  SourceInfo info_;
  std::size_t next_ = 0;
};

inline ReopenableSource listed(std::vector<Request> requests, std::int64_t ids_block_size = 16) {
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].index = i;
  const SourceInfo info{"listed", "workload", ids_block_size, true};
  return {"listed", [requests, info] { return std::make_unique<ListedSource>(requests, info); }};
}

}  // namespace kvproof::bench
