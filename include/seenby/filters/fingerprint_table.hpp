#pragma once
// SPDX-License-Identifier: MIT
// FingerprintTable: a record that grows by itself, ages and forgets single items, in bytes of the caller's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "seenby/detail/bits.hpp"
#include "seenby/filters/fingerprint/view.hpp"

namespace seenby {

/// An item to insert, and the slice it belongs to (modulo 256; 0 in a table without slices).
struct FingerprintItem {
  Digest digest;           ///< the item's digest
  std::uint8_t slice = 0;  ///< modulo 256
};

}  // namespace seenby

SEENBY_DETAIL_BEGIN

inline void sort_by_digest(std::span<FingerprintItem> items) noexcept {
  std::sort(items.begin(), items.end(),
            [](const FingerprintItem& a, const FingerprintItem& b) { return a.digest < b.digest; });
}

SEENBY_DETAIL_END

namespace seenby {

/// A mutable table of fingerprints, in `shape.bytes()` bytes that outlive it. It owns no memory: the owner stores its
/// count, and gives it larger bytes (`rebuild`) when `insert` says that it is full. One writer at a time; bytes that
/// readers access without a lock are changed in a copy, which is then stored under a sequence of the owner's.
///
///     FingerprintShape shape = grown_shape(nullptr, items.size(), 0.005, false);
///     std::vector<std::byte> body(shape.bytes());
///     FingerprintTable table(shape, 0, body.data());
///     table.rebuild(nullptr, items, {});
class FingerprintTable {
 public:
  /// What an insert did.
  enum class Inserted : std::uint8_t {
    added,    ///< a lane more
    renewed,  ///< it was there, and its slice is newer now
    present,  ///< it was there: no byte has changed
    full,     ///< no room: rebuild into a grown_shape(); no byte has changed
  };

  /// `body` has shape.bytes() bytes and `count` lanes in use; with `count` 0 rebuild() writes every byte of it.
  FingerprintTable(const FingerprintShape& shape, std::uint32_t count, std::byte* body) noexcept
      : shape_(shape), count_(count), body_(body) {}

  /// Where the bytes of the table are.
  [[nodiscard]] const FingerprintShape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }  ///< lanes in use
  /// A view of its bytes; its count is the one of now.
  [[nodiscard]] FingerprintView view() const noexcept { return {shape_, count_, body_}; }

  /// Inserts an item in place: behind its bucket's last lane, whose followers move up. O(count), by memmove. The item
  /// keeps the newer of two slices.
  Inserted insert(const FingerprintItem& item, FingerprintWindow window = {}) noexcept {
    const std::uint64_t bucket = detail::fingerprint_bucket(item.digest, shape_.bucket_bits);
    const detail::LaneRun run = lanes_of(view().ref(), bucket);
    if (const auto at = find(run, item.digest); at < run.first + run.count) return renew(at, item.slice, window);
    if (count_ >= shape_.capacity || count_ >= shape_.most_items() || group_full(bucket)) return Inserted::full;
    move_lanes(run.first + run.count, run.first + run.count + 1);
    write_lane(run.first + run.count, fingerprint_of(item.digest), item.slice);
    shift_index(bucket, 1);
    ++count_;
    return Inserted::added;
  }

  /// Takes an item out as it was put in; true when it was there. An item that was never inserted takes out a twin with
  /// the probability of a false positive. O(count).
  bool erase(Digest digest) noexcept {
    const std::uint64_t bucket = detail::fingerprint_bucket(digest, shape_.bucket_bits);
    const detail::LaneRun run = lanes_of(view().ref(), bucket);
    const std::uint32_t at = find(run, digest);
    if (at == run.first + run.count) return false;
    move_lanes(at + 1, at);
    shift_index(bucket, -1);
    --count_;
    clear_lanes(count_, count_ + 1);
    return true;
  }

