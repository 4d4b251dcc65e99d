// SPDX-License-Identifier: Apache-2.0
// The general attention kernel: any type, head size, ratio, layout and block size, as run-time
// values. On the device, the tuned kernels are checked against it.
//
// Model:   One block per (query token, KV head, split); its threads share the tokens of a tile for
//          the scores and the elements of a row for the values.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/attention/merge_splits.cuh"

namespace kvproof::kernels {

constexpr int kGeneralThreads = 128;
constexpr int kGeneralWarps = kGeneralThreads / 32;
constexpr int kGeneralTile = 32;  // [tokens], one per lane
constexpr int kGeneralHeads = 8;  // query heads of one KV head that a block serves at a time
constexpr int kGeneralElements = kMostValueSize / kGeneralThreads;  // of a row, per thread

/// Running softmax of the heads that a block serves, and its tile's probabilities.
struct GeneralState {
  float weight[kGeneralHeads][kGeneralTile];  // scores, then probabilities of the tile
  float highest[kGeneralHeads];
  float sum[kGeneralHeads];
  float rescale[kGeneralHeads];  // the factor for the sums of the earlier tiles
};

template <class Kv>
__device__ inline void score_tile(const AttentionParams<Kv>& p, GeneralState& state,
                                  const float* query, std::int32_t num_heads, std::int32_t seq,
                                  std::int32_t kv_head, std::int32_t begin, std::int32_t end) {
  const AttentionShape& s = p.shape;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int t = warp; t < kGeneralTile; t += kGeneralWarps) {
    if (begin + t >= end) {  // the whole warp agrees
      if (lane < num_heads) state.weight[lane][t] = -INFINITY;
      continue;
    }
    float dot[kGeneralHeads] = {};
    const std::int64_t row = p.kv.key_row(seq, begin + t, kv_head);
    for (int i = lane; i < s.head_size; i += 32) {
      const float key = load_element(p.kv.key, row + i, s.cache_type);
      for (int h = 0; h < kGeneralHeads; ++h) {
        if (h < num_heads) dot[h] += query[h * s.head_size + i] * key;
      }
    }
    for (int h = 0; h < kGeneralHeads; ++h) {
      if (h >= num_heads) break;
      for (int step = 16; step > 0; step /= 2) dot[h] += KVPROOF_SHUFFLE_XOR(dot[h], step);
      if (lane != 0) continue;
      float score = dot[h] * s.key_scale * s.scale;
      if (s.soft_cap > 0) score = s.soft_cap * tanhf(score / s.soft_cap);
      state.weight[h][t] = score;
    }
  }
}

__device__ inline void soften_tile(GeneralState& state, std::int32_t num_heads) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int h = warp; h < num_heads; h += kGeneralWarps) {
    const float score = state.weight[h][lane];
    const float before = state.highest[h];
    float highest = score;
    for (int step = 16; step > 0; step /= 2) {
      highest = fmaxf(highest, KVPROOF_SHUFFLE_XOR(highest, step));
    }
    highest = fmaxf(highest, before);  // finite: a tile has at least one token
    const float weight = expf(score - highest);
    float sum = weight;
    for (int step = 16; step > 0; step /= 2) sum += KVPROOF_SHUFFLE_XOR(sum, step);
    state.weight[h][lane] = weight;
    KVPROOF_WARP_BARRIER();  // lane 0 overwrites what all lanes have read
    if (lane == 0) {
      const float rescale = expf(before - highest);
      state.rescale[h] = rescale;
      state.sum[h] = state.sum[h] * rescale + sum;
      state.highest[h] = highest;
    }
  }
}

template <class Kv>
__device__ inline void add_values(const AttentionParams<Kv>& p, const GeneralState& state,
                                  float (&out)[kGeneralHeads][kGeneralElements],
                                  std::int32_t num_heads, std::int32_t seq, std::int32_t kv_head,
                                  std::int32_t begin, std::int32_t end) {
  const AttentionShape& s = p.shape;
  for (int h = 0; h < kGeneralHeads; ++h) {
    if (h >= num_heads) break;
    for (float& element : out[h]) element *= state.rescale[h];
  }
  for (int t = 0; begin + t < end && t < kGeneralTile; ++t) {
    const std::int64_t row = p.kv.value_row(seq, begin + t, kv_head);
    for (int e = 0; e < kGeneralElements; ++e) {
      const int i = static_cast<int>(threadIdx.x) + e * kGeneralThreads;
      if (i >= s.value_head_size) break;
      const float value = load_element(p.kv.value, row + i, s.cache_type);
      for (int h = 0; h < kGeneralHeads; ++h) {
        if (h < num_heads) out[h][e] += state.weight[h][t] * value;
      }
    }
  }
}

