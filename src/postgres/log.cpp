// SPDX-License-Identifier: MIT
#include "seenby/postgres/log.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "parameters.hpp"
#include "pool.hpp"
#include "schema.hpp"

namespace seenby::postgres {

namespace {

std::int64_t seconds(Time time) noexcept { return time.time_since_epoch().count(); }

bool valid_schema(const std::string& name) {
  return !name.empty() && name.size() <= 40 && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

Result<std::uint64_t> count_of(Result<Rows> rows) {
  if (!rows) return std::move(rows).error();
  return static_cast<std::uint64_t>(rows->number(0));
}

}  // namespace

struct Log::State {
  State(const std::string& address, const Options& options, ItemKind users, ItemKind items)
      : pool(address, options), schema(options.schema), user_kind(users), item_kind(items) {}

  Pool pool;
  std::string schema;
  ItemKind user_kind;
  ItemKind item_kind;
  std::mutex months_mutex;                   ///< not held while the server is asked
  std::set<std::chrono::year_month> months;  ///< known to have been created
  std::uint64_t drops = 0;                   ///< of months

  /// Puts a table's name where the statement says {events} or {hides}.
  [[nodiscard]] Result<Rows> run(const std::string& sql, const Parameters& parameters) {
    return run(sql, parameters, pool.deadline());
  }
  [[nodiscard]] Result<Rows> run(std::string sql, const Parameters& parameters, Deadline deadline) {
    for (const std::string_view table : {"events", "hides"}) {
      const std::string field = std::string("{").append(table).append("}");
      const std::string name = std::string(schema).append(".").append(table);
      for (std::size_t at = sql.find(field); at != std::string::npos; at = sql.find(field, at)) {
        sql.replace(at, field.size(), name);
      }
    }
    return pool.run(sql, parameters, deadline);
  }

