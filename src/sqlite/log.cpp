// SPDX-License-Identifier: MIT
#include "seenby/sqlite/log.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "schema.hpp"

namespace seenby::sqlite {

namespace {

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

std::int64_t seconds(Time time) noexcept { return time.time_since_epoch().count(); }

}  // namespace

struct Log::State {
  ItemKind user_kind;
  ItemKind item_kind;
  std::mutex writing;
  std::unique_ptr<Writer> writer;
  std::mutex pool;
  std::condition_variable returned;
  std::vector<std::unique_ptr<Reader>> readers;

  /// Runs `use` with a connection that no other thread uses meanwhile.
  template <class Use>
  auto read(const Use& use) {
    std::unique_ptr<Reader> reader;
    {
      std::unique_lock lock(pool);
      returned.wait(lock, [&] { return !readers.empty(); });
      reader = std::move(readers.back());
      readers.pop_back();
    }
    struct Return {
      State& state;
      std::unique_ptr<Reader>& lent;
      ~Return() {
        {
          const std::lock_guard lock(state.pool);
          state.readers.push_back(std::move(lent));  // there is room: it came from here
        }
        state.returned.notify_one();
      }
    } back{*this, reader};
    return use(*reader);
  }

  /// Runs `change`, which returns a Result, in a transaction of its own; what it did is kept when it has a value.
  template <class Change>
  auto write(const Change& change) -> decltype(change(*writer)) {
    const std::lock_guard lock(writing);
    Transaction transaction(writer->connection);
    if (auto begun = transaction.begin("BEGIN IMMEDIATE"); !begun) return std::move(begun).error();
    auto done = change(*writer);
    if (!done) return done;
    if (auto committed = transaction.commit(); !committed) return std::move(committed).error();
    return done;
  }
};

namespace {

/// Runs a statement that changes rows; how many.
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

/// A user's number; nothing when there is no such user.
template <class Side>
Result<std::optional<std::int64_t>> find(Side& side, const KeyView& user) {
  std::optional<std::int64_t> id;
  side.find_user.bind(1, user);
  auto done = rows(side.connection, side.find_user, [&] { id = side.find_user.integer(0); });
  if (!done) return std::move(done).error();
  return id;
}

Result<std::int64_t> find_or_add(Writer& writer, const KeyView& user) {
  auto found = find(writer, user);
  if (!found) return std::move(found).error();
  if (*found) return **found;
  std::int64_t id = 0;
  writer.add_user.bind(1, user);
  auto done = rows(writer.connection, writer.add_user, [&] { id = writer.add_user.integer(0); });
  if (!done) return std::move(done).error();
  return id;
}

bool same(const KeyView& a, const KeyView& b) noexcept { return a.number == b.number && a.bytes == b.bytes; }

/// In the order of the tables' keys: neighbours go into the same pages, and a user is looked up once.
std::vector<const KeyedEvent*> in_key_order(std::span<const KeyedEvent> events) {
  std::vector<const KeyedEvent*> sorted;
  sorted.reserve(events.size());
  for (const KeyedEvent& event : events) sorted.push_back(&event);
  const auto key = [](const KeyedEvent* event) {
    return std::tie(event->user.number, event->user.bytes, event->item.number, event->item.bytes);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return sorted;
}

}  // namespace

Result<Log> Log::open(const std::string& path, ItemKind user_kind, ItemKind item_kind, const Options& options) {
  if (path.empty() || path == ":memory:" || options.readers < 1) {
    return Error{ErrorCode::invalid_argument,
                 "seenby::sqlite: expected the path of a file and at least one reader, got \"" + path + "\" and " +
                     std::to_string(options.readers)};
  }
  auto connection = Connection::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, options.busy_timeout);
  if (!connection) return std::move(connection).error();
  if (auto ready = prepare_schema(*connection, user_kind, item_kind, options.busy_timeout); !ready)
    return std::move(ready).error();
  auto writer = make_writer(*std::move(connection), options);
  if (!writer) return std::move(writer).error();
  auto state = std::make_shared<State>();
  state->user_kind = user_kind;
  state->item_kind = item_kind;
  state->writer = *std::move(writer);
  for (std::size_t i = 0; i < options.readers; ++i) {
    auto reading = Connection::open(path, SQLITE_OPEN_READONLY, options.busy_timeout);
    if (!reading) return std::move(reading).error();
    auto reader = make_reader(*std::move(reading));
    if (!reader) return std::move(reader).error();
    state->readers.push_back(*std::move(reader));
  }
  return Log(std::move(state));
}

Result<std::size_t> Log::append(std::span<const KeyedEvent> events) {
  return state_->write([&](Writer& writer) -> Result<std::size_t> {
    std::size_t fresh = 0;
    std::int64_t user = 0;
    const std::vector<const KeyedEvent*> sorted = in_key_order(events);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const KeyedEvent& event = *sorted[i];
      if (i == 0 || !same(event.user, sorted[i - 1]->user)) {
        auto id = find_or_add(writer, event.user);
        if (!id) return std::move(id).error();
        user = *id;
      }
      writer.add_event.bind(1, user).bind(2, event.item).bind(3, event.event).bind(4, seconds(event.seen_at));
      auto added = change(writer.connection, writer.add_event);
      if (!added) return added;
      fresh += *added;
    }
    return fresh;
  });
}

