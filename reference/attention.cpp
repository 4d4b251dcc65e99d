// SPDX-License-Identifier: Apache-2.0
#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvproof::reference {

AttentionOutput attend(const AttentionInput& in) {
  AttentionOutput out;
  out.rows.assign(static_cast<std::size_t>(in.num_heads * in.value_head_size), 0.0);
  out.log_sum_exp.assign(static_cast<std::size_t>(in.num_heads),
                         -std::numeric_limits<double>::infinity());
  if (in.num_tokens == 0) return out;

  std::vector<double> score(static_cast<std::size_t>(in.num_tokens));
  for (std::int64_t head = 0; head < in.num_heads; ++head) {
    const std::int64_t kv_head = head / (in.num_heads / in.num_kv_heads);
    const double* query = in.query + head * in.head_size;
    for (std::int64_t token = 0; token < in.num_tokens; ++token) {
      const double* key = in.key + (token * in.num_kv_heads + kv_head) * in.head_size;
      double dot = 0.0;
      for (std::int64_t i = 0; i < in.head_size; ++i) dot += query[i] * key[i];
      const double scaled = in.scale * dot;
      score[static_cast<std::size_t>(token)] =
          in.soft_cap > 0 ? in.soft_cap * std::tanh(scaled / in.soft_cap) : scaled;
    }
    const double highest = *std::max_element(score.begin(), score.end());
    double sum = 0.0;
    for (double& s : score) sum += s = std::exp(s - highest);

    double* row = out.rows.data() + head * in.value_head_size;
    for (std::int64_t token = 0; token < in.num_tokens; ++token) {
      const double* value = in.value + (token * in.num_kv_heads + kv_head) * in.value_head_size;
      const double weight = score[static_cast<std::size_t>(token)] / sum;
      for (std::int64_t i = 0; i < in.value_head_size; ++i) row[i] += weight * value[i];
    }
    out.log_sum_exp[static_cast<std::size_t>(head)] = highest + std::log(sum);
  }
  return out;
}

}  // namespace kvproof::reference
