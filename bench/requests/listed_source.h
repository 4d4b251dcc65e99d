// SPDX-License-Identifier: Apache-2.0
// For tests of the studies: requests written down by hand, and what each storage must hold.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/requests/request.h"
#include "bench/studies/studies.h"
#include "reference/ids.h"

namespace kvproof::bench {

/// A source of requests written down by hand, 16 tokens an id.
class ListedSource final : public RequestSource {
 public:
  ListedSource(std::vector<Request> requests, TraceInfo info)
      : requests_(std::move(requests)), info_(std::move(info)) {}
  [[nodiscard]] const TraceInfo& info() const override { return info_; }
  bool next(Request& request) override {
    if (next_ == requests_.size()) return false;
    request = requests_[next_++];
    return true;
  }
  [[nodiscard]] double fraction() const override { return 0; }

 private:
  std::vector<Request> requests_;
  TraceInfo info_;
  std::size_t next_ = 0;
};

inline StudySource listed(std::vector<Request> requests, std::int64_t ids_block_size = 16) {
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].index = i;
  const TraceInfo info{"listed", "workload", ids_block_size, true};
  return {"listed", [requests, info] { return std::make_unique<ListedSource>(requests, info); }};
}

/// What a storage reserves for one request, from its definition.
inline std::uint64_t reserved_for(std::string_view storage, std::uint64_t tokens,
                                  std::uint64_t final_tokens, std::uint64_t max_length) {
  if (storage == "contiguous_max_length") return max_length;
  if (storage == "contiguous_power_of_two") return std::min(std::bit_ceil(tokens), max_length);
  if (storage == "contiguous_oracle") return final_tokens;
  if (storage == "contiguous_grow_and_copy") return tokens;
  return ceil_div<std::uint64_t>(tokens, 16) * 16;
}

}  // namespace kvproof::bench
