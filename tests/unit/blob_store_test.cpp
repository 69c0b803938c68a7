// SPDX-License-Identifier: MIT
// BlobStore: one value a user, which grows by itself, ages, heals, and takes over what version 1 wrote.

#include "seenby/stores/blob_store.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "seenby/stores/salted_store.hpp"
#include "seenby_test_paths.hpp"
#include "support/files.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"
#include "support/race.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using namespace std::chrono_literals;
using test::day;
using test::MapBlobs;
using test::range;
using test::TestClock;
using Store = BlobStore<MapBlobs>;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;

namespace {

constexpr std::uint64_t ann = 1;

StorePolicy month(const TestClock& clock, std::uint32_t slices = 30) {
  return {.wrong_hide_rate = 1e-9, .window = 30 * day, .slices = slices, .clock = clock.clock()};
}
/// But for the key of the items' kind, which every store has.
std::vector<std::string> keys_of(const MapBlobs& blobs) {
  std::vector<std::string> keys;
  for (const auto& [key, blob] : MapBlobs(blobs).state().values) keys.push_back(key);
  std::erase(keys, std::string("\0items", 6));
  return keys;
}
std::size_t bytes_of(const MapBlobs& blobs) { return MapBlobs(blobs).state().values.at("1").size(); }

/// A store spoken to without a facade.
template <class Item = std::uint64_t, class Which>
Result<RecordOutcome> record(Which& store, const typename Which::user_type& user, const std::vector<Item>& items,
                             std::optional<Time> when = std::nullopt) {
  std::vector<Digest> digests;
  for (const Item& item : items) digests.push_back(store.hasher()(item));
  const ItemBatch<Item> batch{items, digests};
  return when ? store.record(user, batch, *when) : store.record(user, batch);
}
/// 0 or 1 for each item, or one 9 where the user is not known.
template <class Which>
std::vector<int> seen(const Which& store, const typename Which::user_type& user,
                      const std::vector<std::uint64_t>& items) {
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(store.hasher()(item));
  std::vector<std::uint8_t> seen_by(items.size());
  std::vector<UserStatus> status(1);
  store.check(std::span(&user, 1), ItemBatch<std::uint64_t>{items, digests}, std::span(seen_by), std::span(status));
  if (status[0].state != UserState::known) return {9};
  return {seen_by.begin(), seen_by.end()};
}
std::vector<int> ones(std::size_t count) { return std::vector<int>(count, 1); }

}  // namespace

