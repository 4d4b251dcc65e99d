// SPDX-License-Identifier: Apache-2.0
// Quantising in AVX2, 32 elements at a time, compiled for it function by function.
//
// Way:     PSHUFB looks up 16 bytes, so the tables are those by 8 mantissas (ByteTable): the first
//          byte, and where the next one begins. Subnormals cost as much again, and are looked for.
#include "kernels/reshape_and_cache/quantise.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define KVPROOF_AVX2 __attribute__((target("avx2")))
#endif

namespace kvproof::kernels {

#if defined(__x86_64__)
namespace {

KVPROOF_AVX2 inline __m256i sixteen(const std::uint8_t* from) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
KVPROOF_AVX2 inline __m256i each_byte(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }

KVPROOF_AVX2 inline __m256i load_16(const Bf16* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

/// The same byte, in a register or in memory: g++ would make it anew in every step.
KVPROOF_AVX2 inline __m256i kept_byte(int x) {
  __m256i out = each_byte(x);
  asm("" : "+x"(out));
  return out;
}

/// What stays the same in all steps.
struct Avx2Tables {
  __m256i rounded, rounded_last, sunk, sunk_last[2], least_exponent;
  __m256i most_binade = kept_byte(31), cells = kept_byte(15), least_normal = kept_byte(8);
  __m256i lifted = kept_byte(Quantiser::kLifted), sign = kept_byte(0x80);
};

/// kSunk at 32 bytes. @param at 16 * binade + sunk, of any binade
KVPROOF_AVX2 inline __m256i look_up_sunk(__m256i at) {
  __m256i out = _mm256_setzero_si256();
  at = _mm256_subs_epu8(at, each_byte(Quantiser::kSunkAt + 32));
  for (int binade = 0; binade < 4; ++binade) {  // an index with the top bit set finds 0
    const __m256i index =
        _mm256_adds_epu8(_mm256_xor_si256(at, each_byte(16 * binade)), each_byte(0x70));
    const std::uint8_t* codes = kSunk.code + (Quantiser::kSunkAt + 32 + 16 * binade) % 128;
    out = _mm256_or_si256(out, _mm256_shuffle_epi8(sixteen(codes), index));
  }
  return out;
}

KVPROOF_AVX2 inline __m256i quantise_32(const Avx2Tables& t, __m256i a, __m256i b, __m256i& most) {
  const __m256i a2 = _mm256_add_epi16(a, a), b2 = _mm256_add_epi16(b, b);
  most = _mm256_max_epu16(most, _mm256_max_epu16(a2, b2));
  // Packing takes the halves of 16 bytes in turn; the last permutation sets that right.
  const __m256i exponent = _mm256_packus_epi16(_mm256_srli_epi16(a2, 8), _mm256_srli_epi16(b2, 8));
  const __m256i low = _mm256_set1_epi16(0x7F);
  const __m256i mantissa = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
  const __m256i cell = _mm256_and_si256(_mm256_srli_epi16(mantissa, 3), t.cells);
  const __m256i up = _mm256_cmpgt_epi8(mantissa, _mm256_shuffle_epi8(t.rounded_last, cell));
  const __m256i rounded = _mm256_sub_epi8(_mm256_shuffle_epi8(t.rounded, cell), up);
  const __m256i binade =
      _mm256_min_epu8(_mm256_subs_epu8(exponent, t.least_exponent), t.most_binade);
  const __m256i by_8 = _mm256_slli_epi16(binade, 3);
  __m256i code = _mm256_subs_epu8(_mm256_adds_epu8(by_8, rounded), t.lifted);
  const __m256i small = _mm256_cmpgt_epi8(t.least_normal, code);
  if (!_mm256_testz_si256(small, binade)) {
    __m256i sunk = _mm256_shuffle_epi8(t.sunk, cell);
    for (const __m256i& last : t.sunk_last) {
      sunk = _mm256_sub_epi8(sunk, _mm256_cmpgt_epi8(mantissa, _mm256_shuffle_epi8(last, cell)));
    }
    const __m256i at = _mm256_adds_epu8(_mm256_adds_epu8(by_8, by_8), sunk);
    code = _mm256_max_epu8(code, look_up_sunk(at));
  }
  const __m256i sign = _mm256_and_si256(_mm256_packs_epi16(a, b), t.sign);
  return _mm256_permute4x64_epi64(_mm256_or_si256(code, sign), 0xD8);
}

KVPROOF_AVX2 inline void quantise_row_by_32(const Avx2Tables& t, const Bf16* from, Fp8E4M3* to,
                                            std::int64_t count, __m256i& most) {
  const bool streams = reinterpret_cast<std::uintptr_t>(to) % 32 == 0;
  std::int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i out = quantise_32(t, load_16(from + i), load_16(from + i + 16), most);
    auto* at = reinterpret_cast<__m256i*>(to + i);
    if (streams) {
      _mm256_stream_si256(at, out);
    } else {
      _mm256_storeu_si256(at, out);
    }
  }
  if (i == count) return;
  Bf16 rest[32] = {};
  alignas(32) Fp8E4M3 out[32];
  __builtin_memcpy(rest, from + i, static_cast<std::size_t>(count - i) * sizeof(Bf16));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out),
                     quantise_32(t, load_16(rest), load_16(rest + 16), most));
  __builtin_memcpy(to + i, out, static_cast<std::size_t>(count - i));
}

KVPROOF_AVX2 bool quantise_by_32(const RowsToQuantise& rows, const Quantiser& by) {
  const Avx2Tables t = {sixteen(by.rounded.first),
                        sixteen(by.rounded.last[0]),
                        sixteen(by.sunk.first),
                        {sixteen(by.sunk.last[0]), sixteen(by.sunk.last[1])},
                        each_byte(by.least_exponent)};
  __m256i most = _mm256_setzero_si256();  // the largest elements, twice: without their signs
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    quantise_row_by_32(t, rows.from + row * rows.count, rows.to + row * rows.to_stride, rows.count,
                       most);
  }
  const __m256i infinity = _mm256_set1_epi16(static_cast<short>(0xFF00));
  const __m256i equal = _mm256_cmpeq_epi16(_mm256_max_epu16(most, infinity), infinity);
  return _mm256_movemask_epi8(equal) == -1;
}

}  // namespace

QuantiseVectors quantise_avx2() {
  return __builtin_cpu_supports("avx2") ? &quantise_by_32 : nullptr;
}
#else
QuantiseVectors quantise_avx2() { return nullptr; }
#endif

}  // namespace kvproof::kernels
