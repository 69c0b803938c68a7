// SPDX-License-Identifier: MIT
// BlobStore with a window: its keys, what is lost with one of them, and what is left of a user who is forgotten.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "support/map_blobs.hpp"
#include "support/race.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::day;
using test::MapBlobs;
using test::TestClock;
using Store = BlobStore<MapBlobs>;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;
using Items = std::vector<std::uint64_t>;

namespace {

constexpr std::uint64_t ann = 1;

StorePolicy month(const TestClock& clock) {
  return {.wrong_hide_rate = 1e-9, .window = 30 * day, .slices = 6, .clock = clock.clock()};
}

std::vector<std::string> keys_of(const MapBlobs& blobs) {
  std::vector<std::string> keys;
  for (const auto& [key, blob] : MapBlobs(blobs).state().values) keys.push_back(key);
  return keys;
}

/// Items 0, 1, 2, ... recorded by ann, twelve days apart.
template <class Filter>
void record_every_twelve_days(Filter& filter, TestClock& clock, std::uint64_t count) {
  for (std::uint64_t item = 0; item < count; ++item) {
    if (item > 0) clock.advance(12 * day);
    REQUIRE(filter.record(ann, item));
  }
}

template <class Filter>
std::vector<Answer> answers(const Filter& filter, std::uint64_t count) {
  std::vector<Answer> all;
  for (std::uint64_t item = 0; item < count; ++item) all.push_back(filter.ask(ann, item));
  return all;
}

bool none_is_unseen(const std::vector<Answer>& all) {
  return std::find(all.begin(), all.end(), Answer::unseen) == all.end();
}
bool all_are_seen(const std::vector<Answer>& all) {
  return std::all_of(all.begin(), all.end(), [](Answer answer) { return answer == Answer::seen; });
}

}  // namespace

TEST_CASE("a missing user's first record rebuilds the whole window from the history", "[000-05]") {
  TestClock clock;
  History history;
  const Items old{7};
  const Items gone{8};
  REQUIRE(history.append(ann, gone, clock.now() - 40 * day));
  REQUIRE(history.append(ann, old, clock.now() - 12 * day));
  SeenFilter filter{Store{MapBlobs{}, month(clock)}, history};
  CHECK(filter.ask(ann, std::uint64_t{7}) == Answer::unknown);
  REQUIRE(filter.record(ann, std::uint64_t{9}));
  CHECK(filter.ask(ann, std::uint64_t{7}) == Answer::seen);
  CHECK(filter.ask(ann, std::uint64_t{8}) == Answer::unseen);
  CHECK(filter.ask(ann, std::uint64_t{9}) == Answer::seen);
  CHECK(filter.counters().store.rebuilds == 1);
  clock.advance(24 * day);  // each slice keeps its own time
  CHECK(filter.ask(ann, std::uint64_t{7}) == Answer::unseen);
  CHECK(filter.ask(ann, std::uint64_t{9}) == Answer::seen);
}

TEST_CASE("whichever keys of a windowed user are evicted, nothing is wrongly unseen and a record mends it all",
          "[000-05]") {
  constexpr std::uint64_t count = 3;  // and so many slices, beside their list
  for (unsigned evicted = 1; evicted < 1U << (count + 1); ++evicted) {
    INFO("evicted keys: " << evicted);
    TestClock clock;
    History history;
    MapBlobs blobs;
    SeenFilter filter{Store{blobs, month(clock)}, history};
    record_every_twelve_days(filter, clock, count);
    const auto keys = keys_of(blobs);
    REQUIRE(keys.size() == count + 1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if ((evicted >> i & 1U) != 0) REQUIRE(blobs.erase(keys[i]).value());
    }
    REQUIRE(none_is_unseen(answers(filter, count)));
    REQUIRE(filter.record(ann, count));
    REQUIRE(all_are_seen(answers(filter, count + 1)));
    REQUIRE(filter.forget(ann).value());
    REQUIRE(keys_of(blobs).empty());
  }
}

TEST_CASE("without a history a user stays unknown until the slice that was lost has left the window") {
  TestClock clock;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, month(clock)}};
  record_every_twelve_days(filter, clock, 3);
  REQUIRE(blobs.erase(keys_of(blobs).front()).value());
  CHECK(filter.ask(ann, std::uint64_t{2}) == Answer::unknown);
  REQUIRE(filter.record(ann, std::uint64_t{3}));
  CHECK(filter.ask(ann, std::uint64_t{3}) == Answer::unknown);
  clock.advance(11 * day);
  CHECK(filter.ask(ann, std::uint64_t{0}) == Answer::unseen);
  CHECK(filter.ask(ann, std::uint64_t{1}) == Answer::seen);
  CHECK(filter.ask(ann, std::uint64_t{3}) == Answer::seen);
}

