// SPDX-License-Identifier: Apache-2.0
// The warp's matrix unit: 8 x 8 tiles of 16-bit elements from shared memory, and products of 16 x
// 16 by 16 x 8.
//
// Model:   Lane l holds, of a 16 x 16 A: rows l/4 and l/4 + 8, columns 2(l%4), +1, +8, +9; of a
//          16 x 8 B: column l/4, rows as A's columns; of a 16 x 8 C: rows as A's, columns
//          2(l%4), +1.
// Source:  PTX ISA 8.5, 9.7.14.5.8 (mma.m16n8k16) and 9.7.14.5.15 (ldmatrix); movmatrix.
#pragma once

#include <cstdint>

#include "kernels/element.h"
#include "kernels/simt/cuda.h"

namespace kvproof::kernels {

/// Two floats rounded to T, the first in the lower half. @tparam T Fp16 or Bf16
template <class T>
__device__ inline std::uint32_t pack_two(float low, float high) {
#if defined(__CUDA_ARCH__)
  if constexpr (__is_same(T, Bf16)) {
    return as_bits<std::uint32_t>(__floats2bfloat162_rn(low, high));
  } else {
    return as_bits<std::uint32_t>(__floats2half2_rn(low, high));
  }
#else
  return std::uint32_t{from_float<T>(low).bits} | std::uint32_t{from_float<T>(high).bits} << 16;
#endif
}

/// The e4m3 elements in the lower two bytes of `pair`, exactly, as two Fp16.
__device__ inline std::uint32_t widen_two(std::uint32_t pair) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
  // fp16 has the same fields, its exponent 8 greater; only the NaN is none there.
  const std::uint32_t spread = (pair & 0xFFu) | (pair & 0xFF00u) << 8;
  const std::uint32_t fields = (spread & 0x00800080u) << 8 | (spread & 0x007F007Fu) << 7;
  const auto scaled = __hmul2(as_bits<__half2>(fields), __float2half2_rn(256.0F));
  const std::uint32_t nan = (((spread & 0x007F007Fu) + 0x00010001u) & 0x00800080u) * 0xFFu;
  return as_bits<std::uint32_t>(scaled) | nan;
#elif defined(__CUDA_ARCH__)
  const auto both = static_cast<__nv_fp8x2_storage_t>(pair);
  return as_bits<std::uint32_t>(__half2(__nv_cvt_fp8x2_to_halfraw2(both, __NV_E4M3)));
#else
  return pack_two<Fp16>(to_float(Fp8E4M3{static_cast<std::uint8_t>(pair)}),
                        to_float(Fp8E4M3{static_cast<std::uint8_t>(pair >> 8)}));
#endif
}

#if defined(__CUDACC__)

/// Four 8 x 8 tiles; lane l gives the address of row l % 8 of tile l / 8, aligned to 16 bytes, and
/// gets of each tile row l / 4, elements 2(l%4) and +1.
__device__ inline void load_tiles(std::uint32_t (&out)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
/// The same, each tile transposed: lane l gets column l / 4, rows 2(l%4) and +1.
__device__ inline void load_tiles_transposed(std::uint32_t (&out)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

/// An 8 x 8 tile in registers, transposed: of row l / 4, elements 2(l%4) and +1, before and after.
__device__ inline std::uint32_t transpose_tile(std::uint32_t pair) {
  std::uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
  return out;
}

/// c += a . b, 16 x 8 += 16 x 16 . 16 x 8. @tparam T Fp16 or Bf16, the type of a's and b's elements
template <class T>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
  if constexpr (sizeof(T{}.bits) == 2 && __is_same(T, Bf16)) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

#else

inline std::uint32_t two_of(const void* row, int index) {
  std::uint32_t out;
  std::memcpy(&out, static_cast<const char*>(row) + 4 * index, 4);
  return out;
}

inline void load_tiles(std::uint32_t (&out)[4], const void* row, KVPROOF_CALLER) {
  simt::about_to_read16(row, "load_tiles", place);
  const auto cells = simt::warp_exchange(&row, sizeof(row), place);
  const int lane = simt::current().lane();
  for (int tile = 0; tile < 4; ++tile) {
    const void* source;
    std::memcpy(&source, cells[tile * 8 + lane / 4], sizeof(source));
    out[tile] = two_of(source, lane % 4);
  }
}

inline void load_tiles_transposed(std::uint32_t (&out)[4], const void* row, KVPROOF_CALLER) {
  simt::about_to_read16(row, "load_tiles", place);
  const auto cells = simt::warp_exchange(&row, sizeof(row), place);
  const int lane = simt::current().lane();
  for (int tile = 0; tile < 4; ++tile) {
    std::uint16_t pair[2];
    for (int i = 0; i < 2; ++i) {
      const char* source;
      std::memcpy(&source, cells[tile * 8 + lane % 4 * 2 + i], sizeof(source));
      std::memcpy(&pair[i], source + 2 * (lane / 4), 2);
    }
    std::memcpy(&out[tile], pair, 4);
  }
}

/// An 8 x 8 tile in registers, transposed: of row l / 4, elements 2(l%4) and +1, before and after.
inline std::uint32_t transpose_tile(std::uint32_t pair) {
  const auto cells = simt::warp_exchange(&pair, sizeof(pair), KVPROOF_PLACE);
  const int lane = simt::current().lane(), column = lane / 4;
  std::uint32_t out = 0;
  for (int i = 0; i < 2; ++i) {
    std::uint32_t row;
    std::memcpy(&row, cells[(lane % 4 * 2 + i) * 4 + column / 2], sizeof(row));
    out |= (row >> (16 * (column % 2)) & 0xFFFFu) << (16 * i);
  }
  return out;
}

template <class T>
inline float half_of(std::uint32_t pair, int index) {
  return to_float(T{static_cast<std::uint16_t>(pair >> (16 * index))});
}

template <class T>
inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  struct Mine {
    std::uint32_t a[4], b[2];
  } const mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const auto cells = simt::warp_exchange(&mine, sizeof(mine), KVPROOF_PLACE);
  const int lane = simt::current().lane();
  const auto word = [&](int of_lane, int index) {
    std::uint32_t out;
    std::memcpy(&out, cells[of_lane] + 4 * index, 4);
    return out;
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {  // A word: 0 row, 1 row + 8, then the same 8 columns on
      const int part = k % 8 / 2;
      c[i] += half_of<T>(word(row * 4 + part, k / 8 * 2 + i / 2), k % 2) *
              half_of<T>(word(column * 4 + part, 4 + k / 8), k % 2);
    }
  }
}

#endif

}  // namespace kvproof::kernels
