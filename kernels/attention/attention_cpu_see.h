// SPDX-License-Identifier: Apache-2.0
// The fast CPU attention over one tile, for any vocabulary V of vector operations.
//
// Model:   scores by 2 * kLanes elements at once, online softmax with powers of two, then V
//          weighted in registers; the weights of a tile never leave L1.
// Source:  Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 1.
// Linkage: every name is the file's own (attention_cpu_paths.h).
#pragma once

#include "kernels/attention/attention_cpu_paths.h"

namespace kvproof::kernels::cpu {

constexpr int log2_of(int x) { return x == 1 ? 0 : 1 + log2_of(x / 2); }

/// The code for one vocabulary, one cache type and one number of query rows.
template <class V, class T, class Path, int kRows>
struct Tile : VectorMath<V> {
  using Math = VectorMath<V>;
  using Math::kLanes;
  using typename Math::F;
  static constexpr int kStep = 2 * kLanes;        // [elements]
  static constexpr bool kHasHalves = kStep > 16;  // sizes are multiples of 16
  static constexpr int kAtOnce =                  // [tokens] whose scores are summed side by side
      V::kAccumulators / kRows < kLanes ? V::kAccumulators / kRows : kLanes;

  static const T* row(const char* const* rows, int token, std::ptrdiff_t offset) {
    return reinterpret_cast<const T*>(rows[token] + offset);
  }

  using Half = HalfStep<V, T>;

  /// Few rows take little time between two tokens: lines are fetched between two elements, too.
  static constexpr bool kFine = kRows < 4;
  static constexpr int kSums = kLanes / kAtOnce;  // folds that one vector of scores is made of