TEST_CASE("forgetting a user leaves no key, however long ago the slices left the window") {
  TestClock clock;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, month(clock)}};
  record_every_twelve_days(filter, clock, 2);
  REQUIRE(filter.record(2, std::uint64_t{5}));
  clock.advance(100 * day);
  CHECK(filter.ask(ann, std::uint64_t{1}) == Answer::unknown);
  CHECK(filter.forget(ann).value());
  CHECK_FALSE(filter.forget(ann).value());
  for (const std::string& key : keys_of(blobs)) CHECK(key.rfind("2@", 0) == 0);
  CHECK(filter.forget(2).value());
  CHECK(keys_of(blobs).empty());
}

TEST_CASE("a record after a long silence erases every slice that left the window") {
  TestClock clock;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, month(clock)}};
  record_every_twelve_days(filter, clock, 3);
  clock.advance(100 * day);
  REQUIRE(filter.record(ann, std::uint64_t{9}));
  CHECK(keys_of(blobs).size() == 2);
  CHECK(filter.counters().store.slices_dropped == 3);
  CHECK(answers(filter, 3) == std::vector<Answer>(3, Answer::unseen));
  CHECK(filter.ask(ann, std::uint64_t{9}) == Answer::seen);
}

namespace {

/// What is done to a user in whose writing somebody dies, or looks on.
struct Scenario {
  const char* name;
  bool has_history;
  bool evicts;           ///< every key, before the write
  std::uint64_t before;  ///< items recorded before, twelve days apart
  std::chrono::seconds pause;
};
constexpr Scenario scenarios[] = {
    {"a new user", false, false, 0, {}},
    {"a slice is opened", false, false, 3, 6 * day},
    {"a slice is opened, with a history", true, false, 3, 6 * day},
    {"a slice is opened and two leave", false, false, 4, 13 * day},
    {"the window is rebuilt", true, true, 3, {}},
    {"the window is rebuilt for a new slice", true, true, 3, 6 * day},
};

/// The store and its history, ready for the write.
struct Stage {
  explicit Stage(const Scenario& scenario) {
    Store store(blobs, month(clock));
    if (scenario.has_history) store.set_replay(replay_of(history, store.hasher()));
    filter.emplace(std::move(store));
    for (std::uint64_t item = 0; item < scenario.before; ++item) {
      if (item > 0) clock.advance(12 * day);
      REQUIRE(record(item));
    }
    clock.advance(scenario.pause);
    if (scenario.evicts) blobs.state().values.clear();
    // What the last slices to leave held is not asked for.
    while (first < scenario.before && age_of(first, scenario) > 30 * day) ++first;
  }
  static std::chrono::seconds age_of(std::uint64_t item, const Scenario& scenario) {
    return static_cast<std::int64_t>(scenario.before - 1 - item) * 12 * day + scenario.pause;
  }
  bool record(std::uint64_t item) {
    REQUIRE(history.append(ann, std::span(&item, 1), clock.now()));
    return filter->record(ann, item).has_value();
  }
  [[nodiscard]] std::vector<Answer> answers_up_to(std::uint64_t end) const {
    std::vector<Answer> all;
    for (std::uint64_t item = first; item < end; ++item) all.push_back(filter->ask(ann, item));
    return all;
  }

  TestClock clock;
  History history;
  MapBlobs blobs;
  std::optional<SeenFilter<Store>> filter;
  std::uint64_t first = 0;
};

}  // namespace

TEST_CASE("a writer killed between any two writes leaves nothing wrongly unseen and nothing that forget misses",
          "[000-20]") {
  for (const Scenario& scenario : scenarios) {
    bool killed = true;
    for (int writes = 0; killed; ++writes) {
      INFO(scenario.name << ", killed after " << writes << " writes");
      Stage stage(scenario);
      stage.blobs.state().writes_left = writes;
      killed = !stage.record(scenario.before);
      stage.blobs.state().writes_left = -1;
      REQUIRE(none_is_unseen(stage.answers_up_to(scenario.before)));
      REQUIRE(stage.record(scenario.before));
      REQUIRE(all_are_seen(stage.answers_up_to(scenario.before + 1)));
      REQUIRE(writes < 20);
    }
    for (int writes = 0; writes < 10; ++writes) {
      INFO(scenario.name << ", killed after " << writes << " writes, then forgotten");
      Stage stage(scenario);
      stage.blobs.state().writes_left = writes;
      static_cast<void>(stage.record(scenario.before));
      stage.blobs.state().writes_left = -1;
      stage.clock.advance(100 * day);
      REQUIRE(stage.filter->forget(ann));
      REQUIRE(keys_of(stage.blobs).empty());
    }
  }
}

TEST_CASE("forget can be done again when it was killed between any two erasures") {
  for (int writes = 0; writes < 6; ++writes) {
    INFO("killed after " << writes << " writes");
    Stage stage({"", false, false, 3, 100 * day});
    stage.blobs.state().writes_left = writes;
    static_cast<void>(stage.filter->forget(ann));
    stage.blobs.state().writes_left = -1;
    REQUIRE(stage.filter->forget(ann));
    REQUIRE(keys_of(stage.blobs).empty());
  }
}

