// SPDX-License-Identifier: MIT
// Observers: a facade's and a store's spans and log lines, and that an unobserved facade reports nothing.

#include "seenby/observer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "seenby/stores/timed_store.hpp"
#include "support/failing_history.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::TraceSpan;
using Store = seenby::MemoryStore<std::uint64_t>;
using Timed = seenby::TimedStore<Store>;

/// What is left of a span and a line once the call is over.
struct Seen {
  struct Span {
    std::string name;
    std::size_t users;
    std::size_t items;
    bool failed;
    friend bool operator==(const Span&, const Span&) = default;
  };
  std::vector<Span> spans;
  std::vector<std::string> lines;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  seenby::Observer observer() {
    return {.span =
                [this](const TraceSpan& span) {
                  spans.push_back({std::string(span.name), span.users, span.items, span.error != nullptr});
                  CHECK(span.start >= start);
                  CHECK(span.start + span.took <= std::chrono::steady_clock::now());
                },
            .log =
                [this](const seenby::LogLine& line) {
                  std::string text(line.call);
                  lines.push_back(text.append(" ").append(to_string(line.code)).append(": ").append(line.text));
                }};
  }
};

const std::vector<std::uint64_t> three{1, 2, 3};

/// A store that cannot be asked about user 13.
struct Failing : Store {
  using Store::Store;
  template <class Item>
  void check(std::span<const std::uint64_t> users, const seenby::ItemBatch<Item>& batch,
             std::span<std::uint8_t> seen_by, std::span<seenby::UserStatus> status) const {
    Store::check(users, batch, seen_by, status);
    for (std::size_t i = 0; i < users.size(); ++i) {
      if (users[i] != 13) continue;
      const seenby::Error down{seenby::ErrorCode::unreachable, "no store for seenby:{13}"};
      status[i] = {.state = seenby::UserState::unreachable, .error = std::make_shared<const seenby::Error>(down)};
    }
  }
  template <class Item>
  seenby::Result<seenby::RecordOutcome> record(std::uint64_t user, const seenby::ItemBatch<Item>& batch) {
    if (user == 13) return seenby::Error{seenby::ErrorCode::refused, "read-only: seenby:{13}"};
    return Store::record(user, batch);
  }
};

}  // namespace

TEST_CASE("An observed facade and its store report each call once, inner before outer", "[metrics]") {
  Seen seen;
  seenby::SeenFilter filter{Timed{Store{{.wrong_hide_rate = 0.01, .users_per_request = 2}}, seen.observer()}};
  filter.observe(seen.observer());
  filter.record_all(1, three).or_throw();
  (void)filter.select_unseen(three, {1, 2});
  CHECK(seen.spans == std::vector<Seen::Span>{{"store.record", 1, 3, false},
                                              {"record", 1, 3, false},
                                              {"store.check", 2, 3, false},
                                              {"select", 2, 3, false}});
  CHECK(seen.lines.empty());
  CHECK(filter.latencies()->request.count == 1);
  CHECK(filter.latencies()->record.count == 1);
  CHECK(filter.store().latencies().check.count == 1);
  CHECK(filter.store().latencies().record.count == 1);
}

TEST_CASE("Every request of select_many is timed, a batch of the store once", "[metrics]") {
  seenby::SeenFilter filter{Timed{Store{{.wrong_hide_rate = 0.01}}}};
  filter.observe();
  const auto pool = filter.pool(three);
  const std::vector<std::uint64_t> users{1, 2};
  using Filter = decltype(filter);
  const std::vector<Filter::Request<std::uint64_t>> requests{{pool, std::span(users).first(1)},
                                                             {pool, std::span(users).last(1)}};
  std::vector<seenby::Selection<std::uint64_t>> pages(2);
  filter.select_many(requests, pages);
  CHECK(filter.latencies()->request.count == 2);
  CHECK(filter.store().latencies().check.count == 1);
}

TEST_CASE("Failures are logged with their key, and the call is told as before", "[metrics]") {
  Seen seen;
  seenby::SeenFilter filter{
      seenby::TimedStore{Failing{{.wrong_hide_rate = 0.01, .users_per_request = 2}}, seen.observer()}};
  filter.record(1, 2).or_throw();
  CHECK(filter.record(13, 2).error().code == seenby::ErrorCode::refused);
  const auto page = filter.select_unseen(three, {1, 13});
  CHECK(page.unknown_users().size() == 1);
  CHECK(seen.lines == std::vector<std::string>{"store.record refused: read-only: seenby:{13}",
                                               "store.check unreachable: no store for seenby:{13}"});
  CHECK(seen.spans.back() == Seen::Span{"store.check", 2, 3, true});
  filter.observe(seen.observer());
  CHECK_FALSE(filter.record(13, 2));
  CHECK(seen.lines.back() == "record refused: read-only: seenby:{13}");
  seenby::SelectOptions<std::uint64_t> strict;
  strict.on_unreachable = seenby::OnUnknown::fail;
  (void)filter.select_unseen(three, {13}, strict);
  CHECK(seen.lines.back().starts_with("select unreachable: "));
}

TEST_CASE("An unobserved facade has no latencies, and empty functions are not called", "[metrics]") {
  seenby::SeenFilter filter{Store{{.wrong_hide_rate = 0.01}}};
  (void)filter.select_unseen(three, {1});
  CHECK_FALSE(filter.latencies());
  filter.observe({});
  (void)filter.select_unseen(three, {1});
  CHECK(filter.latencies()->request.count == 1);  // since it was observed
}

TEST_CASE("A timed store can all that its store can", "[metrics]") {
  static_assert(seenby::HidingStore<Timed> == seenby::HidingStore<Store>);
  static_assert(seenby::BatchingStoreFor<Timed, std::uint64_t>);
  static_assert(seenby::ExpectingStoreFor<Timed, std::uint64_t>);
  static_assert(seenby::ReplayableStore<Timed> == seenby::ReplayableStore<Store>);
  static_assert(seenby::AgeingStore<Timed> == seenby::AgeingStore<Store>);
  static_assert(seenby::detail::MergingStore<Timed> == seenby::detail::MergingStore<Store>);
  static_assert(seenby::TimedStoreFor<Timed, std::uint64_t> == seenby::TimedStoreFor<Store, std::uint64_t>);
  seenby::SeenFilter filter{Timed{Store{{.wrong_hide_rate = 0.01}}}};
  filter.record(1, 2).or_throw();
  filter.hide(1, 3).or_throw();
  filter.merge_users(1, 9).or_throw();
  const auto page = filter.select_unseen(three, {9});
  REQUIRE(page.size() == 1);
  CHECK(page[0].item == 1);
}
