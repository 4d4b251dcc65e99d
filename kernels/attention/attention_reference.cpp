// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_reference.h"

#include <algorithm>
#include <cmath>

#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

/// Rows of the visible tokens as the reference takes them.
struct DenseRows {
  std::vector<double> query, key, value;
};

template <class Kv>
DenseRows dense_rows(const AttentionParams<Kv>& p, std::int32_t seq, std::int32_t token,
                     TokenRange visible) {
  const AttentionShape& s = p.shape;
  DenseRows out;
  for (std::int32_t h = 0; h < s.num_heads; ++h) {
    for (std::int32_t i = 0; i < s.head_size; ++i) {
      out.query.push_back(double{load_element(
          p.query, token * p.query_token_stride + h * p.query_head_stride + i, s.type)});
    }
  }
  for (std::int32_t t = visible.begin; t < visible.end; ++t) {
    for (std::int32_t h = 0; h < s.num_kv_heads; ++h) {
      const std::int64_t key = p.kv.key_row(seq, t, h), value = p.kv.value_row(seq, t, h);
      for (std::int32_t i = 0; i < s.head_size; ++i) {
        out.key.push_back(double{load_element(p.kv.key, key + i, s.cache_type)} *
                          double{s.key_scale});
      }
      for (std::int32_t i = 0; i < s.value_head_size; ++i) {
        out.value.push_back(double{load_element(p.kv.value, value + i, s.cache_type)} *
                            double{s.value_scale});
      }
    }
  }
  return out;
}

}  // namespace

template <class Kv>
ExactRow attend_exactly(const AttentionParams<Kv>& p, std::int32_t query_token) {
  const AttentionShape& s = p.shape;
  const std::int32_t seq = sequence_of(p.query_starts, p.num_seqs, query_token);
  ExactRow exact;
  exact.visible = visible_of(p, seq, query_token);
  const DenseRows rows = dense_rows(p, seq, query_token, exact.visible);
  reference::AttentionInput in;
  in.query = rows.query.data();
  in.key = rows.key.data();
  in.value = rows.value.data();
  in.num_tokens = exact.visible.end - exact.visible.begin;
  in.num_heads = s.num_heads;
  in.num_kv_heads = s.num_kv_heads;
  in.head_size = s.head_size;
  in.value_head_size = s.value_head_size;
  in.scale = double{s.scale};
  in.soft_cap = double{s.soft_cap};
  exact.out = reference::attend(in);
  DenseRows absolute = rows;
  for (auto* part : {&absolute.query, &absolute.key, &absolute.value}) {
    for (double& x : *part) x = std::abs(x);
  }
  exact.score_sum.assign(static_cast<std::size_t>(s.num_heads), 0.0);
  for (std::int32_t h = 0; h < s.num_heads; ++h) {
    const std::int32_t kv_head = h / (s.num_heads / s.num_kv_heads);
    for (std::int64_t t = 0; t < in.num_tokens; ++t) {
      double dot = 0;
      for (std::int32_t i = 0; i < s.head_size; ++i) {
        dot += absolute.query[static_cast<std::size_t>(h * s.head_size + i)] *
               absolute
                   .key[static_cast<std::size_t>((t * s.num_kv_heads + kv_head) * s.head_size + i)];
      }
      double& most = exact.score_sum[static_cast<std::size_t>(h)];
      most = std::max(most, dot * std::abs(in.scale));
    }
  }
  in.value = absolute.value.data();
  exact.magnitude = reference::attend(in).rows;
  return exact;
}

template <class Kv>
Refusal attention_reference(const AttentionParams<Kv>& params, const Context&) {
  if (const Refusal refusal = refuse(params)) return refusal;
  const AttentionShape& s = params.shape;
  for (std::int32_t token = 0; token < params.num_query_tokens; ++token) {
    const ExactRow exact = attend_exactly(params, token);
    for (std::int32_t h = 0; h < s.num_heads; ++h) {
      const std::int64_t row = token * params.output_token_stride + h * params.output_head_stride;
      for (std::int32_t i = 0; i < s.value_head_size; ++i) {
        const double value = exact.out.rows[static_cast<std::size_t>(h * s.value_head_size + i)];
        store_element(params.output, row + i, s.type, static_cast<float>(value));
      }
      if (params.log_sum_exp == nullptr) continue;
      params.log_sum_exp[token * params.lse_token_stride + h * params.lse_head_stride] =
          static_cast<float>(exact.out.log_sum_exp[static_cast<std::size_t>(h)]);
    }
  }
  return {};
}

template ExactRow attend_exactly(const AttentionParams<PagedKv>&, std::int32_t);
template ExactRow attend_exactly(const AttentionParams<ContiguousKv>&, std::int32_t);
template Refusal attention_reference(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_reference(const AttentionParams<ContiguousKv>&, const Context&);

}  // namespace kvproof::kernels