Result<void> Log::contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                           std::span<std::uint8_t> hides, Time since) const {
  return state_->read([&](Reader& reader) -> Result<void> {
    // One transaction: the user's number means the same user for all lookups.
    Transaction transaction(reader.connection);
    if (auto begun = transaction.begin("BEGIN"); !begun) return begun;
    auto id = find(reader, user);
    if (!id) return std::move(id).error();
    for (std::size_t i = 0; i < hides.size(); ++i) {
      hides[i] = 0;
      reader.is_hidden.bind(1, user).bind(2, items[i]);
      if (auto done = rows(reader.connection, reader.is_hidden, [&] { hides[i] = 1; }); !done) return done;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      out[i] = 0;
      if (!*id) continue;
      reader.contains.bind(1, **id).bind(2, items[i]).bind(3, seconds(since));
      if (auto done = rows(reader.connection, reader.contains, [&] { out[i] = 1; }); !done) return done;
    }
    return transaction.commit();
  });
}

Result<void> Log::seen_since(const KeyView& user, Time since,
                             const std::function<void(const KeyView&, Time)>& row) const {
  return state_->read([&](Reader& reader) {
    Statement& statement = since == all_time ? reader.seen_ever : reader.seen_since;
    statement.bind(1, user);
    if (since != all_time) statement.bind(2, seconds(since));
    return rows(reader.connection, statement,
                [&] { row(statement.key(0, state_->item_kind), Time{std::chrono::seconds{statement.integer(1)}}); });
  });
}

Result<std::size_t> Log::hide(const KeyView& user, std::span<const Hide<KeyView>> hides) {
  return state_->write([&](Writer& writer) -> Result<std::size_t> {
    std::size_t fresh = 0;
    for (const auto& [item, at] : hides) {
      writer.hide.bind(1, user).bind(2, item).bind(3, seconds(at));
      auto added = change(writer.connection, writer.hide);
      if (!added) return added;
      fresh += *added;
    }
    return fresh;
  });
}

Result<std::size_t> Log::unhide(const KeyView& user, std::span<const KeyView> items) {
  return state_->write([&](Writer& writer) -> Result<std::size_t> {
    std::size_t taken = 0;
    for (const KeyView& item : items) {
      writer.unhide.bind(1, user).bind(2, item);
      auto gone = change(writer.connection, writer.unhide);
      if (!gone) return gone;
      taken += *gone;
    }
    return taken;
  });
}

Result<void> Log::hidden(const KeyView& user, const std::function<void(const KeyView&, Time)>& row) const {
  return state_->read([&](Reader& reader) {
    Statement& statement = reader.hidden;
    statement.bind(1, user);
    return rows(reader.connection, statement,
                [&] { row(statement.key(0, state_->item_kind), Time{std::chrono::seconds{statement.integer(1)}}); });
  });
}

