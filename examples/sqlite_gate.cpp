// SPDX-License-Identifier: MIT
// Screening ids that do not exist, in front of a cache and a SQLite database: a gate of all ids answers "not found"
// without a read of either. A positive proves nothing: it goes the normal way.
#include <sqlite3.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <seenby/gates/read_path.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace {

using Id = std::uint64_t;
using Gate = seenby::ExistenceGate<Id>;
using Products = seenby::ReadPath<Id, std::string>;

/// A statement that is prepared once.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    if (sqlite3_prepare_v2(database, sql, -1, &handle_, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(database));
    }
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(handle_); }

  Statement& bind(int at, Id id) {
    sqlite3_reset(handle_);
    sqlite3_bind_int64(handle_, at, static_cast<sqlite3_int64>(id));
    return *this;
  }
  Statement& bind(int at, const std::string& text) {
    sqlite3_bind_text(handle_, at, text.data(), static_cast<int>(text.size()), nullptr);
    return *this;
  }
  int step() { return sqlite3_step(handle_); }
  [[nodiscard]] Id integer() { return static_cast<Id>(sqlite3_column_int64(handle_, 0)); }
  [[nodiscard]] std::string text() { return reinterpret_cast<const char*>(sqlite3_column_text(handle_, 0)); }

 private:
  sqlite3_stmt* handle_ = nullptr;
};

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};

/// The product pages of a shop. Ids come from outside: from links, crawlers and people who guess.
class Database {
 public:
  /// The row and the gate: the id passes before the row can be seen. What the database refuses leaves a harmless bit.
  bool create(Gate& gate, Id id, const std::string& name) {
    gate.add(id);
    return insert_.bind(1, id).bind(2, name).step() == SQLITE_DONE;
  }
  [[nodiscard]] seenby::Result<std::optional<std::string>> find(Id id) {
    switch (find_.bind(1, id).step()) {
      case SQLITE_ROW: return std::optional(find_.text());
      case SQLITE_DONE: return std::optional<std::string>{};
      default: return seenby::Error{seenby::ErrorCode::io, sqlite3_errmsg(handle_.get())};
    }
  }
  /// Every id, out of the database: not out of the cache, which knows some of them.
  void fill(Gate& gate, std::uint64_t expected) {
    Statement ids(handle_.get(), "SELECT id FROM products");
    auto rebuild = gate.begin_rebuild(expected);
    while (ids.step() == SQLITE_ROW) rebuild.add(ids.integer());
    rebuild.commit();
  }
  void run(const char* sql) { sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr); }

 private:
  [[nodiscard]] static sqlite3* open() {
    sqlite3* database = nullptr;
    sqlite3_open(":memory:", &database);
    sqlite3_exec(database, "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL)", nullptr, nullptr,
                 nullptr);
    return database;
  }
  std::unique_ptr<sqlite3, Close> handle_{open()};
  Statement insert_{handle_.get(), "INSERT INTO products VALUES (?, ?)"};
  Statement find_{handle_.get(), "SELECT name FROM products WHERE id = ?"};
};

/// What has happened since the last report.
void report(const char* what, const Gate& gate, const Products& products) {
  static seenby::GateCounters gate_before;
  static seenby::ReadCounters before;
  const seenby::GateCounters gate_now = gate.counters();
  const seenby::ReadCounters now = products.counters();
  const auto since = [](std::uint64_t a, std::uint64_t b) { return static_cast<unsigned long long>(a - b); };
  std::printf("%-36s %6llu screened, %6llu remembered, %6llu cached, %6llu database reads\n", what,
              since(gate_now.negatives, gate_before.negatives),
              since(gate_now.negative_cache_hits, gate_before.negative_cache_hits),
              since(now.cache_hits, before.cache_hits), since(now.database_reads, before.database_reads));
  gate_before = gate_now;
  before = now;
}

}  // namespace

int main() {
  constexpr Id count = 20'000;
  constexpr Id guesses = 100'000;
  Database database;
  Gate gate({.negative_ttl = std::chrono::minutes{10}});
  std::unordered_map<Id, std::string> cache;
  Products products(gate, {.cache = [&](const Id& id) -> seenby::Result<std::optional<std::string>> {
                             const auto found = cache.find(id);
                             return found == cache.end() ? std::nullopt : std::optional(found->second);
                           },
                           .database = [&](const Id& id) { return database.find(id); },
                           .fill_cache = [&](const Id& id, const std::string& name) { cache.emplace(id, name); }});

  database.run("BEGIN");
  for (Id i = 0; i < count; ++i) database.create(gate, i * 37, "product " + std::to_string(i));
  database.run("COMMIT");
  for (Id i = 0; i < 1'000; ++i) (void)products.find(i * 37 + 1).or_throw();
  report("1,000 that do not exist, no gate:", gate, products);

  database.fill(gate, count);
  for (Id i = 0; i < guesses; ++i) {
    if (products.find(i * 37 + 2).or_throw()) return 1;  // a positive never makes up a product
  }
  report("100,000 ids that do not exist:", gate, products);
  for (Id i = 0; i < guesses; ++i) (void)products.find(i * 37 + 2).or_throw();
  report("the same ids again:", gate, products);
  for (int round = 0; round < 2; ++round) {
    for (Id i = 0; i < count; ++i) {
      if (!products.find(i * 37).or_throw()) return 1;  // every product is found
    }
  }
  report("20,000 products, twice:", gate, products);

  // Two callers want one id: the gate lets both ask, the database's key decides.
  const bool first = database.create(gate, 5, "ours");
  const bool second = database.create(gate, 5, "theirs");
  std::printf("two callers create product 5: %s, %s; it is %s\n", first ? "created" : "refused",
              second ? "created" : "refused", products.find(5).or_throw()->c_str());
}
