#pragma once
// SPDX-License-Identifier: MIT
// A user past one fingerprint table: several, split by the digests' top bits, so that a growth touches one of them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "seenby/detail/bits.hpp"
#include "seenby/stores/memory/arena.hpp"
#include "seenby/stores/memory/table_image.hpp"
#include "seenby/stores/memory/user_record.hpp"

SEENBY_DETAIL_BEGIN

/// The part of kind `segmented` names a directory of 2^bits words (Fagin et al., "Extendible Hashing", 1979). A word is
/// a table's handle with its depth as the items: the table holds the digests that begin with the word's first `depth`
/// bits, each shifted left by as many, and has 2^(bits - depth) words in a row; size 0 is an empty one. A table's block
/// is an extent of the address space and not of a shard's arena: what moves a shard's users leaves it where it is.
struct SegmentDirectory {
  static constexpr std::uint32_t least_bits = 2;  // one granule
  /// 2^16 tables. Digests spread evenly fill them with over a billion items; digests chosen to share 16 bits fail.
  static constexpr std::uint32_t most_bits = 16;

  const std::uint64_t* words;
  std::uint32_t bits;

  [[nodiscard]] static SegmentDirectory of(const AddressSpace& space, const Part& part) noexcept {
    return {space.at(part.block), bits_of(part.size)};
  }
  [[nodiscard]] static std::uint32_t bits_of(std::uint32_t granules) noexcept {
    return static_cast<std::uint32_t>(std::countr_zero(std::max(granules, 1U))) + least_bits;
  }
  [[nodiscard]] static constexpr std::uint32_t granules_of(std::uint32_t bits) noexcept {
    return 1U << (bits - least_bits);
  }
  [[nodiscard]] std::size_t size() const noexcept { return std::size_t{1} << bits; }
  [[nodiscard]] std::size_t slot_of(Digest digest) const noexcept {
    return static_cast<std::size_t>(digest.value >> (64 - bits));
  }
  [[nodiscard]] Handle at(std::size_t slot) const noexcept { return {load_word_acquire(words + slot)}; }

  /// Calls visit(first slot, handle) for each table, in the order of the digests. Under the shard's lock.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t slot = 0; slot < size();) {
      const Handle segment = at(slot);
      visit(slot, segment);
      slot += size() >> segment.items();
    }
  }
  /// Bytes of the tables.
  [[nodiscard]] std::uint64_t table_bytes() const noexcept {
    std::uint64_t granules = 0;
    for_each([&](std::size_t, Handle segment) { granules += segment.size(); });
    return granules * granule_bytes;
  }
};

/// Calls visit(view, head, depth, first digest) for each table that a part has: itself, or its segments.
template <class Visit>
void visit_tables(const AddressSpace& space, const Part& part, Visit&& visit) {
  const auto visit_one = [&](Handle table, std::uint32_t depth, std::uint64_t first) {
    if (table.size() == 0) return;
    const std::uint64_t* const block = space.at(table.block());
    const TableHead head = TableHead::of(load_word(block), table.size());
    visit(head.view(block), head, depth, first);
  };
  if (part.kind == RecordKind::inlined) {
    const InlinedTable few(part.inlined());
    return visit(few.view(), few.head(), 0U, std::uint64_t{0});
  }
  if (part.kind == RecordKind::table) return visit_one(Handle::of(RecordKind::table, part.block, part.size), 0, 0);
  const SegmentDirectory directory = SegmentDirectory::of(space, part);
  directory.for_each([&](std::size_t slot, Handle table) {
    visit_one(table, table.items(), std::uint64_t{slot} << (64 - directory.bits));
  });
}

/// Gives the tables' extents back; the directory's block stays. Readers must have been told.
inline void release_segments(AddressSpace& space, const Part& part) noexcept {
  SegmentDirectory::of(space, part).for_each([&](std::size_t, Handle segment) {
    if (segment.size() > 0) space.give_back(segment.block(), segment.size() / AddressSpace::unit_granules);
  });
}

/// Calls take(depth, bytes of a block) for each table of a segmented part in a snapshot, while it says that it could.
/// The lengths have been checked.
template <class Take>
[[nodiscard]] bool for_each_stored_segment(std::span<const std::byte> bytes, Take&& take) {
  while (!bytes.empty()) {
    const auto depth = load_le<std::uint32_t>(bytes.data());
    const std::size_t size = std::size_t{load_le<std::uint32_t>(bytes.data() + 4)} * AddressSpace::unit_bytes;
    if (!take(depth, bytes.subspan(8, size))) return false;
    bytes = bytes.subspan(8 + size);
  }
  return true;
}

