#pragma once
// SPDX-License-Identifier: MIT
// The exact side of a replay: who really saw what, and when.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace seenby::tool {

/// What must happen to a candidate.
enum class Verdict : std::uint8_t {
  fresh,    ///< nobody of the request saw it, or the last who did left the window, slice and all: must be shown
  leaving,  ///< out of the window, but its slice has not been dropped yet: either answer is right
  seen,     ///< somebody saw it within the window: must be hidden
};

/// Exact sets of everything every user saw. Users and items are numbers from 0.
class Referee {
 public:
  /// Something is `seen` for `window` seconds and `leaving` for `slice` more; a window of 0 lasts for ever.
  Referee(std::uint32_t users, std::int64_t window, std::int64_t slice);

  void record(std::uint32_t user, std::uint32_t item, std::int64_t time);

  [[nodiscard]] Verdict judge(std::span<const std::uint64_t> users, std::uint32_t item, std::int64_t now) const;
  /// Whether any of the users ever saw the item.
  [[nodiscard]] bool ever_seen(std::span<const std::uint64_t> users, std::uint32_t item) const;

  /// A user's different items, in the order they were first seen.
  [[nodiscard]] const std::vector<std::uint32_t>& items_of(std::uint64_t user) const { return users_[user].order; }

  /// What an exact set of a user's items takes that are not older than the window: a std::unordered_set of 8-byte ids,
  /// or with a window a std::unordered_map of ids to times. Counts the container, its buckets and its nodes.
  [[nodiscard]] std::uint64_t exact_bytes(std::uint64_t user, std::int64_t now) const;
  /// The same as bare 8-byte ids (16 bytes with their times): less than any container that can be asked.
  [[nodiscard]] std::uint64_t bare_bytes(std::uint64_t user, std::int64_t now) const;

 private:
  struct User {
    std::unordered_map<std::uint32_t, std::int64_t> last_seen;
    std::vector<std::uint32_t> order;
  };
  [[nodiscard]] bool kept(std::int64_t time, std::int64_t now) const { return window_ == 0 || now - time < window_; }

  std::vector<User> users_;
  std::int64_t window_;
  std::int64_t slice_;
};

}  // namespace seenby::tool
