#pragma once
// SPDX-License-Identifier: MIT
// BloomFilterView: queries a filter in bytes it does not own (a mapped file, a network reply).

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "seenby/detail/bits.hpp"
#include "seenby/detail/range.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/classic.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

/// The shape itself when the layout could have made it; shape_of refuses whatever cannot be, and what it would change
/// was not made by it. Throws std::invalid_argument.
template <class Layout>
[[nodiscard]] FilterShape checked_shape(const FilterShape& shape) {
  FilterShape made = Layout::shape_of(shape.bits, shape.hash_count);
  made.layout = shape.layout;
  if (Layout::reads(shape.layout) && made == shape) return shape;
  std::string message = "seenby: expected a shape of layout ";
  message.append(to_string(Layout::kind)).append(" as its shape_of or shape_for makes it, got ");
  message.append(std::to_string(shape.bits)).append(" bits of layout ").append(to_string(shape.layout));
  throw std::invalid_argument(message);
}

SEENBY_DETAIL_END

namespace seenby {

/// A read-only filter over borrowed bytes: no copy, no allocation. The bytes must outlive it and must not change but
/// by added bits. Thread safety: any number of readers.
template <HashableItem Item, class Layout = ClassicLayout, Hasher Hash = Xxh3Hash>
class BloomFilterView {
 public:
  using item_type = Item;  ///< what it holds

  /// Over bare bits. Throws std::invalid_argument when the shape is none of Layout's or there are not shape.bytes() of
  /// them.
  BloomFilterView(const FilterShape& shape, std::span<const std::byte> bits, Hash hash = {})
      : shape_(detail::checked_shape<Layout>(shape)), bits_(bits), hash_(std::move(hash)) {
    if (bits.size() == shape.bytes()) return;
    std::string message = "seenby: expected ";
    message.append(std::to_string(shape.bytes())).append(" bytes of bits, got ").append(std::to_string(bits.size()));
    throw std::invalid_argument(message);
  }

  /// Over a whole value of format v1, header and bits. Checks all that BloomFilter::decode checks; same errors.
  [[nodiscard]] static Result<BloomFilterView> over(std::span<const std::byte> bytes, Hash hash = {}) {
    auto header = decode_header(bytes);
    if (!header) return std::move(header).error();
    if (auto same = check(*header, hash); !same) return std::move(same).error();
    return BloomFilterView(header->shape, bytes.subspan(header_bytes), std::move(hash));
  }

  /// Whether a header describes a filter of this layout, hash and seed; parameter_mismatch when it does not.
  [[nodiscard]] static Result<void> check(const FilterHeader& header, const Hash& hash) {
    if (!Layout::reads(header.shape.layout)) {
      std::string message = "expected a filter of layout ";
      message.append(to_string(Layout::kind)).append(", got ").append(to_string(header.shape.layout));
      return detail::header_error(ErrorCode::parameter_mismatch, message);
    }
    return check_hash(header, hash);
  }

  /// As BloomFilter::may_contain.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool may_contain(const Key& item) const noexcept {
    return may_contain(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool may_contain(Digest digest) const noexcept { return Layout::test(bits_.data(), shape_, digest); }
  /// out[i] = 1 when digest i may be contained, else 0. Throws std::invalid_argument when out is too short.
  void may_contain(std::span<const Digest> digests, std::span<std::uint8_t> out) const {
    detail::require_room(digests.size(), out.size());
    Layout::test_batch(bits_.data(), shape_, digests, out.data());
  }

  [[nodiscard]] const FilterShape& shape() const noexcept { return shape_; }  ///< layout, bits and k
  /// The share of bits that are set. O(m).
  [[nodiscard]] double fill_ratio() const noexcept {
    return static_cast<double>(detail::count_ones(bits_)) / static_cast<double>(shape_.bits);
  }
  /// Different items inserted, estimated from the bits. O(m).
  [[nodiscard]] double estimated_items() const noexcept { return Layout::estimate_items(bits_.data(), shape_); }
  /// The false-positive rate measured from the bits. O(m).
  [[nodiscard]] double estimated_fpr() const noexcept { return Layout::estimate_fpr(bits_.data(), shape_); }

 private:
  FilterShape shape_;
  std::span<const std::byte> bits_;
  [[no_unique_address]] Hash hash_;
};

}  // namespace seenby
