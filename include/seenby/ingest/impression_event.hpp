#pragma once
// SPDX-License-Identifier: MIT
// ImpressionEvent: what a client reports when an item was on its screen; one contract for web and mobile.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "seenby/clock.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// One item on one screen. A web client fills it from an IntersectionObserver, a mobile one from its list's viewability
/// callback; both buffer, and send every few seconds. As a line of JSON:
///
///     {"id":"e1","user":"u","item":"i","at":1700000000}
///     {"v":1,"user":"s7","anonymous":true,"item":42,"at":1700000000,"surface":"ios.feed","visible_ms":1500,"visible_percent":80}
struct ImpressionEvent {
  std::string id{};    ///< tells a repeated delivery from a second sight; empty: the time does
  std::string user{};  ///< the user, or the session where `anonymous`; a number is its decimal text
  std::string item{};  ///< a number is its decimal text
  Time at{};           ///< when it was on the screen, in seconds since 1970 by the client's clock
  /// `user` is a session, without a filter of its own.
  bool anonymous = false;
  bool visible = true;                ///< false: it was loaded, but never on the screen
  std::uint32_t visible_ms = 0;       ///< how long; 0: not told
  std::uint32_t visible_percent = 0;  ///< how much of it at most; 0: not told
  std::string surface{};              ///< where, in the client's own words
};

/// What an event must keep to, and from when on an item counts as seen.
struct ImpressionRules {
  /// How far a client's clock may be ahead.
  std::chrono::seconds max_ahead = std::chrono::minutes{10};
  /// An event that tells less than these is no sight. One that tells nothing passes.
  std::uint32_t min_visible_ms = 0;
  std::uint32_t min_visible_percent = 0;  ///< 0: any part of it

  /// Whether the item was seen, as opposed to only returned or loaded.
  [[nodiscard]] bool is_sight(const ImpressionEvent& event) const noexcept {
    const auto enough = [](std::uint32_t told, std::uint32_t least) { return told == 0 || told >= least; };
    return event.visible && enough(event.visible_ms, min_visible_ms) &&
           enough(event.visible_percent, min_visible_percent);
  }
};

/// The newest version of the contract; `"v"` says an event's, 1 where it is absent.
inline constexpr int impression_version = 1;

/// Reads one event of at most 64 KiB. `user`, `item` and `at` are required; `user` and `item` are text or integers. A
/// field that the contract does not have, or one of another type, is an error: a misspelt `visible` must not count as
/// seen. Errors: corrupt (no JSON, or no valid UTF-8), invalid_argument (a field), unsupported_version, too_large.
[[nodiscard]] Result<ImpressionEvent> parse_impression(std::string_view json);
/// The event as one line of JSON, without its end. Bytes that are no UTF-8 are an error: invalid_argument.
[[nodiscard]] Result<std::string> format_impression(const ImpressionEvent& event);

/// What parse_impression cannot see: empty or overlong names, a clock too far ahead. For events that came another way.
[[nodiscard]] Result<void> validate(const ImpressionEvent& event, const ImpressionRules& rules, Time now);

}  // namespace seenby
