#pragma once
// SPDX-License-Identifier: MIT
// A memory store's users to a file and back, while the store goes on serving.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/stores/memory/exact_section.hpp"
#include "seenby/stores/memory/snapshot_format.hpp"
#include "seenby/stores/memory/state.hpp"

SEENBY_DETAIL_BEGIN

/// Writes one section a shard; locks one shard at a time, for as long as copying it takes. The file takes the path's
/// place in one step once it is on the disk. A record acknowledged before the call is in it; one made meanwhile may be.
template <std::size_t Words>
Result<void> write_snapshot(const MemoryState<Words>& state, const SnapshotIdentity& identity,
                            std::uint32_t newest_slice, const std::string& path, const ExactKeys<Words>& exact) {
  auto file = ReplacementFile::create(path, snapshot_header_bytes);
  if (!file) return std::move(file).error();
  ByteWriter out;
  put_header(out, identity, newest_slice, snapshot_usual_version);
  if (auto written = write_all(file->handle(), out.bytes(), path); !written) return written;
  std::uint64_t users = 0;
  std::uint64_t sections = 0;
  bool segmented = false;
  ByteWriter records;
  const auto write_section = [&](std::uint64_t count, std::uint64_t mark = snapshot_section) -> Result<void> {
    out.clear();
    out.put(mark);
    out.put(count);
    out.put(std::uint64_t{records.bytes().size()});
    out.put_checksum(0);
    if (auto done = write_all(file->handle(), out.bytes(), path); !done) return done;
    records.put_checksum(0);
    return write_all(file->handle(), records.bytes(), path);
  };
  for (std::size_t slot = 0; slot < state.shards.directory.size();) {
    records.clear();
    const std::uint64_t count = state.shards.visit_at(slot, [&](const Shard<Words>& shard) -> std::uint64_t {
      segmented = shard.write_records(records, newest_slice) || segmented;
      return shard.index.users();
    });
    if (count == 0) continue;
    if (auto done = write_section(count); !done) return done;
    users += count;
    ++sections;
  }
  if (!exact.empty()) {
    records.clear();
    const std::uint64_t count = put_exact(records, exact);
    if (auto done = write_section(count, snapshot_exact); !done) return done;
    ++sections;
  }
  out.clear();
  out.put(snapshot_end);
  out.put(sections);
  out.put(users);
  out.put_checksum(0);
  if (auto written = write_all(file->handle(), out.bytes(), path); !written) return written;
  if (segmented) {
    out.clear();
    put_header(out, identity, newest_slice, snapshot_version);
    if (auto written = write_all(file->handle(), out.bytes(), path, 0); !written) return written;
  }
  return file->commit();
}

inline void put_part_head(ByteWriter& out, const Part& part, std::uint32_t size) {
  out.put(size);
  out.put(part.items);
  out.put(part.capacity);
  out.put(part.slice);
  out.put(static_cast<std::uint32_t>(part.kind) | (std::uint32_t{part.link} << 8));
  out.put(std::uint32_t{0});
  out.put(std::bit_cast<std::uint64_t>(part.fpr));
}
/// A segmented part: how many tables it has, then each one's depth and KiB, and its bytes.
inline void put_segments(ByteWriter& out, const Part& part, const AddressSpace& space) {
  const SegmentDirectory directory = SegmentDirectory::of(space, part);
  std::uint32_t tables = 0;
  directory.for_each([&](std::size_t, Handle) { ++tables; });
  put_part_head(out, part, tables);
  directory.for_each([&](std::size_t, Handle table) {
    out.put(table.items());
    out.put(table.size() / AddressSpace::unit_granules);
    out.put_words(space.at(table.block()), std::size_t{table.size()} * granule_words);
  });
}
/// The bytes of so many tables; false where they go beyond what is there.
inline bool take_segments(ByteReader& in, std::uint32_t tables, std::span<const std::byte>& bytes) noexcept {
  const std::span<const std::byte> from = in.rest();
  for (std::uint32_t i = 0; i < tables && !in.overrun(); ++i) {
    static_cast<void>(in.take<std::uint32_t>());
    const auto units = in.take<std::uint32_t>();
    static_cast<void>(in.take_bytes(std::uint64_t{units} * AddressSpace::unit_bytes));
    if (units > Handle::largest_size / AddressSpace::unit_granules) return false;
  }
  bytes = from.first(from.size() - in.rest().size());
  return !in.overrun();
}

