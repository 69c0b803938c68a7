#pragma once
// SPDX-License-Identifier: MIT
// CountingBloomFilter: a Bloom filter from which items can be erased, at four times the memory.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/range.hpp"
#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/container.hpp"
#include "seenby/filters/layout/classic.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

namespace seenby {

/// A Bloom filter with a counter of four bits in place of each bit (Fan, Cao, Almeida and Broder, "Summary Cache",
/// 2000), so that items can be erased. It takes four times the memory of a BloomFilter of the same rate: 38.3 bits an
/// item at 1% against 9.6. Where removals are rare, an ExactSet of them beside a BloomFilter is smaller.
///
/// Counts occurrences: what was inserted twice must be erased twice. A counter that reaches 15 stays there,
/// since how far it went is not known: safe, at the price of a place that no erase clears. At the planned load that
/// happens to any of m counters with a probability below 1.4e-15 m (section V.C there).
///
/// Erasing what was never inserted takes counts away from others, who may then be lost. It is refused where it can be
/// known, which is whenever may_contain() is false; a false positive cannot be told from an item. Erase only what you
/// know you inserted.
///
/// Thread safety: as a standard container: any number of readers, or one writer.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class CountingBloomFilter {
 public:
  using item_type = Item;    ///< what it holds
  using hasher_type = Hash;  ///< makes digests of items

  static constexpr std::uint32_t max_count = 15;  ///< a counter that reaches this stays there

  /// Counters for options.expected_items at options.target_fpr. Throws std::invalid_argument as BloomFilter does, and
  /// past 2^35 counters (16 GiB).
  explicit CountingBloomFilter(const BloomFilterOptions& options, Hash hash = {})
      : CountingBloomFilter(ClassicLayout::shape_for(options.expected_items, options.target_fpr), options.target_fpr,
                            std::move(hash)) {}
  /// As many counters as `shape`, made by ClassicLayout::shape_of, has bits.
  explicit CountingBloomFilter(const FilterShape& shape, double target_fpr = 0.01, Hash hash = {})
      : shape_(checked(shape)), target_fpr_(target_fpr), hash_(std::move(hash)), counters_(counter_bytes(shape_)) {
    detail::require_rate(target_fpr, "target_fpr");
  }

  // Modify

  /// Adds one occurrence of an item. O(k).
  template <FilterKey<Item> Key>
  void insert(const Key& item) noexcept {
    insert(hash_(item));
  }
  /// The same for a digest.
  void insert(Digest digest) noexcept {
    const Places places(digest, shape_);
    for (const std::uint64_t place : places) {
      const std::uint32_t count = count_at(place);
      if (count == max_count) continue;
      set_count(place, count + 1);
      saturated_ += count + 1 == max_count ? 1U : 0U;
    }
    ++items_;
  }

