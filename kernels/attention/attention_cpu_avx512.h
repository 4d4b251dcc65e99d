// SPDX-License-Identifier: Apache-2.0
// The operations of AVX-512, and of its products of bf16. Each has its twin in
// attention_cpu_portable.cpp, where the same kernels are tested on any processor. The header is
// empty where they are not compiled, and defines KVPROOF_AVX512_BF16 where they are.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512BF16__)
#define KVPROOF_AVX512_BF16

#include <immintrin.h>

#include "kernels/attention/attention_cpu_16_lanes.h"

namespace kvproof::kernels::cpu {
namespace {

struct Avx512 {
  using F = __m512;
  using Packed = __m512i;  // 32 bf16
  using Words = __m512i;   // 32 times 16 bits
  static constexpr int kLanes = 16;
  static constexpr int kAccumulators = 16;  // of 32 registers
  struct Pair {
    F part[2];
  };

  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F keep(F x) { return x; }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static float first(F x) { return _mm512_cvtss_f32(x); }
  static F add(F x, F y) { return _mm512_add_ps(x, y); }
  static F sub(F x, F y) { return _mm512_sub_ps(x, y); }
  static F mul(F x, F y) { return _mm512_mul_ps(x, y); }
  static F div(F x, F y) { return _mm512_div_ps(x, y); }
  static F max(F x, F y) { return _mm512_max_ps(x, y); }
  static F fma(F x, F y, F z) { return _mm512_fmadd_ps(x, y, z); }
  static F add_product(F sum, F x, F y) { return fma(x, y, sum); }
  static F low_bits_as_exponent(F x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
  }
  static bool any_less(F x, F y) { return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ) != 0; }
  static F if_less(F x, F y, F then, F otherwise) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), otherwise, then);
  }
  template <int level>  // for fold(); one of two is a blend where it can be, more units do those
  static Pair halves_of(F x, F y) {
    if constexpr (level == 0) {
      return {{_mm512_shuffle_ps(x, y, 0x4E), _mm512_mask_blend_ps(0xCCCC, x, y)}};
    }
    if constexpr (level == 1) {
      return {{_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xDD)}};
    }
    if constexpr (level == 2) {
      return {{_mm512_shuffle_f32x4(x, y, 0x4E), _mm512_mask_blend_ps(0xFF00, x, y)}};
    }
    return {{_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xDD)}};
  }

  static Words load_words(const void* p) { return _mm512_loadu_si512(p); }
  static Words widen_bytes(const void* p) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  template <int n>
  static Words shift_left(Words x) {
    return _mm512_slli_epi16(x, n);
  }
  template <int n>
  static Words shift_right(Words x) {  // copies of the sign come in
    return _mm512_srai_epi16(x, n);
  }
  static Words both(Words x, std::int16_t y) { return _mm512_and_si512(x, _mm512_set1_epi16(y)); }
  static Words either(Words x, Words y) { return _mm512_or_si512(x, y); }
  static Words if_equal(Words x, std::int16_t y, std::int16_t then) {  // else 0
    return _mm512_maskz_set1_epi16(_mm512_cmpeq_epi16_mask(x, _mm512_set1_epi16(y)), then);
  }
  static Pair halves(Words x) {  // fp16 to float
    return {{_mm512_cvtph_ps(_mm512_castsi512_si256(x)),
             _mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1))}};
  }

  static Packed load_packed(const Bf16* p) { return _mm512_loadu_si512(p); }
  static Packed set_pair(const Bf16* p) {
    std::int32_t both_of_them;
    __builtin_memcpy(&both_of_them, p, sizeof(both_of_them));
    return _mm512_set1_epi32(both_of_them);
  }
  static Packed low16(Packed x, Packed y) { return _mm512_unpacklo_epi16(x, y); }
  static Packed high16(Packed x, Packed y) { return _mm512_unpackhi_epi16(x, y); }
  static F dot2(F sum, Packed x, Packed y) {
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
  }
  static void store_bf16(Bf16* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x));
  }
};

}  // namespace
}  // namespace kvproof::kernels::cpu
#endif
