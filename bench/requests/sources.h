// SPDX-License-Identifier: Apache-2.0
// Sources made from another source or from a rule: the first requests of a source, to save time on
// long logs, and requests drawn at random.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/requests/request.h"
#include "bench/requests/workload_random.h"

namespace kvproof::bench {

/// Ends after `most` requests.
class LeadingSource final : public RequestSource {
 public:
  LeadingSource(std::unique_ptr<RequestSource> inner, std::uint64_t most)
      : inner_(std::move(inner)), most_(most) {}
  [[nodiscard]] const SourceInfo& info() const override { return inner_->info(); }
  [[nodiscard]] double fraction() const override {
    const double counted = static_cast<double>(count_) / static_cast<double>(most_);
    return std::max(counted, inner_->fraction());
  }
  bool next(Request& request) override {
    if (count_ == most_ || !inner_->next(request)) return false;
    ++count_;
    return true;
  }
  [[nodiscard]] LeftOut left_out() const override { return inner_->left_out(); }

 private:
  std::unique_ptr<RequestSource> inner_;
  std::uint64_t most_;
  std::uint64_t count_ = 0;
};

[[nodiscard]] inline ReopenableSource leading(const ReopenableSource& source, std::uint64_t most) {
  return {source.name,
          [open = source.open, most] { return std::make_unique<LeadingSource>(open(), most); }};
}

/// Fills in all fields except the index.
using DrawRequest = std::function<void(WorkloadRandom& random, Request& request)>;

class DrawnSource final : public RequestSource {
 public:
  /// @param ids_block_size [tokens] of the ids that the rule writes; 0 = it writes none
  DrawnSource(std::uint64_t seed, std::uint64_t num_requests, std::int64_t ids_block_size,
              DrawRequest draw)
      : random_(seed), num_requests_(num_requests), draw_(std::move(draw)) {
    info_ = {.name = "drawn", .format = "workload", .ids_block_size = ids_block_size};
  }

  [[nodiscard]] const SourceInfo& info() const override { return info_; }
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
  SourceInfo info_;
  WorkloadRandom random_;
  std::uint64_t num_requests_;
  std::uint64_t next_ = 0;
  DrawRequest draw_;
};

/// @param ids_block_size [tokens] of the ids that the rule writes; 0 = it writes none
[[nodiscard]] inline ReopenableSource drawn(std::uint64_t seed, std::uint64_t num_requests,
                                            std::int64_t ids_block_size, const DrawRequest& draw) {
  return {"drawn",
          [=] { return std::make_unique<DrawnSource>(seed, num_requests, ids_block_size, draw); }};
}

}  // namespace kvproof::bench
