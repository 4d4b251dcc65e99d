// SPDX-License-Identifier: Apache-2.0
// Elements whose type is a run-time value: what the general kernels read and write.
#pragma once

#include <cstdint>

#include "kernels/element.h"

namespace kvproof::kernels {

/// Element `index` of an array of `type`, as a float.
[[nodiscard]] KVPROOF_HOST_DEVICE inline float load_element(const void* base, std::int64_t index,
                                                            ElementType type) {
  switch (type) {
    case ElementType::fp32: return static_cast<const float*>(base)[index];
    case ElementType::fp16: return to_float(static_cast<const Fp16*>(base)[index]);
    case ElementType::bf16: return to_float(static_cast<const Bf16*>(base)[index]);
    case ElementType::fp8_e4m3: return to_float(static_cast<const Fp8E4M3*>(base)[index]);
    default: return to_float(static_cast<const Fp8E5M2*>(base)[index]);
  }
}

/// Rounds to `type` and writes element `index`.
KVPROOF_HOST_DEVICE inline void store_element(void* base, std::int64_t index, ElementType type,
                                              float value) {
  switch (type) {
    case ElementType::fp32: static_cast<float*>(base)[index] = value; break;
    case ElementType::fp16: static_cast<Fp16*>(base)[index] = from_float<Fp16>(value); break;
    case ElementType::bf16: static_cast<Bf16*>(base)[index] = from_float<Bf16>(value); break;
    case ElementType::fp8_e4m3:
      static_cast<Fp8E4M3*>(base)[index] = from_float<Fp8E4M3>(value);
      break;
    default: static_cast<Fp8E5M2*>(base)[index] = from_float<Fp8E5M2>(value);
  }
}

/// Calls f with a value of the C++ type behind `type`.
template <class F>
decltype(auto) with_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::fp32: return f(float{});
    case ElementType::fp16: return f(Fp16{});
    case ElementType::bf16: return f(Bf16{});
    case ElementType::fp8_e4m3: return f(Fp8E4M3{});
    default: return f(Fp8E5M2{});
  }
}

}  // namespace kvproof::kernels
