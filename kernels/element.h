// SPDX-License-Identifier: Apache-2.0
// The element types of queries and caches, and their conversions, the same bits on host and device.
//
// Model:   fp32, fp16 and bf16 round to nearest even; fp8 stores saturate to the largest finite
//          value (infinity too); a NaN becomes the one NaN that the device writes, 0x7F or 0x7FFF.
// Source:  IEEE 754; OCP 8-bit Floating Point Specification 1.0 (E4M3 has no infinity).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "reference/layout.h"

#if defined(__CUDA_ARCH__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace kvproof::kernels {

enum class ElementType : std::uint8_t { fp32, fp16, bf16, fp8_e4m3, fp8_e5m2 };

struct Fp16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};
struct Fp8E4M3 {
  std::uint8_t bits;
};
struct Fp8E5M2 {
  std::uint8_t bits;
};

/// [bytes per element]
[[nodiscard]] KVPROOF_HOST_DEVICE constexpr std::int32_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::fp32: return 4;
    case ElementType::fp16:
    case ElementType::bf16: return 2;
    default: return 1;
  }
}

[[nodiscard]] KVPROOF_HOST_DEVICE constexpr bool is_fp8(ElementType type) {
  return type == ElementType::fp8_e4m3 || type == ElementType::fp8_e5m2;
}

[[nodiscard]] constexpr const char* name_of(ElementType type) {
  constexpr const char* kNames[] = {"fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<int>(type)];
}

/// The bits of one type as another of the same size.
template <class To, class From>
[[nodiscard]] KVPROOF_HOST_DEVICE inline To as_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// A small binary floating-point format. The top exponent holds infinity and NaN, unless kFiniteTop:
// then only its last mantissa is a NaN.
struct Fp16Format {
  static constexpr int kExponentBits = 5, kMantissaBits = 10;
  static constexpr bool kFiniteTop = false, kSaturates = false;
};
struct Fp8E4M3Format {
  static constexpr int kExponentBits = 4, kMantissaBits = 3;
  static constexpr bool kFiniteTop = true, kSaturates = true;
};
struct Fp8E5M2Format {
  static constexpr int kExponentBits = 5, kMantissaBits = 2;
  static constexpr bool kFiniteTop = false, kSaturates = true;
};

template <class Format>
[[nodiscard]] KVPROOF_HOST_DEVICE inline float decode_small(std::uint32_t bits) {
  constexpr int kMantissa = Format::kMantissaBits;
  constexpr std::uint32_t kTop = (1u << Format::kExponentBits) - 1;
  constexpr int kBias = (1 << (Format::kExponentBits - 1)) - 1;
  const std::uint32_t sign = (bits >> (Format::kExponentBits + kMantissa)) << 31;
  const std::uint32_t exponent = (bits >> kMantissa) & kTop;
  const std::uint32_t mantissa = bits & ((1u << kMantissa) - 1);
  if (exponent == kTop && (!Format::kFiniteTop || mantissa == (1u << kMantissa) - 1)) {
    return as_bits<float>(sign | 0x7F800000u | (mantissa << (23 - kMantissa)));
  }
  if (exponent == 0) {  // exact: a small integer times a power of two
    const float unit =
        as_bits<float>(static_cast<std::uint32_t>(127 + 1 - kBias - kMantissa) << 23);
    return as_bits<float>(as_bits<std::uint32_t>(static_cast<float>(mantissa) * unit) | sign);
  }
  const auto biased = static_cast<std::uint32_t>(static_cast<int>(exponent) + 127 - kBias);
  return as_bits<float>(sign | (biased << 23) | (mantissa << (23 - kMantissa)));
}

template <class Format>
[[nodiscard]] KVPROOF_HOST_DEVICE inline std::uint32_t encode_small(float value) {
  constexpr int kMantissa = Format::kMantissaBits;
  constexpr std::uint32_t kTop = (1u << Format::kExponentBits) - 1;
  constexpr int kBias = (1 << (Format::kExponentBits - 1)) - 1;
  constexpr std::uint32_t kNan = (kTop << kMantissa) | ((1u << kMantissa) - 1);
  constexpr std::uint32_t kInfinity = kTop << kMantissa;
  constexpr std::uint32_t kMost = Format::kFiniteTop ? kNan - 1 : kInfinity - 1;
  const std::uint32_t bits = as_bits<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 31) << (Format::kExponentBits + kMantissa);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return kNan;
  const int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;
  std::uint32_t rounded = 0;
  if (magnitude == 0x7F800000u || exponent > static_cast<int>(kTop)) {
    rounded = kMost + 1;
  } else if (exponent >= 1) {  // half of the last place, less one if an even number stays
    const std::uint32_t rebased = magnitude - (static_cast<std::uint32_t>(127 - kBias) << 23);
    constexpr int kDropped = 23 - kMantissa;
    rounded = (rebased + (1u << (kDropped - 1)) - 1 + ((rebased >> kDropped) & 1)) >> kDropped;
  } else {  // subnormal: the multiple of the least unit, by the processor's own rounding to even
    const float units =
        as_bits<float>(magnitude) *
        as_bits<float>(static_cast<std::uint32_t>(127 - 1 + kBias + kMantissa) << 23);
    rounded = static_cast<std::uint32_t>(rintf(units));
  }
  if (rounded <= kMost) return sign | rounded;
  return sign | (Format::kSaturates ? kMost : kInfinity);
}

