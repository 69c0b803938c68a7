#pragma once
// SPDX-License-Identifier: MIT
// The statements of a Log, prepared once a connection, and how they are run.

#include <cstddef>
#include <memory>

#include "connection.hpp"
#include "seenby/sqlite/log.hpp"

namespace seenby::sqlite {

/// The statements of the connection that writes.
struct Writer {
  Connection connection;
  Statement find_user, add_user, add_event, drop_user, drop_events, drop_item, drop_if_empty, move_events, drop_before,
      drop_empty, hide, unhide, drop_hides, move_hides;
};
/// The statements of a connection that reads.
struct Reader {
  Connection connection;
  Statement find_user, contains, seen_since, seen_ever, first_users, next_users, item_count, event_count, is_hidden,
      hidden;
};

[[nodiscard]] Result<std::unique_ptr<Writer>> make_writer(Connection connection, const Options& options);
[[nodiscard]] Result<std::unique_ptr<Reader>> make_reader(Connection connection);

/// Runs a statement that changes rows; how many.
[[nodiscard]] Result<std::size_t> change(const Connection& connection, Statement& statement);

/// Calls `row` for every row of a statement.
template <class Row>
Result<void> rows(const Connection& connection, Statement& statement, const Row& row) {
  struct Reset {
    Statement& statement;
    ~Reset() { statement.reset(); }
  } reset{statement};
  for (;;) {
    const int code = statement.step();
    if (code == SQLITE_DONE) return {};
    if (code != SQLITE_ROW) return connection.error(code);
    row();
  }
}

}  // namespace seenby::sqlite
