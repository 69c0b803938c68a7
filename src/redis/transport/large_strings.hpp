#pragma once
// SPDX-License-Identifier: MIT
// A per-thread pool of memory for large replies: the connection takes a string, the reply's reader gives it back.

#include <cstddef>
#include <string>

namespace seenby::redis {

/// From this size on a string is worth keeping. A fresh one of 128 KiB costs its zeroes, and where malloc gives such
/// blocks back to the system also a page fault every 4 KiB.
inline constexpr std::size_t large_string_bytes = std::size_t{16} << 10;

/// A string of this size with any content, if it is a large one that was given back on this thread.
[[nodiscard]] std::string take_string(std::size_t size);
/// Gives a string back, to be taken again on this thread, which keeps a few of them; small ones are freed.
void give_back(std::string&& text) noexcept;

}  // namespace seenby::redis