  /// Partial sums of kAtOnce tokens from `first` on, folded into one vector for each row.
  static void dots(const TileWork& w, Fetch<V>& fetch, int first, F (*sums)[kSums], int at) {
    F sum[kRows][kAtOnce];
    const T* key[kAtOnce];
    KVPROOF_UNROLL
    for (int t = 0; t < kAtOnce; ++t) {
      key[t] = row(w.key_rows, first + t, w.key_offset);
      KVPROOF_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r][t] = V::set(0.0F);
    }
    // All sums have one part of a step before any has the next: none waits for its last product.
    const auto add = [&](int element, const typename Path::Keys* k, int part)
        __attribute__((always_inline)) {
      using Query = typename Path::Query;
      KVPROOF_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const auto* q = reinterpret_cast<const Query*>(w.query + r * w.query_stride) + element;
        const typename Path::Factor factor = Path::load_query(q + part * kLanes);
        KVPROOF_UNROLL
        for (int t = 0; t < kAtOnce; ++t) {
          sum[r][t] = Path::add(sum[r][t], k[t / 2].row[t % 2].part[part], factor);
        }
      }
    };
    const auto step = [&](int element, const typename Path::Keys* k)
        __attribute__((always_inline)) {
      add(element, k, 0);
      if constexpr (Path::kKeyParts == 2) add(element, k, 1);
    };
    int element = 0;
    typename Path::Keys k[kAtOnce / 2];
    for (; element + kStep <= w.key_size; element += kStep) {
      KVPROOF_UNROLL
      for (int t = 0; t < kAtOnce; t += 2) k[t / 2] = Path::load_keys(&key[t], element);
      step(element, k);
      if constexpr (kFine) fetch.some();
    }
    if (kHasHalves && element < w.key_size) {
      for (int t = 0; t < kAtOnce; t += 2) {
        const Half x(key[t] + element), y(key[t + 1] + element);
        const T* const rows[] = {x.elements, y.elements};
        k[t / 2] = Path::load_keys(rows, 0);
      }
      step(element, k);
    }
    KVPROOF_UNROLL
    for (int r = 0; r < kRows; ++r) {
      F folds[kAtOnce];  // of its own: an array that is passed on is not kept in registers
      KVPROOF_UNROLL
      for (int t = 0; t < kAtOnce; ++t) folds[t] = sum[r][t];
      sums[r][at] = Math::template fold<kAtOnce>(folds, V::add);
    }
  }

  /// Scores times log2(e), minus infinity past the tokens that count.
  static void score(const TileWork& w, Fetch<V>& fetch, float (*scores)[kTile]) {
    constexpr float kLog2E = 1.44269504088896340736F;
    fetch.divide(2, kTile / kAtOnce * (kFine && w.key_size > kStep ? w.key_size / kStep : 1));
    for (int group = 0; group < w.num_tokens; group += kLanes) {
      F sums[kRows][kSums];
      for (int i = 0; i < kSums; ++i) {
        if constexpr (!kFine) fetch.some();
        dots(w, fetch, group + i * kAtOnce, sums, i);
      }
      for (int r = 0; r < kRows; ++r) {
        F s = Math::template fold<kSums, log2_of(kAtOnce)>(sums[r], V::add);
        if (w.soft_cap > 0) {
          s = V::mul(s, V::set(w.scale / w.soft_cap));
          s = V::mul(Math::tanh(s), V::set(w.soft_cap * kLog2E));
        } else {
          s = V::mul(s, V::set(w.scale * kLog2E));
        }
        V::store(scores[r] + group, s);
      }
    }
    if (w.num_tokens == kTile) return;
    for (int r = 0; r < kRows; ++r) {
      for (int t = w.num_tokens; t < kTile; ++t) scores[r][t] = -__builtin_inff();
    }
  }

  /// Turns scores into weights. @return the factor for the sums of the earlier tiles
  static F weigh(const float* scores, RowState& state, typename Path::Weight* weights) {
    const F before = V::set(state.highest);
    F highest = before, factor = V::set(1.0F);
    F most = V::load(scores);
    for (int t = kLanes; t < kTile; t += kLanes) most = V::max(V::load(scores + t), most);
    if (V::any_less(before, most)) {  // after the first tiles this is rare, and then not waited for
      highest = V::max(Math::across(most, V::max), before);
      factor = Math::power_of_two(V::sub(before, highest));
      state.highest = V::first(highest);
    }
    F sum = V::set(0.0F);
    for (int t = 0; t < kTile; t += kLanes) {
      const F weight = Math::power_of_two(V::sub(V::load(scores + t), highest));
      sum = V::add(sum, weight);
      Path::store_weights(weights + t, weight);
    }
    state.sum = V::first(V::fma(V::set(state.sum), factor, Math::across(sum, V::add)));
    return factor;
  }

  /// Adds kSteps steps of V, from `element` on, to the sums of the tiles before.
  template <int kSteps, class Load>
  static void add_steps(const TileWork& w, Fetch<V>& fetch,
                        const typename Path::Weight (*weights)[kTile], const F* factor, int element,
                        Load load) {
    F sum[kRows][2 * kSteps];
    KVPROOF_UNROLL
    for (int r = 0; r < kRows; ++r) {
      KVPROOF_UNROLL
      for (int i = 0; i < 2 * kSteps; ++i) {
        const float* at = w.output + r * w.output_stride + element + i * kLanes;
        sum[r][i] = V::mul(V::load(at), factor[r]);
      }
    }
    const auto add = [&](int t) __attribute__((always_inline)) {
      typename Path::Factor weight[kRows];
      KVPROOF_UNROLL
      for (int r = 0; r < kRows; ++r) weight[r] = Path::load_weight(&weights[r][t]);
      KVPROOF_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        const typename Path::Value value = load(t, element + i * kStep);
        KVPROOF_UNROLL
        for (int part = 0; part < 2; ++part) {
          KVPROOF_UNROLL
          for (int r = 0; r < kRows; ++r) {
            F& to = sum[r][2 * i + part];
            to = Path::add(to, value.part[part], weight[r]);
          }
        }
      }
    };
    constexpr int kTokens = Path::kTokens;
    for (int t = 0; t < w.num_tokens; t += 4 * kTokens) {  // beyond num_tokens all rows are zeros
      fetch.some();
      add(t);
      add(t + kTokens);
      add(t + 2 * kTokens);
      add(t + 3 * kTokens);
    }
    KVPROOF_UNROLL
    for (int r = 0; r < kRows; ++r) {
      KVPROOF_UNROLL
      for (int i = 0; i < 2 * kSteps; ++i) {
        V::store(w.output + r * w.output_stride + element + i * kLanes, sum[r][i]);
      }
    }
  }

  static void add_values(const TileWork& w, Fetch<V>& fetch,
                         const typename Path::Weight (*weights)[kTile], const F* factor) {
    constexpr int kWide = V::kAccumulators / (2 * kRows) < 4 ? V::kAccumulators / (2 * kRows) : 4;
    const auto load = [&](int t, int element) {
      const T* rows[Path::kTokens];
      KVPROOF_UNROLL
      for (int i = 0; i < Path::kTokens; ++i) rows[i] = row(w.value_rows, t + i, w.value_offset);
      return Path::load_value(rows, element);
    };
    const auto load_half = [&](int t, int element) {
      const T* rows[Path::kTokens];
      Half even(row(w.value_rows, t, w.value_offset) + element);
      Half odd(row(w.value_rows, t + Path::kTokens - 1, w.value_offset) + element);
      rows[0] = even.elements;
      if (Path::kTokens == 2) rows[Path::kTokens - 1] = odd.elements;
      return Path::load_value(rows, 0);
    };
    const int passes = (w.value_size + kWide * kStep - 1) / (kWide * kStep);
    fetch.divide(1, passes * kTile / (4 * Path::kTokens));
    int element = 0;
    for (; element + kWide * kStep <= w.value_size; element += kWide * kStep) {
      add_steps<kWide>(w, fetch, weights, factor, element, load);
    }
    for (; element + kStep <= w.value_size; element += kStep) {
      add_steps<1>(w, fetch, weights, factor, element, load);
    }
    if (kHasHalves && element < w.value_size) {
      add_steps<1>(w, fetch, weights, factor, element, load_half);
    }
    fetch.rest();
  }

  static void see(const TileWork& w) {
    alignas(64) float scores[kRows][kTile];
    alignas(64) typename Path::Weight weights[kRows][kTile];
    Fetch<V> fetch(w);
    score(w, fetch, scores);
    F factor[kRows];
    for (int r = 0; r < kRows; ++r) factor[r] = weigh(scores[r], w.state[r], weights[r]);
    add_values(w, fetch, weights, factor);
  }
};

template <class V, class T, class Path>
constexpr TileKernel tile_kernel(const std::uint8_t* key_order, const std::uint8_t* value_order,
                                 float unit) {
  return {{&Tile<V, T, Path, 1>::see, &Tile<V, T, Path, 2>::see, &Tile<V, T, Path, 4>::see},
          2 * V::kLanes,
          key_order,
          value_order,
          Path::kBf16Query,
          unit};
}

}  // namespace kvproof::kernels::cpu
