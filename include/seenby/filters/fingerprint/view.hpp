#pragma once
// SPDX-License-Identifier: MIT
// FingerprintView: asks a fingerprint table in bytes of the caller's.

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "seenby/filters/fingerprint/shape.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/table.hpp"

namespace seenby {

/// Which slices of a table are live: those at most `max_age` slices older than the newest. Slices are numbered by time
/// and kept modulo 256; a table whose newest slice is 255 slices back must be dropped as a whole (`drop` does).
struct FingerprintWindow {
  std::uint8_t newest = 0;   ///< the slice whose age is 0, modulo 256
  std::uint8_t max_age = 0;  ///< at most 254

  /// Slices between this one and the newest, modulo 256.
  [[nodiscard]] constexpr std::uint8_t age(std::uint8_t slice) const noexcept {
    return static_cast<std::uint8_t>(newest - slice);
  }
  /// Whether the slice is in the window.
  [[nodiscard]] constexpr bool is_live(std::uint8_t slice) const noexcept { return age(slice) <= max_age; }
};

/// A table of fingerprints, read only. It owns nothing and is as thread-safe as its bytes; bytes that another thread is
/// changing give some answer and no read outside the shape, which is what an optimistic reader needs.
///
/// The digest's top bits choose a bucket; a lane holds the bits that follow, a one that ends them, and zeros. The lanes
/// of all buckets follow each other without a gap, and an index says where each bucket's end (filters that grow so:
/// Dayan et al., "InfiniFilter", SIGMOD 2023). With one bucket bit more, each lane gives its first bit to the bucket's
/// number; the rate that an item adds stays what it was when the item came.
class FingerprintView {
 public:
  /// `body` has shape.bytes() bytes and `count` lanes in use.
  FingerprintView(const FingerprintShape& shape, std::uint32_t count, const std::byte* body) noexcept
      : shape_(shape), count_(count), body_(body) {}

  /// Where the bytes of the table are.
  [[nodiscard]] const FingerprintShape& shape() const noexcept { return shape_; }
  /// Lanes in use: items, and the copies of fingerprints that ran out of bits and are in several buckets.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  /// For kernels, every lane live. O(1).
  [[nodiscard]] detail::FingerprintRef ref() const noexcept {
    const std::byte* const lanes = body_ + shape_.index_bytes();
    return {.index = body_,
            .lanes = lanes,
            .tails = lanes + std::uint64_t{shape_.capacity} * 2,
            .slices = nullptr,
            .capacity = shape_.capacity,
            .count = count_,
            .bucket_bits = shape_.bucket_bits,
            .tail_bytes = shape_.tail_bytes};
  }
  /// For kernels, the lanes of live slices. The table is sliced.
  [[nodiscard]] detail::FingerprintRef ref(FingerprintWindow window) const noexcept {
    detail::FingerprintRef ref = this->ref();
    ref.slices = ref.tails + std::uint64_t{shape_.capacity} * shape_.tail_bytes;
    ref.newest = window.newest;
    ref.max_age = window.max_age;
    return ref;
  }

  /// Whether the item may have been inserted: never false for one that was.
  [[nodiscard]] bool may_contain(Digest digest) const noexcept { return fingerprint_test(ref(), digest); }
  /// The same within a window's live slices.
  [[nodiscard]] bool may_contain(Digest digest, FingerprintWindow window) const noexcept {
    return fingerprint_test(ref(window), digest);
  }
  /// Slices since the item was last inserted, as far as the table tells; 255 when it is not in a live slice.
  [[nodiscard]] std::uint8_t age(Digest digest, FingerprintWindow window) const noexcept {
    return fingerprint_age(ref(window), digest);
  }

  /// The age of the oldest lane, live or not; 0 when there is none. O(count).
  [[nodiscard]] std::uint8_t oldest_age(FingerprintWindow window) const noexcept {
    const detail::FingerprintRef table = ref(window);
    std::uint8_t oldest = 0;
    for (std::uint32_t at = 0; at < count_; ++at) oldest = std::max(oldest, lane_age(table, at));
    return oldest;
  }

