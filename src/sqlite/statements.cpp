// SPDX-License-Identifier: MIT
#include "statements.hpp"

#include <initializer_list>
#include <string>
#include <utility>

namespace seenby::sqlite {
namespace {

struct Prepared {
  Statement& statement;
  const char* sql;
};
Result<void> prepare_all(const Connection& connection, std::initializer_list<Prepared> list) {
  for (const auto& [statement, sql] : list) {
    auto made = Statement::prepare(connection, sql);
    if (!made) return std::move(made).error();
    statement = *std::move(made);
  }
  return {};
}

constexpr const char* find_user_sql = "SELECT id FROM users WHERE name = ?1";

}  // namespace

Result<std::unique_ptr<Writer>> make_writer(Connection connection, const Options& options) {
  // 64 MiB of log before pages go back into the file: those that many batches touch are written once.
  const std::string pragmas = std::string(options.durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL")
                                  .append("; PRAGMA wal_autocheckpoint = 16384; PRAGMA cache_size = -")
                                  .append(std::to_string(options.cache_bytes / 1024 + 1));
  if (auto done = connection.run(pragmas.c_str()); !done) return std::move(done).error();
  auto writer =
      std::make_unique<Writer>(Writer{std::move(connection), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}});
  auto done = prepare_all(
      writer->connection,
      {{writer->find_user, find_user_sql},
       {writer->add_user, "INSERT INTO users(name) VALUES(?1) RETURNING id"},
       {writer->add_event,
        "INSERT INTO events(user, item, event, at) VALUES(?1, ?2, ?3, ?4) ON CONFLICT(user, item, event) DO NOTHING"},
       {writer->drop_user, "DELETE FROM users WHERE id = ?1"},
       {writer->drop_events, "DELETE FROM events WHERE user = ?1"},
       {writer->drop_item, "DELETE FROM events WHERE user = ?1 AND item = ?2"},
       {writer->drop_if_empty, "DELETE FROM users WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM events WHERE user = ?1)"},
       {writer->move_events,
        "INSERT INTO events(user, item, event, at) SELECT ?2, item, event, at FROM events WHERE user = ?1 "
        "ON CONFLICT(user, item, event) DO UPDATE SET at = max(at, excluded.at)"},
       {writer->drop_before, "DELETE FROM events WHERE at < ?1"},
       {writer->drop_empty, "DELETE FROM users WHERE NOT EXISTS (SELECT 1 FROM events WHERE user = users.id)"},
       {writer->hide, "INSERT INTO hides(user, item, at) VALUES(?1, ?2, ?3) ON CONFLICT(user, item) DO NOTHING"},
       {writer->unhide, "DELETE FROM hides WHERE user = ?1 AND item = ?2"},
       {writer->drop_hides, "DELETE FROM hides WHERE user = ?1"},
       {writer->move_hides,
        "INSERT INTO hides(user, item, at) SELECT ?2, item, at FROM hides WHERE user = ?1 ORDER BY id "
        "ON CONFLICT(user, item) DO NOTHING"}});
  if (!done) return std::move(done).error();
  return writer;
}

Result<std::unique_ptr<Reader>> make_reader(Connection connection) {
  auto reader = std::make_unique<Reader>(Reader{std::move(connection), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}});
  auto done = prepare_all(
      reader->connection,
      {{reader->find_user, find_user_sql},
       {reader->contains, "SELECT 1 FROM events WHERE user = ?1 AND item = ?2 AND at >= ?3 LIMIT 1"},
       // By the index of times: rows before `since` are not read. A user's rows are adjacent anyway.
       {reader->seen_since,
        "SELECT item, max(at) FROM events INDEXED BY events_by_time WHERE user = (SELECT id FROM users WHERE name = "
        "?1) "
        "AND at >= ?2 GROUP BY item"},
       {reader->seen_ever,
        "SELECT item, max(at) FROM events WHERE user = (SELECT id FROM users WHERE name = ?1) GROUP BY item"},
       {reader->first_users, "SELECT name FROM users ORDER BY name LIMIT ?1"},
       {reader->next_users, "SELECT name FROM users WHERE name > ?2 ORDER BY name LIMIT ?1"},
       {reader->item_count,
        "SELECT count(DISTINCT item) FROM events WHERE user = (SELECT id FROM users WHERE name = ?1) AND at >= ?2"},
       {reader->event_count, "SELECT count(*) FROM events WHERE item = ?1"},
       {reader->is_hidden, "SELECT 1 FROM hides WHERE user = ?1 AND item = ?2"},
       {reader->hidden, "SELECT item, at FROM hides WHERE user = ?1 ORDER BY id"}});
  if (!done) return std::move(done).error();
  return reader;
}

Result<std::size_t> change(const Connection& connection, Statement& statement) {
  const int code = statement.step();
  if (code != SQLITE_DONE) {
    Error error = connection.error(code);
    statement.reset();
    return error;
  }
  statement.reset();
  return connection.changes();
}

}  // namespace seenby::sqlite
