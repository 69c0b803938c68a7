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
  return kind == SectionKind::hides || kind == SectionKind::kept_last || kind == SectionKind::in_flight;
}

/// Appends a section for hides, for kept items and for those in flight, each where there are some; says how many.
inline std::uint16_t append_exact(std::vector<std::byte>& sections, const ExactItems& items) {
  std::vector<SectionEntry> hides;
  std::vector<SectionEntry> kept;
  std::vector<SectionEntry> in_flight;
  for (const HiddenItem& item : items.hides) {
    hides.push_back({item.digest, item.at.time_since_epoch().count(), item.text});
  }
  for (const ExactItem& item : items.kept) kept.push_back({item.digest, item.at.time_since_epoch().count(), {}});
  for (const ExactItem& item : items.in_flight) {
    in_flight.push_back({item.digest, item.until.time_since_epoch().count(), {}});
  }
  std::uint16_t count = 0;
  const auto append = [&](SectionKind kind, const std::vector<SectionEntry>& entries) {
    if (entries.empty()) return;
    append_section(sections, kind, entries);
    ++count;
  };
  append(SectionKind::hides, hides);
  append(SectionKind::kept_last, kept);
  append(SectionKind::in_flight, in_flight);
  return count;
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
      } else if (section.kind == SectionKind::in_flight) {
        items.in_flight.push_back({entry.digest, Time::max(), at});
      } else {
        items.kept.push_back({entry.digest, at});
      }
    }
  }
  return items;
}

SEENBY_DETAIL_END
