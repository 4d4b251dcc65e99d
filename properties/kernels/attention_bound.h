// SPDX-License-Identifier: Apache-2.0
// How far an attention kernel may be from the exact result on the elements that it reads.
//
// Model:   u = 2^-24. S = the largest scale * sum |q_i k_i|, M = sum p |v|, both exact.
//          1. A score: its products and sums err like a random walk, sqrt(d) u S (the worst case, d
//             u S, needs every rounding to lean one way); 8 u S more for the scale, the cap, the
//             shift and the change of base. |cap'| <= 1, so a soft cap makes no error larger.
//          2. Scores off by e change every p by a factor within exp(+-2e): 2e M in the output.
//          3. The weighted sum and the sum of weights are walks of L steps: 2 sqrt(L) u M; 16 u M
//             for the two exponentials, the rescales, the division and the merge of splits.
//          So fp32: u M (2 (sqrt(d) + 8) S + 2 sqrt(L) + 16): 4e-6 at d = 128 and L = 128 for
//          elements uniform in [-1, 1), S = 3, M = 0.5.
//          4. The output is rounded to its type, u_t |out|: u_t = 2^-8 (bf16), 2^-11 (fp16).
//          5. A kernel that rounds the probabilities to 16 bits adds u_t M, one that rounds the
//             query 2 u_t S M; fp16 probabilities below 2^-14 are fixed point: L 2^-25 max |v|.
//          The log-sum-exp errs by the score's error, and (2 sqrt(L) + 16) u.
// Source:  Higham, Accuracy and Stability, 2nd ed., sec. 3.1 and 2.8; Higham and Mary, A New
//          Approach to Probabilistic Rounding Error Analysis, SISC 41 (2019).
#pragma once

#include <cmath>
#include <string_view>

#include "kernels/attention/attention.h"

namespace kvproof::properties {

struct Rounds {
  bool probabilities = false;
  bool query = false;
};

/// The intermediate values that an implementation rounds to 16 bits, by its name.
[[nodiscard]] inline Rounds rounds_of(std::string_view name) {
  if (name.find("mma") != std::string_view::npos) return {.probabilities = true};
  if (name == "cpu/avx512_bf16" || name == "cpu/portable") return {.probabilities = true};
  return {};
}

/// The sizes of one query head that the bound depends on.
struct BoundInput {
  kernels::ElementType type = kernels::ElementType::fp32;
  Rounds rounds;
  double head_size = 0;
  double num_visible = 0;  // [tokens]
  double score_sum = 0;    // S
  double most_value = 0;   // max |v|
};

[[nodiscard]] inline double rounding_of(kernels::ElementType type) {
  switch (type) {
    case kernels::ElementType::fp16: return 0x1p-11;
    case kernels::ElementType::bf16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

/// [natural logarithm] of the scaled scores and of their sum
[[nodiscard]] inline double score_bound(const BoundInput& in) {
  const double query = in.rounds.query ? 2 * 0x1p-8 * in.score_sum : 0;
  return 0x1p-24 * (std::sqrt(in.head_size) + 8) * in.score_sum + query;
}

[[nodiscard]] inline double lse_bound(const BoundInput& in, double lse) {
  return score_bound(in) + 0x1p-24 * (2 * std::sqrt(in.num_visible) + 16 + std::abs(lse));
}

/// @param magnitude M @param out the exact output
[[nodiscard]] inline double output_bound(const BoundInput& in, double magnitude, double out) {
  double error = magnitude * (2 * score_bound(in) + 0x1p-24 * (2 * std::sqrt(in.num_visible) + 16));
  if (in.rounds.probabilities) {
    error += rounding_of(in.type) * magnitude;
    if (in.type == kernels::ElementType::fp16) error += in.num_visible * 0x1p-25 * in.most_value;
  }
  const double least = in.type == kernels::ElementType::fp16 ? 0x1p-25 : 0;  // of its subnormals
  return error + rounding_of(in.type) * (std::abs(out) + error) + (in.num_visible > 0 ? least : 0);
}

}  // namespace kvproof::properties
