#pragma once
// SPDX-License-Identifier: MIT
// What a BlobStore wrote before fingerprint tables, for reading: split-block filters one after the other, and the list
// of a windowed user's slices (kind 6 of tests/golden/FORMAT-CONTAINERS.md).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "seenby/filters/container.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

/// Calls visit(header, bits) for each filter of a value. Errors: those of format 1; parameter_mismatch for another
/// hash, seed or layout.
template <Hasher H, class Visit>
[[nodiscard]] Result<void> for_each_filter(std::span<const std::byte> blob, const H& hash, Visit&& visit) {
  while (!blob.empty()) {
    const std::uint64_t claimed = claimed_value_bytes(blob);
    const auto length =
        static_cast<std::size_t>(claimed == 0 ? blob.size() : std::min<std::uint64_t>(claimed, blob.size()));
    auto header = decode_header(blob.first(length));
    if (!header) return std::move(header).error();
    if (header->shape.layout != LayoutKind::split_block) {
      return header_error(ErrorCode::parameter_mismatch,
                          "expected split-block filters in a store's value, got a classic one");
    }
    if (auto same = check_hash(*header, hash); !same) return same;
    visit(*header, blob.data() + header_bytes);
    blob = blob.subspan(length);
  }
  return {};
}

/// seen[i] = 1 where a filter of the value may contain digest i; other entries stay.
template <Hasher H>
[[nodiscard]] Result<void> test_filters(std::span<const std::byte> blob, const H& hash, std::span<const Digest> digests,
                                        std::span<std::uint8_t> seen) {
  std::vector<std::uint8_t> answers(digests.size());
  return for_each_filter(blob, hash, [&](const FilterHeader& header, const std::byte* bits) {
    SplitBlockLayout::test_batch(bits, header.shape, digests, answers.data());
    for (std::size_t i = 0; i < answers.size(); ++i) seen[i] = static_cast<std::uint8_t>(seen[i] | answers[i]);
  });
}

/// A windowed user's slices. A listed slice that is not there was lost, unless it was being opened.
struct SliceList {
  struct Slice {
    std::int64_t number = 0;
    bool opening = false;
  };
  std::int64_t slice_seconds = 0;
  std::vector<Slice> slices;  // ascending

  /// Errors: those of a container.
  [[nodiscard]] static Result<SliceList> decode(std::span<const std::byte> bytes) {
    auto reader = ContainerReader::open(bytes, ContainerKind::blob_slices);
    if (!reader) return std::move(reader).error();
    SliceList list{reader->take<std::int64_t>(), {}};
    const auto count = reader->take<std::uint32_t>();
    bool valid = list.slice_seconds > 0;
    for (std::uint32_t i = 0; i < count && reader->ok(); ++i) {
      const auto number = reader->take<std::int64_t>();
      const auto opening = reader->take<std::uint8_t>();
      valid = valid && opening <= 1 && (list.slices.empty() || list.slices.back().number < number);
      list.slices.push_back({number, opening == 1});
    }
    if (valid && reader->complete()) return list;
    return container_error(ErrorCode::corrupt, "expected ascending slices and nothing behind them");
  }
};

SEENBY_DETAIL_END
