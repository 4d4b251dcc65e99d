// SPDX-License-Identifier: Apache-2.0
// Holds results against the double reference, and the double reference against the definition.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/typed.h"
#include "properties/kernels/attention_checks.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionShape;

/// Position by position, as the reference says it; no arithmetic shared with kernels.
Finding check_visible(const AttentionProblem& problem, std::int32_t token,
                      kernels::TokenRange found) {
  const AttentionPlan& plan = problem.plan();
  const auto seq = static_cast<std::size_t>(problem.sequence_of(token));
  std::int32_t first = 0;
  for (std::size_t s = 0; s < seq; ++s) first += plan.query_lens[s];
  const std::int32_t own = plan.seq_lens[seq] - plan.query_lens[seq] + token - first;
  for (std::int32_t position = 0; position < plan.seq_lens[seq] + 1; ++position) {
    const bool visible = position < plan.seq_lens[seq] && plan.sees(own, position);
    if (visible != (position >= found.begin && position < found.end)) {
      return say("reference: query token ", token, " and position ", position);
    }
  }
  return {};
}

double most_value_of(const AttentionProblem& problem, std::int32_t token,
                     const kernels::TokenRange visible) {
  const auto params = problem.paged(true);
  const AttentionShape& s = params.shape;
  double most = 0;
  for (std::int32_t t = visible.begin; t < visible.end; ++t) {
    for (std::int32_t h = 0; h < s.num_kv_heads; ++h) {
      const std::int64_t row = params.kv.value_row(problem.sequence_of(token), t, h);
      for (std::int32_t i = 0; i < s.value_head_size; ++i) {
        most =
            std::max(most, std::abs(double{load_element(params.kv.value, row + i, s.cache_type)} *
                                    double{s.value_scale}));
      }
    }
  }
  return most;
}

bool same_or_near(double found, double exact, double bound, double& most_used) {
  if (found == exact) return true;  // infinities too
  const double error = std::abs(found - exact);
  if (!(error <= bound)) return false;
  most_used = std::max(most_used, error / bound);
  return true;
}

}  // namespace

ExactAttention::ExactAttention(const AttentionProblem& problem) {
  const auto params = problem.paged(true);
  for (std::int32_t token = 0; token < problem.num_query_tokens(); ++token) {
    rows_.push_back(attend_exactly(params, token));
    most_value_.push_back(most_value_of(problem, token, rows_.back().visible));
    if (!finding_) finding_ = check_visible(problem, token, rows_.back().visible);
  }
}

Finding ExactAttention::compare(const AttentionProblem& problem, Rounds rounds,
                                double& most_used) const {
  const auto params = problem.paged(true);
  const AttentionShape& s = params.shape;
  double rounded = 0;  // a result that is only rounded to 16 bits uses all of its bound
  double& used = s.type == kernels::ElementType::fp32 || rounds.probabilities ? most_used : rounded;
  for (std::size_t token = 0; token < rows_.size(); ++token) {
    const kernels::ExactRow& exact = rows_[token];
    for (std::int32_t h = 0; h < s.num_heads; ++h) {
      const auto head = static_cast<std::size_t>(h);
      const BoundInput in{.type = s.type,
                          .rounds = rounds,
                          .head_size = double(s.head_size),
                          .num_visible = double(exact.visible.end - exact.visible.begin),
                          .score_sum = exact.score_sum[head],
                          .most_value = most_value_[token]};
      const auto row = static_cast<std::int64_t>(token) * params.output_token_stride +
                       h * params.output_head_stride;
      for (std::int32_t i = 0; i < s.value_head_size; ++i) {
        const auto element =
            head * static_cast<std::size_t>(s.value_head_size) + static_cast<std::size_t>(i);
        const double found = load_element(params.output, row + i, s.type);
        const double bound = output_bound(in, exact.magnitude[element], exact.out.rows[element]);
        if (!same_or_near(found, exact.out.rows[element], bound, used)) {
          return say("query token ", token, " head ", h, " element ", i, ": ", found, ", expected ",
                     exact.out.rows[element], " within ", bound);
        }
      }
      if (params.log_sum_exp == nullptr) continue;
      const double lse = exact.out.log_sum_exp[head];
      const double found =
          params.log_sum_exp[static_cast<std::int64_t>(token) * params.lse_token_stride +
                             h * params.lse_head_stride];
      if (!same_or_near(found, lse, lse_bound(in, lse), used)) {
        return say("query token ", token, " head ", h, ": log-sum-exp ", found, ", expected ", lse,
                   " within ", lse_bound(in, lse));
      }
    }
  }
  return {};
}

}  // namespace kvproof::properties
