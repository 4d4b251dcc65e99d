// SPDX-License-Identifier: Apache-2.0
// 16-bit elements into fp8, compiled with AVX2 and F16C if the compiler has them;
// has_fast_quantise() says whether it can run.
//
// Way:     x / scale / 2^8 in fp32 puts e4m3's exponents where fp16 has them, subnormals too.
//          Adding and taking off 1.5 * 2^20 times its power of two rounds it to three bits of
//          mantissa, to even; the result is exact in fp16 and, three bits further down, in e4m3.
#include "kernels/reshape_and_cache/quantise.h"

#include <cmath>

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define KVPROOF_FAST_QUANTISE 1
#endif

namespace kvproof::kernels {

bool product_is_exact(float scale) {
  const std::uint32_t bits = as_bits<std::uint32_t>(scale);
  if (!(scale > 0x1p-60F && scale < 0x1p60F)) return false;  // no product leaves fp32's normals
  if ((bits & 0x007FFFFFu) == 0) return true;                // a power of two
  constexpr std::int64_t kMantissa = std::int64_t{1} << 52;
  constexpr std::int64_t kNear = std::int64_t{1} << (52 - 21);
  for (int element = 128; element < 256; ++element) {       // every mantissa of bf16
    for (int boundary = 1; boundary < 32; boundary += 2) {  // every boundary, by a power of two
      const double ratio = element / (boundary * double{scale});
      const std::int64_t mantissa = as_bits<std::int64_t>(ratio) & (kMantissa - 1);
      if (mantissa < kNear || mantissa > kMantissa - kNear) return false;
    }
  }
  return true;
}

Quantiser quantiser_for(float scale, std::int64_t count) {
  constexpr std::int64_t kMany = 1 << 16;
  Quantiser out{scale, 1.0F / scale, false};
  out.by_product = count >= kMany && product_is_exact(scale);
  return out;
}

#if defined(KVPROOF_FAST_QUANTISE)

bool has_fast_quantise() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
}

namespace {

constexpr std::int64_t kStep = 16;  // [elements]

/// Eight elements, sign apart, as fp16 whose mantissa ends after three bits.
template <bool by_product>
__m128i round_eight(__m256i bits, __m256 divisor) {
  __m256 x = _mm256_castsi256_ps(bits);
  if constexpr (by_product) {
    x = _mm256_mul_ps(x, divisor);
  } else {
    x = _mm256_mul_ps(_mm256_div_ps(x, divisor), _mm256_set1_ps(0x1p-8F));
  }
  const __m256i least = _mm256_set1_epi32((127 - 14) << 23);  // subnormals share an exponent
  const __m256i exponent = _mm256_and_si256(_mm256_max_epi32(_mm256_castps_si256(x), least),
                                            _mm256_set1_epi32(0x7F800000));
  const __m256 magic =
      _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32((20 << 23) | 0x00400000)));
  return _mm256_cvtps_ph(_mm256_sub_ps(_mm256_add_ps(x, magic), magic),
                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/// 16 elements. @return whether one of them is a NaN; then the output is wrong
template <bool by_product>
bool quantise_step(const Bf16* from, Fp8E4M3* to, __m256 divisor, bool streams) {
  const __m256i in = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i magnitude = _mm256_and_si256(in, _mm256_set1_epi16(0x7FFF));
  const __m256i zero = _mm256_setzero_si256();
  // Halves of both lanes: elements 0-3 and 8-11, then 4-7 and 12-15, each as fp32.
  const __m128i a = round_eight<by_product>(_mm256_unpacklo_epi16(zero, magnitude), divisor);
  const __m128i b = round_eight<by_product>(_mm256_unpackhi_epi16(zero, magnitude), divisor);
  const __m128i first = _mm_srli_epi16(_mm_unpacklo_epi64(a, b), 7);
  const __m128i second = _mm_srli_epi16(_mm_unpackhi_epi64(a, b), 7);
  const __m128i most = _mm_set1_epi8(0x7E);  // larger ones have overflowed, infinity included
  const __m128i values = _mm_min_epu8(_mm_packus_epi16(first, second), most);
  const __m128i signs =
      _mm_and_si128(_mm_packs_epi16(_mm256_castsi256_si128(in), _mm256_extracti128_si256(in, 1)),
                    _mm_set1_epi8(static_cast<char>(0x80)));
  const __m128i out = _mm_or_si128(values, signs);
  if (streams) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), out);
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), out);
  }
  const __m256i nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7F80));
  return _mm256_testz_si256(nan, nan) == 0;
}

void quantise_slowly(const Bf16* from, Fp8E4M3* to, std::int64_t count, float scale) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = from_float<Fp8E4M3>(to_float(from[i]) / scale);
  }
}

template <bool by_product>
void quantise_all(const Bf16* from, Fp8E4M3* to, std::int64_t count, const Quantiser& by) {
  const __m256 divisor = _mm256_set1_ps(by_product ? by.reciprocal * 0x1p-8F : by.scale);
  const bool streams = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    if (quantise_step<by_product>(from + i, to + i, divisor, streams)) {
      quantise_slowly(from + i, to + i, kStep, by.scale);
    }
  }
  quantise_slowly(from + i, to + i, count - i, by.scale);
}

}  // namespace

void quantise(const Bf16* from, Fp8E4M3* to, std::int64_t count, const Quantiser& by) {
  if (by.by_product) return quantise_all<true>(from, to, count, by);
  quantise_all<false>(from, to, count, by);
}

#else

bool has_fast_quantise() { return false; }

void quantise(const Bf16* from, Fp8E4M3* to, std::int64_t count, const Quantiser& by) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = from_float<Fp8E4M3>(to_float(from[i]) / by.scale);
  }
}

#endif

}  // namespace kvproof::kernels
