// SPDX-License-Identifier: Apache-2.0
// Quantising in AVX-512 VBMI, 64 elements at a time, compiled for it function by function.
#include "kernels/reshape_and_cache/quantise.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define KVPROOF_VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))
#endif

namespace kvproof::kernels {

#if defined(__x86_64__)
namespace {

/// 128 bytes in two registers.
struct TableOf128 {
  __m512i low, high;
};
KVPROOF_VBMI inline TableOf128 byte_table(const std::uint8_t* from) {
  return {_mm512_loadu_si512(from), _mm512_loadu_si512(from + 64)};
}
KVPROOF_VBMI inline __m512i look_up(const TableOf128& table, __m512i at) {  // modulo 128
  return _mm512_permutex2var_epi8(table.low, at, table.high);
}
KVPROOF_VBMI inline __m512i bytes(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }

/// 64 elements at a time.
struct TableSteps {
  TableOf128 rounded, sunk, code;
  __m512i even, least_exponent;
  __m512i most_bits;  // the largest element so far, twice: without its sign
};

KVPROOF_VBMI inline __m512i quantise_64(TableSteps& s, __m512i a, __m512i b) {
  const __m512i even = s.even, odd = _mm512_add_epi8(s.even, bytes(1));
  const __m512i a2 = _mm512_add_epi16(a, a), b2 = _mm512_add_epi16(b, b);
  s.most_bits = _mm512_max_epu16(_mm512_max_epu16(s.most_bits, a2), b2);
  const __m512i mantissa = _mm512_permutex2var_epi8(a, even, b);  // and a bit that is not looked at
  const __m512i exponent = _mm512_permutex2var_epi8(a2, odd, b2);
  const __m512i sign = _mm512_permutex2var_epi8(a, odd, b);  // and others
  const __m512i binade = _mm512_min_epu8(_mm512_subs_epu8(exponent, s.least_exponent), bytes(31));
  const __m512i by_8 = _mm512_slli_epi16(binade, 3);
  const __m512i by_16 = _mm512_adds_epu8(by_8, by_8);
  const __m512i normal = _mm512_subs_epu8(_mm512_adds_epu8(by_8, look_up(s.rounded, mantissa)),
                                          bytes(Quantiser::kLifted));
  const __m512i sunk = look_up(s.code, _mm512_adds_epu8(by_16, look_up(s.sunk, mantissa)));
  constexpr int kSelect = 0xCA;  // the first one's bits say whether the second's or the third's
  return _mm512_ternarylogic_epi32(bytes(0x80), sign, _mm512_max_epu8(normal, sunk), kSelect);
}

KVPROOF_VBMI inline void quantise_row_by_64(TableSteps& s, const Bf16* from, Fp8E4M3* to,
                                            std::int64_t count) {
  const bool streams = reinterpret_cast<std::uintptr_t>(to) % 64 == 0;
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i out =
        quantise_64(s, _mm512_loadu_si512(from + i), _mm512_loadu_si512(from + i + 32));
    if (streams) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), out);
    } else {
      _mm512_storeu_si512(to + i, out);
    }
  }
  if (i == count) return;
  const __mmask64 mask = (std::uint64_t{1} << (count - i)) - 1;
  const auto words = [&](int at) { return static_cast<__mmask32>(mask >> at); };
  const __m512i out = quantise_64(s, _mm512_maskz_loadu_epi16(words(0), from + i),
                                  _mm512_maskz_loadu_epi16(words(32), from + i + 32));
  _mm512_mask_storeu_epi8(to + i, mask, out);
}

KVPROOF_VBMI bool quantise_by_64(const RowsToQuantise& rows, const Quantiser& by) {
  alignas(64) std::uint8_t even[64];
  for (int i = 0; i < 64; ++i) even[i] = static_cast<std::uint8_t>(2 * i);
  TableSteps s = {byte_table(by.rounded.all), byte_table(by.sunk.all),  byte_table(kSunk.code),
                  _mm512_load_si512(even),    bytes(by.least_exponent), _mm512_setzero_si512()};
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    quantise_row_by_64(s, rows.from + row * rows.count, rows.to + row * rows.to_stride, rows.count);
  }
  return _mm512_cmpgt_epu16_mask(s.most_bits, _mm512_set1_epi16(static_cast<short>(0xFF00))) == 0;
}

}  // namespace

QuantiseVectors quantise_avx512_vbmi() {
  const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vbmi");
  return runs ? &quantise_by_64 : nullptr;
}
#else
QuantiseVectors quantise_avx512_vbmi() { return nullptr; }
#endif

}  // namespace kvproof::kernels
