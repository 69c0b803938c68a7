#pragma once
// SPDX-License-Identifier: MIT
// The section of a memory store's snapshot that holds what users hid and saw last: tests/golden/FORMAT-SNAPSHOT.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "seenby/stores/exact_sections.hpp"
#include "seenby/stores/memory/core.hpp"
#include "seenby/stores/memory/snapshot_format.hpp"

SEENBY_DETAIL_BEGIN

inline constexpr std::uint64_t snapshot_exact = 0x4e444879626e6573U;  // "senbyHDN"

/// Says how many users.
template <std::size_t Words>
std::uint64_t put_exact(ByteWriter& out, const ExactKeys<Words>& users) {
  std::uint64_t count = 0;
  users.for_each([&](const std::array<std::uint64_t, Words>& key, const ExactItems& items) {
    std::vector<std::byte> sections;
    append_exact(sections, items);
    for (const std::uint64_t word : key) out.put(word);
    out.put(std::uint64_t{sections.size()});
    out.put_bytes(sections);
    ++count;
  });
  return count;
}

/// False when the bytes are not what `count` says.
template <std::size_t Words>
[[nodiscard]] bool take_exact(std::span<const std::byte> payload, std::uint64_t count, ExactKeys<Words>& users) {
  ByteReader in(payload);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::array<std::uint64_t, Words> key;
    for (auto& word : key) word = in.take<std::uint64_t>();
    const auto sections = in.take_bytes(in.take<std::uint64_t>());
    if (in.overrun()) return false;
    const auto items = read_exact(sections);
    if (!items) return false;
    users.add(key, *items);
  }
  return in.empty();
}

SEENBY_DETAIL_END
