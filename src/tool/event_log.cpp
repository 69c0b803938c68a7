// SPDX-License-Identifier: MIT
// The parser of event logs.

#include "event_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <optional>

#include "input_error.hpp"
#include "line_reader.hpp"
#include "progress.hpp"
#include "time_text.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

/// Where the three columns stand in a line, and what separates them.
struct Format {
  char delimiter = '\0';  // unknown
  std::size_t user = 0;
  std::size_t item = 1;
  std::size_t time = 2;
  std::size_t columns = 3;
};

/// The fields of a line; quoted ones are rewritten into `storage`.
class Fields {
 public:
  /// Splits; returns what is wrong with the line's quotes, or nothing.
  [[nodiscard]] std::string_view split(std::string_view line, char delimiter) {
    views_.clear();
    storage_.clear();
    storage_.reserve(line.size());  // views into it stay valid: unquoting only shortens
    std::size_t at = 0;
    while (true) {
      if (delimiter != '\t' && at < line.size() && line[at] == '"') {
        if (!take_quoted(line, at)) return "expected a closing quote on the same line, got none";
        if (at < line.size() && line[at] != delimiter) return "expected a separator behind a closing quote, got text";
      } else {
        const std::size_t end = std::min(line.find(delimiter, at), line.size());
        views_.push_back(line.substr(at, end - at));
        at = end;
      }
      if (at >= line.size()) return {};
      ++at;
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return views_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const { return views_[i]; }

 private:
  [[nodiscard]] bool take_quoted(std::string_view line, std::size_t& at) {
    const std::size_t start = storage_.size();
    ++at;
    while (true) {
      const std::size_t quote = line.find('"', at);
      if (quote == std::string_view::npos) return false;
      storage_.append(line.substr(at, quote - at));
      at = quote + 1;
      if (at >= line.size() || line[at] != '"') break;
      storage_.push_back('"');
      ++at;
    }
    views_.push_back(std::string_view(storage_).substr(start));
    return true;
  }

  std::vector<std::string_view> views_;
  std::string storage_;
};

/// A column's name without case, spaces, dashes and underscores.
std::string plain_name(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '_' && c != '-')
      result.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return result;
}

bool names_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  const std::string plain = plain_name(text);
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return plain == name; });
}

bool names_user(std::string_view text) {
  return names_one_of(text, {"user", "userid", "username", "uid", "learner", "learnerid", "member", "memberid",
                             "visitor", "visitorid", "customer", "customerid", "account", "accountid", "who"});
}
bool names_item(std::string_view text) {
  return names_one_of(text, {"item",      "itemid",  "iid",       "movie",  "movieid", "question",  "questionid",
                             "media",     "mediaid", "post",      "postid", "product", "productid", "article",
                             "articleid", "content", "contentid", "video",  "videoid", "what"});
}
bool names_time(std::string_view text) {
  return names_one_of(text, {"time", "timestamp", "ts", "unixtime", "epoch", "date", "datetime", "seenat", "createdat",
                             "eventtime", "seconds", "when"});
}

/// The format that a header describes, or nothing when the fields are no header.
std::optional<Format> header_format(const Fields& fields, char delimiter, const LineReader& lines) {
  constexpr auto nowhere = std::numeric_limits<std::size_t>::max();
  Format format{.delimiter = delimiter, .user = nowhere, .item = nowhere, .time = nowhere, .columns = fields.size()};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (format.user == nowhere && names_user(fields[i])) format.user = i;
    if (format.item == nowhere && names_item(fields[i])) format.item = i;
    if (format.time == nowhere && names_time(fields[i])) format.time = i;
  }
  const int named =
      (format.user != nowhere ? 1 : 0) + (format.item != nowhere ? 1 : 0) + (format.time != nowhere ? 1 : 0);
  const bool three = fields.size() == 3;
  if (named == 0 || (named == 1 && !three)) return std::nullopt;
  if (three && parse_time(fields[2])) return std::nullopt;        // an event of a user called "user"
  if (three && named < 3) return Format{.delimiter = delimiter};  // the usual order
  if (named < 3) {
    throw InputError(std::string(lines.name())
                         .append(":")
                         .append(std::to_string(lines.line_number()))
                         .append(": expected a header that names user, item and time, got one without ")
                         .append(format.user == nowhere   ? "user"
                                 : format.item == nowhere ? "item"
                                                          : "time"));
  }
  return format;
}

/// Reads lines into a log.
class Parser {
 public:
  Parser(const LineReader& lines, EventLog& log) : lines_(lines), log_(log) {}