Result<bool> Log::forget(const KeyView& user) {
  return state_->write([&](Writer& writer) -> Result<bool> {
    writer.drop_hides.bind(1, user);
    auto hides = change(writer.connection, writer.drop_hides);
    if (!hides) return std::move(hides).error();
    auto id = find(writer, user);
    if (!id) return std::move(id).error();
    if (!*id) return *hides != 0;
    for (Statement* statement : {&writer.drop_events, &writer.drop_user}) {
      statement->bind(1, **id);
      if (auto done = change(writer.connection, *statement); !done) return std::move(done).error();
    }
    return true;
  });
}

Result<std::size_t> Log::erase(const KeyView& user, std::span<const KeyView> items) {
  return state_->write([&](Writer& writer) -> Result<std::size_t> {
    std::size_t erased = 0;
    auto id = find(writer, user);
    if (!id) return std::move(id).error();
    if (!*id) return erased;
    for (const KeyView& item : items) {
      writer.drop_item.bind(1, **id).bind(2, item);
      auto events = change(writer.connection, writer.drop_item);
      if (!events) return events;
      erased += *events != 0 ? 1U : 0U;
    }
    writer.drop_if_empty.bind(1, **id);
    if (auto done = change(writer.connection, writer.drop_if_empty); !done) return done;
    return erased;
  });
}

Result<bool> Log::merge(const KeyView& from, const KeyView& into) {
  return state_->write([&](Writer& writer) -> Result<bool> {
    writer.move_hides.bind(1, from).bind(2, into);
    if (auto done = change(writer.connection, writer.move_hides); !done) return std::move(done).error();
    writer.drop_hides.bind(1, from);
    auto hides = change(writer.connection, writer.drop_hides);
    if (!hides) return std::move(hides).error();
    auto source = find(writer, from);
    if (!source) return std::move(source).error();
    if (!*source) return *hides != 0;
    auto target = find_or_add(writer, into);
    if (!target) return std::move(target).error();
    writer.move_events.bind(1, **source).bind(2, *target);
    writer.drop_events.bind(1, **source);
    writer.drop_user.bind(1, **source);
    for (Statement* statement : {&writer.move_events, &writer.drop_events, &writer.drop_user}) {
      if (auto done = change(writer.connection, *statement); !done) return std::move(done).error();
    }
    return true;
  });
}

Result<void> Log::users(const std::optional<KeyView>& after, std::size_t limit,
                        const std::function<void(const KeyView&)>& row) const {
  return state_->read([&](Reader& reader) {
    Statement& statement = after ? reader.next_users : reader.first_users;
    statement.bind(1, static_cast<std::int64_t>(limit));
    if (after) statement.bind(2, *after);
    return rows(reader.connection, statement, [&] { row(statement.key(0, state_->user_kind)); });
  });
}

Result<std::uint64_t> Log::item_count(const KeyView& user, Time since) const {
  return state_->read([&](Reader& reader) -> Result<std::uint64_t> {
    std::uint64_t count = 0;
    reader.item_count.bind(1, user).bind(2, seconds(since));
    auto done = rows(reader.connection, reader.item_count,
                     [&] { count = static_cast<std::uint64_t>(reader.item_count.integer(0)); });
    if (!done) return std::move(done).error();
    return count;
  });
}

Result<std::uint64_t> Log::event_count(const KeyView& item) const {
  return state_->read([&](Reader& reader) -> Result<std::uint64_t> {
    std::uint64_t count = 0;
    reader.event_count.bind(1, item);
    auto done = rows(reader.connection, reader.event_count,
                     [&] { count = static_cast<std::uint64_t>(reader.event_count.integer(0)); });
    if (!done) return std::move(done).error();
    return count;
  });
}

Result<std::uint64_t> Log::drop_before(Time time) {
  return state_->write([&](Writer& writer) -> Result<std::uint64_t> {
    writer.drop_before.bind(1, seconds(time));
    auto dropped = change(writer.connection, writer.drop_before);
    if (!dropped) return std::move(dropped).error();
    if (auto done = change(writer.connection, writer.drop_empty); !done) return std::move(done).error();
    return static_cast<std::uint64_t>(*dropped);
  });
}

}  // namespace seenby::sqlite
