#pragma once
// SPDX-License-Identifier: MIT
// BloomFilter: a set that never forgets an item and sometimes thinks it knows one it does not.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/aligned_bytes.hpp"
#include "seenby/detail/range.hpp"
#include "seenby/filters/bloom_filter_view.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/classic.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// How large a filter to make.
struct BloomFilterOptions {
  std::uint64_t expected_items = 0;  ///< distinct items it is to hold; at least 1
  double target_fpr = 0.01;          ///< the rate at expected_items, in (0, 1); never exceeded up to there
};

/// A Bloom filter (Bloom 1970): no false negatives, a tunable rate of false positives.
///
///     seenby::BloomFilter<std::string> filter{{.expected_items = 1'000, .target_fpr = 0.01}};
///     filter.insert("a");
///     filter.may_contain("a");   // true; "b": false, or true once in a hundred
///
/// Item is what it holds: any integer or enum, anything convertible to std::string_view, or a span of bytes. Layout is
/// ClassicLayout (fewest bits) or SplitBlockLayout (fastest lookup, in a header of its own:
/// seenby/filters/layout/split_block.hpp). Hash is a Hasher; every position derives from
/// the 64-bit digest it makes, so two items of one digest (once in 2^64 pairs) are one.
///
/// Thread safety: as a standard container: any number of readers, or one writer. A filter that was moved from has no
/// bits: assign to it or destroy it.
template <HashableItem Item, class Layout = ClassicLayout, Hasher Hash = Xxh3Hash>
class BloomFilter {
 public:
  using item_type = Item;                                 ///< what it holds
  using layout_type = Layout;                             ///< where a digest's bits are
  using hasher_type = Hash;                               ///< makes digests of items
  using view_type = BloomFilterView<Item, Layout, Hash>;  ///< the same filter over borrowed bytes

  /// The smallest filter that holds options.expected_items at options.target_fpr. Throws std::invalid_argument for 0
  /// items, a rate outside (0, 1), or more than 2^37 bits; std::bad_alloc.
  explicit BloomFilter(const BloomFilterOptions& options, Hash hash = {})
      : BloomFilter(Layout::shape_for(options.expected_items, options.target_fpr), options.target_fpr, hash) {}

  /// A filter of a shape of your own choice (Layout::shape_of(bits, k)); target_fpr only decides its capacity().
  explicit BloomFilter(const FilterShape& shape, double target_fpr = 0.01, Hash hash = {})
      : shape_(detail::checked_shape<Layout>(shape)),
        target_fpr_(checked_rate(target_fpr)),
        hash_(std::move(hash)),
        bits_(shape.bytes()) {}

  // Modify

  /// Adds an item. O(k).
  template <FilterKey<Item> Key>
  void insert(const Key& item) noexcept {
    insert(hash_(item));
  }
  /// The same for a digest.
  void insert(Digest digest) noexcept { count(Layout::insert(bits_.data(), shape_, digest)); }
  /// Adds digests in one go.
  void insert(std::span<const Digest> digests) noexcept {
    items_ += Layout::insert_batch(bits_.data(), shape_, digests);
  }

