// SPDX-License-Identifier: Apache-2.0
#include "kernels/reshape_and_cache/quantise.h"

namespace kvproof::kernels {
namespace {

void find_cells(ByteTable& table) {
  for (int cell = 0; cell < 16; ++cell) {
    const std::uint8_t* of = table.all + 8 * cell;
    int at_first = 0, one_more = 0;
    for (int i = 0; i < 8; ++i) {
      at_first += of[i] == of[0] ? 1 : 0;
      one_more += of[i] == of[0] + 1 ? 1 : 0;
    }
    table.first[cell] = of[0];
    table.last[0][cell] = static_cast<std::uint8_t>(8 * cell + at_first - 1);
    table.last[1][cell] = static_cast<std::uint8_t>(table.last[0][cell] + one_more);
  }
}

}  // namespace

Quantiser quantiser_for(float scale) {
  Quantiser out;
  out.scale = scale;
  out.in_range = scale > 0x1p-60F && scale < 0x1p60F;  // no quotient that counts leaves the normals
  std::uint32_t least = 0;                             // exponent of a quotient
  for (std::uint32_t mantissa = 0; mantissa < 128; ++mantissa) {
    const float element = as_bits<float>((127u << 23) | (mantissa << 16));
    const auto quotient = as_bits<std::uint32_t>(element / scale);
    if (mantissa == 0) least = quotient >> 23;
    const std::uint32_t bits = quotient - (least << 23);
    const std::uint32_t rounded = (bits + 0x7FFFF + (bits >> 20 & 1)) >> 20;
    const std::uint32_t sunk = (bits >> 20 << 1) + ((bits & 0xFFFFF) != 0 ? 1 : 0);
    out.rounded.all[mantissa] =
        static_cast<std::uint8_t>(rounded + Quantiser::kLifted - Quantiser::kExcess);
    out.sunk.all[mantissa] = static_cast<std::uint8_t>(sunk + Quantiser::kSunkAt);
  }
  find_cells(out.rounded);
  find_cells(out.sunk);
  out.least_exponent = static_cast<std::uint8_t>(127 - 12 + 127 - least);
  return out;
}

void quantise(QuantiseVectors way, const RowsToQuantise& rows, const Quantiser& by) {
  if (by.in_range && way(rows, by)) return;
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      rows.to[row * rows.to_stride + i] =
          from_float<Fp8E4M3>(to_float(rows.from[row * rows.count + i]) / by.scale);
    }
  }
}

}  // namespace kvproof::kernels