  /// Whether each bucket's lanes follow the last one's, all of them are those in use, and each has a fingerprint: what
  /// bytes from elsewhere must pass before a FingerprintTable changes them. Reads nothing outside the shape. O(count).
  [[nodiscard]] bool is_sound() const noexcept {
    if (count_ > shape_.capacity) return false;
    const detail::FingerprintRef table = ref();
    std::uint32_t next = table.bucket_bits == 0 ? count_ : 0;
    for (std::uint64_t bucket = 0; table.bucket_bits > 0 && bucket < std::uint64_t{1} << table.bucket_bits; ++bucket) {
      const std::byte* const ends = table.index + bucket + bucket / detail::fingerprint_group;
      const std::uint32_t from = detail::load_byte(ends);
      const std::uint32_t to = detail::load_byte(ends + 1);
      if ((bucket % detail::fingerprint_group == 0 && from != 0) || to < from) return false;
      const detail::LaneRun run = lanes_of(table, bucket);
      if (to > from && (run.first != next || run.count != to - from)) return false;
      next += to - from;
    }
    bool sound = next == count_;
    for (std::uint32_t at = 0; sound && at < count_; ++at) sound = load_lane(table, at) != 0;
    return sound;
  }

  /// How many different slices are more than `max_age` older than `newest`; -1 counts all. O(count).
  [[nodiscard]] std::uint32_t slices_older_than(int max_age, std::uint8_t newest) const noexcept {
    std::bitset<256> old;
    const detail::FingerprintRef table = ref({.newest = newest, .max_age = 254});
    for (std::uint32_t at = 0; at < count_; ++at) {
      if (const std::uint8_t age = lane_age(table, at); age > max_age) old.set(age);
    }
    return static_cast<std::uint32_t>(old.count());
  }

  /// Calls visit(bits, count) for each lane: it stands for the digests that begin with the first `count` of `bits`.
  template <class Visit>
  void for_each_lane(Visit&& visit) const {
    const detail::FingerprintRef table = ref();
    for (std::uint64_t bucket = 0; bucket < std::uint64_t{1} << shape_.bucket_bits; ++bucket) {
      const detail::LaneRun run = lanes_of(table, bucket);
      const std::uint64_t first = shape_.bucket_bits == 0 ? 0 : bucket << (64 - shape_.bucket_bits);
      for (std::uint32_t at = run.first; at < run.first + run.count; ++at) {
        const std::uint64_t lane = load_lane(table, at);
        const auto end = static_cast<std::uint32_t>(std::countr_zero(lane));  // of the one behind the fingerprint
        visit(first | ((lane & (lane - 1)) >> shape_.bucket_bits), shape_.bucket_bits + 63 - end);
      }
    }
  }

  /// The rate at which a fresh digest matches, from the bits: exact for what is in the table. A fingerprint of k bits
  /// matches 2^-k of what falls into its bucket; one that begins with another matches nothing more. O(count).
  [[nodiscard]] double estimated_fpr() const noexcept {
    const detail::FingerprintRef table = ref();
    double sum = 0;
    std::array<std::uint64_t, detail::fingerprint_group_lanes> lanes;
    for (std::uint64_t bucket = 0; bucket < std::uint64_t{1} << shape_.bucket_bits; ++bucket) {
      const detail::LaneRun run = lanes_of(table, bucket);
      const std::uint32_t count = std::min(run.count, detail::fingerprint_group_lanes);  // more only in damaged bytes
      for (std::uint32_t i = 0; i < count; ++i) lanes[i] = load_lane(table, run.first + i);
      sum += rate_of(std::span(lanes).first(count));
    }
    return std::min(1.0, std::ldexp(sum, -static_cast<int>(shape_.bucket_bits)));
  }

  /// The lanes that this table takes with so many bucket bits, at least its own: each fingerprint that has fewer bits
  /// than it must give up is copied to every bucket it may belong to. O(count).
  [[nodiscard]] std::uint64_t lanes_at(std::uint8_t bucket_bits) const noexcept {
    const int given = bucket_bits - shape_.bucket_bits;
    const detail::FingerprintRef table = ref();
    std::uint64_t lanes = count_;
    for (std::uint32_t at = 0; given > 0 && at < count_; ++at) {
      const int bits = 63 - std::countr_zero(load_lane(table, at));
      if (bits < given) lanes += (std::uint64_t{1} << (given - bits)) - 1;
    }
    return lanes;
  }