template <class Kv>
__device__ inline void write_heads(const AttentionParams<Kv>& p, const GeneralState& state,
                                   const float (&out)[kGeneralHeads][kGeneralElements],
                                   std::int32_t num_heads, std::int32_t token,
                                   std::int32_t first_head, std::int32_t split) {
  const AttentionShape& s = p.shape;
  for (int h = 0; h < kGeneralHeads; ++h) {
    if (h >= num_heads) break;
    const std::int32_t head = first_head + h;
    const float sum = state.sum[h];
    const float factor = sum > 0 ? s.value_scale / sum : 0;
    const float lse = sum > 0 ? state.highest[h] + logf(sum) : -INFINITY;
    const std::int64_t part = (std::int64_t{token} * s.num_heads + head) * p.num_splits + split;
    for (int e = 0; e < kGeneralElements; ++e) {
      const int i = static_cast<int>(threadIdx.x) + e * kGeneralThreads;
      if (i >= s.value_head_size) break;
      if (p.num_splits > 1) {
        p.split_output[part * s.value_head_size + i] = out[h][e] * factor;
      } else {
        store_element(p.output, token * p.output_token_stride + head * p.output_head_stride + i,
                      s.type, out[h][e] * factor);
      }
    }
    if (threadIdx.x != 0) continue;
    if (p.num_splits > 1) {
      p.split_lse[part] = lse;
    } else if (p.log_sum_exp != nullptr) {
      p.log_sum_exp[lse_at(p, token, head)] = lse;
    }
  }
}

template <class Kv>
__global__ void __launch_bounds__(kGeneralThreads)
    attention_general_kernel(const AttentionParams<Kv> p) {
  KVPROOF_DYNAMIC_SHARED(float, query);  // shape [kGeneralHeads, head_size]
  KVPROOF_SHARED(GeneralState, states, 1);
  GeneralState& state = states[0];
  const AttentionShape& s = p.shape;
  const auto token = static_cast<std::int32_t>(blockIdx.x);
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const auto split = static_cast<std::int32_t>(blockIdx.z);
  const std::int32_t seq = sequence_of(p.query_starts, p.num_seqs, token);
  const TokenRange range = split_of(visible_of(p, seq, token), split, p.num_splits, kGeneralTile);
  const std::int32_t ratio = s.num_heads / s.num_kv_heads;
  for (std::int32_t done = 0; done < ratio; done += kGeneralHeads) {
    const std::int32_t num_heads = ratio - done < kGeneralHeads ? ratio - done : kGeneralHeads;
    const std::int32_t first_head = kv_head * ratio + done;
    for (int i = static_cast<int>(threadIdx.x); i < num_heads * s.head_size; i += kGeneralThreads) {
      query[i] =
          load_element(p.query,
                       token * p.query_token_stride +
                           (first_head + i / s.head_size) * p.query_head_stride + i % s.head_size,
                       s.type);
    }
    if (threadIdx.x < kGeneralHeads) {
      state.highest[threadIdx.x] = -INFINITY;
      state.sum[threadIdx.x] = 0;
    }
    float out[kGeneralHeads][kGeneralElements] = {};
    KVPROOF_BARRIER();  // the query is there
    for (std::int32_t begin = range.begin; begin < range.end; begin += kGeneralTile) {
      score_tile(p, state, query, num_heads, seq, kv_head, begin, range.end);
      KVPROOF_BARRIER();  // scores -> probabilities
      soften_tile(state, num_heads);
      KVPROOF_BARRIER();  // probabilities -> sums
      add_values(p, state, out, num_heads, seq, kv_head, begin, range.end);
      KVPROOF_BARRIER();  // the next tile overwrites them
    }
    write_heads(p, state, out, num_heads, token, first_head, split);
    KVPROOF_BARRIER();  // the next heads overwrite query and sums
  }
}

}  // namespace kvproof::kernels