/// Changes one user's segments, each with one store into the directory, so that readers see a table before or after;
/// under the lock of the shard. `published`: the first word of the part in the user's list, null as long as no reader
/// knows the part. Every call may throw std::bad_alloc, which leaves the tables sound, with some of the items in vain.
class Segments {
 public:
  Segments(ShardContext& context, Arena& arena, ShardCounters& counters, ReadSequence& sequence, Part& part,
           std::uint64_t* published) noexcept
      : context_(context),
        arena_(arena),
        counters_(counters),
        sequence_(sequence),
        part_(part),
        published_(published) {}

  /// A part without items, for no reader yet.
  [[nodiscard]] static Part empty_part(Arena& arena, std::uint32_t newest, double share) {
    const Part part{.block = arena.allocate(1),
                    .size = 1,
                    .items = 0,
                    .capacity = 0,
                    .slice = newest,
                    .kind = RecordKind::segmented,
                    .link = 0,
                    .fpr = share};
    for (std::size_t slot = 0; slot < granule_words; ++slot) {
      store_word(arena.at(part.block) + slot, Handle::of(RecordKind::table).raw);
    }
    return part;
  }

  /// Takes over what one table holds.
  void take(const TableImage& whole) {
    settle(0, whole);
    part_.set_rate(whole.view().estimated_fpr());
  }

  /// A copy of another user's part, into one that is empty.
  void copy(const Part& from) {
    std::size_t next = 0;
    SegmentDirectory::of(context_.space, from).for_each([&](std::size_t, Handle table) {
      std::optional<TableImage> image;
      if (table.size() > 0) image.emplace(context_.space.at(table.block()), table.size());
      if (!append(next, table.items(), image ? &*image : nullptr)) throw std::bad_alloc();
    });
    part_.set_rate(from.rate());
  }
  /// Adds a table of some depth (null: an empty one) behind those of smaller digests, the last of which end at slot
  /// `next`; false where none of this depth can begin.
  [[nodiscard]] bool append(std::size_t& next, std::uint32_t depth, const TableImage* image) {
    if (depth > SegmentDirectory::most_bits) return false;
    for (; directory().bits < depth; next *= 2) grow_directory();
    for (;;) {
      if (next >= directory().size()) return false;
      const Segment segment = segment_at(next);
      if (segment.slot != next || segment.handle.size() != 0 || segment.depth() > depth) return false;
      if (segment.depth() < depth) {
        split(segment);
        continue;
      }
      store(segment, image);
      next += segment.width;
      return true;
    }
  }

  /// Records items, which are sorted.
  void insert(std::vector<FingerprintItem>& items, std::uint32_t newest, InsertOutcome& outcome) {
    sort_by_digest(items);
    set_newest(newest);
    std::vector<FingerprintItem> shifted;
    for (std::size_t i = 0; i < items.size();) {
      const Segment segment = segment_at(directory().slot_of(items[i].digest));
      shifted.clear();
      std::size_t end = i;
      for (; end < items.size() && segment.has(items[end].digest); ++end) {
        shifted.push_back({Digest{items[end].digest.value << segment.depth()}, items[end].slice});
      }
      if (put(segment, shifted, newest, outcome)) {
        i = end;
      } else {
        split(segment_at(segment.slot));  // its table may be another by now
        outcome.grew = true;
      }
    }
    if (published_ != nullptr) part_.store_counts(published_);
  }

  /// Takes the dead lanes out of all tables.
  void trim(std::uint32_t newest) {
    for (std::size_t slot = 0; slot < directory().size();) {
      Segment segment = segment_at(slot);
      trim(segment, newest);
      slot += segment.width;
    }
  }

 private:
  static constexpr std::uint32_t unit = AddressSpace::unit_granules;
  static constexpr std::uint32_t copied_granules = 64;  // tables of up to 2 KiB are changed in a copy

  /// One table, and its slots.
  struct Segment {
    std::size_t slot;
    std::size_t width;
    Handle handle;
    std::uint32_t directory_bits;
    [[nodiscard]] std::uint32_t depth() const noexcept { return handle.items(); }
    [[nodiscard]] bool has(Digest digest) const noexcept {
      return (static_cast<std::size_t>(digest.value >> (64 - directory_bits)) & ~(width - 1)) == slot;
    }
  };

