// SPDX-License-Identifier: Apache-2.0
// What an attention kernel must compute, in double precision, from the very elements it reads.
#pragma once

#include <vector>

#include "kernels/attention/attention.h"
#include "reference/attention.h"

namespace kvproof::kernels {

/// One query token's exact output, and what an error bound needs to know of its inputs.
struct ExactRow {
  reference::AttentionOutput out;
  std::vector<double> magnitude;  // shape [num_heads, value_head_size]: sum of p * |v|
  std::vector<double> score_sum;  // shape [num_heads]: the largest scale * sum of |q_i * k_i|
  TokenRange visible;
};

template <class Kv>
[[nodiscard]] ExactRow attend_exactly(const AttentionParams<Kv>& params, std::int32_t query_token);

}  // namespace kvproof::kernels
