#pragma once
// SPDX-License-Identifier: MIT
// What a memory store keeps for one user: an 8-byte handle, and the parts it stands for.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "seenby/detail/shared_words.hpp"
#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// What a handle refers to.
enum class RecordKind : std::uint8_t {
  none = 0,       ///< no such user
  empty = 1,      ///< a user with nothing seen; no memory
  exact = 2,      ///< a few digests, in the order they came
  filter = 3,     ///< one split-block filter
  extended = 4,   ///< a list of parts: several tables, a table beside a filter, filters too large for the handle
  table = 6,      ///< one fingerprint table: what grows without a history, and what ages
  inlined = 7,    ///< up to three lanes of such a table, in the handle; no memory
  segmented = 8,  ///< (a part only) tables split by the digests' top bits: see segments.hpp
  kept = 5,       ///< (snapshots only) digests that earlier versions kept behind a slice's filters; skipped
};

/// A user's handle: kind (bits 0 to 2), items (3 to 18), size (19 to 30), first granule (32 to 63). The size counts
/// granules, which are blocks in a filter; of an extended record it counts parts, one granule each. An inlined record
/// has lanes where others have items and the first granule; its size is 0.
struct Handle {
  std::uint64_t raw = 0;

  static constexpr std::uint32_t largest_items = (1U << 16) - 1;
  static constexpr std::uint32_t largest_size = (1U << 12) - 1;

  [[nodiscard]] static constexpr Handle of(RecordKind kind, std::uint32_t block = 0, std::uint32_t size = 0,
                                           std::uint32_t items = 0) noexcept {
    return {static_cast<std::uint64_t>(kind) | (std::uint64_t{items} << 3) | (std::uint64_t{size} << 19) |
            (std::uint64_t{block} << 32)};
  }
  [[nodiscard]] constexpr RecordKind kind() const noexcept { return static_cast<RecordKind>(raw & 7U); }
  [[nodiscard]] constexpr std::uint32_t items() const noexcept {
    return static_cast<std::uint32_t>(raw >> 3) & 0xffffU;
  }
  [[nodiscard]] constexpr std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(raw >> 19) & 0xfffU; }
  [[nodiscard]] constexpr std::uint32_t block() const noexcept { return static_cast<std::uint32_t>(raw >> 32); }
};

/// The lanes of an inlined record: those of a table with one bucket, each a digest's first 15 bits and a one. A lane of
/// 0 is not there.
struct InlinedLanes {
  std::array<std::uint16_t, 3> lanes{};

  InlinedLanes() = default;
  explicit constexpr InlinedLanes(Handle handle) noexcept
      : lanes{static_cast<std::uint16_t>(handle.items()), static_cast<std::uint16_t>(handle.block()),
              static_cast<std::uint16_t>(handle.block() >> 16)} {}
  [[nodiscard]] constexpr Handle handle() const noexcept {
    return Handle::of(RecordKind::inlined, lanes[1] | std::uint32_t{lanes[2]} << 16, 0, lanes[0]);
  }
  [[nodiscard]] static constexpr std::uint16_t lane_of(Digest digest) noexcept {
    return static_cast<std::uint16_t>(digest.value >> 48 | 1U);
  }
  /// seen[i] += 1 where digest i is one of them.
  void check_add(std::span<const Digest> digests, std::uint8_t* seen) const noexcept {
    constexpr std::size_t step = 16;  // candidates in one go: loops of this length become vectors
    std::array<std::uint16_t, step> wanted;
    for (; digests.size() >= step; digests = digests.subspan(step), seen += step) {
      for (std::size_t i = 0; i < step; ++i) wanted[i] = lane_of(digests[i]);
      for (std::size_t i = 0; i < step; ++i) seen[i] = static_cast<std::uint8_t>(seen[i] + hit_by(wanted[i]));
    }
    for (std::size_t i = 0; i < digests.size(); ++i) {
      seen[i] = static_cast<std::uint8_t>(seen[i] + hit_by(lane_of(digests[i])));
    }
  }
  /// How many are there: they come first.
  [[nodiscard]] constexpr std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(std::count_if(lanes.begin(), lanes.end(), [](auto lane) { return lane != 0; }));
  }
  /// Adds what is not there yet, and counts it; false when there is no room for all.
  [[nodiscard]] constexpr bool insert(std::span<const Digest> digests, std::size_t& added) noexcept {
    for (const Digest digest : digests) {
      const auto at =
          std::find_if(lanes.begin(), lanes.end(), [&](auto lane) { return lane == 0 || lane == lane_of(digest); });
      if (at == lanes.end()) return false;
      added += *at == 0 ? 1U : 0U;
      *at = lane_of(digest);
    }
    return true;
  }

 private:
  [[nodiscard]] constexpr std::uint8_t hit_by(std::uint16_t wanted) const noexcept {
    const auto is = [&](std::size_t i) { return static_cast<unsigned>(lanes[i] == wanted); };
    return static_cast<std::uint8_t>(is(0) | is(1) | is(2));
  }
};