  /// A partition for every month among the events.
  Result<void> create_months(std::span<const KeyedEvent> events, Deadline deadline) {
    std::set<std::chrono::year_month> wanted;
    const Time now = system_time();
    for (const KeyedEvent& event : events) {
      if (const auto month = month_of(event.seen_at, now)) wanted.insert(*month);
    }
    std::unique_lock lock(months_mutex);
    std::erase_if(wanted, [&](auto month) { return months.contains(month); });
    if (wanted.empty()) return {};
    const std::uint64_t before = drops;
    lock.unlock();
    if (auto created = postgres::create_months(pool, schema, wanted, deadline); !created) return created;
    lock.lock();
    if (drops == before) months.merge(wanted);
    return {};
  }
};

Result<Log> Log::open(const std::string& address, ItemKind user_kind, ItemKind item_kind, const Options& options) {
  if (options.connections < 1 || options.timeout.count() <= 0 || !valid_schema(options.schema)) {
    return Error{ErrorCode::invalid_argument,
                 "seenby::postgres: expected at least one connection, a timeout above 0 ms and a schema of up to 40 "
                 "lower-case letters, digits and underscores, got " +
                     std::to_string(options.connections) + ", " + std::to_string(options.timeout.count()) +
                     " ms and \"" + options.schema + "\""};
  }
  auto state = std::make_shared<State>(address, options, user_kind, item_kind);
  if (auto ready = prepare_schema(state->pool, options.schema, user_kind, item_kind); !ready) {
    return std::move(ready).error();
  }
  return Log(std::move(state));
}

Result<std::size_t> Log::append(std::span<const KeyedEvent> events) {
  const Deadline deadline = state_->pool.deadline();
  if (auto ready = state_->create_months(events, deadline); !ready) return std::move(ready).error();
  Parameters parameters;
  parameters.add_array(state_->user_kind, events.size(), [&](std::size_t i) { return events[i].user; });
  parameters.add_array(state_->item_kind, events.size(), [&](std::size_t i) { return events[i].item; });
  const auto number = [](std::int64_t value) { return KeyView{ItemKind::integer, value, {}}; };
  parameters.add_array(ItemKind::integer, events.size(), [&](std::size_t i) { return number(events[i].event); });
  parameters.add_array(ItemKind::integer, events.size(),
                       [&](std::size_t i) { return number(seconds(events[i].seen_at)); });
  auto added = state_->run(
      "WITH added AS (INSERT INTO {events}(user_key, item, event, at) "
      "SELECT * FROM unnest($1, $2, $3, $4) AS e(user_key, item, event, at) ORDER BY user_key, item, event, at "
      "ON CONFLICT DO NOTHING RETURNING 1) SELECT count(*) FROM added",
      parameters, deadline);
  if (!added) return std::move(added).error();
  return static_cast<std::size_t>(added->number(0));
}

Result<void> Log::contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                           std::span<std::uint8_t> hides, Time since) const {
  Parameters parameters;
  parameters.add(user).add_array(state_->item_kind, items.size(), [&](std::size_t i) { return items[i]; });
  const std::string hidden =
      hides.empty() ? "false" : "EXISTS (SELECT FROM {hides} h WHERE h.user_key = $1 AND h.item = asked.item)";
  auto found = state_->run(
      std::string("SELECT * FROM (SELECT n, EXISTS (SELECT FROM {events} e WHERE e.user_key = $1 AND "
                  "e.item = asked.item AND e.at >= $3) AS seen, ")
          .append(hidden)
          .append(" AS hidden FROM unnest($2) WITH ORDINALITY AS asked(item, n)) AS answers WHERE seen OR hidden"),
      parameters.add(seconds(since)));
  if (!found) return std::move(found).error();
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  std::fill(hides.begin(), hides.end(), std::uint8_t{0});
  for (int row = 0; row < found->size(); ++row) {
    const auto place = static_cast<std::size_t>(found->number(row)) - 1;
    out[place] = static_cast<std::uint8_t>(found->number(row, 1));
    if (!hides.empty()) hides[place] = static_cast<std::uint8_t>(found->number(row, 2));
  }
  return {};
}

Result<void> Log::seen_since(const KeyView& user, Time since,
                             const std::function<void(const KeyView&, Time)>& row) const {
  Parameters parameters;
  auto seen = state_->run("SELECT item, max(at) FROM {events} WHERE user_key = $1 AND at >= $2 GROUP BY item",
                          parameters.add(user).add(seconds(since)));
  if (!seen) return std::move(seen).error();
  for (int i = 0; i < seen->size(); ++i) {
    row(seen->key(i, 0, state_->item_kind), Time{std::chrono::seconds{seen->number(i, 1)}});
  }
  return {};
}

Result<std::size_t> Log::hide(const KeyView& user, std::span<const Hide<KeyView>> hides) {
  Parameters parameters;
  parameters.add(user).add_array(state_->item_kind, hides.size(), [&](std::size_t i) { return hides[i].item; });
  parameters.add_array(ItemKind::integer, hides.size(), [&](std::size_t i) {
    return KeyView{ItemKind::integer, seconds(hides[i].at), {}};
  });
  auto added = state_->run(
      "INSERT INTO {hides}(user_key, item, at) SELECT $1, item, at FROM unnest($2, $3) WITH ORDINALITY AS h(item, at, "
      "n) ORDER BY n ON CONFLICT DO NOTHING",
      parameters);
  if (!added) return std::move(added).error();
  return added->changed();
}

Result<std::size_t> Log::unhide(const KeyView& user, std::span<const KeyView> items) {
  Parameters parameters;
  parameters.add(user).add_array(state_->item_kind, items.size(), [&](std::size_t i) { return items[i]; });
  auto gone = state_->run("DELETE FROM {hides} WHERE user_key = $1 AND item = ANY($2)", parameters);
  if (!gone) return std::move(gone).error();
  return gone->changed();
}

Result<void> Log::hidden(const KeyView& user, const std::function<void(const KeyView&, Time)>& row) const {
  Parameters parameters;
  auto list = state_->run("SELECT item, at FROM {hides} WHERE user_key = $1 ORDER BY place", parameters.add(user));
  if (!list) return std::move(list).error();
  for (int i = 0; i < list->size(); ++i) {
    row(list->key(i, 0, state_->item_kind), Time{std::chrono::seconds{list->number(i, 1)}});
  }
  return {};
}

Result<bool> Log::forget(const KeyView& user) {
  Parameters parameters;
  auto gone =
      count_of(state_->run("WITH seen AS (DELETE FROM {events} WHERE user_key = $1 RETURNING 1), "
                           "hidden AS (DELETE FROM {hides} WHERE user_key = $1 RETURNING 1) "
                           "SELECT (SELECT count(*) FROM seen) + (SELECT count(*) FROM hidden)",
                           parameters.add(user)));
  if (!gone) return std::move(gone).error();
  return *gone != 0;
}

Result<std::size_t> Log::erase(const KeyView& user, std::span<const KeyView> items) {
  Parameters parameters;
  parameters.add(user).add_array(state_->item_kind, items.size(), [&](std::size_t i) { return items[i]; });
  auto count =
      count_of(state_->run("WITH gone AS (DELETE FROM {events} WHERE user_key = $1 AND item = ANY($2) RETURNING item) "
                           "SELECT count(DISTINCT item) FROM gone",
                           parameters));
  if (!count) return std::move(count).error();
  return static_cast<std::size_t>(*count);
}

Result<bool> Log::merge(const KeyView& from, const KeyView& into) {
  Parameters parameters;
  auto moved = count_of(
      state_->run("WITH moved AS (DELETE FROM {events} WHERE user_key = $1 RETURNING item, event, at), "
                  "added AS (INSERT INTO {events}(user_key, item, event, at) SELECT $2, item, event, at FROM moved "
                  "ORDER BY item, event, at ON CONFLICT DO NOTHING), "
                  "hidden AS (DELETE FROM {hides} WHERE user_key = $1 RETURNING item, at, place), "
                  "kept AS (INSERT INTO {hides}(user_key, item, at) SELECT $2, item, at FROM hidden ORDER BY place "
                  "ON CONFLICT DO NOTHING) SELECT (SELECT count(*) FROM moved) + (SELECT count(*) FROM hidden)",
                  parameters.add(from).add(into)));
  if (!moved) return std::move(moved).error();
  return *moved != 0;
}

Result<void> Log::users(const std::optional<KeyView>& after, std::size_t limit,
                        const std::function<void(const KeyView&)>& row) const {
  if (limit == 0) return {};
  Parameters parameters;
  parameters.add(static_cast<std::int64_t>(limit));
  if (after) parameters.add(*after);
  // From user to user by the index, past the events of each.
  const std::string sql =
      std::string("WITH RECURSIVE page(user_key, n) AS ((SELECT user_key, 1 FROM {events} ")
          .append(after ? "WHERE user_key > $2 " : "")
          .append(
              "ORDER BY user_key LIMIT 1) UNION ALL SELECT (SELECT e.user_key FROM {events} e "
              "WHERE e.user_key > page.user_key ORDER BY e.user_key LIMIT 1), n + 1 FROM page "
              "WHERE page.user_key IS NOT NULL AND n < $1) SELECT user_key FROM page WHERE user_key IS NOT NULL");
  auto page = state_->run(sql, parameters);
  if (!page) return std::move(page).error();
  for (int i = 0; i < page->size(); ++i) row(page->key(i, 0, state_->user_kind));
  return {};
}

Result<std::uint64_t> Log::item_count(const KeyView& user, Time since) const {
  Parameters parameters;
  return count_of(state_->run("SELECT count(DISTINCT item) FROM {events} WHERE user_key = $1 AND at >= $2",
                              parameters.add(user).add(seconds(since))));
}

Result<std::uint64_t> Log::event_count(const KeyView& item) const {
  Parameters parameters;
  return count_of(state_->run("SELECT count(*) FROM {events} WHERE item = $1", parameters.add(item)));
}

Result<std::size_t> Log::drop_months_before(Time time) {
  auto dropped = drop_months(state_->pool, state_->schema, time);
  const std::lock_guard lock(state_->months_mutex);
  state_->months.clear();
  ++state_->drops;
  return dropped;
}

}  // namespace seenby::postgres
