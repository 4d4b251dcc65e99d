// SPDX-License-Identifier: Apache-2.0
// Says under which sanitizer a unit was compiled, for both compilers. A unit that is not, but talks
// to the sanitizer of the others, is compiled with KVPROOF_UNDER_TSAN=1.
#pragma once

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KVPROOF_UNDER_TSAN 1
#elif __has_feature(address_sanitizer)
#define KVPROOF_UNDER_ASAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define KVPROOF_UNDER_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define KVPROOF_UNDER_ASAN 1
#endif
#if !defined(KVPROOF_UNDER_TSAN)
#define KVPROOF_UNDER_TSAN 0
#endif
#if !defined(KVPROOF_UNDER_ASAN)
#define KVPROOF_UNDER_ASAN 0
#endif

namespace kvproof {

inline constexpr bool kUnderThreadSanitizer = KVPROOF_UNDER_TSAN != 0;

}  // namespace kvproof
