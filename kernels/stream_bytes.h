// SPDX-License-Identifier: Apache-2.0
// Copies past the caches: stores that do not read the line they replace. They win where what is
// written is larger than the last cache, and is not read soon.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/implementation.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kvproof::kernels {

#if defined(__SSE2__)
inline constexpr Refusal kNoStreaming{};
#else
inline constexpr Refusal kNoStreaming{"this processor has no stores past the caches"};
#endif

/// Copies, and asks for as many bytes from `ahead` on meanwhile: what is copied next. @param ahead
/// null: nothing
inline void stream_bytes(void* to, const void* from, std::int64_t bytes,
                         [[maybe_unused]] const void* ahead) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
#if defined(__SSE2__)
  const auto* next = static_cast<const char*>(ahead);
  const auto head = std::min<std::int64_t>(
      bytes, static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(out) % 64));
  std::memcpy(out, in, static_cast<std::size_t>(head));
  std::int64_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    if (next != nullptr) __builtin_prefetch(next + at, 0, 2);
    for (std::int64_t i = at; i < at + 64; i += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
  }
  std::memcpy(out + at, in + at, static_cast<std::size_t>(bytes - at));
#else
  std::memcpy(out, in, static_cast<std::size_t>(bytes));
#endif
}

/// What was streamed is seen by other threads before anything that this one stores later.
inline void end_stream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace kvproof::kernels
