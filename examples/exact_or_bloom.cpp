// SPDX-License-Identifier: MIT
// Seen filtering without and with a filter before the database, and what each design keeps in memory: the lesson's
// goal is a database that is busy less than half the time.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <seenby/seenby.hpp>
#include <span>
#include <vector>

namespace {

using Item = std::uint64_t;
using User = std::uint64_t;
using Pool = seenby::CandidatePool<Item>;

constexpr std::size_t users = 200;
constexpr std::size_t seen_each = 2'000;
constexpr std::size_t feed_reads = 1'000;
constexpr std::size_t page_size = 10;
constexpr std::size_t candidates = 40;
// The database answers 20 membership look-ups in the time of one feed read.
constexpr std::size_t lookups_per_read = 20;

/// An exact history that counts what it is asked.
class Database {
 public:
  using user_type = User;
  using item_type = Item;

  seenby::Result<void> append(User user, std::span<const Item> items, seenby::Time when) {
    return rows_.append(user, items, when);
  }
  seenby::Result<void> contains(User user, std::span<const Item> items, std::span<std::uint8_t> out,
                                seenby::Time since = seenby::all_time) {
    lookups_ += items.size();
    return rows_.contains(user, items, out, since);
  }
  seenby::Result<std::vector<seenby::SeenItem<Item>>> seen_since(User user, seenby::Time since) {
    return rows_.seen_since(user, since);
  }
  seenby::Result<bool> forget(User user) { return rows_.forget(user); }
  [[nodiscard]] double busy() const {
    return static_cast<double>(lookups_) / static_cast<double>(feed_reads * lookups_per_read);
  }
  void reset() { lookups_ = 0; }

 private:
  seenby::MemoryHistory<User, Item> rows_;
  std::size_t lookups_ = 0;
};

/// Read i: a user, and candidates of which half are seen already; every tenth reader has nearly run out of new ones.
User user_of(std::size_t read) { return read % users; }
Pool candidates_of(std::size_t read) {
  const std::size_t fresh_every = read % 10 == 0 ? 8 : 2;
  std::vector<Item> items;
  for (std::size_t i = 0; i < candidates; ++i) {
    const std::size_t place = read * candidates + i;
    items.push_back(i % fresh_every == 0 ? 1'000'000 + place : place % seen_each);
  }
  return Pool(std::move(items));
}

void report(const char* design, const Database& database, std::size_t shown) {
  std::printf("%-22s database %5.1f%% busy, %zu of %zu places filled\n", design, 100 * database.busy(), shown,
              feed_reads * page_size);
}

}  // namespace

int main() {
  Database database;
  seenby::SeenFilter filter(seenby::MemoryStore<User>{{.wrong_hide_rate = 0.01}}, database);
  std::vector<Item> seen(seen_each);
  for (std::size_t i = 0; i < seen_each; ++i) seen[i] = i;
  for (User user = 0; user < users; ++user) filter.record_all(user, seen).or_throw();

  std::size_t shown = 0;
  for (std::size_t read = 0; read < feed_reads; ++read) {
    const Pool pool = candidates_of(read);
    std::vector<std::uint8_t> is_seen(pool.size());
    database.contains(user_of(read), pool.items(), is_seen).or_throw();
    std::size_t page = 0;
    for (std::size_t i = 0; i < pool.size() && page < page_size; ++i) page += is_seen[i] == 0 ? 1U : 0U;
    shown += page;
  }
  report("asking the database:", database, shown);

  database.reset();
  shown = 0;
  for (std::size_t read = 0; read < feed_reads; ++read) {
    // A thin page may ask the database about what the filter calls seen.
    const Pool pool = candidates_of(read);
    const auto page =
        filter.select_unseen(pool, {user_of(read)}, {.limit = page_size, .relax = {seenby::Verify{.lookups = 20}}});
    shown += page.size();
  }
  report("asking the filter:", database, shown);
  std::printf("for 100M users of %zu items: %.2f TB of 8-byte ids, %.2f TB of filters at 1%%\n", seen_each,
              100e6 * 8 * static_cast<double>(seen_each) / 1e12,
              100e6 *
                  static_cast<double>(seenby::sizing::shape_for(seenby::LayoutKind::classic, seen_each, 0.01).bytes()) /
                  1e12);
  return database.busy() < 0.5 ? 0 : 1;
}
