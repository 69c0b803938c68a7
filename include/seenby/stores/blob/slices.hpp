#pragma once
// SPDX-License-Identifier: MIT
// BlobSlices: the list of a windowed user's slices in a BlobStore, as a value of its own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "seenby/filters/container.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

/// Says which slices must be there, so that one that is not was lost; and which ever were, so that all can be erased.
/// Kind 6 of tests/golden/FORMAT-CONTAINERS.md.
class BlobSlices {
 public:
  struct Slice {
    std::int64_t number = 0;
    /// Not acknowledged yet: it may be absent, and is empty then.
    bool opening = false;

    friend bool operator==(const Slice&, const Slice&) = default;
  };

  explicit BlobSlices(std::int64_t slice_seconds) noexcept : slice_seconds_(slice_seconds) {}

  /// Errors: those of a container.
  [[nodiscard]] static Result<BlobSlices> decode(std::span<const std::byte> bytes) {
    auto reader = ContainerReader::open(bytes, ContainerKind::blob_slices);
    if (!reader) return std::move(reader).error();
    BlobSlices list(reader->take<std::int64_t>());
    const auto count = reader->take<std::uint32_t>();
    bool valid = true;
    for (std::uint32_t i = 0; i < count && reader->ok(); ++i) {
      const auto number = reader->take<std::int64_t>();
      const auto opening = reader->take<std::uint8_t>();
      valid = valid && opening <= 1 && (list.slices_.empty() || list.slices_.back().number < number);
      list.slices_.push_back({number, opening == 1});
    }
    if (!valid || !reader->complete()) {
      return container_error(ErrorCode::corrupt, "expected ascending slices and nothing behind them");
    }
    return list;
  }

  [[nodiscard]] std::vector<std::byte> encode() const {
    ContainerWriter writer(ContainerKind::blob_slices);
    writer.put(slice_seconds_);
    writer.put(static_cast<std::uint32_t>(slices_.size()));
    for (const Slice& slice : slices_) {
      writer.put(slice.number);
      writer.put(std::uint8_t{slice.opening});
    }
    return writer.finish();
  }

  [[nodiscard]] std::int64_t slice_seconds() const noexcept { return slice_seconds_; }
  /// Ascending.
  [[nodiscard]] const std::vector<Slice>& all() const noexcept { return slices_; }
  /// Nothing when it is not listed.
  [[nodiscard]] const Slice* find(std::int64_t number) const noexcept {
    const auto at = std::find_if(slices_.begin(), slices_.end(), [&](const Slice& is) { return is.number == number; });
    return at == slices_.end() ? nullptr : &*at;
  }
  /// Lists a slice, or changes how it is listed.
  void put(std::int64_t number, bool opening) {
    const auto at = std::lower_bound(slices_.begin(), slices_.end(), number,
                                     [](const Slice& is, std::int64_t wanted) { return is.number < wanted; });
    if (at != slices_.end() && at->number == number) {
      at->opening = opening;
    } else {
      slices_.insert(at, {number, opening});
    }
  }

  friend bool operator==(const BlobSlices&, const BlobSlices&) = default;

 private:
  std::int64_t slice_seconds_;
  std::vector<Slice> slices_;
};

SEENBY_DETAIL_END
