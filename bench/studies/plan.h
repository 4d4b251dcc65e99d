// SPDX-License-Identifier: Apache-2.0
// How many requests of a model fit into a memory budget, contiguous and paged, at each block size.
//
// Model:   arithmetic on the specification (reference/pool_sizing.h); nothing is run or timed.
//          contiguous   every request reserves room for the longest length, windows as rings;
//          worst case   paged, every request has the longest length;
//          expected     paged, the lengths of a stated distribution, each with all its tokens.
// Leaves out: weights and activations; the budget is the memory that they leave.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/results/result_file.h"
#include "reference/model_presets.h"
#include "reference/pool_sizing.h"

namespace kvproof::bench {

/// Request lengths, input and output together.
struct Lengths {
  std::string name;
  std::vector<std::uint64_t> tokens;  // shape [num_requests]

  [[nodiscard]] double mean() const;
};

/// The lengths of the built-in workload of that name. @pre it exists
[[nodiscard]] Lengths lengths_of_workload(std::string_view name);

struct PlanInput {
  const ModelPreset* preset = nullptr;
  ModelSpec model;    // the preset's, perhaps with rows in another type
  std::string dtype;  // of the rows, by name
  std::uint64_t memory_bytes = 0;
  RequestLimits limits;
  std::vector<std::uint32_t> block_sizes;
  Lengths lengths;  // longer ones count as limits.max_tokens
};

/// Requests of the longest length that fit when each is one buffer of that length.
[[nodiscard]] std::uint64_t contiguous_requests(const PlanInput& input);

/// Requests that fit at once, on average, with the null block taken off.
[[nodiscard]] double expected_requests(const PlanInput& input, const PoolLayout& layout,
                                       std::uint64_t num_blocks);

/// One result of experiment "plan" per block size.
[[nodiscard]] std::vector<Result> plan(const PlanInput& input);

}  // namespace kvproof::bench