[[nodiscard]] KVPROOF_HOST_DEVICE inline float to_float(float x) { return x; }
[[nodiscard]] KVPROOF_HOST_DEVICE inline float to_float(Bf16 x) {
  return as_bits<float>(std::uint32_t{x.bits} << 16);
}
[[nodiscard]] KVPROOF_HOST_DEVICE inline float to_float(Fp16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(as_bits<__half>(x.bits));
#else
  return decode_small<Fp16Format>(x.bits);
#endif
}
[[nodiscard]] KVPROOF_HOST_DEVICE inline float to_float(Fp8E4M3 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(x.bits, __NV_E4M3)));
#else
  return decode_small<Fp8E4M3Format>(x.bits);
#endif
}
[[nodiscard]] KVPROOF_HOST_DEVICE inline float to_float(Fp8E5M2 x) {
  return to_float(Fp16{static_cast<std::uint16_t>(x.bits << 8)});  // fp16's upper byte
}

template <class T>
[[nodiscard]] KVPROOF_HOST_DEVICE T from_float(float value);

template <>
[[nodiscard]] KVPROOF_HOST_DEVICE inline float from_float<float>(float value) {
  return value;
}
template <>
[[nodiscard]] KVPROOF_HOST_DEVICE inline Bf16 from_float<Bf16>(float value) {
  const std::uint32_t bits = as_bits<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {0x7FFF};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16)};
}
template <>
[[nodiscard]] KVPROOF_HOST_DEVICE inline Fp16 from_float<Fp16>(float value) {
#if defined(__CUDA_ARCH__)
  return {as_bits<std::uint16_t>(__float2half_rn(value))};
#else
  return {static_cast<std::uint16_t>(encode_small<Fp16Format>(value))};
#endif
}
template <>
[[nodiscard]] KVPROOF_HOST_DEVICE inline Fp8E4M3 from_float<Fp8E4M3>(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890  // one instruction; older cards emulate it
  return {__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3)};
#else
  return {static_cast<std::uint8_t>(encode_small<Fp8E4M3Format>(value))};
#endif
}
template <>
[[nodiscard]] KVPROOF_HOST_DEVICE inline Fp8E5M2 from_float<Fp8E5M2>(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return {__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2)};
#else
  return {static_cast<std::uint8_t>(encode_small<Fp8E5M2Format>(value))};
#endif
}

}  // namespace kvproof::kernels
