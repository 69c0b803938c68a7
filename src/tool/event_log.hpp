#pragma once
// SPDX-License-Identifier: MIT
// An event log in memory: who saw what, and when.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace seenby::tool {

/// Names numbered from 0 in the order they first came.
class Names {
 public:
  Names() = default;
  Names(Names&&) = default;
  Names& operator=(Names&&) = default;

  /// The number of a name, a new one if need be.
  std::uint32_t number(std::string_view name);
  /// The number of a name, or `size()` when it never came.
  [[nodiscard]] std::uint32_t find(std::string_view name) const;
  [[nodiscard]] const std::string& name(std::uint32_t number) const { return *names_[number]; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(names_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> names_;  // the map's own keys, which never move
};

/// Somebody saw something.
struct Event {
  std::uint32_t user;  ///< a number in EventLog::users
  std::uint32_t item;  ///< a number in EventLog::items
  std::int64_t time;   ///< seconds since the Unix epoch
};

struct EventLog {
  Names users;
  Names items;
  std::vector<Event> events;        ///< in the order of the file
  std::uint64_t skipped_lines = 0;  ///< bad lines that were passed over
  std::string first_skipped;        ///< what was wrong with the first of them
};

/// What happens on a line that cannot be used.
enum class OnBadLine { fail, skip };

/// Reads a log of `user, item, time` from a file, or from standard input for "-".
///
/// - Columns are separated by tabs, commas or semicolons, as the first line shows. Where tabs do not separate, a field
///   may stand in double quotes, a quote inside it doubled (RFC 4180); an event stays on one line.
/// - A first line that names the columns (user, item, time, and their usual variants) is taken as the header; the
///   columns may then stand in any order among others. Without it there are exactly three.
/// - A time is whole or decimal seconds since 1970, or ISO 8601 (2013-04-03T22:45:07Z; no zone means UTC).
///
/// Throws InputError (BadLine for a line, unless `skip`); a log without a single event is refused as well.
[[nodiscard]] EventLog read_events(const std::string& path, OnBadLine on_bad_line);

/// Tells standard error how many lines were passed over, if any.
void report_skipped(const EventLog& log);

/// Reads a list of items, one a line; blank lines count for nothing. Throws InputError; an empty list is refused.
[[nodiscard]] std::vector<std::string> read_items(const std::string& path, OnBadLine on_bad_line);

}  // namespace seenby::tool