/// An inlined record, as the table it stands for.
inline void put_inlined(ByteWriter& out, Part part) {
  const InlinedTable few(part.inlined());
  part.kind = RecordKind::table;
  part.items = few.head().count;
  part.capacity = 0;
  put_part_head(out, part, 1);
  out.put_words(few.block(), granule_words);
}

/// One user's record: key, number of parts, then each part's fields and bytes.
template <std::size_t Words>
void put_record(ByteWriter& out, const std::array<std::uint64_t, Words>& key, const PartList& parts,
                const AddressSpace& space, const ShardContext& context, std::uint32_t newest) {
  for (const std::uint64_t word : key) out.put(word);
  std::uint64_t live = 0;
  for (const Part& part : parts) live += context.is_live(part.slice, newest) ? 1U : 0U;
  out.put(live);
  for (const Part& part : parts) {
    if (!context.is_live(part.slice, newest)) continue;
    if (part.kind == RecordKind::segmented) {
      put_segments(out, part, space);
      continue;
    }
    if (part.kind == RecordKind::inlined) {
      put_inlined(out, part);
      continue;
    }
    const bool is_filter = part.kind == RecordKind::filter || part.kind == RecordKind::table;
    put_part_head(out, part, is_filter ? part.size : part.items);
    out.put_words(space.at(part.block), is_filter ? std::size_t{part.size} * granule_words : part.items);
  }
}

/// A part's fields and where its bytes are; false when they contradict each other.
inline bool take_part(ByteReader& in, Part& part, std::span<const std::byte>& bytes) noexcept {
  const auto size = in.take<std::uint32_t>();
  part.items = in.take<std::uint32_t>();
  part.capacity = in.take<std::uint32_t>();
  part.slice = in.take<std::uint32_t>();
  const auto tags = in.take<std::uint32_t>();
  const auto reserved = in.take<std::uint32_t>();
  part.fpr = std::bit_cast<double>(in.take<std::uint64_t>());
  part.kind = static_cast<RecordKind>(tags & 0xffU);
  part.link = static_cast<std::uint8_t>(tags >> 8);
  part.block = 0;
  if (in.overrun() || reserved != 0 || tags >> 16 != 0 || size == 0) return false;
  if (part.kind == RecordKind::exact || part.kind == RecordKind::kept) {
    if ((part.kind == RecordKind::exact && size > max_exact_items) || part.items != size || part.fpr != 0) return false;
    part.size = (size + granule_words - 1) / granule_words;
    bytes = in.take_bytes(std::uint64_t{size} * sizeof(std::uint64_t));
  } else if (part.kind == RecordKind::filter || part.kind == RecordKind::table) {
    if (!(part.fpr > 0 && part.fpr < 1)) return false;
    part.size = size;
    bytes = in.take_bytes(std::uint64_t{size} * granule_bytes);
    if (part.kind == RecordKind::table && !in.overrun()) {
      const TableHead head = TableHead::of(load_le<std::uint64_t>(bytes.data()), size);
      if (size > Handle::largest_size || !head.is_sound(size) || head.newest != part.slice ||
          head.count != part.items) {
        return false;
      }
    }
  } else if (part.kind == RecordKind::segmented) {
    if (!(part.fpr > 0 && part.fpr < 1) || !(part.rate() >= 0 && part.rate() <= 1) || part.link != 0) return false;
    return take_segments(in, size, bytes);
  } else {
    return false;
  }
  return !in.overrun();
}