  /// Removes the lanes of slices that are not live; says how many. One pass.
  std::uint32_t drop(FingerprintWindow window) noexcept {
    const std::uint32_t before = count_;
    const detail::FingerprintRef table = view().ref(window);
    std::uint32_t kept = 0;
    BucketEnds ends(*this);
    detail::LaneRun next = lanes_of(table, 0);
    for (std::uint64_t bucket = 0; bucket < buckets(); ++bucket) {
      // The next bucket begins where this one ended: its length is read before there is a new end, and its first lane
      // is counted on, since its group's base may be new already.
      const detail::LaneRun run = next;
      if (bucket + 1 < buckets()) next = {run.first + run.count, lanes_of(table, bucket + 1).count};
      ends.begin(bucket, kept);
      for (std::uint32_t at = run.first; at < run.first + run.count; ++at) {
        if (lane_age(table, at) > window.max_age) continue;
        if (at != kept) copy_lane(at, kept);
        ++kept;
      }
      ends.end(bucket, kept);
    }
    clear_lanes(kept, before);
    count_ = kept;
    return before - kept;
  }

  /// Fills this table with the live lanes of another (null: none), which may not share its bytes, and with `items`,
  /// which it sorts. Writes every byte. False when it has too little capacity, which a grown_shape() for all of them
  /// never has: the table is then to be thrown away. One pass over both. `also`: a second table, another user's, for a
  /// united_shape(); a lane that the first has as well is taken once, with the newer slice.
  [[nodiscard]] bool rebuild(const FingerprintView* from, std::span<FingerprintItem> items, FingerprintWindow window,
                             const FingerprintView* also = nullptr) noexcept {
    detail::sort_by_digest(items);
    clear();
    if (from != nullptr && also == nullptr) {
      if (copy_and_insert(*from, items, window)) return true;
      clear();
    }
    BucketEnds ends(*this);
    std::size_t next = 0;
    for (std::uint64_t bucket = 0; bucket < buckets(); ++bucket) {
      const std::uint32_t first = count_;
      ends.begin(bucket, first);
      if (from != nullptr && !take_bucket(*from, bucket, given_by(*from), no_lane, window)) return false;
      if (also != nullptr && !take_bucket(*also, bucket, given_by(*also), first, window)) return false;
      for (; next < items.size() && detail::fingerprint_bucket(items[next].digest, shape_.bucket_bits) == bucket;
           ++next) {
        const detail::LaneRun run{first, count_ - first};
        if (const auto at = find(run, items[next].digest); at < count_) {
          renew(at, items[next].slice, window);
        } else if (!append(fingerprint_of(items[next].digest), items[next].slice)) {
          return false;
        }
      }
      keep_within_group(bucket, first, window);
      ends.end(bucket, count_);
    }
    return true;
  }

  /// Fills this table with the live lanes of another whose digests begin with `bit`, and without that bit: the first or
  /// the second half of what it holds, for digests shifted left by one. Writes every byte. False when it has too little
  /// capacity, which half_of() for the same bit never has. One pass.
  [[nodiscard]] bool rebuild_half(const FingerprintView& from, std::uint32_t bit, FingerprintWindow window) noexcept {
    clear();
    BucketEnds ends(*this);
    for (std::uint64_t bucket = 0; bucket < buckets(); ++bucket) {
      const std::uint32_t first = count_;
      ends.begin(bucket, first);
      const int given = shape_.bucket_bits + 1 - from.shape().bucket_bits;
      if (!take_bucket(from, (std::uint64_t{bit} << shape_.bucket_bits) | bucket, given, no_lane, window)) return false;
      keep_within_group(bucket, first, window);
      ends.end(bucket, count_);
    }
    return true;
  }

 private:
  static constexpr std::uint64_t no_bits = std::uint64_t{1} << 63;  // a fingerprint that matches its whole bucket
  static constexpr std::uint32_t no_lane = UINT32_MAX;

