// SPDX-License-Identifier: Apache-2.0
// Whether this unit was compiled for ThreadSanitizer, under either compiler.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define KVPROOF_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KVPROOF_UNDER_TSAN 1
#endif
#endif
#if !defined(KVPROOF_UNDER_TSAN)
#define KVPROOF_UNDER_TSAN 0
#endif

namespace kvproof::properties {

inline constexpr bool kUnderThreadSanitizer = KVPROOF_UNDER_TSAN != 0;

}  // namespace kvproof::properties