/// Puts the records of one section into shards that no other thread sees yet. False when they are not what `count`
/// says.
template <std::size_t Words>
bool take_records(const ShardContext& context, ShardSet<Words>& shards, std::span<const std::byte> payload,
                  std::uint64_t count, std::uint32_t newest) {
  ByteReader in(payload);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::array<std::uint64_t, Words> words;
    for (auto& word : words) word = in.take<std::uint64_t>();
    const auto part_count = in.take<std::uint64_t>();
    if (in.overrun() || part_count > max_parts) return false;
    PartList parts;
    std::array<std::span<const std::byte>, max_parts> bytes;
    for (std::uint32_t p = 0; p < part_count; ++p) {
      Part part;
      if (!take_part(in, part, bytes[p])) return false;
      if (p > 0 && part.slice < parts.back().slice) return false;
      // Slices may have begun while it was written.
      constexpr std::uint32_t most_begun = 1'024;
      if (context.windowed() ? part.slice > newest && part.slice - newest > most_begun : part.slice != 0) return false;
      parts.push_back(part);
    }
    const auto key = key_of_words(words, context.key_seed);
    const bool is_new = shards.locked(key, [&](Shard<Words>& shard) {
      if (!shard.restore(key, parts, bytes.data())) return false;
      shards.split_if_crowded(shard);
      return true;
    });
    if (!is_new) return false;  // twice the same user
  }
  return in.empty();
}

/// Reads a snapshot into fresh shards; returns the newest slice it knew. No length in the file makes this allocate
/// more than the file is long. Errors: as the header's, truncated, corrupt, io. Throws std::bad_alloc.
template <std::size_t Words>
Result<std::uint32_t> read_snapshot(const ShardContext& context, ShardSet<Words>& shards,
                                    const SnapshotIdentity& identity, const std::string& path,
                                    ExactKeys<Words>& exact) {
  auto file = SnapshotFile::open(path);
  if (!file) return std::move(file).error();
  std::vector<std::byte> buffer;
  if (auto read = file->read(buffer, snapshot_header_bytes); !read) return std::move(read).error();
  auto newest = take_header(buffer, identity, path);
  if (!newest) return newest;
  std::uint64_t users = 0;
  for (std::uint64_t sections = 0;; ++sections) {
    if (auto read = file->read(buffer, snapshot_section_bytes); !read) return std::move(read).error();
    ByteReader in(buffer);
    const auto mark = in.take<std::uint64_t>();
    const auto count = in.take<std::uint64_t>();
    const auto size = in.take<std::uint64_t>();
    if (in.take<std::uint64_t>() != xxh3_bytes(buffer.data(), buffer.size() - sizeof(std::uint64_t), 0)) {
      return snapshot_error(ErrorCode::corrupt, path, "a section's head contradicts its checksum");
    }
    if (mark == snapshot_end) {
      if (count == sections && size == users && file->remaining() == 0) return newest;
      return snapshot_error(ErrorCode::corrupt, path, "the trailer contradicts the sections before it");
    }
    const bool is_section = mark == snapshot_section || mark == snapshot_exact;
    if (!is_section || size > file->remaining()) {
      const auto code = is_section ? ErrorCode::truncated : ErrorCode::corrupt;
      return snapshot_error(code, path, "expected a section or the trailer");
    }
    if (auto read = file->read(buffer, size); !read) return std::move(read).error();
    const std::uint64_t checksum = xxh3_bytes(buffer.data(), buffer.size(), 0);
    std::vector<std::byte> closing;
    if (auto read = file->read(closing, sizeof checksum); !read) return std::move(read).error();
    const auto take = [&] {
      return mark == snapshot_exact ? take_exact(buffer, count, exact)
                                    : take_records(context, shards, buffer, count, *newest);
    };
    if (load_le<std::uint64_t>(closing.data()) != checksum || !take()) {
      return snapshot_error(ErrorCode::corrupt, path, "a section's records contradict its checksum or themselves");
    }
    users += mark == snapshot_section ? count : 0;
  }
}

SEENBY_DETAIL_END