  /// Takes one occurrence of an item away. False, and nothing changes, when it was certainly never inserted or was
  /// erased as often.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool erase(const Key& item) noexcept {
    return erase(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool erase(Digest digest) noexcept {
    const Places places(digest, shape_);
    if (!std::all_of(places.begin(), places.end(), [this](std::uint64_t place) { return count_at(place) != 0; })) {
      ++refused_;
      return false;
    }
    for (const std::uint64_t place : places) {
      const std::uint32_t count = count_at(place);
      if (count != max_count) set_count(place, count - 1);
    }
    items_ -= items_ > 0 ? 1U : 0U;
    return true;
  }

  /// Forgets every item. O(m).
  void clear() noexcept {
    std::fill_n(counters_.data(), counters_.size(), std::byte{0});
    items_ = saturated_ = refused_ = 0;
  }

  // Query

  /// False: every occurrence of the item was erased, or there was none. O(k), stopping at the first zero.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool may_contain(const Key& item) const noexcept {
    return may_contain(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool may_contain(Digest digest) const noexcept {
    detail::ClassicPositions positions(digest, shape_);
    for (std::uint32_t i = 0; i < shape_.hash_count; ++i) {
      if (count_at(positions.next()) == 0) return false;
    }
    return true;
  }
  /// out[i] = 1 when digest i may be contained, else 0. Throws std::invalid_argument when out is too short.
  void may_contain(std::span<const Digest> digests, std::span<std::uint8_t> out) const {
    detail::require_room(digests.size(), out.size());
    for (std::size_t i = 0; i < digests.size(); ++i) out[i] = may_contain(digests[i]) ? 1 : 0;
  }
  /// No fewer than the occurrences of an item now in it, up to 15: its smallest counter.
  template <FilterKey<Item> Key>
  [[nodiscard]] std::uint32_t count_at_most(const Key& item) const noexcept {
    std::uint32_t least = max_count;
    for (const std::uint64_t place : Places(hash_(item), shape_)) least = std::min(least, count_at(place));
    return least;
  }

  /// The item's digest, good for every filter with the same hasher and seed.
  template <FilterKey<Item> Key>
  [[nodiscard]] Digest digest(const Key& item) const noexcept {
    return hash_(item);
  }

  /// The same set as a plain filter, a quarter the size: to publish what is collected here.
  [[nodiscard]] BloomFilter<Item, ClassicLayout, Hash> to_bloom_filter() const {
    std::vector<std::byte> bytes(header_bytes + shape_.bytes());
    const auto bits = std::span(bytes).subspan(header_bytes);
    for (std::uint64_t place = 0; place < shape_.bits; ++place) {
      if (count_at(place) != 0) detail::set_bit(bits.data(), place);
    }
    const FilterHeader header{.shape = shape_,
                              .hash = Hash::kind,
                              .covers_bits = true,
                              .items = static_cast<std::uint32_t>(std::min<std::uint64_t>(items_, 0xffffffffU)),
                              .target_fpr = target_fpr_,
                              .seed_check = seed_check(hash_)};
    encode_header(header, bits, std::span<std::byte, header_bytes>(bytes.data(), header_bytes));
    return BloomFilter<Item, ClassicLayout, Hash>::decode(bytes, hash_).value();
  }

  // Capacity

  /// Occurrences inserted less those erased.
  [[nodiscard]] std::uint64_t size() const noexcept { return items_; }
  /// How many items it holds at target_fpr.
  [[nodiscard]] std::uint64_t capacity() const { return sizing::capacity_of(shape_, target_fpr_); }
  [[nodiscard]] double target_fpr() const noexcept { return target_fpr_; }       ///< the rate it was made for
  [[nodiscard]] std::uint64_t counters() const noexcept { return shape_.bits; }  ///< m: counters of four bits each
  [[nodiscard]] std::uint32_t hash_count() const noexcept { return shape_.hash_count; }  ///< k: positions an item has
  /// Four bits a counter.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return counters_.size(); }
  /// Counters that reached 15 and no erase will lower.
  [[nodiscard]] std::uint64_t saturated() const noexcept { return saturated_; }
  /// Erases that were refused.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }
  [[nodiscard]] const Hash& hasher() const noexcept { return hash_; }  ///< the hasher, with its seed

  // Serialize

  /// The filter as bytes, which `decode` reads. O(m).
  [[nodiscard]] std::vector<std::byte> encode() const {
    detail::ContainerWriter writer(detail::ContainerKind::counting);
    writer.put(shape_.bits);
    writer.put(shape_.hash_count | (shape_.layout == LayoutKind::classic ? layout_byte << 8 : 0));
    writer.put(static_cast<std::uint8_t>(Hash::kind));
    writer.put(seed_check(hash_));
    writer.put(target_fpr_);
    writer.put(items_);
    writer.put_bytes(counters_.span());
    return writer.finish();
  }
  /// Reads what encode wrote. Errors: truncated, bad_magic, unsupported_version, wrong_type, corrupt,
  /// parameter_mismatch (another hash or seed).
  [[nodiscard]] static Result<CountingBloomFilter> decode(std::span<const std::byte> bytes, Hash hash = {}) {
    auto reader = detail::ContainerReader::open(bytes, detail::ContainerKind::counting);
    if (!reader) return std::move(reader).error();
    FilterHeader named;
    named.shape.bits = reader->template take<std::uint64_t>();
    const auto k_and_layout = reader->template take<std::uint32_t>();
    named.shape.hash_count = k_and_layout & 0xffU;
    named.shape.layout = k_and_layout >> 8 == 0 ? LayoutKind::classic_v1 : LayoutKind::classic;
    named.hash = static_cast<HashKind>(reader->template take<std::uint8_t>());
    named.seed_check = reader->template take<std::uint16_t>();
    named.target_fpr = reader->template take<double>();
    const auto items = reader->template take<std::uint64_t>();
    const auto counters = reader->take_bytes();
    const bool sane = reader->complete() && (k_and_layout >> 8 == 0 || k_and_layout >> 8 == layout_byte) &&
                      named.shape.bits > 0 && named.shape.bits % 64 == 0 && named.shape.hash_count >= 1 &&
                      named.shape.hash_count <= max_hash_count && counters.size() == named.shape.bits / 2 &&
                      named.target_fpr > 0 && named.target_fpr < 1;
    if (!sane) {
      return detail::container_error(ErrorCode::corrupt, "expected a counting filter, but its fields cannot be");
    }
    if (auto same = check_hash(named, hash); !same) return std::move(same).error();
    CountingBloomFilter filter(named.shape, named.target_fpr, std::move(hash));
    std::copy(counters.begin(), counters.end(), filter.counters_.data());
    filter.items_ = items;
    for (std::uint64_t place = 0; place < named.shape.bits; ++place) {
      filter.saturated_ += filter.count_at(place) == max_count ? 1U : 0U;
    }
    return filter;
  }

 private:
  /// Follows k, in the field's next byte; layout 1 is written as 0.
  static constexpr std::uint32_t layout_byte = static_cast<std::uint32_t>(LayoutKind::classic);

  /// An item's places, each once: where two of its positions fall together it has one counter, not one counted twice.
  class Places {
   public:
    Places(Digest digest, const FilterShape& shape) noexcept {
      detail::ClassicPositions positions(digest, shape);
      for (std::uint32_t i = 0; i < shape.hash_count; ++i) {
        const std::uint64_t place = positions.next();
        if (std::find(begin(), end(), place) == end()) places_[size_++] = place;
      }
    }
    [[nodiscard]] const std::uint64_t* begin() const noexcept { return places_.data(); }
    [[nodiscard]] const std::uint64_t* end() const noexcept { return places_.data() + size_; }

   private:
    std::array<std::uint64_t, max_hash_count> places_;
    std::size_t size_ = 0;
  };

  [[nodiscard]] static FilterShape checked(const FilterShape& shape) {
    if (ClassicLayout::reads(shape.layout) && shape.bits <= (std::uint64_t{1} << 35)) {
      return detail::checked_shape<ClassicLayout>(shape);
    }
    std::string message = "seenby: expected a classic shape of at most 2^35 counters, got ";
    message.append(std::to_string(shape.bits)).append(" of layout ").append(to_string(shape.layout));
    throw std::invalid_argument(message);
  }
  [[nodiscard]] static std::size_t counter_bytes(const FilterShape& shape) noexcept {
    return static_cast<std::size_t>(shape.bits / 2);
  }

  /// Two counters a byte, the even one in the low half.
  [[nodiscard]] std::uint32_t count_at(std::uint64_t place) const noexcept {
    return (std::to_integer<std::uint32_t>(counters_.data()[place / 2]) >> (place % 2 * 4)) & 0x0fU;
  }
  void set_count(std::uint64_t place, std::uint32_t count) noexcept {
    std::byte& pair = counters_.data()[place / 2];
    const auto shift = static_cast<std::uint32_t>(place % 2 * 4);
    pair = static_cast<std::byte>((std::to_integer<std::uint32_t>(pair) & ~(0x0fU << shift)) | (count << shift));
  }

  FilterShape shape_;
  double target_fpr_;
  [[no_unique_address]] Hash hash_;
  detail::AlignedBytes counters_;
  std::uint64_t items_ = 0;
  std::uint64_t saturated_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace seenby