  [[nodiscard]] std::uint64_t buckets() const noexcept { return std::uint64_t{1} << shape_.bucket_bits; }
  [[nodiscard]] std::byte* lane_at(std::uint32_t at) const noexcept {
    return body_ + shape_.index_bytes() + std::uint64_t{at} * 2;
  }
  [[nodiscard]] std::byte* tail_at(std::uint32_t at) const noexcept {
    return lane_at(shape_.capacity) + std::uint64_t{at} * shape_.tail_bytes;
  }
  [[nodiscard]] std::byte* slice_at(std::uint32_t at) const noexcept { return tail_at(shape_.capacity) + at; }
  /// Where a bucket's lanes end, counted from its group's first lane.
  [[nodiscard]] std::byte* end_of(std::uint64_t bucket) const noexcept {
    return body_ + bucket + bucket / detail::fingerprint_group + 1;
  }
  [[nodiscard]] std::byte* base_of(std::uint64_t group) const noexcept {
    return body_ + buckets() / detail::fingerprint_group * (detail::fingerprint_group + 1) + 4 * group;
  }

  /// The digest's bits behind its bucket's, and the one that ends them.
  [[nodiscard]] std::uint64_t fingerprint_of(Digest digest) const noexcept {
    return (digest.value << shape_.bucket_bits) | 1;
  }
  /// The lane of the run that the digest matches, with the longest fingerprint; past the run when there is none.
  [[nodiscard]] std::uint32_t find(const detail::LaneRun& run, Digest digest) const noexcept {
    const detail::FingerprintRef table = view().ref();
    const std::uint64_t rest = digest.value << shape_.bucket_bits;
    std::uint32_t found = run.first + run.count;
    int ends_at = 64;
    for (std::uint32_t at = run.first; at < run.first + run.count; ++at) {
      const std::uint64_t lane = load_lane(table, at);
      if (!detail::lane_matches(lane, rest) || std::countr_zero(lane) >= ends_at) continue;
      found = at;
      ends_at = std::countr_zero(lane);
    }
    return found;
  }
  Inserted renew(std::uint32_t at, std::uint8_t slice, FingerprintWindow window) noexcept {
    if (!shape_.sliced) return Inserted::present;
    const auto stored = std::to_integer<std::uint8_t>(*slice_at(at));
    if (window.age(stored) <= window.age(slice)) return Inserted::present;
    *slice_at(at) = static_cast<std::byte>(slice);
    return Inserted::renewed;
  }
  void clear() noexcept {
    if (shape_.bytes() > 0) std::memset(body_, 0, static_cast<std::size_t>(shape_.bytes()));
    count_ = 0;
  }
  /// Where buckets and lanes stay as they are and there is only more room: copies, and inserts a few items. False where
  /// that cannot be done, and what was written is of no use.
  [[nodiscard]] bool copy_and_insert(const FingerprintView& from, std::span<const FingerprintItem> items,
                                     FingerprintWindow window) noexcept {
    constexpr std::size_t few = 32;
    FingerprintShape same = from.shape();
    same.capacity = shape_.capacity;
    if (same != shape_ || items.size() > few || from.count() == 0 || from.count() > shape_.capacity) return false;
    const detail::FingerprintRef table = shape_.sliced ? from.ref(window) : from.ref();
    count_ = from.count();
    std::memcpy(body_, table.index, static_cast<std::size_t>(shape_.index_bytes()));
    std::memcpy(lane_at(0), table.lanes, std::size_t{count_} * 2);
    std::memcpy(tail_at(0), table.tails, std::size_t{count_} * shape_.tail_bytes);
    if (shape_.sliced) {
      std::memcpy(slice_at(0), table.slices, count_);
      if (from.oldest_age(window) > window.max_age) drop(window);
    }
    for (const FingerprintItem& item : items) {
      if (insert(item, window) == Inserted::full) return false;
    }
    return true;
  }
  /// As much of a fingerprint as a lane holds.
  [[nodiscard]] std::uint64_t cut(std::uint64_t fingerprint) const noexcept {
    const std::uint32_t bits = shape_.fingerprint_bits() + 1;
    if ((fingerprint << bits) == 0) return fingerprint;
    return ((fingerprint >> (64 - bits)) | 1) << (64 - bits);
  }
  void write_lane(std::uint32_t at, std::uint64_t fingerprint, std::uint8_t slice) noexcept {
    fingerprint = cut(fingerprint);
    detail::store_le(lane_at(at), static_cast<std::uint16_t>(fingerprint >> 48));
    for (std::uint32_t i = 0; i < shape_.tail_bytes; ++i) {
      tail_at(at)[i] = static_cast<std::byte>((fingerprint >> (40 - 8 * i)) & 0xFFU);
    }
    if (shape_.sliced) *slice_at(at) = static_cast<std::byte>(slice);
  }
  void copy_lane(std::uint32_t from, std::uint32_t to) noexcept {
    std::memcpy(lane_at(to), lane_at(from), 2);
    std::memcpy(tail_at(to), tail_at(from), shape_.tail_bytes);
    if (shape_.sliced) *slice_at(to) = *slice_at(from);
  }
  /// Moves the lanes from one on, all that follow with it.
  void move_lanes(std::uint32_t from, std::uint32_t to) noexcept {
    const std::size_t moved = count_ - from;
    std::memmove(lane_at(to), lane_at(from), moved * 2);
    std::memmove(tail_at(to), tail_at(from), moved * shape_.tail_bytes);
    if (shape_.sliced) std::memmove(slice_at(to), slice_at(from), moved);
  }
  /// Lanes that are not in use are zero, so that equal tables have equal bytes.
  void clear_lanes(std::uint32_t from, std::uint32_t to) noexcept {
    if (from == to) return;
    std::memset(lane_at(from), 0, std::size_t{to - from} * 2);
    std::memset(tail_at(from), 0, std::size_t{to - from} * shape_.tail_bytes);
    if (shape_.sliced) std::memset(slice_at(from), 0, to - from);
  }
  [[nodiscard]] bool append(std::uint64_t fingerprint, std::uint8_t slice) noexcept {
    if (count_ >= shape_.capacity) return false;
    write_lane(count_++, fingerprint, slice);
    return true;
  }

