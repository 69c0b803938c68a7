#pragma once
// SPDX-License-Identifier: MIT
// An event log in memory: who saw what, and when.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "time_text.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

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

/// A user saw an item.
struct Event {
  std::uint32_t user;  ///< a number in EventLog::users
  std::uint32_t item;  ///< a number in EventLog::items
  std::int64_t time;   ///< seconds since the Unix epoch
};

struct EventLog {
  Names users;
  Names items;
  std::vector<Event> events;        ///< in the order of the file
  std::int64_t first_time = 0;      ///< the earliest
  std::int64_t last_time = 0;       ///< the latest
  std::optional<TimeUnit> unit;     ///< what plain numbers in the time column count; nothing when all are ISO 8601
  std::string time_name;            ///< what the header calls the time column; empty without a header
  std::uint64_t skipped_lines = 0;  ///< bad lines that were passed over
  std::string first_skipped;        ///< what was wrong with the first of them
};

/// What happens on a line that cannot be used.
enum class OnBadLine { fail, skip };

/// How to read a log.
struct LogOptions {
  std::string columns;    ///< "user=NAME,item=NAME,time=NAME", by header name or number; empty: as the first line shows
  bool skip_bad = false;  ///< pass over bad lines and count them

  [[nodiscard]] OnBadLine on_bad_line() const noexcept { return skip_bad ? OnBadLine::skip : OnBadLine::fail; }
};
/// Adds --columns and --skip-bad to a command, which must outlive the options' use.
void add_log_options(CLI::App& command, LogOptions& options);

/// Reads a log of `user, item, time` from a file, or from standard input for "-".
///
/// - Columns are separated by tabs, commas or semicolons, as the first line shows (LogFields).
/// - A first line that names the columns (user, item, time, and their usual variants) is taken as the header; the
///   columns may then be in any order among others. Without it there are exactly three, unless options.columns says
///   which they are.
/// - Times are as TimeColumn reads them.
///
/// Throws InputError (BadLine for a line, unless skip_bad); a log without a single event is refused as well.
[[nodiscard]] EventLog read_events(const std::string& path, const LogOptions& options);

/// Tells standard error how many lines were passed over, if any, and warns of times that are hardly meant: outside the
/// years 1990 to 2100.
void report_doubts(const EventLog& log);

/// "2013-02-28T14:38:27Z to 2013-09-01T06:18:54Z", and what the numbers count where that is not seconds.
[[nodiscard]] std::string time_span(const EventLog& log);

/// Reads a list of items, one a line; blank lines and spaces around an item count for
/// nothing. Throws InputError; an empty list is refused.
[[nodiscard]] std::vector<std::string> read_items(const std::string& path, OnBadLine on_bad_line);

}  // namespace seenby::tool