  /// Adds an item; true when it was certainly new, false when it may have been there.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool insert_if_absent(const Key& item) noexcept {
    return insert_if_absent(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool insert_if_absent(Digest digest) noexcept {
    const bool changed = Layout::insert(bits_.data(), shape_, digest);
    count(changed);
    return changed;
  }

  /// Adds everything another filter holds. Both must agree in layout, k, m and hash seed; otherwise nothing changes
  /// and the error is parameter_mismatch. O(m).
  Result<void> merge(const BloomFilter& other) {
    if (shape_ != other.shape_ || hash_.seed() != other.hash_.seed()) return mismatch(other);
    for (std::size_t at = 0; at < bits_.size(); at += 8) {
      detail::store_le(bits_.data() + at, detail::load_le<std::uint64_t>(bits_.data() + at) |
                                              detail::load_le<std::uint64_t>(other.bits_.data() + at));
    }
    items_ += other.items_;
    return {};
  }

  /// Forgets every item; the size stays.
  void clear() noexcept {
    std::fill_n(bits_.data(), bits_.size(), std::byte{0});
    items_ = 0;
  }

  /// Doubles the capacity at the same rate and re-inserts `known_items`, a range of items or digests: everything this
  /// filter holds, since what is not among them is lost. Positions depend on m, so bits cannot be carried over. A range
  /// that knows its size and is longer than twice the capacity makes room for all of it. The strong guarantee: when it
  /// throws, the filter is as it was.
  template <detail::InputRange Range>
  void grow(Range&& known_items) {
    std::uint64_t larger = std::max<std::uint64_t>(1, capacity()) * 2;
    if constexpr (detail::SizedRange<Range>) {
      larger = std::max(larger, static_cast<std::uint64_t>(std::ranges::size(known_items)));
    }
    grow_to(larger, std::forward<Range>(known_items));
  }
  /// As grow, to a capacity of at least `capacity` items.
  template <detail::InputRange Range>
  void grow_to(std::uint64_t capacity, Range&& known_items) {
    BloomFilter larger(BloomFilterOptions{.expected_items = capacity, .target_fpr = target_fpr_}, hash_);
    for (auto&& item : known_items) larger.insert(item);
    *this = std::move(larger);
  }

  // Query

  /// False: the item was never inserted. True: it was, or the filter errs at estimated_fpr(). noexcept, allocates
  /// nothing. O(k), stopping at the first clear bit.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool may_contain(const Key& item) const noexcept {
    return may_contain(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool may_contain(Digest digest) const noexcept { return Layout::test(bits_.data(), shape_, digest); }
  /// out[i] = 1 when digest i may be contained, else 0. Throws std::invalid_argument when out is too short.
  void may_contain(std::span<const Digest> digests, std::span<std::uint8_t> out) const {
    view().may_contain(digests, out);
  }

  /// The digest of an item under this filter's hash: compute it once, ask many filters.
  template <FilterKey<Item> Key>
  [[nodiscard]] Digest digest(const Key& item) const noexcept {
    return hash_(item);
  }

  // Capacity

  /// How many items it holds at target_fpr.
  [[nodiscard]] std::uint64_t capacity() const { return sizing::capacity_of(shape_, target_fpr_); }
  /// Inserts that changed a bit, plus those of merged filters: what both held counts twice; estimated_items() does not.
  [[nodiscard]] std::uint64_t size() const noexcept { return items_; }
  [[nodiscard]] double target_fpr() const noexcept { return target_fpr_; }               ///< the rate it was made for
  [[nodiscard]] const FilterShape& shape() const noexcept { return shape_; }             ///< layout, bits and k
  [[nodiscard]] std::uint64_t capacity_bits() const noexcept { return shape_.bits; }     ///< m
  [[nodiscard]] std::uint32_t hash_count() const noexcept { return shape_.hash_count; }  ///< k: positions an item has
  [[nodiscard]] const Hash& hasher() const noexcept { return hash_; }                    ///< the hasher, with its seed

  /// The share of bits that are set. O(m), as the two estimates below.
  [[nodiscard]] double fill_ratio() const noexcept { return view().fill_ratio(); }
  /// How many distinct items the bits hold, from the bits alone; within 1%.
  [[nodiscard]] double estimated_items() const noexcept { return view().estimated_items(); }
  /// The rate at which these very bits err; within 1%.
  [[nodiscard]] double estimated_fpr() const noexcept { return view().estimated_fpr(); }

  // Serialize

  /// The bits, 64-byte aligned; valid until the filter grows, is assigned to or destroyed.
  [[nodiscard]] std::span<const std::byte> bits() const noexcept { return bits_.span(); }
  /// A view of these bits; valid as long as they are.
  [[nodiscard]] view_type view() const noexcept { return view_type(shape_, bits_.span(), hash_); }

  /// The filter as bytes in format v1, header and bits, with a checksum over both.
  [[nodiscard]] std::vector<std::byte> encode() const {
    std::vector<std::byte> bytes(header_bytes + bits_.size());
    std::copy_n(bits_.data(), bits_.size(), bytes.data() + header_bytes);
    encode_header(header(), bits_.span(), std::span<std::byte, header_bytes>(bytes.data(), header_bytes));
    return bytes;
  }

  /// Reads what encode wrote. Checks every field, the size and the checksum before it allocates. Errors: truncated,
  /// bad_magic, unsupported_version, corrupt, parameter_mismatch (another layout, hash or seed), too_large.
  [[nodiscard]] static Result<BloomFilter> decode(std::span<const std::byte> bytes, Hash hash = {}) {
    auto header = decode_header(bytes);
    if (!header) return std::move(header).error();
    if (auto same = view_type::check(*header, hash); !same) return std::move(same).error();
    BloomFilter filter(header->shape, header->target_fpr, std::move(hash));
    std::copy_n(bytes.data() + header_bytes, filter.bits_.size(), filter.bits_.data());
    filter.items_ = header->items;
    return filter;
  }

  /// Equal when every future answer is: shape, seed and bits.
  friend bool operator==(const BloomFilter& a, const BloomFilter& b) noexcept {
    return a.shape_ == b.shape_ && a.hash_.seed() == b.hash_.seed() &&
           std::equal(a.bits().begin(), a.bits().end(), b.bits().begin(), b.bits().end());
  }

 private:
  [[nodiscard]] static double checked_rate(double target_fpr) {
    detail::require_rate(target_fpr, "target_fpr");
    return target_fpr;
  }

  void count(bool changed) noexcept { items_ += changed ? 1 : 0; }

  [[nodiscard]] FilterHeader header() const noexcept {
    return {
        .shape = shape_,
        .hash = Hash::kind,
        .covers_bits = true,
        .items = static_cast<std::uint32_t>(std::min<std::uint64_t>(items_, std::numeric_limits<std::uint32_t>::max())),
        .target_fpr = target_fpr_,
        .seed_check = seed_check(hash_)};
  }

  [[nodiscard]] Error mismatch(const BloomFilter& other) const {
    std::string message = "seenby: expected a filter of ";
    message.append(std::to_string(shape_.bits)).append(" bits, k = ").append(std::to_string(shape_.hash_count));
    message.append(" and the same seed, got ").append(std::to_string(other.shape_.bits)).append(" bits, k = ");
    message.append(std::to_string(other.shape_.hash_count));
    message.append(hash_.seed() == other.hash_.seed() ? ", same seed" : ", another seed");
    return {ErrorCode::parameter_mismatch, std::move(message)};
  }

  FilterShape shape_;
  double target_fpr_;
  [[no_unique_address]] Hash hash_;
  detail::AlignedBytes bits_;
  std::uint64_t items_ = 0;
};

}  // namespace seenby
