#pragma once
// SPDX-License-Identifier: MIT
// BlobChain: a value of one or more split-block filters in format v1, one after the other, oldest first.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/random_generation.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/slice_clock.hpp"

SEENBY_DETAIL_BEGIN

/// A full filter is succeeded by a larger, tighter one; with a history all of them are re-inserted into one instead.
/// Filter i of a chain may err half of what i - 1 may, so that all together stay within the budget however long the
/// chain (Almeida et al., "Scalable Bloom Filters", 2007). A rebuilt or first filter has half the budget too: the
/// rest is for those that may follow it.
template <Hasher H>
class BlobChain {
 public:
  struct Added {
    std::vector<std::byte> blob;
    std::size_t newly_added = 0;
    bool grew = false;
    bool rebuilt = false;
  };

  BlobChain(double fpr, std::uint64_t initial_items, double growth_factor)
      : fpr_(fpr), initial_items_(initial_items), growth_factor_(growth_factor) {}

  /// seen[i] = 1 where a filter of the value may contain digest i; other entries stay.
  [[nodiscard]] static Result<void> test(std::span<const std::byte> blob, const H& hash,
                                         std::span<const Digest> digests, std::span<std::uint8_t> seen) {
    auto parts = cut(blob, &hash);
    if (!parts) return std::move(parts).error();
    std::vector<std::uint8_t> answers(digests.size());
    for (const Part& part : *parts) {
      SplitBlockLayout::test_batch(blob.data() + part.bits_at, part.header.shape, digests, answers.data());
      for (std::size_t i = 0; i < answers.size(); ++i) seen[i] = static_cast<std::uint8_t>(seen[i] | answers[i]);
    }
    return {};
  }

  /// Whether the value's newest filter has no room for so many more items. False for a damaged value: add says why.
  [[nodiscard]] bool full(std::span<const std::byte> blob, std::size_t more) const {
    const auto parts = cut(blob, nullptr);
    if (!parts || parts->empty()) return false;
    const FilterHeader& newest = parts->back().header;
    return newest.items + more > sizing::capacity_of(newest.shape, newest.target_fpr);
  }

  /// The value with the digests in it. `blob` is empty for a new one. With `rebuild`, `known` is the user's whole
  /// history: it replaces the filters, unless they hold more than it knows, which are then kept beside it.
  [[nodiscard]] Result<Added> add(std::span<const std::byte> blob, const H& hash, std::span<const Digest> digests,
                                  std::span<const Digest> known, bool rebuild) const {
    auto parts = cut(blob, &hash);
    if (!parts) return std::move(parts).error();
    Added added;
    std::uint64_t items = 0;
    for (const Part& part : *parts) items += part.header.items;
    const bool replaces = rebuild && known.size() >= items;
    if (!replaces) added.blob.assign(blob.begin(), blob.end());
    added.rebuilt = rebuild && !known.empty();
    if (parts->empty() || replaces || full(blob, digests.size())) {
      const std::size_t index = replaces ? 0 : parts->size();
      std::uint64_t capacity = std::max(initial_items_, known.size() + std::uint64_t{digests.size()});
      if (!parts->empty()) {
        const double last = static_cast<double>(parts->back().header.items);
        capacity = std::max(capacity, static_cast<std::uint64_t>(std::ceil(last * growth_factor_)));
        added.grew = true;
      }
      append_filter(added.blob, capacity, fpr_ * std::exp2(-static_cast<double>(index) - 1), hash);
    }
    const std::size_t at = last_at(added.blob);
    const FilterHeader header = *decode_header(std::span(added.blob).subspan(at));
    insert(added, at, header, known);
    added.newly_added = insert(added, at, header, digests);
    finish(added.blob, at, header, known.size() + digests.size());
    return added;
  }

 private:
  struct Part {
    FilterHeader header;
    std::size_t bits_at = 0;
  };

  /// The filters of a value; without a hash, those of any hash and seed.
  [[nodiscard]] static Result<std::vector<Part>> cut(std::span<const std::byte> blob, const H* hash) {
    std::vector<Part> parts;
    for (std::size_t at = 0; at < blob.size();) {
      const std::uint64_t claimed = claimed_value_bytes(blob.subspan(at));
      const std::uint64_t length = claimed == 0 ? blob.size() - at : std::min<std::uint64_t>(claimed, blob.size() - at);
      auto header = decode_header(blob.subspan(at, static_cast<std::size_t>(length)));
      if (!header) return std::move(header).error();
      if (header->shape.layout != LayoutKind::split_block) {
        return header_error(ErrorCode::parameter_mismatch,
                            "expected split-block filters in a store's value, got a classic one");
      }
      if (hash != nullptr) {
        if (auto same = check_hash(*header, *hash); !same) return std::move(same).error();
      }
      parts.push_back({*header, at + header_bytes});
      at += static_cast<std::size_t>(length);
    }
    return parts;
  }

  static void append_filter(std::vector<std::byte>& blob, std::uint64_t capacity, double fpr, const H& hash) {
    const FilterShape shape = SplitBlockLayout::shape_for(capacity, fpr);
    const std::size_t at = blob.size();
    blob.resize(at + header_bytes + shape.bytes());
    const FilterHeader header{.shape = shape,
                              .hash = H::kind,
                              .covers_bits = true,
                              .generation = random_generation(),
                              .target_fpr = fpr,
                              .seed_check = seed_check(hash)};
    finish(blob, at, header, 0);
  }

  [[nodiscard]] static std::size_t last_at(std::span<const std::byte> blob) noexcept {
    std::size_t at = 0;
    while (true) {
      const auto next = at + static_cast<std::size_t>(claimed_value_bytes(blob.subspan(at)));
      if (next >= blob.size()) return at;
      at = next;
    }
  }

  static std::size_t insert(Added& added, std::size_t at, const FilterHeader& header, std::span<const Digest> digests) {
    return SplitBlockLayout::insert_batch(added.blob.data() + at + header_bytes, header.shape, digests);
  }

  static void finish(std::vector<std::byte>& blob, std::size_t at, FilterHeader header, std::uint64_t more) {
    header.items = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(header.items + more, std::numeric_limits<std::uint32_t>::max()));
    ++header.sequence;
    const std::span<std::byte> value = std::span(blob).subspan(at);
    encode_header(header, value.subspan(header_bytes), value.first<header_bytes>());
  }

  double fpr_;
  std::uint64_t initial_items_;
  double growth_factor_;
};

SEENBY_DETAIL_END
