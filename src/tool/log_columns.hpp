#pragma once
// SPDX-License-Identifier: MIT
// Which columns of a log are the user, the item and the time.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "log_fields.hpp"

namespace seenby::tool {

/// Where the three columns are in a line, and what separates them.
struct LogColumns {
  char delimiter = '\t';
  std::size_t user = 0;
  std::size_t item = 1;
  std::size_t time = 2;
  std::size_t count = 3;       ///< of all columns
  bool header = false;         ///< the first line names columns and is no event
  std::string time_name = {};  ///< what the header calls the time; empty without one
};

/// What --columns says: each column by its header name or by its number from 1.
class ColumnChoice {
 public:
  /// "user=NAME,item=NAME,time=NAME"; empty: nothing is chosen. Throws InputError.
  explicit ColumnChoice(std::string_view text);

  [[nodiscard]] bool empty() const noexcept { return user_.empty(); }
  /// Finds the columns in a log's first line. Throws InputError when one is not there.
  [[nodiscard]] LogColumns find_in(const LogFields& first, char delimiter) const;

 private:
  std::string user_;
  std::string item_;
  std::string time_;
};

/// The columns as the first line shows them: by the names of a header, or in the usual order where it is no header.
/// Of several times `timestamp` comes before `date`. Returns nothing when a header does not name all three.
[[nodiscard]] std::optional<LogColumns> guess_columns(const LogFields& first, char delimiter);

/// What to say of a header that does not name all three: what was found, and the --columns that would help.
[[nodiscard]] std::string header_problem(const LogFields& first);

}  // namespace seenby::tool