  [[nodiscard]] bool group_full(std::uint64_t bucket) const noexcept {
    if (shape_.bucket_bits == 0) return false;
    const std::uint64_t last = std::min(bucket | (detail::fingerprint_group - 1), buckets() - 1);
    return std::to_integer<std::uint32_t>(*end_of(last)) >= detail::fingerprint_group_lanes;
  }
  /// Every end from the bucket's own on moves by one: those of its group, and the groups' first lanes behind it.
  void shift_index(std::uint64_t bucket, int by) noexcept {
    if (shape_.bucket_bits == 0) return;
    const std::uint64_t last = std::min(bucket | (detail::fingerprint_group - 1), buckets() - 1);
    for (std::uint64_t at = bucket; at <= last; ++at) {
      *end_of(at) = static_cast<std::byte>(std::to_integer<int>(*end_of(at)) + by);
    }
    if (shape_.bucket_bits <= 4) return;
    for (std::uint64_t group = bucket / detail::fingerprint_group + 1; group < buckets() / detail::fingerprint_group;
         ++group) {
      const auto base = detail::load_le<std::uint32_t>(base_of(group));
      detail::store_le(base_of(group), static_cast<std::uint32_t>(base + static_cast<std::uint32_t>(by)));
    }
  }

  /// Writes the index, bucket by bucket.
  class BucketEnds {
   public:
    explicit BucketEnds(const FingerprintTable& table) noexcept : table_(table) {}
    void begin(std::uint64_t bucket, std::uint32_t first) noexcept {
      if (bucket % detail::fingerprint_group != 0) return;
      base_ = first;
      if (table_.shape_.bucket_bits > 4) detail::store_le(table_.base_of(bucket / detail::fingerprint_group), base_);
    }
    void end(std::uint64_t bucket, std::uint32_t end) const noexcept {
      if (table_.shape_.bucket_bits > 0) *table_.end_of(bucket) = static_cast<std::byte>(end - base_);
    }

   private:
    const FingerprintTable& table_;
    std::uint32_t base_ = 0;
  };