/// One filter or one run of exact digests. In an extended record a part is one granule of four words.
struct Part {
  std::uint32_t block;     ///< first granule
  std::uint32_t size;      ///< granules
  std::uint32_t items;     ///< distinct items recorded in it
  std::uint32_t capacity;  ///< items it holds within its rate
  std::uint32_t slice;     ///< number of the window's slice; 0 without a window
  RecordKind kind;         ///< exact, filter, table, inlined or segmented
  std::uint8_t link;       ///< position among its slice's filters
  double fpr;              ///< the rate it was sized for; 0 when exact

  void store(std::uint64_t* words) const noexcept {
    store_word(words, place());
    store_word_release(words + 1, counts());
    store_word(words + 2, tags());
    store_word(words + 3, std::bit_cast<std::uint64_t>(fpr));
  }
  /// Publishes a new item count; digests below it must have been stored.
  void store_counts(std::uint64_t* words) const noexcept { store_word_release(words + 1, counts()); }

  [[nodiscard]] static Part load(const std::uint64_t* words) noexcept {
    const std::uint64_t counts = load_word_acquire(words + 1);
    const std::uint64_t place = load_word(words);
    const std::uint64_t tags = load_word(words + 2);
    return {.block = static_cast<std::uint32_t>(place),
            .size = static_cast<std::uint32_t>(place >> 32),
            .items = static_cast<std::uint32_t>(counts),
            .capacity = static_cast<std::uint32_t>(counts >> 32),
            .slice = static_cast<std::uint32_t>(tags),
            .kind = static_cast<RecordKind>((tags >> 32) & 0xffU),
            .link = static_cast<std::uint8_t>(tags >> 40),
            .fpr = std::bit_cast<double>(load_word(words + 3))};
  }
  [[nodiscard]] bool is_table() const noexcept {
    return kind == RecordKind::table || kind == RecordKind::segmented || kind == RecordKind::inlined;
  }

  /// An inlined record as a part, which has the handle instead of items and capacity.
  [[nodiscard]] static Part inlined(Handle handle, double fpr) noexcept {
    return {.block = 0,
            .size = 0,
            .items = static_cast<std::uint32_t>(handle.raw),
            .capacity = static_cast<std::uint32_t>(handle.raw >> 32),
            .slice = 0,
            .kind = RecordKind::inlined,
            .link = 0,
            .fpr = fpr};
  }
  [[nodiscard]] Handle inlined() const noexcept { return {counts()}; }

  /// What the tables of a segmented part err, as far as they have been filled: it has no items or capacity of its own.
  [[nodiscard]] double rate() const noexcept { return std::bit_cast<double>(counts()); }
  void set_rate(double rate) noexcept {
    const auto word = std::bit_cast<std::uint64_t>(rate);
    items = static_cast<std::uint32_t>(word);
    capacity = static_cast<std::uint32_t>(word >> 32);
  }

  // Words that are published alone.
  [[nodiscard]] std::uint64_t place() const noexcept { return block | (std::uint64_t{size} << 32); }
  [[nodiscard]] std::uint64_t tags() const noexcept {
    return slice | (static_cast<std::uint64_t>(kind) << 32) | (std::uint64_t{link} << 40);
  }

 private:
  [[nodiscard]] std::uint64_t counts() const noexcept { return items | (std::uint64_t{capacity} << 32); }
};

/// The most digests an exact part can have.
inline constexpr std::uint32_t max_exact_items = 64;

/// The most parts a user can have; windows may have half as many slices.
inline constexpr std::uint32_t max_parts = 254;

/// A user's parts, decoded: oldest slice first, and within a slice as they came. No allocation.
class PartList {
 public:
  PartList() noexcept {}  // leaves the array as it is: 10 KB that most users need 40 bytes of
  PartList(const PartList& other) noexcept : size_(other.size_) { std::copy(other.begin(), other.end(), begin()); }
  PartList& operator=(const PartList&) = delete;
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] Part& operator[](std::uint32_t i) noexcept { return parts_[i]; }
  [[nodiscard]] const Part& operator[](std::uint32_t i) const noexcept { return parts_[i]; }
  [[nodiscard]] Part& back() noexcept { return parts_[size_ - 1]; }
  [[nodiscard]] const Part& back() const noexcept { return parts_[size_ - 1]; }
  [[nodiscard]] Part* begin() noexcept { return parts_.data(); }
  [[nodiscard]] Part* end() noexcept { return parts_.data() + size_; }
  [[nodiscard]] const Part* begin() const noexcept { return parts_.data(); }
  [[nodiscard]] const Part* end() const noexcept { return parts_.data() + size_; }
  void push_back(const Part& part) noexcept { parts_[size_++] = part; }
  void clear() noexcept { size_ = 0; }
  void erase(std::uint32_t i) noexcept {
    for (--size_; i < size_; ++i) parts_[i] = parts_[i + 1];
  }
  /// Keeps slices in order, and a slice's parts in order of arrival.
  void insert_by_slice(const Part& part) noexcept {
    std::uint32_t at = size_++;
    for (; at > 0 && parts_[at - 1].slice > part.slice; --at) parts_[at] = parts_[at - 1];
    parts_[at] = part;
  }

 private:
  std::uint32_t size_ = 0;
  std::array<Part, max_parts> parts_;
};

SEENBY_DETAIL_END
