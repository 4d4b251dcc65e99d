// SPDX-License-Identifier: Apache-2.0
// The fast CPU attention over one tile, for any vocabulary V of vector operations.
//
// Model:   scores by 2 * kLanes elements at once, online softmax with powers of two, then V weighted
//          in registers; the weights of a tile never leave L1.
// Source:  Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 1; exp2f of Cephes (Moshier).
// Refuses: names that other files share: V has internal linkage, so nothing compiled here with
//          wider instructions can be what the linker keeps for everyone.
#pragma once

#include "kernels/attention/attention_cpu_tile.h"
#include "kernels/element.h"

#if defined(KVPROOF_ROLLED)  // the loops over registers, where registers are arrays in memory
#define KVPROOF_UNROLL
#elif defined(__clang__)
#define KVPROOF_UNROLL _Pragma("unroll")
#else
#define KVPROOF_UNROLL _Pragma("GCC unroll 16")
#endif

namespace kvproof::kernels::cpu {

/// A vocabulary with the loads of every cache type: two vectors, bf16's even and odd places apart.
template <class W>
struct WithLoads : W {
  using Pair = typename W::Pair;
  static Pair load2(const float* p) { return {W::load(p), W::load(p + W::kLanes)}; }
  static Pair load2(const Fp16* p) { return W::halves(W::load_words(p)); }
  static Pair load2(const Bf16* p) { return W::even_odd(W::load_words(p)); }
  static Pair load2(const Fp8E4M3* p) {  // as fp16 of 2^-8 the value, subnormal or not; NaN apart
    const auto x = W::template shift_right<1>(W::template shift_left<8>(W::widen_bytes(p)));
    const auto bits = W::both(x, static_cast<std::int16_t>(0xBFFF));
    return W::halves(W::either(bits, W::if_equal(W::both(x, 0x3FFF), 0x3F80, 0x7E00)));
  }
  static Pair load2(const Fp8E5M2* p) {
    return W::halves(W::template shift_left<8>(W::widen_bytes(p)));
  }
};

/// Elements become floats; products are float. What every vocabulary has.
template <class V, class T>
struct FloatPath {
  using Query = float;
  using Weight = float;
  using Key = typename V::Pair;
  using Value = typename V::Pair;
  static constexpr int kTokens = 1;  // of one step through V
  static constexpr bool kBf16Query = false;

  static Key load_key(const T* p) { return V::load2(p); }
  static typename V::F dot(const Key& key, const float* query, typename V::F sum) {
    sum = V::fma(key.a, V::load(query), sum);
    return V::fma(key.b, V::load(query + V::kLanes), sum);
  }
  static Value load_value(const T* const* rows, int element) { return V::load2(rows[0] + element); }
  static void add(const Value& value, const float* weight, typename V::F* sums) {
    const typename V::F w = V::set(*weight);
    sums[0] = V::fma(value.a, w, sums[0]);
    sums[1] = V::fma(value.b, w, sums[1]);
  }
  static void store_weights(float* to, typename V::F weights) { V::store(to, weights); }
};

/// bf16 multiplied as bf16, two products to a lane; weights are rounded to bf16.
template <class V>
struct Bf16Path {
  using Query = Bf16;
  using Weight = Bf16;
  using Key = typename V::Packed;
  struct Value {
    typename V::Packed low, high;
  };
  static constexpr int kTokens = 2;
  static constexpr bool kBf16Query = true;

  static Key load_key(const Bf16* p) { return V::load_packed(p); }
  static typename V::F dot(const Key& key, const Bf16* query, typename V::F sum) {
    return V::dot2(sum, key, V::load_packed(query));
  }
  static Value load_value(const Bf16* const* rows, int element) {
    const typename V::Packed even = V::load_packed(rows[0] + element);
    const typename V::Packed odd = V::load_packed(rows[1] + element);
    return {V::low16(even, odd), V::high16(even, odd)};
  }
  static void add(const Value& value, const Bf16* weight, typename V::F* sums) {
    const typename V::Packed w = V::set_pair(weight);
    sums[0] = V::dot2(sums[0], value.low, w);
    sums[1] = V::dot2(sums[1], value.high, w);
  }
  static void store_weights(Bf16* to, typename V::F weights) { V::store_bf16(to, weights); }
};

/// Everything of one vocabulary, cache type and number of query rows.
template <class V, class T, class Path, int kRows>
struct Tile {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;
  static constexpr int kStep = 2 * kLanes;  // [elements]
  static constexpr int kAtOnce =            // [tokens] whose scores are summed side by side
      V::kAccumulators / kRows < kLanes ? V::kAccumulators / kRows : kLanes;

  static const T* row(const char* const* rows, int token, std::ptrdiff_t offset) {
    return reinterpret_cast<const T*>(rows[token] + offset);
  }