TEST_CASE("a reader between any two writes is told the truth or nothing", "[000-20]") {
  for (const Scenario& scenario : scenarios) {
    INFO(scenario.name);
    Stage stage(scenario);
    const bool was_known = scenario.before > 0 && !scenario.evicts;
    std::size_t looks = 0;
    stage.blobs.state().after_write = [&] {
      const auto all = stage.answers_up_to(scenario.before);
      REQUIRE(none_is_unseen(all));
      if (was_known) REQUIRE(all_are_seen(all));  // opening a slice does not blind anybody
      ++looks;
    };
    REQUIRE(stage.record(scenario.before));
    stage.blobs.state().after_write = nullptr;
    CHECK(looks > 1);
    CHECK(all_are_seen(stage.answers_up_to(scenario.before + 1)));
  }
}

TEST_CASE("what was seen in one slice and recorded in the next stays when the next is rebuilt") {
  TestClock clock{Time{20'000 * day}};  // the first second of a slice
  History history;
  Store store(MapBlobs{}, month(clock));
  store.set_replay(replay_of(history, store.hasher()));
  SeenFilter filter{std::move(store)};
  REQUIRE(filter.record(ann, std::uint64_t{1'000'000}));
  const Items late{7};
  REQUIRE(history.append(ann, late, clock.now() - std::chrono::seconds{1}));
  REQUIRE(filter.record(ann, std::uint64_t{7}));
  // The history runs ahead of the filter by more than the one item that it has in another slice.
  Items many;
  for (std::uint64_t item = 100; item < 200; ++item) many.push_back(item);
  REQUIRE(history.append(ann, many, clock.now()));
  for (const std::uint64_t item : many) REQUIRE(filter.record(ann, item));
  REQUIRE(filter.counters().store.rebuilds > 0);
  CHECK(filter.ask(ann, std::uint64_t{7}) == Answer::seen);
}

TEST_CASE("slices of another length are erased before their numbers can be taken for other times") {
  TestClock clock;
  MapBlobs blobs;
  {
    SeenFilter before{Store{blobs, month(clock)}};
    record_every_twelve_days(before, clock, 3);
  }
  StorePolicy policy = month(clock);
  policy.slices = 3;
  SeenFilter filter{Store{blobs, policy}};
  CHECK(filter.ask(ann, std::uint64_t{0}) == Answer::unknown);
  REQUIRE(filter.record(ann, std::uint64_t{9}));
  CHECK(filter.ask(ann, std::uint64_t{9}) == Answer::seen);
  CHECK(keys_of(blobs).size() == 2);
}

TEST_CASE("what a process whose clock runs ahead recorded is seen by all") {
  TestClock clock;
  TestClock ahead;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, month(clock)}};
  SeenFilter other{Store{blobs, month(ahead)}};
  record_every_twelve_days(filter, clock, 2);
  ahead.set(clock.now() + 5 * day);
  REQUIRE(other.record(ann, std::uint64_t{2}));
  CHECK(all_are_seen(answers(filter, 3)));
  REQUIRE(blobs.erase("1@slices").value());
  REQUIRE(filter.record(ann, std::uint64_t{3}));
  CHECK(all_are_seen(answers(filter, 4)));
}

TEST_CASE("a list of slices has the bytes that FORMAT-CONTAINERS.md prescribes") {
  TestClock clock{Time{std::chrono::seconds{20'000 * 432'000LL}}};
  MapBlobs blobs;
  Store store(blobs, month(clock));
  REQUIRE(store.create(ann));
  CHECK(keys_of(blobs) == std::vector<std::string>{"1@20000", "1@slices"});
  const Blob list = blobs.load("1@slices").value().value();
  std::string hex;
  for (const std::byte byte : list) {
    hex.push_back("0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4]);
    hex.push_back("0123456789abcdef"[std::to_integer<unsigned>(byte) & 15U]);
  }
  CHECK(hex == "c1060000357b79ae2500000000000000809706000000000001000000204e00000000000000");
}

TEST_CASE("a damaged list makes the user unreachable, names its key, and can be forgotten") {
  TestClock clock;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, month(clock)}};
  record_every_twelve_days(filter, clock, 2);
  Blob& list = blobs.state().values.at("1@slices");
  list.back() ^= std::byte{1};
  CHECK(filter.ask(ann, std::uint64_t{0}) == Answer::unknown);
  const auto refused = filter.record(ann, std::uint64_t{2});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::corrupt);
  CHECK(refused.error().message.find("1@slices") != std::string::npos);
  REQUIRE(filter.forget(ann).value());
  CHECK(keys_of(blobs).empty());
}

TEST_CASE("a user without a window has one key, and a check loads it once") {
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, {.wrong_hide_rate = 0.01}}};
  REQUIRE(filter.record(ann, std::uint64_t{5}));
  CHECK(keys_of(blobs) == std::vector<std::string>{"1"});
  blobs.state().loads = 0;
  CHECK(filter.ask(ann, std::uint64_t{5}) == Answer::seen);
  CHECK(blobs.state().loads == 1);
}

TEST_CASE("threads that record while slices roll and filters are rebuilt lose nothing", "[concurrent][000-20]") {
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