TEST_CASE("a user has one key with and without a window, and a check loads it once", "[000-05]") {
  TestClock clock;
  for (const bool windowed : {false, true}) {
    MapBlobs blobs;
    SeenFilter filter{Store{blobs, windowed ? month(clock) : StorePolicy{}}};
    for (std::uint64_t item = 0; item < 5; ++item) {
      REQUIRE(filter.record(ann, item));
      clock.advance(1 * day);
    }
    CHECK(keys_of(blobs) == std::vector<std::string>{"1"});
    blobs.state().loads = 0;
    const CandidatePool pool{range(0, 3'000)};
    CHECK(filter.select_unseen(pool, {ann}).size() == 2'995);
    CHECK(blobs.state().loads == 1);
  }
}

TEST_CASE("items recorded one by one take 20 bits each, with a window 28", "[000-15]") {
  TestClock clock;
  MapBlobs blobs;
  MapBlobs windowed;
  Store store{blobs, {.wrong_hide_rate = 0.01, .users_per_request = 2}};
  Store window{
      windowed,
      {.wrong_hide_rate = 0.01, .users_per_request = 2, .window = 30 * day, .slices = 30, .clock = clock.clock()}};
  for (std::uint64_t item = 0; item < 220; ++item) {
    REQUIRE(record(store, ann, {item}));
    REQUIRE(record(window, ann, {item}));
    if (item % 8 == 0) clock.advance(1 * day);
    if (item == 29) CHECK(bytes_of(windowed) <= 48 + 30 * 3 + 6);
  }
  CHECK(seen(store, ann, range(0, 220)) == ones(220));
  CHECK(seen(window, ann, range(0, 220)) == ones(220));
  CHECK(bytes_of(blobs) * 8 <= 220 * 20);
  CHECK(bytes_of(windowed) * 8 <= 220 * 28);
}

TEST_CASE("what is delivered again costs nothing, and a batch is as large as its distinct items") {
  TestClock clock;
  for (const bool windowed : {false, true}) {
    MapBlobs blobs;
    Store store{blobs, windowed ? month(clock) : StorePolicy{}};
    REQUIRE(record(store, ann, std::vector<std::uint64_t>(100'000, 5)));
    CHECK(bytes_of(blobs) <= 64);
    REQUIRE(record(store, ann, range(0, 10)));
    const auto before = blobs.state().values;
    for (int again = 0; again < 1'000; ++again) CHECK(record(store, ann, range(0, 10))->newly_added == 0);
    CHECK(blobs.state().values == before);
    clock.advance(3 * day);
    REQUIRE(record(store, ann, range(0, 10)));
    CHECK(bytes_of(blobs) == before.at("1").size());
  }
}

TEST_CASE("slices age, what is recorded again stays, and what left the window is dropped", "[003-03]") {
  TestClock clock;
  MapBlobs blobs;
  Store store{blobs, month(clock)};
  for (std::uint64_t item = 0; item < 100; ++item) {
    REQUIRE(record(store, ann, {item}));
    REQUIRE(record(store, ann, {1'000}));
    clock.advance(1 * day);
  }
  // Item 99 is a day old, 69 and 1,000 at the ends of the window.
  CHECK(seen(store, ann, {99, 70, 69, 68, 0, 1'000}) == std::vector<int>{1, 1, 0, 0, 0, 1});
  CHECK(bytes_of(blobs) <= 48 + 33 * 7 + 10);  // lanes with tails: a rate of 10^-9
  CHECK(store.counters().slices_dropped >= 60);
  std::vector<std::uint64_t> items{99, 90, 70, 69, 1'000};
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(store.hasher()(item));
  std::vector<std::uint8_t> ages(items.size());
  store.age(ann, ItemBatch<std::uint64_t>{items, digests}, std::span(ages));
  CHECK(ages == std::vector<std::uint8_t>{1, 10, 30, 255, 1});
  clock.advance(29 * day);
  CHECK(seen(store, ann, {99, 98}) == std::vector<int>{1, 0});
  clock.advance(900 * day);  // the slices' bytes have gone around three times
  CHECK(seen(store, ann, {99, 98}) == std::vector<int>{0, 0});
  REQUIRE(record(store, ann, {7}));
  CHECK(seen(store, ann, {7, 99, 1'000}) == std::vector<int>{1, 0, 0});
  CHECK(bytes_of(blobs) < 60);
}

TEST_CASE("a late event goes into its own slice, one from before the window nowhere") {
  TestClock clock;
  MapBlobs blobs;
  Store store{blobs, month(clock)};
  REQUIRE(record(store, ann, {1}, clock.now() - 20 * day));
  REQUIRE(record(store, ann, {2}, clock.now() - 31 * day));
  REQUIRE(record(store, ann, {3}, clock.now() + 5 * day));  // a clock ahead of ours: now
  REQUIRE(record(store, ann, {4}));
  REQUIRE(record(store, ann, {4}, clock.now() - 20 * day));  // it was seen since
  CHECK(seen(store, ann, {1, 2, 3, 4}) == std::vector<int>{1, 0, 1, 1});
  clock.advance(11 * day);
  CHECK(seen(store, ann, {1, 2, 3, 4}) == std::vector<int>{0, 0, 1, 1});
  clock.advance(20 * day);
  CHECK(seen(store, ann, {1, 2, 3, 4}) == std::vector<int>{0, 0, 0, 0});
}

TEST_CASE("what two processes record whose clocks differ is seen by both") {
  TestClock clock;
  TestClock ahead{clock.now() + 11 * day};
  MapBlobs blobs;
  const auto three_days = [](const TestClock& of) {
    return StorePolicy{.window = 3 * day, .slices = 3, .clock = of.clock()};
  };
  Store store{blobs, three_days(clock)};
  Store fast{blobs, three_days(ahead)};
  REQUIRE(record(fast, ann, {1}));
  REQUIRE(record(store, ann, {2}));
  REQUIRE(record(store, ann, {3}, clock.now()));
  REQUIRE(record(store, ann, {4}, clock.now() - 1 * day));  // eleven days old, by the clock that is ahead
  for (const Store* reader : {&store, &fast}) CHECK(seen(*reader, ann, {1, 2, 3, 4}) == std::vector<int>{1, 1, 1, 0});
}

TEST_CASE("a missing user's first record rebuilds the window from the history, each item in its slice", "[000-05]") {
  TestClock clock;
  History history;
  REQUIRE(history.append(ann, std::vector<std::uint64_t>{8}, clock.now() - 40 * day));
  REQUIRE(history.append(ann, std::vector<std::uint64_t>{7}, clock.now() - 12 * day));
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, month(clock)}, history};
  CHECK(filter.ask(ann, std::uint64_t{7}) == Answer::unknown);
  REQUIRE(filter.record(ann, std::uint64_t{9}));
  CHECK(filter.ask(ann, std::uint64_t{7}) == Answer::seen);
  CHECK(filter.ask(ann, std::uint64_t{8}) == Answer::unseen);
  CHECK(filter.ask(ann, std::uint64_t{9}) == Answer::seen);
  CHECK(filter.counters().store.rebuilds == 1);
  clock.advance(20 * day);
  CHECK(filter.ask(ann, std::uint64_t{7}) == Answer::unseen);
  CHECK(filter.ask(ann, std::uint64_t{9}) == Answer::seen);
}

TEST_CASE("a damaged value makes its user unreachable, and a record heals it from the history or says so") {
  for (const bool with_history : {false, true}) {
    for (const int damage : {0, 1, 2, 3}) {
      CAPTURE(with_history, damage);
      MapBlobs blobs;
      History history;
      Store store{blobs, {}};
      if (with_history) store.set_replay(replay_of(history, store.hasher()));
      REQUIRE(history.append(ann, range(0, 50), Time{}));
      REQUIRE(record(store, ann, range(0, 50)));
      Blob& value = blobs.state().values.at("1");
      if (damage == 0) value.push_back(std::byte{1});
      if (damage == 1) value.resize(value.size() - 5);
      if (damage == 2) value[60] ^= std::byte{4};
      if (damage == 3) value.clear();
      CHECK(seen(store, ann, {5}) == std::vector<int>{9});
      const auto recorded = record(store, ann, {60});
      CHECK(recorded.has_value() == with_history);
      if (with_history) {
        CHECK(seen(store, ann, range(0, 50)) == ones(50));
        CHECK(seen(store, ann, {60}) == ones(1));
      } else {
        CHECK(recorded.error().message.find("\"1\"") != std::string::npos);
      }
      CHECK(store.forget(ann).value());
      CHECK(keys_of(blobs).empty());
    }
  }
}

TEST_CASE("a value under another seed is neither read nor overwritten, history or not") {
  MapBlobs blobs;
  History history;
  Store one{blobs, {.seed = 1}};
  Store two{blobs, {.seed = 2}};
  two.set_replay(replay_of(history, two.hasher()));
  REQUIRE(record(one, ann, {5}));
  const auto before = blobs.state().values;
  CHECK(seen(two, ann, {5}) == std::vector<int>{9});
  const auto refused = record(two, ann, {6});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::parameter_mismatch);
  CHECK(blobs.state().values == before);
}

TEST_CASE("slices of another length, and a window that comes or goes, keep what is still within it") {
  TestClock clock;
  MapBlobs blobs;
  for (std::uint64_t item = 0; item < 40; ++item) {
    Store daily{blobs, month(clock)};
    REQUIRE(record(daily, ann, {item}));
    clock.advance(1 * day);
  }
  Store weekly{blobs, month(clock, 5)};
  // Item 39 is a day old; 9 and before are more than thirty.
  CHECK(seen(weekly, ann, range(11, 40)) == ones(29));
  CHECK(seen(weekly, ann, {0, 1, 2}) == std::vector<int>{0, 0, 0});
  REQUIRE(record(weekly, ann, {100}));
  CHECK(seen(weekly, ann, range(11, 40)) == ones(29));
  CHECK(seen(weekly, ann, {0, 1, 2, 100}) == std::vector<int>{0, 0, 0, 1});
  Store daily{blobs, month(clock)};
  CHECK(seen(daily, ann, range(11, 40)) == ones(29));
  Store for_ever{blobs, {.wrong_hide_rate = 1e-9}};
  REQUIRE(record(for_ever, ann, {101}));
  clock.advance(500 * day);
  CHECK(seen(for_ever, ann, range(11, 40)) == ones(29));
  Store again{blobs, month(clock)};
  REQUIRE(record(again, ann, {102}));
  CHECK(seen(again, ann, range(11, 40)) == ones(29));  // as if seen now: there was no telling
  clock.advance(31 * day);
  CHECK(seen(again, ann, {20, 101, 102}) == std::vector<int>{0, 0, 0});
  CHECK(again.forget(ann).value());
  CHECK(keys_of(blobs).empty());
}

namespace {

using TextStore = BlobStore<MapBlobs, std::string>;

/// What version 1 wrote: "plain" has items 0 to 39; "windowed" ten items each ten days in slices of five, from
/// 1,700,000,000 s on.
MapBlobs version_one() {
  MapBlobs blobs;
  for (const char* key :
       {"plain", "windowed@3935", "windowed@3937", "windowed@3939", "windowed@3941", "windowed@slices"}) {
    blobs.state().values[key] = test::read_bytes(test::source_file(std::string("tests/golden/v1-blob-store/") + key));
  }
  return blobs;
}
const std::string plain = "plain";
const std::string windowed = "windowed";

}  // namespace

TEST_CASE("a value of version 1 is read, and kept beside the table from the next record on", "[golden]") {
  MapBlobs blobs = version_one();
  TextStore store{blobs, {}};
  CHECK(seen(store, plain, range(0, 40)) == ones(40));
  REQUIRE(record(store, plain, {1'000}));
  CHECK(blobs.state().values.at("plain")[0] == std::byte{0xB2});
  CHECK(seen(store, plain, range(0, 40)) == ones(40));
  CHECK(seen(store, plain, {1'000, 1'001}) == std::vector<int>{1, 0});
  const std::size_t size = blobs.state().values.at("plain").size();
  REQUIRE(record(store, plain, range(0, 40)));  // it is there
  CHECK(blobs.state().values.at("plain").size() == size);
}

TEST_CASE("a history that knows as much replaces filters of version 1", "[golden]") {
  MapBlobs blobs = version_one();
  MemoryHistory<std::string, std::uint64_t> history;
  REQUIRE(history.append(plain, range(0, 40), Time{}));
  TextStore store{blobs, {}};
  store.set_replay(replay_of(history, store.hasher()));
  REQUIRE(record(store, plain, {1'000}));
  CHECK(seen(store, plain, range(0, 40)) == ones(40));
  CHECK(blobs.state().values.at("plain").size() < 48 + 41 * 2 + 12);
}

TEST_CASE("the slices of version 1 are read, taken over by the next record, and age on", "[golden][003-03]") {
  for (const std::uint32_t slices : {6U, 30U}) {
    TestClock clock{Time{1'700'000'000s} + 30 * day};
    MapBlobs blobs = version_one();
    const StorePolicy policy = {.wrong_hide_rate = 0.01, .window = 30 * day, .slices = slices, .clock = clock.clock()};
    TextStore store{blobs, policy};
    CHECK(seen(store, windowed, range(0, 40)) == ones(40));
    REQUIRE(record(store, windowed, {1'000}));
    CHECK(keys_of(blobs) == std::vector<std::string>{"plain", "windowed"});
    CHECK(seen(store, windowed, range(0, 40)) == ones(40));
    clock.advance(10 * day);
    CHECK(seen(store, windowed, range(10, 40)) == ones(30));
    const auto oldest = seen(store, windowed, range(0, 10));
    CHECK(std::count(oldest.begin(), oldest.end(), 1) <= 1);
    clock.advance(30 * day);
    REQUIRE(record(store, windowed, {2'000}));
    CHECK(blobs.state().values.at("windowed").size() < 60);
  }
}

TEST_CASE("a writer killed between any two writes of taking over loses nothing, and forget finds it all", "[golden]") {
  for (const bool windowed_now : {true, false}) {
    for (int writes = 0; writes < 8; ++writes) {
      CAPTURE(windowed_now, writes);
      TestClock clock{Time{1'700'000'000s} + 30 * day};
      MapBlobs blobs = version_one();
      StorePolicy policy = {.wrong_hide_rate = 0.01,
                            .window = windowed_now ? 30 * day : 0s,
                            .slices = windowed_now ? 3U : 1U,
                            .clock = clock.clock()};
      TextStore store{blobs, policy};
      blobs.state().writes_left = writes;
      blobs.state().after_write = [&] { CHECK(seen(store, windowed, range(0, 40)) == ones(40)); };
      const bool done = record(store, windowed, {1'000}).has_value();
      CHECK(done == (writes == 7));
      blobs.state().writes_left = -1;
      CHECK(seen(store, windowed, range(0, 40)) == ones(40));
      REQUIRE(record(store, windowed, {1'000}));
      CHECK(seen(store, windowed, range(0, 40)) == ones(40));
      blobs.state().after_write = nullptr;
      CHECK(store.forget(windowed).value());
      CHECK(keys_of(blobs) == std::vector<std::string>{"plain"});
      CHECK_FALSE(store.forget(windowed).value());
    }
  }
}

TEST_CASE("forget finds what version 1 stored under another number of slices, a damaged list too", "[golden]") {
  TestClock clock{Time{1'700'000'000s} + 400 * day};
  MapBlobs blobs = version_one();
  TextStore store{blobs, {.window = 30 * day, .slices = 3, .clock = clock.clock()}};
  CHECK(store.forget(windowed).value());
  CHECK(keys_of(blobs) == std::vector<std::string>{"plain"});
  blobs = version_one();
  blobs.state().values.at("windowed@slices").pop_back();
  TextStore damaged{blobs, {.window = 30 * day, .slices = 3, .clock = clock.clock()}};
  CHECK(seen(damaged, windowed, {5}) == std::vector<int>{9});
  CHECK(damaged.forget(windowed).value());
  CHECK_FALSE(blobs.state().values.contains("windowed@slices"));
}

TEST_CASE("enumerations, bytes and strings are users") {
  enum class UserId : std::uint32_t {};
  MapBlobs blobs;
  BlobStore<MapBlobs, UserId> by_id{blobs, {}};
  REQUIRE(record(by_id, UserId{7}, {5}));
  BlobStore<MapBlobs, std::int64_t> by_number{blobs, {}};
  CHECK(seen(by_number, 7, {5}) == ones(1));
  REQUIRE(record(by_number, -7, {5}));
  using Bytes = std::vector<std::byte>;
  BlobStore<MapBlobs, Bytes> by_bytes{blobs, {}};
  REQUIRE(record(by_bytes, Bytes{std::byte{0}, std::byte{'a'}}, {5}));
  CHECK(keys_of(blobs) == std::vector<std::string>{std::string("\0\0a", 3), "-7", "7"});
}

namespace {

/// A backend that loads many keys at once.
struct BatchBlobs : MapBlobs {
  Result<std::vector<std::optional<Blob>>> load_many(std::span<const std::string> keys) {
    ++*batches;
    std::vector<std::optional<Blob>> values;
    for (const std::string& key : keys) values.push_back(load(key).value());
    return values;
  }
  std::shared_ptr<int> batches = std::make_shared<int>(0);
};

}  // namespace

TEST_CASE("a request of two users is one question where the backend takes many keys", "[000-05]") {
  BatchBlobs blobs;
  SeenFilter filter{BlobStore<BatchBlobs>{blobs, {}}};
  REQUIRE(filter.record(std::uint64_t{1}, std::uint64_t{5}));
  REQUIRE(filter.record(std::uint64_t{2}, std::uint64_t{6}));
  const CandidatePool pool{range(0, 3'000)};
  *blobs.batches = 0;
  CHECK(filter.select_unseen(pool, {1, 2}).size() == 2'998);
  CHECK(*blobs.batches == 1);
  static_assert(RemoteStore<BlobStore<BatchBlobs>>);
}

TEST_CASE("users without a value cost a check one question more, however many they are", "[000-05]") {
  BatchBlobs blobs;
  BlobStore<BatchBlobs> store{blobs, {}};
  REQUIRE(record(store, ann, {std::uint64_t{1}}));
  seen(store, ann, {1});  // the kind of items is known from here on
  const std::vector<std::uint64_t> users{2, ann, 3, 4};
  const std::vector<std::uint64_t> items{1};
  const std::vector<Digest> digests{store.hasher()(items[0])};
  std::vector<std::uint8_t> seen_by(1);
  std::vector<UserStatus> status(users.size());
  *blobs.batches = 0;
  blobs.state().loads = 0;
  store.check(std::span(users), ItemBatch<std::uint64_t>{items, digests}, std::span(seen_by), std::span(status));
  CHECK(*blobs.batches == 2);
  CHECK(blobs.state().loads == 7);
  CHECK(seen_by[0] == 1);
  CHECK(status[0].state == UserState::missing);
  CHECK(status[1].state == UserState::known);
}

TEST_CASE("a salted store is as remote as its store, asks once, knows ages, and records at an event's time") {
  TestClock clock;
  BatchBlobs blobs;
  const SaltSource<std::uint64_t> salts = [](std::uint64_t user) {
    return user == 3 ? std::optional<std::uint64_t>{} : std::optional{user * 977};
  };
  using Salted = SaltedStore<BlobStore<BatchBlobs>>;
  static_assert(RemoteStore<Salted> && AgeingStore<Salted> && BatchingStoreFor<Salted, std::uint64_t>);
  static_assert(!RemoteStore<SaltedStore<MemoryStore<std::uint64_t>>>);
  Salted store{BlobStore<BatchBlobs>{blobs, month(clock)}, salts};
  REQUIRE(record(store, 1, {5}, clock.now() - 3 * day));
  REQUIRE(record(store, 2, {5, 6}));
  CHECK_FALSE(record(store, 3, {5}).has_value());
  const std::vector<std::uint64_t> items{5, 6, 7};
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(store.hasher()(item));
  const ItemBatch<std::uint64_t> batch{items, digests};
  std::vector<std::uint8_t> ages(3);
  store.age(1, batch, std::span(ages));
  CHECK(ages == std::vector<std::uint8_t>{3, 255, 255});
  const std::vector<std::uint64_t> users{1, 2, 3};
  std::vector<std::uint8_t> seen_by(3);
  std::vector<UserStatus> status(3);
  *blobs.batches = 0;
  store.check(std::span<const std::uint64_t>(users), batch, std::span(seen_by), std::span(status));
  CHECK(*blobs.batches == 1);
  CHECK(seen_by == std::vector<std::uint8_t>{2, 1, 0});
  CHECK(status[0].state == UserState::known);
  CHECK(status[1].state == UserState::known);
  CHECK(status[2].state == UserState::missing);
}

TEST_CASE("sections that this version does not know stay where they are") {
  MapBlobs blobs;
  Store store{blobs, {}};
  REQUIRE(record(store, ann, range(0, 20)));
  Blob value = blobs.state().values.at("1");
  auto header = decode_table(value)->header;
  std::vector<std::byte> section;
  append_section(section, static_cast<SectionKind>(77), std::vector{SectionEntry{Digest{5}, 6, "seven"}});
  value.insert(value.end(), section.begin(), section.end());
  header.section_count = 1;
  header.section_bytes = static_cast<std::uint32_t>(section.size());
  encode_table_header(header, std::span(value).subspan(table_header_bytes),
                      std::span<std::byte, table_header_bytes>(value.data(), table_header_bytes));
  blobs.state().values["1"] = value;
  REQUIRE(record(store, ann, range(0, 300)));
  const auto kept = decode_table(blobs.state().values.at("1"));
  REQUIRE(kept.has_value());
  const auto entries = decode_entries(kept->section(static_cast<SectionKind>(77)));
  REQUIRE(entries->size() == 1);
  CHECK(entries->front() == SectionEntry{Digest{5}, 6, "seven"});
}

TEST_CASE("threads that record while slices roll and values are rebuilt lose nothing", "[concurrent][000-20]") {
  MapBlobs blobs;
  test::RaceHistory history;
  Store store(blobs, {.wrong_hide_rate = 0.01, .window = std::chrono::seconds{20}, .slices = 20});
  store.set_replay(replay_of(history, store.hasher()));
  const test::RaceOptions options{.duration = test::race_duration(std::chrono::milliseconds{2'500}),
                                  .items_per_user = 200};
  const test::RaceResult result = test::Race(store, history, options).run();
  INFO(result);
  CHECK(result.acknowledged > 500);
  CHECK(result.checks > 500);
  CHECK(result.false_negatives == 0);
  CHECK(result.lost_for_good == 0);
}

TEST_CASE("what left the window does not come round with a slice's number", "[002-17]") {
  TestClock clock;
  MapBlobs blobs;
  Store store{blobs, {.wrong_hide_rate = 1e-9, .window = 10 * day, .slices = 10, .clock = clock.clock()}};
  REQUIRE(record(store, ann, {std::uint64_t{1}}));
  clock.advance(8 * day);
  REQUIRE(record(store, ann, {std::uint64_t{2}}));
  for (int slice = 9; slice < 600; ++slice) {
    clock.advance(1 * day);
    CHECK(seen(store, ann, {1, 2}) == std::vector<int>{slice <= 10 ? 1 : 0, slice <= 18 ? 1 : 0});
  }
  REQUIRE(record(store, ann, {std::uint64_t{3}}));
  CHECK(seen(store, ann, {1, 2, 3}) == std::vector<int>{0, 0, 1});
}

TEST_CASE("a user who comes twice in a batch is recorded once or twice, and both are acknowledged") {
  MapBlobs blobs;
  Store store{blobs, {}};
  const std::vector<std::uint64_t> items{1};
  const std::vector<Digest> digests{store.hasher()(items[0])};
  const ItemBatch<std::uint64_t> batch{items, digests};
  REQUIRE(store.record(ann, batch));
  const std::vector<RecordRequest<std::uint64_t, std::uint64_t>> twice{{ann, batch, {}}, {ann, batch, {}}};
  for (const auto& outcome : store.record_many(std::span(twice))) CHECK(outcome);
  CHECK(seen(store, ann, items) == ones(1));
}
