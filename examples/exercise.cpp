// SPDX-License-Identifier: MIT
// The lesson's exercise: change the design, run the traffic, and see whether the database is less than 50% busy.
//   exercise                          five designs, one after the other
//   exercise database                 every check is a look-up
//   exercise exact                    exact sets in memory
//   exercise filter [RATE [VERIFY]]   filters of this wrong-hide rate; VERIFY look-ups at most for a thin page
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <seenby/seenby.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Item = std::uint64_t;
using User = std::uint64_t;
using Pool = seenby::CandidatePool<Item>;
using Rows = seenby::MemoryHistory<User, Item>;

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

 private:
  Rows rows_;
  std::size_t lookups_ = 0;
};

/// Read i: candidates of which half are seen already; every tenth reader has nearly run out of new ones.
Pool candidates_of(std::size_t read) {
  const std::size_t fresh_every = read % 10 == 0 ? 8 : 2;
  std::vector<Item> items;
  for (std::size_t i = 0; i < candidates; ++i) {
    const std::size_t place = read * candidates + i;
    items.push_back(i % fresh_every == 0 ? 1'000'000 + place : place % seen_each);
  }
  return Pool(std::move(items));
}

/// What was shown to all readers.
template <class Filter>
std::size_t run_traffic(Filter filter, std::size_t verify) {
  std::vector<Item> seen(seen_each);
  std::iota(seen.begin(), seen.end(), Item{0});
  for (User user = 0; user < users; ++user) filter.record_all(user, seen).or_throw();
  seenby::SelectOptions<Item> options{.limit = page_size};
  if (verify > 0) options.relax = {seenby::Verify{.lookups = verify}};
  std::size_t shown = 0;
  for (std::size_t read = 0; read < feed_reads; ++read) {
    const Pool pool = candidates_of(read);
    shown += filter.select_unseen(pool, {read % users}, options).size();
  }
  return shown;
}

/// One line of the table; whether the goal is met.
bool report(const std::string& design, double bytes_a_user, const Database& database, std::size_t shown) {
  const bool met = database.busy() < 0.5;
  std::printf("%-40s %6.1f%% %7zu of %zu %10.2f TB   %s\n", design.c_str(), 100 * database.busy(), shown,
              feed_reads * page_size, 100e6 * bytes_a_user / 1e12, met ? "met" : "missed");
  return met;
}

bool asking_the_database() {
  Database database;
  const std::size_t shown = run_traffic(seenby::SeenFilter{seenby::HistoryStore{database}}, 0);
  return report("the database, every check", 0, database, shown);
}

/// The same code, with the rows in memory: 8 bytes an id at the very least.
bool exact_sets() {
  const Database database;
  Rows rows;
  const std::size_t shown = run_traffic(seenby::SeenFilter{seenby::HistoryStore{rows}}, 0);
  return report("exact sets in memory", 8.0 * seen_each, database, shown);
}

bool filters(double rate, std::size_t verify) {
  Database database;
  const std::size_t shown =
      run_traffic(seenby::SeenFilter{seenby::MemoryStore<User>{{.wrong_hide_rate = rate}}, database}, verify);
  char design[80];
  std::snprintf(design, sizeof design, verify > 0 ? "filters at %g%%, %zu look-ups a thin page" : "filters at %g%%",
                100 * rate, verify);
  const auto shape = seenby::sizing::shape_for(seenby::LayoutKind::classic, seen_each, rate);
  return report(design, static_cast<double>(shape.bytes()), database, shown);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view design = count > 1 ? arguments[1] : "";
  const double rate = count > 2 ? std::strtod(arguments[2], nullptr) : 0.01;
  const std::size_t verify = count > 3 ? std::strtoull(arguments[3], nullptr, 10) : 0;
  if ((!design.empty() && design != "database" && design != "exact" && design != "filter") || !(rate > 0 && rate < 1)) {
    std::fputs("expected: exercise [database | exact | filter [RATE [VERIFY]]], a RATE between 0 and 1\n", stderr);
    return 2;
  }
  std::printf("%-40s %7s %15s %13s   below 50%% busy\n", "design", "busy", "places filled", "100M users");
  if (design == "database") return asking_the_database() ? 0 : 1;
  if (design == "exact") return exact_sets() ? 0 : 1;
  if (design == "filter") return filters(rate, verify) ? 0 : 1;
  asking_the_database();
  exact_sets();
  filters(0.1, 0);
  filters(0.01, 0);
  return filters(0.01, 20) ? 0 : 1;
}
