// SPDX-License-Identifier: Apache-2.0
// The 16-lane kernels, built from the operations of AVX-512 or of its imitation in plain C++.
#pragma once

#include "kernels/attention/attention_cpu_see.h"

namespace kvproof::kernels::cpu {

/// The places of a step: in order, and in the order in which two rows of V interleave.
struct Orders16 {
  std::uint8_t in_order[32], interleaved[32];
};
inline constexpr Orders16 kOrders16 = [] {
  Orders16 out{};
  for (int i = 0; i < 32; ++i) {
    out.in_order[i] = static_cast<std::uint8_t>(i);
    const int lane = i % 16;
    out.interleaved[i] = static_cast<std::uint8_t>(lane / 4 * 8 + lane % 4 + (i < 16 ? 0 : 4));
  }
  return out;
}();

struct FiveKernels {
  TileKernel rows[5];  // by ElementType
};

template <class W>
constexpr FiveKernels kernels_of_16_lanes() {
  using V = WithLoads<W>;
  const std::uint8_t* order = kOrders16.in_order;
  return {{tile_kernel<V, float, FloatPath<V, float>>(order, order, 1),
           tile_kernel<V, Fp16, FloatPath<V, Fp16>>(order, order, 1),
           tile_kernel<V, Bf16, Bf16Path<V>>(order, kOrders16.interleaved, 1),
           tile_kernel<V, Fp8E4M3, FloatPath<V, Fp8E4M3>>(order, order, 256),
           tile_kernel<V, Fp8E5M2, FloatPath<V, Fp8E5M2>>(order, order, 1)}};
}

struct TwoKernels {
  TileKernel rows[2];  // fp8_e4m3, fp8_e5m2
};

/// For queries of bf16.
template <class W>
constexpr TwoKernels kernels_of_fp8_as_bf16() {
  using V = WithLoads<W>;
  const std::uint8_t* order = kOrders16.in_order;
  return {{tile_kernel<V, Fp8E4M3, Fp8AsBf16Path<V, Fp8E4M3>>(order, order, 1),
           tile_kernel<V, Fp8E5M2, Fp8AsBf16Path<V, Fp8E5M2>>(order, order, 1)}};
}

}  // namespace kvproof::kernels::cpu
