// SPDX-License-Identifier: Apache-2.0
// How elements of each cache type are converted for multiplication, and how sums are folded.
//
// Linkage: V has internal linkage, so every name here is the file's own. Otherwise the linker might
//          keep a function that was compiled with wider instructions, and use it for all files.
// Source:  exp2f and tanhf of Cephes (Moshier).
#pragma once

#include "kernels/attention/attention_cpu_tile.h"
#include "kernels/element.h"

#if defined(KVPROOF_ROLLED)  // loops over registers stay loops: registers are arrays in memory
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

/// Elements become floats and products are float. Every vocabulary can do this.
template <class V, class T>
struct FloatPath {
  using Query = float;
  using Weight = float;
  using Key = typename V::Pair;
  using Value = typename V::Pair;
  static constexpr int kTokens = 1;  // of one step through V
  static constexpr bool kBf16Query = false;

  static Key load_key(const T* p) { return V::load2(p); }
  template <int n>
  static void dot(const Key* keys, const float* query, typename V::F* sums) {
    const typename V::F a = V::keep(V::load(query));
    KVPROOF_UNROLL
    for (int i = 0; i < n; ++i) sums[i] = V::fma(keys[i].a, a, sums[i]);
    const typename V::F b = V::keep(V::load(query + V::kLanes));
    KVPROOF_UNROLL
    for (int i = 0; i < n; ++i) sums[i] = V::fma(keys[i].b, b, sums[i]);
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
  template <int n>
  static void dot(const Key* keys, const Bf16* query, typename V::F* sums) {
    const typename V::Packed q = V::load_packed(query);
    KVPROOF_UNROLL
    for (int i = 0; i < n; ++i) sums[i] = V::dot2(sums[i], keys[i], q);
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

/// A step of a row whose second half is past its end; that half becomes zeros.
template <class V, class T>
struct HalfStep {
  static constexpr int kStep = 2 * V::kLanes;
  alignas(64) T elements[kStep];
  explicit HalfStep(const T* from) : elements{} {
    __builtin_memcpy(elements, from, kStep / 2 * sizeof(T));
  }
};

/// Operations on whole vectors.
template <class V>
struct VectorMath {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;

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
};

}  // namespace kvproof::kernels::cpu