  [[nodiscard]] SegmentDirectory directory() const noexcept { return SegmentDirectory::of(context_.space, part_); }
  [[nodiscard]] Segment segment_at(std::size_t slot) const noexcept {
    const SegmentDirectory all = directory();
    const Handle handle = all.at(slot);
    const std::size_t width = all.size() >> handle.items();
    return {slot & ~(width - 1), width, handle, all.bits};
  }
  [[nodiscard]] TableLimits limits(std::uint32_t newest) const noexcept {
    return {.share = part_.fpr,
            .newest = newest,
            .largest = context_.largest_segment(),
            .unit = unit,
            .errs = part_.rate()};
  }
  /// An item adds the same to the rate at every later size; see sizing::fingerprint_rate.
  void count_rate(std::size_t added, const FingerprintShape& shape, std::uint32_t depth) noexcept {
    const double each = sizing::fingerprint_rate(shape);
    part_.set_rate(part_.rate() + std::ldexp(static_cast<double>(added) * each, -static_cast<int>(depth)));
  }
  void set_newest(std::uint32_t newest) noexcept {
    if (!context_.windowed() || part_.slice >= newest) return;
    part_.slice = newest;
    if (published_ != nullptr) store_word_release(published_ + 2, part_.tags());
  }

  /// Inserts digests that the segment has, shifted. False where its table would be too large: what still fitted is in.
  [[nodiscard]] bool put(Segment segment, std::vector<FingerprintItem>& items, std::uint32_t newest,
                         InsertOutcome& outcome) {
    if (segment.handle.size() == 0) return grow(segment, nullptr, items, newest, outcome);
    trim(segment, newest);
    if (segment.handle.size() == 0) return grow(segment, nullptr, items, newest, outcome);
    std::uint64_t* const block = context_.space.at(segment.handle.block());
    if (!every_access_atomic && segment.handle.size() > copied_granules) {
      TableHead head = TableHead::of(load_word(block), segment.handle.size());
      head.newest = std::max(head.newest, newest);
      const std::size_t added_before = outcome.newly_added;
      const std::size_t done = insert_in_place(block, head, items, context_, sequence_, outcome);
      count_rate(outcome.newly_added - added_before, head.shape, segment.depth());
      if (done == items.size()) return true;
      items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(done));
      const TableImage image(block, segment.handle.size());
      return grow(segment, &image, items, head.newest, outcome);
    }
    return put_in_copy(segment, TableImage(block, segment.handle.size()), items, newest, outcome);
  }
  [[nodiscard]] bool put_in_copy(const Segment& segment, TableImage image, std::vector<FingerprintItem>& items,
                                 std::uint32_t newest, InsertOutcome& outcome) {
    newest = std::max(image.head().newest, newest);
    const std::size_t added_before = outcome.newly_added;
    const bool renewed_before = std::exchange(outcome.renewed, false);
    const std::size_t done = image.insert(items, newest, context_, outcome);
    const bool changed = outcome.renewed || outcome.newly_added != added_before;
    count_rate(outcome.newly_added - added_before, image.head().shape, segment.depth());
    outcome.renewed = outcome.renewed || renewed_before;
    items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(done));
    if (!items.empty() && grow(segment, &image, items, newest, outcome)) return true;
    if (changed) store(segment, &image);
    return items.empty();
  }
  [[nodiscard]] bool grow(const Segment& segment, const TableImage* from, std::vector<FingerprintItem>& items,
                          std::uint32_t newest, InsertOutcome& outcome) {
    const std::optional<TableImage> image = TableImage::grown(from, items, context_, limits(newest));
    if (!image) return false;
    const std::size_t added = added_by_growth(from, *image, items.size());
    count_rate(added, image->head().shape, segment.depth());
    outcome.newly_added += added;
    outcome.grew = true;
    store(segment, &*image);
    return true;
  }

  /// Lets an image (null: nothing) take the place of a segment's table.
  void store(const Segment& segment, const TableImage* image) {
    publish(segment.slot, segment.width, new_table(image, segment.depth()));
    release(segment.handle);
  }
  [[nodiscard]] Handle new_table(const TableImage* image, std::uint32_t depth) {
    if (image == nullptr || image->count() == 0) return Handle::of(RecordKind::table, 0, 0, depth);
    const std::uint32_t block = context_.space.take(image->granules() / unit);
    image->store(context_.space.at(block));
    return Handle::of(RecordKind::table, block, image->granules(), depth);
  }
  void publish(std::size_t slot, std::size_t width, Handle handle) noexcept {
    std::uint64_t* const words = arena_.at(part_.block);
    for (std::size_t i = slot; i < slot + width; ++i) store_word_release(words + i, handle.raw);
  }
  /// A table that the directory no longer has.
  void release(Handle handle) noexcept {
    if (handle.size() == 0) return;
    sequence_.memory_unlinked();
    context_.space.give_back(handle.block(), handle.size() / unit);
  }

  /// Cuts a segment at the middle of its digests.
  void split(Segment segment) {
    if (segment.width == 1) {
      grow_directory();
      segment = segment_at(segment.slot * 2);
    }
    const std::uint32_t depth = segment.depth() + 1;
    Handle lower = Handle::of(RecordKind::table, 0, 0, depth);
    Handle upper = lower;
    if (segment.handle.size() > 0) {
      const TableImage whole(context_.space.at(segment.handle.block()), segment.handle.size());
      const TableImage first = whole.half(0, context_, unit);
      const TableImage second = whole.half(1, context_, unit);
      lower = new_table(&first, depth);
      try {
        upper = new_table(&second, depth);
      } catch (...) {
        if (lower.size() > 0) context_.space.give_back(lower.block(), lower.size() / unit);
        throw;
      }
    }
    publish(segment.slot, segment.width / 2, lower);
    publish(segment.slot + segment.width / 2, segment.width / 2, upper);
    release(segment.handle);
  }
  /// Twice as many slots. Readers see the one directory or the other.
  void grow_directory() {
    const SegmentDirectory old = directory();
    if (old.bits == SegmentDirectory::most_bits) throw std::bad_alloc();
    const std::uint32_t granules = SegmentDirectory::granules_of(old.bits + 1);
    const std::uint32_t block = arena_.allocate(granules);
    std::uint64_t* const words = arena_.at(block);
    for (std::size_t slot = 0; slot < old.size(); ++slot) {
      store_word(words + 2 * slot, old.at(slot).raw);
      store_word(words + 2 * slot + 1, old.at(slot).raw);
    }
    const Part before = part_;
    part_.block = block;
    part_.size = granules;
    if (published_ != nullptr) store_word_release(published_, part_.place());
    sequence_.memory_unlinked();
    arena_.release(before.block, before.size);
  }
  /// Puts a table that no reader knows here into an empty segment, cut until its pieces are small enough.
  void settle(std::size_t slot, const TableImage& image) {
    const Segment segment = segment_at(slot);
    if (image.granules() <= context_.largest_segment() && image.granules() % unit == 0) return store(segment, &image);
    split(segment);
    const std::uint32_t bits = directory().bits;  // the directory may have grown
    const std::size_t first = slot << (bits - segment.directory_bits);
    settle(first, image.half(0, context_, unit));
    const std::size_t now = first << (directory().bits - bits);
    settle(now + (directory().size() >> (segment.depth() + 1)), image.half(1, context_, unit));
  }
  /// Takes the dead lanes out of a table, or the table out where all are dead.
  void trim(Segment& segment, std::uint32_t newest) {
    if (!context_.windowed() || segment.handle.size() == 0) return;
    const std::uint64_t* const block = context_.space.at(segment.handle.block());
    const TableHead head = TableHead::of(load_word(block), segment.handle.size());
    if (head.newest >= newest) return;
    std::uint32_t slices = 0;
    std::uint32_t left = 0;
    if (!context_.is_live(head.newest, newest)) {  // its slices' numbers may have come round
      slices = head.view(block).slices_older_than(-1, static_cast<std::uint8_t>(head.newest));
      store(segment, nullptr);
    } else {
      TableImage image(block, segment.handle.size());
      slices = image.trim(newest, context_, unit);
      left = image.count();
      if (slices > 0) store(segment, &image);
    }
    if (slices == 0) return;
    const double gone = head.count == 0 ? 0 : 1 - static_cast<double>(left) / head.count;
    part_.set_rate(part_.rate() * (1 - std::ldexp(gone, -static_cast<int>(segment.depth()))));
    if (segment.slot == 0)
      counters_.slices_dropped += slices;  // each table has some of every large slice: counted once
    segment = segment_at(segment.slot);
  }

  ShardContext& context_;
  Arena& arena_;
  ShardCounters& counters_;
  ReadSequence& sequence_;
  Part& part_;
  std::uint64_t* published_;
};

SEENBY_DETAIL_END
