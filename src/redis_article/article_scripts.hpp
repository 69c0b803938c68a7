#pragma once
// SPDX-License-Identifier: MIT
// The article layout's writes, each one script.

#include "redis/transport/script.hpp"

namespace seenby::redis::article_scripts {

/// What `add` answers first when it did nothing.
enum : int { missing = -1, held = -2, other_size = -3 };

/// KEYS: key. ARGV: exponent, k, positions as u32 each, milliseconds to live or "". Answers {exponent, items that
/// changed a bit, bits set}, or one of the above, `other_size` with the exponent and the length.
[[nodiscard]] const Script& add();
/// KEYS: key. ARGV: 8 random bytes, milliseconds, default exponent. Answers the value with the mark on it; nil when
/// there is none, 0 while another client holds or makes it.
[[nodiscard]] const Script& hold();
/// KEYS: key. ARGV: old value, new value ("": delete), milliseconds to live, "keep" or "". Answers 1, or 0 when the old
/// value is not there.
[[nodiscard]] const Script& swap();

}  // namespace seenby::redis::article_scripts