  /// One vector out of kLanes: lane i combines the lanes of v[i].
  template <class Op>
  static F fold(F* v, Op op) {
    KVPROOF_UNROLL
    for (int i = 0; i < kLanes / 2; ++i) {
      v[i] = op(V::low32(v[2 * i], v[2 * i + 1]), V::high32(v[2 * i], v[2 * i + 1]));
    }
    KVPROOF_UNROLL
    for (int i = 0; i < kLanes / 4; ++i) {
      v[i] = op(V::low64(v[2 * i], v[2 * i + 1]), V::high64(v[2 * i], v[2 * i + 1]));
    }
    for (int n = kLanes / 8; n > 0; n /= 2) {
      KVPROOF_UNROLL
      for (int i = 0; i < n; ++i) {
        v[i] = op(V::even128(v[2 * i], v[2 * i + 1]), V::odd128(v[2 * i], v[2 * i + 1]));
      }
    }
    return v[0];
  }

  /// The lanes of one vector combined, in every lane.
  template <class Op>
  static F across(F x, Op op) {
    x = op(V::low32(x, x), V::high32(x, x));
    x = op(V::low64(x, x), V::high64(x, x));
    for (int n = kLanes / 8; n > 0; n /= 2) x = op(V::even128(x, x), V::odd128(x, x));
    return x;
  }

  /// 2^x for x <= 0; 0 below the normal numbers. Relative error below 2e-7.
  static F power_of_two(F x) {
    const F whole = V::round(x);
    const F part = V::sub(x, whole);
    F p = V::set(1.535336188319500e-4F);
    p = V::fma(p, part, V::set(1.339887440266574e-3F));
    p = V::fma(p, part, V::set(9.618437357674640e-3F));
    p = V::fma(p, part, V::set(5.550332471162809e-2F));
    p = V::fma(p, part, V::set(2.402264791363012e-1F));
    p = V::fma(p, part, V::set(6.931472028550421e-1F));
    p = V::fma(p, part, V::set(1.0F));
    return V::if_less(x, V::set(-126.0F), V::set(0.0F), V::mul(p, V::exponent(whole)));
  }

  /// tanh by Cephes: a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose its digits.
  static F tanh(F x) {
    const F size = V::max(x, V::sub(V::set(0.0F), x));
    const F square = V::mul(x, x);
    F p = V::set(-5.70498872745e-3F);
    p = V::fma(p, square, V::set(2.06390887954e-2F));
    p = V::fma(p, square, V::set(-5.37397155531e-2F));
    p = V::fma(p, square, V::set(1.33314422036e-1F));
    p = V::fma(p, square, V::set(-3.33332819422e-1F));
    const F near = V::fma(V::mul(p, square), x, x);
    const F e = power_of_two(V::mul(size, V::set(-2.8853900817779268F)));  // e^(-2 |x|)
    const F one = V::set(1.0F);
    const F far = V::div(V::sub(one, e), V::add(one, e));
    const F signed_far = V::if_less(x, V::set(0.0F), V::sub(V::set(0.0F), far), far);
    return V::if_less(size, V::set(0.625F), near, signed_far);
  }

  static void prefetch(const char* const* rows, int token, std::ptrdiff_t offset, int lines) {
    const char* at = rows[token] + offset;
    for (int line = 0; line < lines; ++line) __builtin_prefetch(at + line * 64, 0, 2);
  }

  /// A step of a row whose second half is past its end; that half becomes zeros.
  struct Half {
    alignas(64) T elements[kStep];
    explicit Half(const T* from) : elements{} {
      __builtin_memcpy(elements, from, kStep / 2 * sizeof(T));
    }
  };

