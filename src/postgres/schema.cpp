// SPDX-License-Identifier: MIT
#include "schema.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace seenby::postgres {

namespace {

using std::chrono::sys_days;
using std::chrono::year_month;

// What only one session may do at a time: change the schema. The number is ours ("seenby").
constexpr std::string_view lock_sql = "SELECT pg_advisory_xact_lock(126940286214777);";

/// migrations[v] brings version v to v + 1; {s} is the schema, {u} and {i} the types of users and items, {ut} and {it}
/// how the view shows them. What was released once is never changed: append.
constexpr std::array<std::string_view, 2> migrations{
    R"(CREATE TABLE {s}.events(user_key {u} NOT NULL, item {i} NOT NULL, event bigint NOT NULL, at bigint NOT NULL,
  PRIMARY KEY(user_key, item, event, at)) PARTITION BY RANGE(at);
CREATE INDEX events_by_item ON {s}.events(item);
CREATE TABLE {s}.events_other PARTITION OF {s}.events DEFAULT;
CREATE VIEW {s}.impressions AS SELECT {ut} AS user_key, {it} AS item, to_timestamp(at) AS seen_at FROM {s}.events;)",
    R"(CREATE TABLE {s}.hides(user_key {u} NOT NULL, item {i} NOT NULL, at bigint NOT NULL,
  place bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY(user_key, item));)"};

std::string filled(std::string_view text, const std::string& schema, ItemKind user_kind, ItemKind item_kind) {
  const auto type = [](ItemKind kind) { return kind == ItemKind::integer ? "bigint" : "bytea"; };
  const auto shown = [](ItemKind kind, std::string_view column) {
    return kind == ItemKind::integer ? std::string(column)
                                     : std::string("encode(").append(column).append(", 'escape')");
  };
  const std::array<std::pair<std::string_view, std::string>, 5> fields{{{"{s}", schema},
                                                                        {"{u}", type(user_kind)},
                                                                        {"{i}", type(item_kind)},
                                                                        {"{ut}", shown(user_kind, "user_key")},
                                                                        {"{it}", shown(item_kind, "item")}}};
  std::string sql(text);
  for (const auto& [field, value] : fields) {
    for (std::size_t at = sql.find(field); at != std::string::npos; at = sql.find(field, at + value.size())) {
      sql.replace(at, field.size(), value);
    }
  }
  return sql;
}

/// A value of the table `meta`; nothing when it is not there.
Result<std::optional<std::int64_t>> meta(Pool& pool, const std::string& schema, std::string_view name,
                                         Deadline deadline) {
  Parameters parameters;
  parameters.add(KeyView{ItemKind::text, 0, name});
  auto rows =
      pool.run("SELECT value FROM " + schema + ".meta WHERE name = convert_from($1, 'UTF8')", parameters, deadline);
  if (!rows) return std::move(rows).error();
  if (rows->size() == 0) return std::optional<std::int64_t>{};
  return std::optional{rows->number(0)};
}

Result<void> require_kind(Pool& pool, const std::string& schema, std::string_view what, ItemKind kind,
                          Deadline deadline) {
  auto value = meta(pool, schema, what, deadline);
  if (!value) return std::move(value).error();
  const auto there = static_cast<ItemKind>(value->value_or(0));
  if (there == kind) return {};
  return Error{ErrorCode::parameter_mismatch, std::string("seenby::postgres: expected ")
                                                  .append(what)
                                                  .append(" of kind ")
                                                  .append(to_string(there))
                                                  .append(", which schema ")
                                                  .append(schema)
                                                  .append(" holds, got ")
                                                  .append(to_string(kind))};
}

std::int64_t start_of(year_month month) { return Time{sys_days{month / 1}}.time_since_epoch().count(); }

std::string name_of(year_month month) {
  const unsigned number = static_cast<unsigned>(month.month());
  return std::string("events_")
      .append(std::to_string(static_cast<int>(month.year())))
      .append(number < 10 ? "_0" : "_")
      .append(std::to_string(number));
}

}  // namespace

