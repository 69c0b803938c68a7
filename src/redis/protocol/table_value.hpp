#pragma once
// SPDX-License-Identifier: MIT
// A user's fingerprint table as a value in Redis: asked in place, and edited whole. tests/golden/FORMAT-REDIS.md.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/store_value.hpp"
#include "seenby/stores/blob/record.hpp"

namespace seenby::redis {

/// What all tables of a store have in common.
struct TablePolicy {
  HashIdentity hash;
  std::uint64_t seed = 0;
  double share = 0.01;  ///< what one user's table may err
};

/// Whether a value begins as a table does, marked or not.
[[nodiscard]] inline bool is_table(std::string_view value) noexcept {
  return !value.empty() && static_cast<unsigned char>(value[0]) == (detail::format_magic | detail::table_version);
}
/// Whether the table, filter or list carries the building mark.
[[nodiscard]] inline bool is_marked(std::string_view value) noexcept {
  return value.size() > 1 && (static_cast<unsigned char>(value[1]) & building_mark) != 0;
}

/// Where a table keeps its recent items.
struct RecentPlace {
  std::size_t at = 0;  ///< of the section, from the value's first byte
  std::uint16_t used = 0;
  std::uint16_t entry_bytes = 0;
  std::uint16_t room = 0;  ///< entries there can be
};
/// Of a whole, sound table; nothing where it has no such section.
[[nodiscard]] std::optional<RecentPlace> recent_place(std::string_view value);

/// Whether a table's header, marked or not, is what its checksum says.
[[nodiscard]] bool is_sound_header(std::string_view header, std::uint64_t value_bytes);

/// Hash kind, seed check and slice seconds: what the items of a script must agree in with the table they go to.
[[nodiscard]] std::string table_meaning(const TablePolicy& policy, const detail::SliceWindow& window);

/// seen[i] = 1 where the value may have digest i within the window, else 0. The value is not marked. Errors: those of
/// the formats; parameter_mismatch.
[[nodiscard]] Result<void> test_table(const TablePolicy& policy, const detail::SliceWindow& window,
                                      std::string_view value, std::span<const Digest> digests,
                                      std::span<std::uint8_t> seen);
/// ages[i]: the slices since digest i was last seen, 255 where it is not there. The same errors.
[[nodiscard]] Result<void> ages_in_table(const TablePolicy& policy, const detail::SliceWindow& window,
                                         std::string_view value, std::span<const Digest> digests,
                                         std::span<std::uint8_t> ages);

/// An item and the slice it was seen in.
struct SlicedDigest {
  Digest digest;
  std::int64_t slice = 0;
};

/// An empty table with room for `recent` items.
[[nodiscard]] std::string empty_table(const TablePolicy& policy, const detail::SliceWindow& window, bool marked);
/// The recent items that an empty table takes.
inline constexpr std::size_t first_recent_items = 8;

/// A change of one user's value.
struct TableEdit {
  std::string_view value{};                      ///< a table, or filters of version 1; empty for none
  std::vector<detail::OldFilters> old{};         ///< filters of version 1 beside it
  std::optional<std::uint64_t> history_items{};  ///< the history is among the items: how many it knows
  std::span<const SlicedDigest> items{};         ///< to insert
  bool marked = false;                           ///< what is written is marked
  std::optional<std::uint64_t> generation{};     ///< of what is written; a new one unless given
};
struct EditedTable {
  std::string value;
  std::size_t added = 0;
  bool grew = false;
  std::uint64_t dropped = 0;  ///< slices that left the window
  std::int64_t newest = 0;    ///< the table's newest slice
};
/// The value with the items in it: what has left the window is gone, recent items are sorted in, and there is room for
/// more. Filters of version 1 go where a history knows as many items, else they stay until they leave the window.
/// Errors: those of the formats; parameter_mismatch.
[[nodiscard]] Result<EditedTable> edit_table(const TablePolicy& policy, const detail::SliceWindow& window,
                                             const TableEdit& edit);

}  // namespace seenby::redis
