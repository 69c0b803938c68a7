#pragma once
// SPDX-License-Identifier: MIT
// A user's exact items as sections of format 2: tests/golden/FORMAT-TABLE.md.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "seenby/filters/fingerprint/format.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/exact_items.hpp"

SEENBY_DETAIL_BEGIN

/// Whether a section holds exact items.
[[nodiscard]] inline bool is_exact(SectionKind kind) noexcept {
  return kind == SectionKind::hides || kind == SectionKind::kept_last;
}

/// Appends a section for hides and one for kept items, each where there are some; says how many.
inline std::uint16_t append_exact(std::vector<std::byte>& sections, const ExactItems& items) {
  std::vector<SectionEntry> hides;
  std::vector<SectionEntry> kept;
  for (const HiddenItem& item : items.hides) {
    hides.push_back({item.digest, item.at.time_since_epoch().count(), item.text});
  }
  for (const ExactItem& item : items.kept) kept.push_back({item.digest, item.at.time_since_epoch().count(), {}});
  if (!hides.empty()) append_section(sections, SectionKind::hides, hides);
  if (!kept.empty()) append_section(sections, SectionKind::kept_last, kept);
  return static_cast<std::uint16_t>((hides.empty() ? 0 : 1) + (kept.empty() ? 0 : 1));
}

/// Reads the exact items among a list of sections. Errors: corrupt.
[[nodiscard]] inline Result<ExactItems> read_exact(std::span<const std::byte> sections) {
  ExactItems items;
  Section section;
  while (next_section(sections, section)) {
    if (!is_exact(section.kind)) continue;
    auto entries = decode_entries(section.bytes);
    if (!entries) return std::move(entries).error();
    for (SectionEntry& entry : *entries) {
      const Time at{std::chrono::seconds(entry.time)};
      if (section.kind == SectionKind::hides) {
        items.hides.push_back({entry.digest, std::move(entry.text), at});
      } else {
        items.kept.push_back({entry.digest, at});
      }
    }
  }
  return items;
}

SEENBY_DETAIL_END
