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
  static Pair load2(const float* p) { return {{W::load(p), W::load(p + W::kLanes)}}; }
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
  using Factor = typename V::F;  // what an element is multiplied by
  using Key = typename V::Pair;
  struct Keys {
    Key row[2];
  };
  using Value = typename V::Pair;
  static constexpr int kTokens = 1;    // of one step through V
  static constexpr int kKeyParts = 2;  // of one step through K
  static constexpr bool kBf16Query = false;

  static Keys load_keys(const T* const* rows, int element) {
    return {{V::load2(rows[0] + element), V::load2(rows[1] + element)}};
  }
  static Factor load_query(const float* p) { return V::keep(V::load(p)); }
  static Value load_value(const T* const* rows, int element) { return V::load2(rows[0] + element); }
  static Factor load_weight(const float* p) { return V::keep(V::set(*p)); }
  static typename V::F add(typename V::F sum, typename V::F x, Factor y) {
    return V::add_product(sum, x, y);
  }
  static void store_weights(float* to, typename V::F weights) { V::store(to, weights); }
};

/// bf16 multiplied as bf16, two products to a lane; weights are rounded to bf16.
template <class V>
struct Bf16Path {
  using Query = Bf16;
  using Weight = Bf16;
  using Factor = typename V::Packed;
  struct Key {
    typename V::Packed part[1];
  };
  struct Keys {
    Key row[2];
  };
  struct Value {
    typename V::Packed part[2];
  };
  static constexpr int kTokens = 2;
  static constexpr int kKeyParts = 1;
  static constexpr bool kBf16Query = true;

  static Keys load_keys(const Bf16* const* rows, int element) {
    return {{{{V::load_packed(rows[0] + element)}}, {{V::load_packed(rows[1] + element)}}}};
  }
  static Factor load_query(const Bf16* p) { return V::load_packed(p); }
  static Value load_value(const Bf16* const* rows, int element) {
    const typename V::Packed even = V::load_packed(rows[0] + element);
    const typename V::Packed odd = V::load_packed(rows[1] + element);
    return {{V::low16(even, odd), V::high16(even, odd)}};
  }
  static Factor load_weight(const Bf16* p) { return V::set_pair(p); }
  static typename V::F add(typename V::F sum, typename V::Packed x, Factor y) {
    return V::dot2(sum, x, y);
  }
  static void store_weights(Bf16* to, typename V::F weights) { V::store_bf16(to, weights); }
};

/// fp8 read as bf16, which holds it exactly, and multiplied like that.
template <class V, class T>
struct Fp8AsBf16Path : Bf16Path<V> {
  using typename Bf16Path<V>::Keys;
  using typename Bf16Path<V>::Value;

  static Keys load_keys(const T* const* rows, int element) {
    const auto of = V::fp8_rows(rows[0] + element, rows[1] + element);
    return {{{{of.part[0]}}, {{of.part[1]}}}};
  }
  static Value load_value(const T* const* rows, int element) {
    const auto pairs = V::fp8_pairs(rows[0] + element, rows[1] + element);
    return {{pairs.part[0], pairs.part[1]}};
  }
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

  /// One vector out of n: every lane combines lanes of one of them. Where the lanes of each v[i]
  /// already combine those of 2^level vectors, kLanes are combined once all levels are passed, in
  /// order.
  template <int n, int level = 0, class Op>
  static F fold(F* v, Op op) {
    if constexpr (n == 1) {
      return v[0];
    } else {
      KVPROOF_UNROLL
      for (int i = 0; i < n / 2; ++i) v[i] = folded<level>(v[2 * i], v[2 * i + 1], op);
      return fold<n / 2, level + 1>(v, op);
    }
  }

  template <int level, class Op>
  static F folded(F x, F y, Op op) {
    const typename V::Pair halves = V::template halves_of<level>(x, y);
    return op(halves.part[0], halves.part[1]);
  }

  /// The lanes of one vector combined, in every lane.
  template <int level = 0, class Op>
  static F across(F x, Op op) {
    if constexpr (1 << level == kLanes) {
      return x;
    } else {
      return across<level + 1>(folded<level>(x, x, op), op);
    }
  }

  /// 2^x for x <= 0; 0 from -126.5 down. Relative error below 2e-7.
  static F power_of_two(F x) {
    const F at = V::max(V::set(-127.0F), x);
    // An ulp is 1 here: adding it rounds, and leaves the biased exponent in the lowest bits.
    const F shift = V::set(0x1.8p23F + 127);
    const F shifted = V::add(at, shift);
    const F part = V::sub(at, V::sub(shifted, shift));
    F p = V::set(1.535336188319500e-4F);
    p = V::fma(p, part, V::set(1.339887440266574e-3F));
    p = V::fma(p, part, V::set(9.618437357674640e-3F));
    p = V::fma(p, part, V::set(5.550332471162809e-2F));
    p = V::fma(p, part, V::set(2.402264791363012e-1F));
    p = V::fma(p, part, V::set(6.931472028550421e-1F));
    p = V::fma(p, part, V::set(1.0F));
    return V::mul(p, V::low_bits_as_exponent(shifted));
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