  /// How many bits each lane of another table gives to the number of its bucket here.
  [[nodiscard]] int given_by(const FingerprintView& from) const noexcept {
    return shape_.bucket_bits - from.shape().bucket_bits;
  }
  /// The live lanes of another table that belong to a bucket of `given` bits more than it has.
  [[nodiscard]] bool take_bucket(const FingerprintView& from, std::uint64_t bucket, int given, std::uint32_t twins_from,
                                 FingerprintWindow window) noexcept {
    if (given >= 0) {
      return take_lanes(from, bucket >> given, given, given == 0 ? 0 : bucket << (64 - given), twins_from, window);
    }
    for (std::uint64_t i = 0; i < std::uint64_t{1} << -given; ++i) {
      if (!take_lanes(from, (bucket << -given) | i, given, i << (64 + given), twins_from, window)) return false;
    }
    return true;
  }
  /// Each lane gives its first `given` bits, which must be those of `number`, to the bucket's number; one with fewer
  /// is copied to every bucket they may have named. Where `given` is negative, the bucket gives its last bits to the
  /// lane. A lane equal to one from `twins_from` on is not taken again.
  [[nodiscard]] bool take_lanes(const FingerprintView& from, std::uint64_t bucket, int given, std::uint64_t number,
                                std::uint32_t twins_from, FingerprintWindow window) noexcept {
    const detail::FingerprintRef table = from.shape().sliced ? from.ref(window) : from.ref();
    const detail::LaneRun run = lanes_of(table, bucket);
    for (std::uint32_t at = run.first; at < run.first + run.count; ++at) {
      if (table.slices != nullptr && lane_age(table, at) > window.max_age) continue;
      const std::uint64_t lane = load_lane(table, at);
      const int bits = 63 - std::countr_zero(lane);
      const int compared = std::min(bits, given);
      if (compared > 0 && ((lane ^ number) >> (64 - compared)) != 0) continue;
      const std::uint64_t fingerprint = given < 0 ? lane >> -given | number : bits >= given ? lane << given : no_bits;
      const auto slice = table.slices == nullptr ? window.newest : std::to_integer<std::uint8_t>(table.slices[at]);
      std::uint32_t twin = twins_from;
      while (twin < count_ && load_lane(view().ref(), twin) != cut(fingerprint)) ++twin;
      if (twin < count_) {
        renew(twin, slice, window);
      } else if (!append(fingerprint, slice)) {
        return false;
      }
    }
    return true;
  }
  /// A group counts its lanes in a byte. Ten a bucket on average, 160 a group, reach 255 once in 10^12; items chosen to
  /// share a bucket reach it sooner, and that bucket then matches everything: a wrong "seen", never a wrong "unseen".
  void keep_within_group(std::uint64_t bucket, std::uint32_t first, FingerprintWindow window) noexcept {
    if (shape_.bucket_bits == 0) return;
    const std::uint64_t in_group = bucket % detail::fingerprint_group;
    const std::uint64_t group_first = in_group == 0 ? first : group_base(bucket);
    const std::uint64_t behind = std::min<std::uint64_t>(detail::fingerprint_group, buckets()) - 1 - in_group;
    if (count_ - group_first + behind <= detail::fingerprint_group_lanes) return;
    std::uint8_t youngest = 255;
    for (std::uint32_t at = first; shape_.sliced && at < count_; ++at) {
      youngest = std::min(youngest, window.age(std::to_integer<std::uint8_t>(*slice_at(at))));
    }
    clear_lanes(first, count_);
    count_ = first;
    (void)append(no_bits, static_cast<std::uint8_t>(window.newest - youngest));
  }
  [[nodiscard]] std::uint32_t group_base(std::uint64_t bucket) const noexcept {
    return shape_.bucket_bits > 4 ? detail::load_le<std::uint32_t>(base_of(bucket / detail::fingerprint_group)) : 0;
  }

  FingerprintShape shape_;
  std::uint32_t count_;
  std::byte* body_;
};

}  // namespace seenby
