#pragma once
// SPDX-License-Identifier: MIT
// The ranges that calls of many items take.

#include <concepts>
#include <cstddef>
#include <iterator>
#include <utility>

namespace seenby::detail {

template <class Range>
using RangeIterator = decltype(std::ranges::begin(std::declval<Range&>()));
template <class Range>
using RangeValue = std::iter_value_t<RangeIterator<Range>>;
template <class Range>
using RangeReference = std::iter_reference_t<RangeIterator<Range>>;

/// As std::ranges::input_range. <ranges> has it as well, and views that a program which needs none would compile too.
template <class Range>
concept InputRange = std::input_iterator<RangeIterator<Range>> && requires(Range& range) {
  { std::ranges::end(range) } -> std::sentinel_for<RangeIterator<Range>>;
};

/// An InputRange that knows its size without a walk.
template <class Range>
concept SizedRange = InputRange<Range> && requires(Range& range) {
  { std::ranges::size(range) } -> std::convertible_to<std::size_t>;
};

/// What a std::span may be of.
template <class Range>
concept ContiguousRange = SizedRange<Range> && std::contiguous_iterator<RangeIterator<Range>> &&
    requires(Range& range) {
  std::ranges::data(range);
};

}  // namespace seenby::detail
