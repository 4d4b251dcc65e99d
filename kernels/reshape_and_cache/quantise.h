// SPDX-License-Identifier: Apache-2.0
// 16-bit elements into fp8 as fast as the memory takes them.
//
// Model:   from_float<To>(to_float(x) / scale), the same bits. A product with 1 / scale replaces
//          the quotient where product_is_exact() has proven that no element rounds otherwise.
#pragma once

#include <cstdint>

#include "kernels/element.h"

namespace kvproof::kernels {

/// The divisor of one array, and how the division is done.
struct Quantiser {
  float scale = 1;
  float reciprocal = 1;
  bool by_product = false;  // by a product with 1 / scale, else by a quotient
};

/// Whether every bf16 element times the rounded 1 / scale falls on the same side of every rounding
/// boundary of fp8 as the exact quotient: no quotient lies within 2^-21 of a boundary.
[[nodiscard]] bool product_is_exact(float scale);

/// @param count how many elements will be quantised: the proof only pays if they are many
[[nodiscard]] Quantiser quantiser_for(float scale, std::int64_t count);

/// Whether this processor and this build have the instructions.
[[nodiscard]] bool has_fast_quantise();

/// bf16 elements into e4m3 ones, by stores past the caches if `to` is a multiple of 16 bytes.
void quantise(const Bf16* from, Fp8E4M3* to, std::int64_t count, const Quantiser& by);

}  // namespace kvproof::kernels
