// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention over contiguous rows, in double precision: what every kernel must
// equal.
//
// Source:  Vaswani et al., 2017, sec. 3.2.1 (arXiv:1706.03762); the softmax is shifted by its
//          maximum.
// Leaves out: speed, and any storage except rows that follow one another.
#pragma once

#include <cstdint>
#include <vector>

namespace kvproof::reference {

/// One query token against `num_tokens` cached tokens. Grouped heads: query head h reads KV head
/// h / (num_heads / num_kv_heads).
struct AttentionInput {
  const double* query = nullptr;  // shape [num_heads, head_size]
  const double* key = nullptr;    // shape [num_tokens, num_kv_heads, head_size]
  const double* value = nullptr;  // shape [num_tokens, num_kv_heads, value_head_size]
  std::int64_t num_tokens = 0;    // 0 is legal: the output is zero, its log-sum-exp minus infinity
  std::int64_t num_heads = 0;     // a multiple of num_kv_heads
  std::int64_t num_kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t value_head_size = 0;
  double scale = 1.0;     // usually 1 / sqrt(head_size)
  double soft_cap = 0.0;  // scaled scores become soft_cap * tanh(score / soft_cap); 0 = no cap
};

struct AttentionOutput {
  std::vector<double> rows;         // shape [num_heads, value_head_size]
  std::vector<double> log_sum_exp;  // shape [num_heads]; natural logarithm, of the scaled scores
};

/// softmax(scale * query . key) . value, per head.
[[nodiscard]] AttentionOutput attend(const AttentionInput& input);

}  // namespace kvproof::reference
