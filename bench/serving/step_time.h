// SPDX-License-Identifier: Apache-2.0
// The time of one step of a simulated engine: the roofline of a card and a model.
//
// Model:   seconds = overhead + max(bytes / bandwidth, operations / peak, link bytes / link);
//          bytes      = weights once + the cache that attention reads + the rows that are written
//                       + twice the bytes that a storage moved;
//          operations = 2 per parameter and token + 4 x attention width per token and token it
//                       attends to (a product with K and one with V).
//          Bandwidth and peak are those of a card, times the share of them that is reached: by
//          default all of it, so that a simulated time is a lower bound.
// Source:  Williams, Waterman, Patterson: Roofline, CACM 2009.
// Leaves out: kernels, launches, communication between cards, and any fit to a measurement.
#pragma once

#include <algorithm>
#include <cstdint>

#include "bench/serving/hardware.h"

namespace kvproof::bench {

/// The work that the requests of one step ask for.
struct StepWork {
  std::uint64_t tokens = 0;          // to compute, drafts too
  std::uint64_t attended_pairs = 0;  // (token, token it attends to)
  std::uint64_t context_tokens = 0;  // read from the cache, once per request
  std::uint64_t moved_tokens = 0;    // copied by a storage that had to move a request
  std::uint64_t swapped_tokens = 0;  // over the link to the host, either direction

  [[nodiscard]] bool empty() const { return tokens == 0 && swapped_tokens == 0; }
};

struct StepTime {
  Card card = *find_card("h100");
  ServedModel model = *find_served_model("llama-3-8b");
  double bandwidth_share = 1;  // the share of the card's bandwidth that is reached
  double compute_share = 1;
  double overhead_seconds = 0;  // of every step

  [[nodiscard]] double seconds(const StepWork& work) const {
    const auto cache_tokens =
        static_cast<double>(work.context_tokens + work.tokens + 2 * work.moved_tokens);
    const double weights = work.tokens > 0 ? model.weight_bytes : 0;
    const double memory = (weights + cache_tokens * model.kv_bytes_per_token) /
                          (card.bytes_per_second * bandwidth_share);
    const double operations =
        2 * model.parameters * static_cast<double>(work.tokens) +
        4.0 * model.attention_width * static_cast<double>(work.attended_pairs);
    const double compute = operations / (card.flops_per_second * compute_share);
    const double link = static_cast<double>(work.swapped_tokens) * model.kv_bytes_per_token /
                        card.link_bytes_per_second;
    return overhead_seconds + std::max({memory, compute, link});
  }
};

}  // namespace kvproof::bench
