// SPDX-License-Identifier: Apache-2.0
// The fast CPU attention of bf16 queries over fp8 in AVX-512: tables of bytes turn fp8 into bf16.
#include <algorithm>
#include <bit>

#include "kernels/attention/attention_cpu_avx512.h"
#include "kernels/attention/attention_cpu_tile.h"

#if defined(KVPROOF_AVX512_BF16) && defined(__AVX512VBMI__)
namespace kvproof::kernels::cpu {
namespace {

/// The two bytes of the bf16 of every fp8 without a sign, which hold it exactly.
struct Bf16Bytes {
  alignas(64) std::uint8_t low[128], high[128];
};

template <class Format>
constexpr Bf16Bytes bf16_bytes() {
  constexpr int kOne = 1 << Format::kMantissaBits;
  constexpr int kTop = 128 / kOne - 1;                     // the largest exponent
  constexpr int kUnit = kTop / 2 + Format::kMantissaBits;  // whose last place is 1
  Bf16Bytes out{};
  for (int x = 0; x < 128; ++x) {
    const int exponent = x / kOne, mantissa = x % kOne;
    float value = static_cast<float>(exponent == 0 ? mantissa : kOne + mantissa);
    for (int e = std::max(exponent, 1); e < kUnit; ++e) value /= 2;
    for (int e = kUnit; e < exponent; ++e) value *= 2;
    std::uint32_t bits = std::bit_cast<std::uint32_t>(value) >> 16;
    if (exponent == kTop && (!Format::kFiniteTop || mantissa == kOne - 1)) {
      bits = 0x7F80u + static_cast<std::uint32_t>(mantissa) * (128 / kOne);
    }
    out.low[x] = static_cast<std::uint8_t>(bits & 0xFF);
    out.high[x] = static_cast<std::uint8_t>(bits >> 8);
  }
  return out;
}
constexpr Bf16Bytes kBf16OfE4M3 = bf16_bytes<Fp8E4M3Format>();
constexpr Bf16Bytes kBf16OfE5M2 = bf16_bytes<Fp8E5M2Format>();

/// Where the bytes of two rows go, of which y's are 64 and more, so that the lower 8 of every 16
/// become one vector of bf16 and the upper 8 another.
struct Places {
  alignas(64) std::uint8_t rows[64];   // x, then y
  alignas(64) std::uint8_t pairs[64];  // elements of both in turn
};
constexpr Places kPlaces = [] {
  Places out{};
  for (int i = 0; i < 64; ++i) {
    const int part = i / 8 % 2, at = i / 16 * 8 + i % 8;  // in its vector
    out.rows[i] = static_cast<std::uint8_t>(64 * part + at);
    out.pairs[i] = static_cast<std::uint8_t>(at % 2 * 64 + 16 * part + at / 2);
  }
  return out;
}();

struct Vbmi : Avx512 {
  struct PackedPair {
    Packed part[2];
  };
  /// 32 elements of each row as bf16.
  template <class T>
  static PackedPair fp8_rows(const T* x, const T* y) {
    return convert(x, y, bytes_of(T{}), kPlaces.rows);
  }
  /// The same, an element of x and one of y in turn.
  template <class T>
  static PackedPair fp8_pairs(const T* x, const T* y) {
    return convert(x, y, bytes_of(T{}), kPlaces.pairs);
  }

 private:
  static const Bf16Bytes& bytes_of(Fp8E4M3) { return kBf16OfE4M3; }
  static const Bf16Bytes& bytes_of(Fp8E5M2) { return kBf16OfE5M2; }

  static PackedPair convert(const void* x, const void* y, const Bf16Bytes& bytes,
                            const std::uint8_t* places) {
    const auto row = [](const void* p) {
      return _mm512_castsi256_si512(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
    };
    const Packed from = _mm512_permutex2var_epi8(row(x), _mm512_load_si512(places), row(y));
    const auto look_up = [&](const std::uint8_t* table) {  // by 7 bits
      return _mm512_permutex2var_epi8(_mm512_load_si512(table), from,
                                      _mm512_load_si512(table + 64));
    };
    constexpr int kSelect = 0xCA;  // the first one's bits say whether the second's or the third's
    const Packed high =
        _mm512_ternarylogic_epi32(_mm512_set1_epi8(-128), from, look_up(bytes.high), kSelect);
    const Packed low = look_up(bytes.low);
    return {{_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)}};
  }
};

constexpr auto kKernels = kernels_of_fp8_as_bf16<Vbmi>();

}  // namespace

const TileKernel* avx512_vbmi_tile_kernels() { return kKernels.rows; }

}  // namespace kvproof::kernels::cpu
#else
const kvproof::kernels::cpu::TileKernel* kvproof::kernels::cpu::avx512_vbmi_tile_kernels() {
  return nullptr;
}
#endif
