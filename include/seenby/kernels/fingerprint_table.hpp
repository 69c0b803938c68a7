#pragma once
// SPDX-License-Identifier: MIT
// Batch checks of fingerprint tables by the kernel that serves.

#include <cstddef>
#include <cstdint>

#include "seenby/kernels/fingerprint.hpp"
#include "seenby/kernels/table.hpp"

SEENBY_DETAIL_BEGIN

/// seen[i] = 1 when a live lane of the table matches digest i, else 0.
inline void check(const FingerprintRef& table, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  scalar::check_fingerprints(table, digests, count, seen, Answers::replace);
}
/// seen[i] += 1 when a live lane of the table matches digest i.
inline void check_add(const FingerprintRef& table, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  scalar::check_fingerprints(table, digests, count, seen, Answers::add);
}
/// seen[i] = how many of two tables have a live lane that matches digest i.
inline void check_pair(const FingerprintRef& first, const FingerprintRef& second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen) noexcept {
  check(first, digests, count, seen);
  check_add(second, digests, count, seen);
}

SEENBY_DETAIL_END
