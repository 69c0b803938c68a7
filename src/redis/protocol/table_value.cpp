// SPDX-License-Identifier: MIT
// Tables as values: recent items, which wait unsorted behind the table, and everything else by BlobRecord.

#include "redis/protocol/table_value.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "seenby/detail/bits.hpp"
#include "seenby/detail/random_generation.hpp"
#include "seenby/filters/fingerprint/format.hpp"

namespace seenby::redis {
namespace {

using Bytes = std::vector<std::byte>;

/// Items that were added last, each the first 5 + t bytes of its digest and, with slices, its slice: the first section
/// of every table. Its second number says how many are in use. So many bytes hold all bits of a lane that a table of up
/// to 17 bucket bits and one tail byte more takes.
constexpr std::uint8_t most_bucket_bits = 16;
constexpr auto recent_kind = static_cast<SectionKind>(5);
constexpr std::size_t most_recent_items = 64;

[[nodiscard]] std::span<const std::byte> bytes_of(std::string_view value) noexcept {
  return std::as_bytes(std::span(value));
}
[[nodiscard]] std::size_t prefix_bytes(const FingerprintShape& shape) noexcept {
  return std::min<std::size_t>(8, 5U + shape.tail_bytes);
}
[[nodiscard]] std::size_t entry_bytes(const FingerprintShape& shape) noexcept {
  return prefix_bytes(shape) + (shape.sliced ? 1U : 0U);
}

/// The recent items of a table whose header was read, as bytes.
struct Recent {
  std::size_t used = 0;
  std::span<const std::byte> entries{};  ///< all there is room for
};
[[nodiscard]] Result<Recent> recent_of(const FingerprintShape& shape, std::span<const std::byte> sections) {
  Section section;
  for (auto rest = sections; detail::next_section(rest, section);) {
    if (section.kind != recent_kind) continue;
    const std::byte* const head = section.bytes.data() - detail::section_header_bytes;
    const Recent recent{detail::load_le<std::uint16_t>(head + 2), section.bytes};
    if (recent.used * entry_bytes(shape) <= section.bytes.size()) return recent;
    return Error{ErrorCode::corrupt, "seenby::redis: expected fewer recent items in a table"};
  }
  return Recent{};
}
/// The digest that entry i is of, as far as it goes, then zeros.
[[nodiscard]] std::uint64_t digest_at(const FingerprintShape& shape, const Recent& recent, std::size_t i) noexcept {
  const std::byte* const at = recent.entries.data() + i * entry_bytes(shape);
  std::uint64_t digest = 0;
  for (std::size_t k = 0; k < prefix_bytes(shape); ++k) {
    digest |= std::to_integer<std::uint64_t>(at[k]) << (56 - 8 * k);
  }
  return digest;
}
[[nodiscard]] std::uint8_t slice_at(const FingerprintShape& shape, const Recent& recent, std::size_t i) noexcept {
  if (!shape.sliced) return 0;
  return std::to_integer<std::uint8_t>(recent.entries[i * entry_bytes(shape) + prefix_bytes(shape)]);
}

/// Calls `work` with the store's hasher.
template <class Work>
[[nodiscard]] auto with_hash(const TablePolicy& policy, const Work& work) {
  switch (policy.hash.kind) {
    case HashKind::xxh64: return work(Xxh64Hash(policy.seed));
    case HashKind::mix64: return work(Mix64Hash(policy.seed));
    case HashKind::xxh3_64: break;
  }
  return work(Xxh3Hash(policy.seed));
}

/// A table without its mark.
[[nodiscard]] Bytes unmarked(std::string_view value) {
  const auto bytes = bytes_of(value);
  Bytes out(bytes.begin(), bytes.end());
  if (out.size() > 1) out[1] &= ~std::byte{building_mark};
  return out;
}

/// Writes header, table and sections, the header's checksum not over them.
[[nodiscard]] Bytes written(TableHeader header, std::span<const std::byte> body, std::span<const std::byte> sections) {
  header.covers_body = false;
  header.section_bytes = static_cast<std::uint32_t>(sections.size());
  Bytes out(table_header_bytes + body.size() + sections.size());
  std::copy(body.begin(), body.end(), out.begin() + table_header_bytes);
  std::copy(sections.begin(), sections.end(), out.end() - static_cast<std::ptrdiff_t>(sections.size()));
  encode_table_header(header, {}, std::span(out).first<table_header_bytes>());
  return out;
}

/// The same table with its recent items in it, and without the mark.
[[nodiscard]] Result<Bytes> sorted_in(std::string_view text) {
  Bytes bytes = unmarked(text);
  auto value = decode_table(bytes);
  if (!value) return std::move(value).error();
  const FingerprintShape& shape = value->header.shape;
  auto recent = recent_of(shape, value->sections);
  if (!recent) return std::move(recent).error();
  std::vector<FingerprintItem> items;
  for (std::size_t i = 0; i < recent->used; ++i) {
    items.push_back({Digest{digest_at(shape, *recent, i)}, slice_at(shape, *recent, i)});
  }
  TableHeader header = value->header;
  Bytes sections;
  Section section;
  header.section_count = 0;
  for (auto rest = value->sections; detail::next_section(rest, section);) {
    if (section.kind == recent_kind) continue;
    ++header.section_count;
    sections.insert(sections.end(), section.bytes.data() - detail::section_header_bytes,
                    section.bytes.data() + section.bytes.size());
  }
  if (items.empty()) {
    const std::byte* const body = bytes.data() + table_header_bytes;
    return written(header, {body, static_cast<std::size_t>(shape.bytes())}, sections);
  }
  header.shape = grown_shape(&value->table, items.size(), header.share, shape.sliced);
  header.shape.tail_bytes = std::min<std::uint8_t>(header.shape.tail_bytes, shape.tail_bytes + 1U);
  Bytes body(static_cast<std::size_t>(header.shape.bytes()));
  FingerprintTable table(header.shape, 0, body.data());
  constexpr std::uint8_t every_age = 255;
  // The shape has room for all.
  static_cast<void>(table.rebuild(&value->table, items, {static_cast<std::uint8_t>(header.newest), every_age}));
  header.count = table.count();
  return written(header, body, sections);
}

/// How many recent items a table of this size gets room for: a sixteenth of what it holds, and what its allocation in
/// Redis has left (jemalloc's classes, four to a doubling; sds has 4 to 10 bytes of its own).
[[nodiscard]] std::size_t recent_room(std::size_t bytes, std::uint32_t count, std::size_t entry) noexcept {
  const std::size_t least = std::clamp<std::size_t>(count / 16, first_recent_items, most_recent_items);
  const std::size_t used = bytes + least * entry;
  const std::size_t needed = used + (used < 256 ? 4 : used < 65'536 ? 6 : 10);
  std::size_t step = 16;
  while (step * 8 < needed) step *= 2;
  const std::size_t spare = (step - needed % step) % step / entry;
  return least + std::min(spare, least);
}

/// What BlobRecord encoded as a live value: a new generation, room for recent items, the mark.
[[nodiscard]] std::string live(std::span<const std::byte> blob, bool marked,
                               std::optional<std::uint64_t> generation = std::nullopt) {
  const auto value = decode_table(blob);
  TableHeader header = value->header;
  if (header.count == 0 && header.shape.capacity == 0) {
    header.shape.tail_bytes = sizing::tail_bytes_for(0, 0, FingerprintShape::items_per_bucket, header.share);
  }
  const auto body = blob.subspan(table_header_bytes, static_cast<std::size_t>(header.shape.bytes()));
  const std::size_t entry = entry_bytes(header.shape);
  // While it is marked many may add to it, and whoever removes the mark must not wait for them.
  constexpr std::size_t room_while_marked = 256;
  const std::size_t room = header.shape.bucket_bits > most_bucket_bits ? 0
                           : marked                                    ? room_while_marked
                                    : recent_room(blob.size() + detail::section_header_bytes, header.count, entry);
  Bytes sections(detail::section_header_bytes + room * entry);
  detail::store_le(sections.data(), static_cast<std::uint16_t>(recent_kind));
  detail::store_le(sections.data() + 4, static_cast<std::uint32_t>(room * entry));
  sections.insert(sections.end(), value->sections.begin(), value->sections.end());
  ++header.section_count;
  header.generation = generation.value_or(detail::random_generation());
  const Bytes out = written(header, body, sections);
  std::string text(reinterpret_cast<const char*>(out.data()), out.size());
  if (marked) mark_building(text);
  return text;
}

template <Hasher H>
[[nodiscard]] Result<EditedTable> edit_with(const H& hash, double share, const detail::SliceWindow& window,
                                            const TableEdit& edit) {
  using Record = detail::BlobRecord<H>;
  Record record(hash, share, window);
  if (!edit.value.empty()) {
    auto plain = is_table(edit.value) ? sorted_in(edit.value) : Result<Bytes>(unmarked(edit.value));
    if (!plain) return std::move(plain).error();
    auto decoded = Record::decode(*plain, hash, share, window);
    if (!decoded) return std::move(decoded).error();
    record = std::move(*decoded);
  }
  for (const detail::OldFilters& filters : edit.old) {
    if (auto added = record.add_old(filters); !added) return std::move(added).error();
  }
  if (edit.history_items && *edit.history_items >= record.old_items()) record.drop_old();
  std::vector<Digest> digests;
  digests.reserve(edit.items.size());
  for (const SlicedDigest& item : edit.items) digests.push_back(item.digest);
  EditedTable out;
  out.added = record.insert(digests, [&](std::size_t i) { return edit.items[i].slice; });
  out.dropped = record.dropped();
  const Bytes blob = record.encode();
  out.newest = static_cast<std::int64_t>(detail::load_le<std::uint32_t>(blob.data() + 32));
  out.value = live(blob, edit.marked, edit.generation);
  // Also where only the recent items were sorted in.
  constexpr std::size_t bucket_bits_at = 2;
  out.grew = is_table(edit.value) && static_cast<unsigned char>(edit.value[bucket_bits_at]) <
                                         static_cast<unsigned char>(out.value[bucket_bits_at]);
  return out;
}

}  // namespace

std::optional<RecentPlace> recent_place(std::string_view value) {
  const Bytes bytes = unmarked(value);
  const auto header = decode_table_header(bytes, bytes.size());
  if (!header) return std::nullopt;
  const FingerprintShape& shape = header->shape;
  const std::size_t at = table_header_bytes + static_cast<std::size_t>(shape.bytes());
  const auto recent = recent_of(shape, std::span(bytes).subspan(at));
  Section first;
  auto sections = std::span<const std::byte>(bytes).subspan(at);
  if (!recent || !detail::next_section(sections, first) || first.kind != recent_kind) return std::nullopt;
  const std::size_t entry = entry_bytes(shape);
  return RecentPlace{at, static_cast<std::uint16_t>(recent->used), static_cast<std::uint16_t>(entry),
                     static_cast<std::uint16_t>(first.bytes.size() / entry)};
}

bool is_sound_header(std::string_view header, std::uint64_t value_bytes) {
  return decode_table_header(unmarked(header), value_bytes).has_value();
}

std::string table_meaning(const TablePolicy& policy, const detail::SliceWindow& window) {
  std::string out(7, '\0');
  const auto bytes = std::as_writable_bytes(std::span(out));
  bytes[0] = static_cast<std::byte>(policy.hash.kind);
  detail::store_le(bytes.data() + 1, policy.hash.seed_check);
  detail::store_le(bytes.data() + 3, static_cast<std::uint32_t>(window.seconds));
  return out;
}

Result<void> test_table(const TablePolicy& policy, const detail::SliceWindow& window, std::string_view value,
                        std::span<const Digest> digests, std::span<std::uint8_t> seen) {
  const auto bytes = bytes_of(value);
  auto header = decode_table_header(bytes, bytes.size());
  if (!header) return std::move(header).error();
  const auto tested = [&](std::span<const std::byte> table) {
    return with_hash(policy, [&](const auto& hash) -> Result<void> {
      using Record = detail::BlobRecord<std::remove_cvref_t<decltype(hash)>>;
      auto done = Record::test(table, hash, window, {digests, {}}, seen);
      if (!done) return std::move(done).error();
      return {};
    });
  };
  if (header->shape.sliced && header->slice_seconds != window.seconds) {
    auto plain = sorted_in(value);
    if (!plain) return std::move(plain).error();
    return tested(*plain);
  }
  if (auto done = tested(bytes); !done) return done;
  const FingerprintShape& shape = header->shape;
  const auto recent = recent_of(shape, bytes.subspan(table_header_bytes + static_cast<std::size_t>(shape.bytes())));
  if (!recent) return recent.error();
  const detail::SliceWindow then = window.in(*header);
  if (then.windowed() && !then.reaches(header->newest)) return {};
  const FingerprintWindow live = then.windowed() ? then.bytes_at(header->newest) : FingerprintWindow{};
  std::vector<std::uint64_t> held;
  for (std::size_t i = 0; i < recent->used; ++i) {
    if (!then.windowed() || live.is_live(slice_at(shape, *recent, i))) held.push_back(digest_at(shape, *recent, i));
  }

  const unsigned unknown_bits = 64U - 8U * static_cast<unsigned>(prefix_bytes(shape));
  for (std::size_t i = 0; i < digests.size(); ++i) {
    bool found = false;
    for (const std::uint64_t digest : held) found |= ((digest ^ digests[i].value) >> unknown_bits) == 0;
    if (found) seen[i] = 1;
  }
  return {};
}

Result<void> ages_in_table(const TablePolicy& policy, const detail::SliceWindow& window, std::string_view value,
                           std::span<const Digest> digests, std::span<std::uint8_t> ages) {
  auto plain = sorted_in(value);
  if (!plain) return std::move(plain).error();
  return with_hash(policy, [&](const auto& hash) {
    return detail::BlobRecord<std::remove_cvref_t<decltype(hash)>>::ages(*plain, hash, window, digests, ages);
  });
}

std::string empty_table(const TablePolicy& policy, const detail::SliceWindow& window, bool marked) {
  return with_hash(policy, [&](const auto& hash) {
    using Record = detail::BlobRecord<std::remove_cvref_t<decltype(hash)>>;
    return live(Record(hash, policy.share, window).encode(), marked);
  });
}

Result<EditedTable> edit_table(const TablePolicy& policy, const detail::SliceWindow& window, const TableEdit& edit) {
  return with_hash(policy, [&](const auto& hash) { return edit_with(hash, policy.share, window, edit); });
}

}  // namespace seenby::redis
