#pragma once
// SPDX-License-Identifier: MIT
// Whether a sanitizer slows this build down: tests that measure, or take minutes, do less then.

namespace seenby::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool instrumented = true;
#elif defined(__has_feature)
inline constexpr bool instrumented = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool instrumented = false;
#endif

}  // namespace seenby::test