  /// Partial sums of kAtOnce tokens from `first` on.
  static void dots(const TileWork& w, int first, F (*sums)[kLanes]) {
    using Query = typename Path::Query;
    F sum[kRows][kAtOnce];
    const T* key[kAtOnce];
    KVPROOF_UNROLL
    for (int t = 0; t < kAtOnce; ++t) {
      key[t] = row(w.key_rows, first + t, w.key_offset);
      prefetch(w.key_ahead, first + t, w.key_offset, w.key_lines);
      KVPROOF_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r][t] = V::set(0.0F);
    }
    const auto step = [&](int element, const typename Path::Key* k) {
      KVPROOF_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const auto* q = reinterpret_cast<const Query*>(w.query + r * w.query_stride) + element;
        KVPROOF_UNROLL
        for (int t = 0; t < kAtOnce; ++t) sum[r][t] = Path::dot(k[t], q, sum[r][t]);
      }
    };
    int element = 0;
    typename Path::Key k[kAtOnce];
    for (; element + kStep <= w.key_size; element += kStep) {
      KVPROOF_UNROLL
      for (int t = 0; t < kAtOnce; ++t) k[t] = Path::load_key(key[t] + element);
      step(element, k);
    }
    if (element < w.key_size) {
      for (int t = 0; t < kAtOnce; ++t) k[t] = Path::load_key(Half(key[t] + element).elements);
      step(element, k);
    }
    KVPROOF_UNROLL
    for (int r = 0; r < kRows; ++r) {
      KVPROOF_UNROLL
      for (int t = 0; t < kAtOnce; ++t) sums[r][first % kLanes + t] = sum[r][t];
    }
  }

  /// Scores times log2(e), minus infinity past the tokens that count.
  static void score(const TileWork& w, float (*scores)[kTile]) {
    constexpr float kLog2E = 1.44269504088896340736F;
    for (int group = 0; group < w.num_tokens; group += kLanes) {
      F sums[kRows][kLanes];
      for (int t = 0; t < kLanes; t += kAtOnce) dots(w, group + t, sums);
      for (int r = 0; r < kRows; ++r) {
        F s = fold(sums[r], V::add);
        if (w.soft_cap > 0) {
          s = V::mul(s, V::set(w.scale / w.soft_cap));
          s = V::mul(tanh(s), V::set(w.soft_cap * kLog2E));
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

  /// Scores to weights. @return what the sums of the tiles before are multiplied by
  static F weigh(const float* scores, RowState& state, typename Path::Weight* weights) {
    F highest = V::load(scores);
    for (int t = kLanes; t < kTile; t += kLanes) highest = V::max(V::load(scores + t), highest);
    const F before = V::set(state.highest);
    highest = V::max(across(highest, V::max), before);
    F sum = V::set(0.0F);
    for (int t = 0; t < kTile; t += kLanes) {
      const F weight = power_of_two(V::sub(V::load(scores + t), highest));
      sum = V::add(sum, weight);
      Path::store_weights(weights + t, weight);
    }
    const F factor = power_of_two(V::sub(before, highest));
    state.highest = V::first(highest);
    state.sum = V::first(V::fma(V::set(state.sum), factor, across(sum, V::add)));
    return factor;
  }

  /// Adds kSteps steps of V, from `element` on, to the sums of the tiles before.
  template <int kSteps, class Load>
  static void add_steps(const TileWork& w, const typename Path::Weight (*weights)[kTile],
                        const F* factor, int element, Load load) {
    F sum[kRows][2 * kSteps];
    KVPROOF_UNROLL
    for (int r = 0; r < kRows; ++r) {
      KVPROOF_UNROLL
      for (int i = 0; i < 2 * kSteps; ++i) {
        const float* at = w.output + r * w.output_stride + element + i * kLanes;
        sum[r][i] = V::mul(V::load(at), factor[r]);
      }
    }
    for (int t = 0; t < w.num_tokens; t += Path::kTokens) {
      KVPROOF_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        const typename Path::Value value = load(t, element + i * kStep);
        KVPROOF_UNROLL
        for (int r = 0; r < kRows; ++r) Path::add(value, &weights[r][t], sum[r] + 2 * i);
      }
    }
    KVPROOF_UNROLL
    for (int r = 0; r < kRows; ++r) {
      KVPROOF_UNROLL
      for (int i = 0; i < 2 * kSteps; ++i) {
        V::store(w.output + r * w.output_stride + element + i * kLanes, sum[r][i]);
      }
    }
  }

  static void add_values(const TileWork& w, const typename Path::Weight (*weights)[kTile],
                         const F* factor) {
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
    int element = 0, fetched = 0;
    const auto fetch = [&](int to_element) {  // spread over the whole pass
      const int end = kTile * to_element / w.value_size;
      for (; fetched < end; ++fetched) {
        prefetch(w.value_ahead, fetched, w.value_offset, w.value_lines);
      }
    };
    for (; element + kWide * kStep <= w.value_size; element += kWide * kStep) {
      fetch(element + kWide * kStep);
      add_steps<kWide>(w, weights, factor, element, load);
    }
    for (; element + kStep <= w.value_size; element += kStep) {
      fetch(element + kStep);
      add_steps<1>(w, weights, factor, element, load);
    }
    if (element < w.value_size) {
      fetch(w.value_size);
      add_steps<1>(w, weights, factor, element, load_half);
    }
  }

  static void see(const TileWork& w) {
    alignas(64) float scores[kRows][kTile];
    alignas(64) typename Path::Weight weights[kRows][kTile];
    score(w, scores);
    F factor[kRows];
    for (int r = 0; r < kRows; ++r) factor[r] = weigh(scores[r], w.state[r], weights[r]);
    add_values(w, weights, factor);
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
