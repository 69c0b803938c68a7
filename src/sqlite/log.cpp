// SPDX-License-Identifier: MIT
#include "seenby/sqlite/log.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "schema.hpp"
#include "statements.hpp"

namespace seenby::sqlite {

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

std::int64_t seconds(Time time) noexcept { return time.time_since_epoch().count(); }

/// The one number that a statement gives.
Result<std::uint64_t> count(const Connection& connection, Statement& statement) {
  std::uint64_t count = 0;
  auto done = rows(connection, statement, [&] { count = static_cast<std::uint64_t>(statement.integer(0)); });
  if (!done) return std::move(done).error();
  return count;
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
  return state_->read([&](Reader& reader) {
    reader.item_count.bind(1, user).bind(2, seconds(since));
    return count(reader.connection, reader.item_count);
  });
}

Result<std::uint64_t> Log::event_count(const KeyView& item) const {
  return state_->read([&](Reader& reader) {
    reader.event_count.bind(1, item);
    return count(reader.connection, reader.event_count);
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
