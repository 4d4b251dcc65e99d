// SPDX-License-Identifier: Apache-2.0
// bf16 into e4m3 by tables of bytes, the same bits as from_float<Fp8E4M3>(to_float(x) / scale).
//
// Model:   with exponent and mantissa read as one integer, x / scale in e4m3 is 8 * (exponent of x)
//          + rounded[mantissa of x]: it rounds alike in every binade of e4m3's normals. Below them,
//          the upper 3 bits of the quotient's mantissa and whether a lower one is set say how it
//          rounds. The larger one of the two is the result.
// Bytes:   binade 0 of quotients begins at 2^-12, so binades 2 to 5 are e4m3's subnormals. What is
//          added to the tables makes sums saturate at 255 where results do.
#pragma once

#include <cstdint>

#include "kernels/element.h"

namespace kvproof::kernels {

/// By 7 bits: bytes that ascend, by at most two within every cell of 8.
struct ByteTable {
  alignas(64) std::uint8_t all[128];
  alignas(16) std::uint8_t first[16];    // of a cell
  alignas(16) std::uint8_t last[2][16];  // where a cell last has its first byte, or one more
};

/// What quantising by one scale comes to.
struct Quantiser {
  static constexpr int kLifted = 255 - 0x7E;        // 0x7E is the largest finite e4m3
  static constexpr int kExcess = 8 * 6 - 8;         // of 8 * binade + mantissa, over e4m3's normals
  static constexpr int kSunkAt = 255 - 16 * 6 + 1;  // of 16 * binade: the last of six ends at 255

  float scale;
  bool in_range;                // the scale: else elements are divided one by one
  std::uint8_t least_exponent;  // of bf16, at binade 0
  ByteTable rounded;            // by mantissa, and kLifted - kExcess
  ByteTable sunk;               // 2 * the upper 3 bits, 1 if a lower one is set, and kSunkAt
};

[[nodiscard]] Quantiser quantiser_for(float scale);

/// By 16 * binade + sunk, modulo 128: the subnormal e4m3, or 8, the least normal one.
struct Sunk {
  alignas(64) std::uint8_t code[128];
};
inline constexpr Sunk kSunk = [] {
  Sunk out{};
  for (int at = 0; at < 16 * 6; ++at) {
    const int units = (16 + at % 16) << (at / 16);  // of 1 / 128 of a subnormal's last place
    out.code[(at + Quantiser::kSunkAt) % 128] =
        static_cast<std::uint8_t>((units + 63 + (units >> 7 & 1)) >> 7);
  }
  return out;
}();

/// Rows of bf16 that follow one another, and where they go.
struct RowsToQuantise {
  const Bf16* from;
  Fp8E4M3* to;
  std::int64_t count;      // [elements] of a row
  std::int64_t rows;       // 1 or more
  std::int64_t to_stride;  // [elements] from a row to the next
};

/// One way to quantise, by the instructions of a processor: stores past the caches where rows begin
/// at multiples of whole vectors. @return whether all is done; if not, there are NaNs among them
using QuantiseVectors = bool (*)(const RowsToQuantise& rows, const Quantiser& by);
[[nodiscard]] QuantiseVectors quantise_avx2();         // null if this processor lacks AVX2
[[nodiscard]] QuantiseVectors quantise_avx512_vbmi();  // null if it lacks AVX-512 F, BW or VBMI

/// bf16 elements into e4m3 ones.
void quantise(QuantiseVectors way, const RowsToQuantise& rows, const Quantiser& by);

}  // namespace kvproof::kernels
