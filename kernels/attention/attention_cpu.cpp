// SPDX-License-Identifier: Apache-2.0
// The general CPU kernel: any type and head size, one row after the other.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

constexpr std::int32_t kTile = 32;  // [tokens]
constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// The softmax-weighted sum of the tokens that one query head has seen so far.
struct Running {
  float highest = kNothing;
  float sum = 0;
  float out[kMostValueSize];
};

template <class Kv>
void see_tile(const AttentionParams<Kv>& p, const float* query, std::int32_t seq,
              std::int32_t kv_head, TokenRange tile, Running& running) {
  const AttentionShape& s = p.shape;
  float score[kTile];
  float highest = running.highest;
  for (std::int32_t t = tile.begin; t < tile.end; ++t) {
    const std::int64_t row = p.kv.key_row(seq, t, kv_head);
    float dot = 0;
    for (std::int32_t i = 0; i < s.head_size; ++i) {
      dot += query[i] * load_element(p.kv.key, row + i, s.cache_type);
    }
    dot *= s.key_scale * s.scale;
    if (s.soft_cap > 0) dot = s.soft_cap * std::tanh(dot / s.soft_cap);
    score[t - tile.begin] = dot;
    highest = std::max(highest, dot);
  }
  const float rescale = std::exp(running.highest - highest);
  running.highest = highest;
  running.sum *= rescale;
  for (std::int32_t i = 0; i < s.value_head_size; ++i) running.out[i] *= rescale;
  for (std::int32_t t = tile.begin; t < tile.end; ++t) {
    const std::int64_t row = p.kv.value_row(seq, t, kv_head);
    const float weight = std::exp(score[t - tile.begin] - highest);
    running.sum += weight;
    for (std::int32_t i = 0; i < s.value_head_size; ++i) {
      running.out[i] += weight * load_element(p.kv.value, row + i, s.cache_type);
    }
  }
}

template <class Kv>
void attend_head(const AttentionParams<Kv>& p, std::int32_t token, std::int32_t head) {
  const AttentionShape& s = p.shape;
  const std::int32_t seq = sequence_of(p.query_starts, p.num_seqs, token);
  const TokenRange visible = visible_of(p, seq, token);
  float query[kMostKeySize];
  for (std::int32_t i = 0; i < s.head_size; ++i) {
    query[i] = load_element(p.query, token * p.query_token_stride + head * p.query_head_stride + i,
                            s.type);
  }
  Running running;
  std::fill_n(running.out, s.value_head_size, 0.0F);
  const std::int32_t kv_head = head / (s.num_heads / s.num_kv_heads);
  for (std::int32_t begin = visible.begin; begin < visible.end; begin += kTile) {
    see_tile(p, query, seq, kv_head, {begin, std::min(begin + kTile, visible.end)}, running);
  }
  const float factor = running.sum > 0 ? s.value_scale / running.sum : 0;
  for (std::int32_t i = 0; i < s.value_head_size; ++i) {
    store_element(p.output, token * p.output_token_stride + head * p.output_head_stride + i, s.type,
                  running.out[i] * factor);
  }
  if (p.log_sum_exp == nullptr) return;
  p.log_sum_exp[token * p.lse_token_stride + head * p.lse_head_stride] =
      running.sum > 0 ? running.highest + std::log(running.sum) : kNothing;
}

}  // namespace

template <class Kv>
Refusal attention_cpu_general(const AttentionParams<Kv>& params, const Context&) {
  if (const Refusal refusal = refuse(params)) return refusal;
  for (std::int32_t token = 0; token < params.num_query_tokens; ++token) {
    for (std::int32_t head = 0; head < params.shape.num_heads; ++head) {
      attend_head(params, token, head);
    }
  }
  return {};
}

template Refusal attention_cpu_general(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_cpu_general(const AttentionParams<ContiguousKv>&, const Context&);

}  // namespace kvproof::kernels