 private:
  /// The share of a bucket's digests that some lane of it matches.
  [[nodiscard]] static double rate_of(std::span<const std::uint64_t> lanes) noexcept {
    double sum = 0;
    for (std::size_t at = 0; at < lanes.size(); ++at) {
      const int bits = std::countr_zero(lanes[at]);
      bool within_another = false;
      for (std::size_t other = 0; other < lanes.size() && !within_another; ++other) {
        const bool is_wider = lanes[other] == lanes[at] ? other < at : std::countr_zero(lanes[other]) > bits;
        within_another = is_wider && detail::lane_matches(lanes[other], lanes[at]);
      }
      if (!within_another)
        sum += std::bit_cast<double>(static_cast<std::uint64_t>(1023 - 63 + bits) << 52);  // 2^-(63 - bits)
    }
    return sum;
  }

  FingerprintShape shape_;
  std::uint32_t count_;
  const std::byte* body_;
};

/// The shape for a table with `more` different new items in it, exactly large enough, that errs at most `share` until
/// it grows again. It has fewer bucket bits than an old one of which little is left. `old` is null for a new table.
/// `errs`: what the old one errs, where that is known better than from its bits alone, as of one of many tables.
/// O(1) while the bucket bits stay, O(count) when they change.
[[nodiscard]] inline FingerprintShape grown_shape(const FingerprintView* old, std::uint64_t more, double share,
                                                  bool sliced, std::optional<double> errs = std::nullopt) {
  detail::require_rate(share, "share");
  const std::uint64_t held = old == nullptr ? 0 : old->count();
  std::uint64_t lanes = held + more;
  FingerprintShape shape{.bucket_bits = sizing::bucket_bits_for(lanes), .sliced = sliced};
  const int spare_bits = old == nullptr ? 0 : old->shape().bucket_bits - shape.bucket_bits;
  if (held > 0 && spare_bits > 0) ++shape.bucket_bits;  // it may grow again
  if (held > 0 && (spare_bits == 0 || spare_bits == 1)) {
    shape.tail_bytes = old->shape().tail_bytes;
  } else {
    // Lanes of a shrunken table are cut where they get too long, as if inserted into it.
    const std::uint64_t to_come = std::max(shape.most_items(), lanes) - (spare_bits < 0 ? held : 0);
    const double rate = errs ? *errs : held == 0 ? 0 : old->estimated_fpr();
    shape.tail_bytes = sizing::tail_bytes_for(shape.bucket_bits, rate, to_come, share);
    if (held > 0) {
      shape.tail_bytes = std::max(shape.tail_bytes, old->shape().tail_bytes);
      lanes = old->lanes_at(shape.bucket_bits) + more;
    }
  }
  shape.capacity = static_cast<std::uint32_t>(std::min<std::uint64_t>(lanes, UINT32_MAX));
  return shape;
}

/// The shape for the half of a table whose digests begin with `bit`, with one bucket bit less: the lanes stay as they
/// are. A table of one bucket has none to give: its lanes give a bit each. O(1).
[[nodiscard]] inline FingerprintShape half_of(const FingerprintView& whole, std::uint32_t bit) noexcept {
  FingerprintShape shape = whole.shape();
  shape.capacity = whole.count();
  if (shape.bucket_bits == 0) return shape;
  --shape.bucket_bits;
  const std::uint32_t below = lanes_of(whole.ref(), std::uint64_t{1} << shape.bucket_bits).first;
  shape.capacity = bit == 0 ? below : whole.count() - below;
  return shape;
}

/// The shape for what two tables hold together. What they already err, it errs: more than `share` where each had used
/// up its own. O(count).
[[nodiscard]] inline FingerprintShape united_shape(const FingerprintView& a, const FingerprintView& b, double share,
                                                   bool sliced) {
  const FingerprintView& larger = a.count() >= b.count() ? a : b;
  FingerprintShape shape = grown_shape(&larger, std::min(a.count(), b.count()), share, sliced);
  shape.tail_bytes = std::max({shape.tail_bytes, a.shape().tail_bytes, b.shape().tail_bytes});
  shape.capacity = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(a.lanes_at(shape.bucket_bits) + b.lanes_at(shape.bucket_bits), UINT32_MAX));
  return shape;
}

}  // namespace seenby
