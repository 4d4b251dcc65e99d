// SPDX-License-Identifier: Apache-2.0
// The first requests of a source, so that no trace takes longer than one has time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "bench/requests/request.h"

namespace kvproof::bench {

/// Ends after `most` requests.
class LeadingSource final : public RequestSource {
 public:
  LeadingSource(std::unique_ptr<RequestSource> inner, std::uint64_t most)
      : inner_(std::move(inner)), most_(most) {}
  [[nodiscard]] const TraceInfo& info() const override { return inner_->info(); }
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

}  // namespace kvproof::bench
