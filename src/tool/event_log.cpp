// SPDX-License-Identifier: MIT
// The parser of event logs.

#include "event_log.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>

#include "input_error.hpp"
#include "line_reader.hpp"
#include "log_columns.hpp"
#include "log_fields.hpp"
#include "progress.hpp"
#include "time_text.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

constexpr std::string_view separators_hint =
    " (separators are tabs, commas or semicolons; --columns user=1,item=2,time=4 picks columns, --skip-bad passes over "
    "bad lines)";

/// Reads lines into a log.
class Parser {
 public:
  Parser(const LineReader& lines, std::string_view columns, EventLog& log)
      : lines_(lines), log_(log), choice_(columns) {}

  void take(std::string_view line) {
    if (!columns_) {
      refuse_json(line);
      if (take_first(line)) return;
    } else {
      split(line, columns_->delimiter);
    }
    take_event(columns_ ? *columns_ : LogColumns{});
  }

 private:
  /// The line that shows the columns; true when it is a header. A line of another number of columns shows nothing.
  bool take_first(std::string_view line) {
    const char delimiter = guess_delimiter(line);
    split(line, delimiter);
    const auto columns = choice_.empty() ? guess_columns(fields_, delimiter) : choice_.find_in(fields_, delimiter);
    if (!columns) throw InputError(position().append(header_problem(fields_)));
    if (fields_.size() != columns->count) return false;
    columns_ = *columns;
    log_.time_name = columns->time_name;
    return columns->header;
  }

  /// A line that separates nothing yet is read with tabs, so that the message counts one column.
  static char guess_delimiter(std::string_view line) {
    for (const char delimiter : {'\t', ',', ';'}) {
      if (line.find(delimiter) != std::string_view::npos) return delimiter;
    }
    return '\t';
  }

  void refuse_json(std::string_view line) const {
    const std::string_view text = trimmed(line);
    const std::size_t next = std::min(text.find_first_not_of(" [{"), text.size());
    const bool opens = next > 0 && (next == text.size() || text[next] == '"' || text[next] == '}');
    if (!opens) return;
    throw InputError(position()
                         .append("expected columns separated by tabs, commas or semicolons, got JSON; ")
                         .append("jq -r '[.user, .item, .time] | @tsv' makes columns of JSON lines"));
  }

  void split(std::string_view line, char delimiter) {
    if (const auto problem = fields_.split(line, delimiter); !problem.empty()) fail(problem);
  }

  void take_event(const LogColumns& columns) {
    if (fields_.size() != columns.count) {
      std::string problem = "expected ";
      problem.append(std::to_string(columns.count)).append(" columns");
      if (columns.count == 3) problem.append(" (user, item, time)");
      fail(problem.append(", got ").append(std::to_string(fields_.size())).append(separators_hint));
    }
    if (fields_[columns.user].empty()) fail("expected a user, got an empty column");
    if (fields_[columns.item].empty()) fail("expected an item, got an empty column");
    const std::string_view text = fields_[columns.time];
    const auto time = times_.read(text);
    if (!time) fail(times_.problem(text).append("; --columns user=NAME,item=NAME,time=NAME says which column it is"));
    if (log_.events.empty()) log_.first_time = log_.last_time = *time;
    log_.first_time = std::min(log_.first_time, *time);
    log_.last_time = std::max(log_.last_time, *time);
    log_.unit = times_.unit();
    log_.events.push_back({log_.users.number(fields_[columns.user]), log_.items.number(fields_[columns.item]), *time});
  }

  [[nodiscard]] std::string position() const {
    return std::string(lines_.name()).append(":").append(std::to_string(lines_.line_number())).append(": ");
  }
  [[noreturn]] void fail(std::string_view problem) const {
    throw BadLine(lines_.name(), lines_.line_number(), problem);
  }

  const LineReader& lines_;
  EventLog& log_;
  ColumnChoice choice_;
  std::optional<LogColumns> columns_;
  LogFields fields_;
  TimeColumn times_;
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

void add_log_options(CLI::App& command, LogOptions& options) {
  command.add_option("--columns", options.columns, "Columns by header name or number: user=2,item=isbn,time=timestamp")
      ->type_name("COLUMNS");
  command.add_flag("--skip-bad", options.skip_bad, "Count bad lines and go on");
}

EventLog read_events(const std::string& path, const LogOptions& options) {
  EventLog log;
  LineReader lines(path);
  Parser parser(lines, options.columns, log);
  for_each_line(lines, options.on_bad_line(), log, [&](std::string_view line) { parser.take(line); });
  if (log.events.empty()) refuse_empty(lines, log.skipped_lines, "at least one event (user, item, time)");
  return log;
}

void report_doubts(const EventLog& log) {
  if (log.skipped_lines > 0) {
    std::cerr << "seenby: " << with_commas(log.skipped_lines) << (log.skipped_lines == 1 ? " bad line" : " bad lines")
              << " skipped, the first: " << log.first_skipped << '\n';
  }
  constexpr std::int64_t start_of_1990 = 631'152'000;
  constexpr std::int64_t end_of_2100 = 4'133'980'799;
  if (log.first_time >= start_of_1990 && log.last_time <= end_of_2100) return;
  std::cerr << "seenby: warning: expected times from 1990 to 2100, got " << time_span(log);
  if (!log.time_name.empty()) std::cerr << " in column " << in_quotes(log.time_name);
  std::cerr << "; --columns user=NAME,item=NAME,time=NAME says which column is the time\n";
}

std::string time_span(const EventLog& log) {
  std::string span = as_time(log.first_time);
  span.append(" to ").append(as_time(log.last_time));
  if (log.unit && *log.unit != TimeUnit::seconds) span.append(" (read as ").append(to_string(*log.unit)).append(")");
  return span;
}

std::vector<std::string> read_items(const std::string& path, OnBadLine on_bad_line) {
  EventLog log;  // for its count of bad lines
  std::vector<std::string> items;
  LineReader lines(path);
  for_each_line(lines, on_bad_line, log, [&](std::string_view line) { items.emplace_back(trimmed(line)); });
  if (items.empty()) refuse_empty(lines, log.skipped_lines, "at least one item");
  return items;
}

}  // namespace seenby::tool
