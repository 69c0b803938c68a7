// SPDX-License-Identifier: MIT
// Recognises a log's columns by name, or takes the caller's word.

#include "log_columns.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <span>

#include "input_error.hpp"
#include "time_text.hpp"

namespace seenby::tool {
namespace {

constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

// In each list an earlier name is preferred to a later one.
constexpr std::array<std::string_view, 15> user_names{"user",      "userid",     "username", "uid",       "learner",
                                                      "learnerid", "member",     "memberid", "visitor",   "visitorid",
                                                      "customer",  "customerid", "account",  "accountid", "who"};
constexpr std::array<std::string_view, 27> item_names{
    "item",    "itemid", "iid",     "movie",     "movieid", "question",  "questionid", "media",     "mediaid",
    "post",    "postid", "product", "productid", "article", "articleid", "content",    "contentid", "video",
    "videoid", "isbn",   "book",    "bookid",    "track",   "trackid",   "song",       "songid",    "what"};
constexpr std::array<std::string_view, 13> time_names{"timestamp", "unixtime", "epoch", "eventtime", "seenat",
                                                      "datetime",  "time",     "ts",    "createdat", "timestampms",
                                                      "timems",    "when",     "date"};

/// A column's name without case, spaces, dashes and underscores.
std::string plain_name(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '_' && c != '-')
      result.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return result;
}

/// The field that the most preferred of the names names.
std::size_t find_named(const LogFields& fields, std::span<const std::string_view> names) {
  std::size_t best = nowhere;
  auto best_rank = names.end();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto rank = std::find(names.begin(), names.end(), plain_name(fields[i]));
    if (rank < best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  return best;
}

/// What a header names; `nowhere` for what it does not.
LogColumns named_columns(const LogFields& fields, char delimiter) {
  return {.delimiter = delimiter,
          .user = find_named(fields, user_names),
          .item = find_named(fields, item_names),
          .time = find_named(fields, time_names),
          .count = fields.size(),
          .header = true};
}

std::string listed(const LogFields& fields) {
  std::string list;
  for (std::size_t i = 0; i < fields.size() && i < 10; ++i) {
    if (i > 0) list.append(", ");
    list.append(in_quotes(fields[i]));
  }
  return list.append(fields.size() > 10 ? ", ..." : "");
}

/// A whole text as a number, or 0.
std::size_t number_of(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : 0;
}

}  // namespace

ColumnChoice::ColumnChoice(std::string_view text) {
  if (text.empty()) return;
  const auto refuse = [&] {
    throw InputError("--columns: expected user=NAME,item=NAME,time=NAME (a header's names, or numbers from 1), got " +
                     in_quotes(text));
  };
  std::size_t parts = 0;
  for (std::string_view rest = text; !rest.empty(); ++parts) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) refuse();
    const std::string_view key = trimmed(part.substr(0, equals));
    std::string* const place = key == "user" ? &user_ : key == "item" ? &item_ : key == "time" ? &time_ : nullptr;
    if (place == nullptr || !place->empty()) refuse();
    *place = trimmed(part.substr(equals + 1));
  }
  if (parts != 3 || user_.empty() || item_.empty() || time_.empty()) refuse();
}

LogColumns ColumnChoice::find_in(const LogFields& first, char delimiter) const {
  LogColumns columns{.delimiter = delimiter, .count = first.size()};
  const auto find = [&](const std::string& name) -> std::size_t {
    if (const std::size_t number = number_of(name); number > 0 && number <= first.size()) return number - 1;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (plain_name(first[i]) != plain_name(name)) continue;
      columns.header = true;
      return i;
    }
    throw InputError("--columns: expected a column " + in_quotes(name) + " in the first line, got " + listed(first) +
                     " (columns are separated by tabs, commas or semicolons)");
  };
  columns.user = find(user_);
  columns.item = find(item_);
  columns.time = find(time_);
  // Chosen by numbers alone, a first line without a digit in its time is a header as well.
  columns.header = columns.header || first[columns.time].find_first_of("0123456789") == std::string_view::npos;
  if (columns.header) columns.time_name = first[columns.time];
  return columns;
}

std::optional<LogColumns> guess_columns(const LogFields& first, char delimiter) {
  LogColumns columns = named_columns(first, delimiter);
  const int named =
      (columns.user != nowhere ? 1 : 0) + (columns.item != nowhere ? 1 : 0) + (columns.time != nowhere ? 1 : 0);
  const bool three = first.size() == 3;
  const bool event = three && TimeColumn().read(first[2]);  // perhaps of a user called "user"
  if (event || named == 0 || (named == 1 && !three)) return LogColumns{.delimiter = delimiter};
  if (named < 3) return std::nullopt;
  columns.time_name = first[columns.time];
  return columns;
}

std::string header_problem(const LogFields& first) {
  const LogColumns columns = named_columns(first, '\t');
  const auto name_of = [&](std::size_t column) {
    return column == nowhere ? std::string("NAME") : std::string(first[column]);
  };
  std::string problem = "expected a header that names user, item and time, got one without ";
  problem.append(columns.user == nowhere ? "user" : columns.item == nowhere ? "item" : "time");
  problem.append(" (").append(listed(first)).append("); --columns user=").append(name_of(columns.user));
  problem.append(",item=").append(name_of(columns.item)).append(",time=").append(name_of(columns.time));
  return problem.append(" says which are");
}

}  // namespace seenby::tool
