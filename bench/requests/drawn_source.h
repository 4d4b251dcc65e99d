// SPDX-License-Identifier: Apache-2.0
// Requests drawn at random by a rule that a study states, as a source.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "bench/requests/request.h"
#include "bench/requests/workload_random.h"

namespace kvproof::bench {

/// Fills in everything but the index.
using DrawRequest = std::function<void(WorkloadRandom& random, Request& request)>;

class DrawnSource final : public RequestSource {
 public:
  /// @param ids_block_size [tokens] of the ids that the rule writes; 0 = it writes none
  DrawnSource(std::uint64_t seed, std::uint64_t num_requests, std::int64_t ids_block_size,
              DrawRequest draw)
      : random_(seed), num_requests_(num_requests), draw_(std::move(draw)) {
    info_ = {.name = "drawn", .format = "workload", .ids_block_size = ids_block_size};
  }

  [[nodiscard]] const TraceInfo& info() const override { return info_; }
  [[nodiscard]] double fraction() const override {
    return num_requests_ == 0 ? 1 : static_cast<double>(next_) / static_cast<double>(num_requests_);
  }
  bool next(Request& request) override {
    if (next_ == num_requests_) return false;
    request.index = next_++;
    request.block_ids.clear();
    draw_(random_, request);
    return true;
  }

 private:
  TraceInfo info_;
  WorkloadRandom random_;
  std::uint64_t num_requests_;
  std::uint64_t next_ = 0;
  DrawRequest draw_;
};

}  // namespace kvproof::bench
