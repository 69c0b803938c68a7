#pragma once
// SPDX-License-Identifier: MIT
// The ranges that calls of many items take, and the room for their answers.

#include <concepts>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

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

[[noreturn]] inline void refuse_room(std::size_t needed, std::size_t room) {
  std::string message = "seenby: expected room for ";
  message.append(std::to_string(needed)).append(" answers, got ").append(std::to_string(room));
  throw std::invalid_argument(message);
}
/// Throws std::invalid_argument when there is less room than answers. Small enough that a caller's compiler sees the
/// bound.
inline void require_room(std::size_t needed, std::size_t room) {
  if (room < needed) refuse_room(needed, room);
}

SEENBY_DETAIL_END