  void take(std::string_view line) {
    if (format_.delimiter == '\0') {
      const char delimiter = guess_delimiter(line);
      split(line, delimiter);
      if (const auto format = header_format(fields_, delimiter, lines_)) {
        format_ = *format;
        return;
      }
      if (fields_.size() == format_.columns) format_.delimiter = delimiter;
    } else {
      split(line, format_.delimiter);
    }
    take_event();
  }

 private:
  /// A line that separates nothing yet is read with tabs, so that the message counts one column.
  static char guess_delimiter(std::string_view line) {
    for (const char delimiter : {'\t', ',', ';'}) {
      if (line.find(delimiter) != std::string_view::npos) return delimiter;
    }
    return '\t';
  }

  void split(std::string_view line, char delimiter) {
    if (const auto problem = fields_.split(line, delimiter); !problem.empty()) fail(problem);
  }

  void take_event() {
    if (fields_.size() != format_.columns) {
      std::string problem = "expected ";
      problem.append(std::to_string(format_.columns)).append(" columns");
      if (format_.columns == 3) problem.append(" (user, item, time)");
      fail(problem.append(", got ").append(std::to_string(fields_.size())));
    }
    if (fields_[format_.user].empty()) fail("expected a user, got an empty column");
    if (fields_[format_.item].empty()) fail("expected an item, got an empty column");
    const auto time = parse_time(fields_[format_.time]);
    if (!time) {
      fail(std::string("expected a time (Unix seconds up to year 9999, or ISO 8601), got ")
               .append(in_quotes(fields_[format_.time])));
    }
    log_.events.push_back({log_.users.number(fields_[format_.user]), log_.items.number(fields_[format_.item]), *time});
  }

  [[noreturn]] void fail(std::string_view problem) const {
    throw BadLine(lines_.name(), lines_.line_number(), problem);
  }

  const LineReader& lines_;
  EventLog& log_;
  Format format_;
  Fields fields_;
};

/// Hands every line that is not blank to `take`; counts the bad ones, or lets the first one out.
template <class Take>
void for_each_line(LineReader& lines, OnBadLine on_bad_line, EventLog& log, const Take& take) {
  Progress progress("reading", lines.bytes_total());
  while (true) {
    if (lines.line_number() % 1024 == 0 && lines.bytes_total() > 0) progress.update(lines.bytes_read());
    try {
      std::string_view line;
      if (!lines.next(line)) return;
      if (line.find_first_not_of(" \t") != std::string_view::npos) take(line);
    } catch (const BadLine& problem) {
      if (on_bad_line == OnBadLine::fail) throw;
      if (log.skipped_lines++ == 0) log.first_skipped = problem.what();
    }
  }
}

[[noreturn]] void refuse_empty(const LineReader& lines, std::uint64_t skipped, std::string_view expected) {
  std::string problem = "expected ";
  problem.append(expected).append(", got ");
  if (lines.bytes_read() == 0) {
    problem.append("an empty file");
  } else {
    problem.append("none in ").append(std::to_string(lines.line_number())).append(" lines");
    if (skipped > 0) problem.append(" (").append(std::to_string(skipped)).append(" of them bad)");
  }
  throw BadLine(lines.name(), std::max<std::uint64_t>(1, lines.line_number()), problem);
}

}  // namespace

std::uint32_t Names::number(std::string_view name) {
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  const auto [entry, inserted] = numbers_.emplace(std::string(name), size());
  names_.push_back(&entry->first);
  return entry->second;
}

std::uint32_t Names::find(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? size() : found->second;
}

EventLog read_events(const std::string& path, OnBadLine on_bad_line) {
  EventLog log;
  LineReader lines(path);
  Parser parser(lines, log);
  for_each_line(lines, on_bad_line, log, [&](std::string_view line) { parser.take(line); });
  if (log.events.empty()) refuse_empty(lines, log.skipped_lines, "at least one event (user, item, time)");
  return log;
}

void report_skipped(const EventLog& log) {
  if (log.skipped_lines == 0) return;
  std::cerr << "seenby: " << with_commas(log.skipped_lines) << (log.skipped_lines == 1 ? " bad line" : " bad lines")
            << " skipped, the first: " << log.first_skipped << '\n';
}

std::vector<std::string> read_items(const std::string& path, OnBadLine on_bad_line) {
  EventLog log;  // for its count of bad lines
  std::vector<std::string> items;
  LineReader lines(path);
  for_each_line(lines, on_bad_line, log, [&](std::string_view line) { items.emplace_back(line); });
  if (items.empty()) refuse_empty(lines, log.skipped_lines, "at least one item");
  return items;
}

}  // namespace seenby::tool