Result<void> prepare_schema(Pool& pool, const std::string& schema, ItemKind user_kind, ItemKind item_kind) {
  const Deadline deadline = pool.deadline();
  // One message is one transaction. A second client finds the first one's work done.
  std::string sql(lock_sql);
  sql.append("CREATE SCHEMA IF NOT EXISTS ").append(schema);
  sql.append("; CREATE TABLE IF NOT EXISTS ")
      .append(schema)
      .append(".meta(name text PRIMARY KEY, value bigint NOT NULL);");
  for (const auto& [name, kind] : {std::pair{"users", user_kind}, std::pair{"items", item_kind}}) {
    sql.append("INSERT INTO ").append(schema).append(".meta VALUES('").append(name).append("', ");
    sql.append(std::to_string(static_cast<int>(kind))).append(") ON CONFLICT DO NOTHING;");
  }
  sql.append("INSERT INTO ").append(schema).append(".meta VALUES('version', 0) ON CONFLICT DO NOTHING;");
  if (auto done = pool.run(sql, deadline); !done) return done;
  if (auto same = require_kind(pool, schema, "users", user_kind, deadline); !same) return same;
  if (auto same = require_kind(pool, schema, "items", item_kind, deadline); !same) return same;

  for (std::size_t version = 0; version < migrations.size(); ++version) {
    // The version is asked under the lock, by the same message that changes it.
    const std::string step = std::string(lock_sql)
                                 .append("DO $seenby$ BEGIN IF (SELECT value FROM ")
                                 .append(schema)
                                 .append(".meta WHERE name = 'version') = ")
                                 .append(std::to_string(version))
                                 .append(" THEN\n")
                                 .append(filled(migrations[version], schema, user_kind, item_kind))
                                 .append("\nUPDATE ")
                                 .append(schema)
                                 .append(".meta SET value = value + 1 WHERE name = 'version'; END IF; END $seenby$;");
    if (auto done = pool.run(step, deadline); !done) return done;
  }
  auto version = meta(pool, schema, "version", deadline);
  if (!version) return std::move(version).error();
  if (version->value_or(0) == static_cast<std::int64_t>(migrations.size())) return {};
  return Error{ErrorCode::unsupported_version, std::string("seenby::postgres: expected tables of version ")
                                                   .append(std::to_string(migrations.size()))
                                                   .append(" at most, got ")
                                                   .append(std::to_string(version->value_or(0)))};
}

std::optional<year_month> month_of(Time time, Time now) {
  const auto month = [](Time at) {
    const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(at)};
    return year_month{day.year(), day.month()};
  };
  constexpr auto first = std::chrono::year{2000} / 1;
  if (time < Time{sys_days{first / 1}}) return std::nullopt;
  // Compared as a time first: a calendar holds no year beyond 32767.
  if (time > saturating_add(now, std::chrono::days{62})) return std::nullopt;
  if (month(time) > month(now) + std::chrono::months{1}) return std::nullopt;
  return month(time);
}

Result<void> create_months(Pool& pool, const std::string& schema, const std::set<year_month>& months,
                           Deadline deadline) {
  std::string sql(lock_sql);
  for (const year_month month : months) {
    // Rows of the month in events_other (they were in the future once) refuse the partition: they stay where they are.
    sql.append("DO $seenby$ BEGIN CREATE TABLE IF NOT EXISTS ").append(schema).append(".").append(name_of(month));
    sql.append(" PARTITION OF ").append(schema).append(".events FOR VALUES FROM (");
    sql.append(std::to_string(start_of(month))).append(") TO (");
    sql.append(std::to_string(start_of(month + std::chrono::months{1})));
    sql.append("); EXCEPTION WHEN check_violation THEN NULL; END $seenby$;");
  }
  return pool.run(sql, deadline);
}

Result<std::size_t> drop_months(Pool& pool, const std::string& schema, Time time) {
  const Deadline deadline = pool.deadline();
  Parameters parameters;
  parameters.add(KeyView{ItemKind::text, 0, schema});
  auto tables = pool.run(
      "SELECT convert_to(c.relname, 'UTF8') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
      "JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace n ON n.oid = p.relnamespace "
      "WHERE n.nspname = convert_from($1, 'UTF8') AND p.relname = 'events' AND c.relname ~ "
      "'^events_[0-9]{4}_[0-9]{2}$'",
      parameters, deadline);
  if (!tables) return std::move(tables).error();
  std::size_t dropped = 0;
  for (int row = 0; row < tables->size(); ++row) {
    const std::string name(tables->key(row, 0, ItemKind::text).bytes);
    const std::size_t split = name.rfind('_');
    const std::chrono::year year{std::stoi(name.substr(7, split - 7))};
    const auto month = year / std::stoi(name.substr(split + 1));
    if (start_of(month + std::chrono::months{1}) > time.time_since_epoch().count()) continue;
    const std::string drop = std::string("DROP TABLE IF EXISTS ").append(schema).append(".").append(name);
    if (auto done = pool.run(drop, deadline); !done) return std::move(done).error();
    ++dropped;
  }
  return dropped;
}

}  // namespace seenby::postgres
