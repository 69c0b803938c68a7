// SPDX-License-Identifier: MIT
// SaltedStore: each user's digests are their own, and unreadable once the salt is gone.

#include "seenby/stores/salted_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::MapBlobs;
using test::picked;
using test::range;

TEST_CASE("deleting a user's salt makes the store's copy of them unreadable") {
  std::map<std::uint64_t, std::uint64_t> salts{{alice, 0x1234567}, {bob, 0x89abcdef}};
  MapBlobs blobs;
  const StorePolicy policy{.wrong_hide_rate = 1e-6, .users_per_request = 2};
  const SaltSource<std::uint64_t> source = [&salts](const std::uint64_t& user) {
    const auto found = salts.find(user);
    return found == salts.end() ? std::optional<std::uint64_t>{} : std::optional(found->second);
  };
  SeenFilter filter{SaltedStore{BlobStore{blobs, policy}, source}};
  REQUIRE(filter.record_all(alice, range(0, 100)));
  REQUIRE(filter.record_all(bob, range(0, 100)));
  const CandidatePool pool{range(50, 150)};
  CHECK(picked(pool, filter.select_unseen(pool, {alice, bob})) == range(100, 150));
  // The same bits asked without the salts tell nothing: what was recorded looks as fresh as what was not.
  SeenFilter thief{BlobStore{blobs, policy}};
  const CandidatePool recorded{range(0, 100)};
  CHECK(thief.select_unseen(recorded, {alice}).size() == 100);
  salts.erase(alice);
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::unknown);
  CHECK(filter.record(alice, std::uint64_t{1}).error().code == ErrorCode::unknown_user);
}

TEST_CASE("two users' hides of one item have digests of their own beneath, and are listed and taken back") {
  SeenFilter filter{SaltedStore{MemoryStore<std::uint64_t>{{.wrong_hide_rate = 1e-6}},
                                [](std::uint64_t user) { return std::optional(user * 977); }}};
  REQUIRE(filter.hide(alice, std::uint64_t{7}));
  REQUIRE(filter.hide(bob, std::uint64_t{7}));
  const auto of = [&](std::uint64_t user) { return filter.store().inner().hidden(user).value().at(0); };
  CHECK(of(alice).digest != of(bob).digest);
  CHECK(of(alice).text != of(bob).text);
  CHECK(filter.hidden<std::uint64_t>(alice).value() == std::vector<std::uint64_t>{7});
  CHECK(filter.unhide(alice, std::uint64_t{7}).value());
  CHECK(filter.hidden<std::uint64_t>(alice).value().empty());
  CHECK(filter.hidden<std::uint64_t>(bob).value() == std::vector<std::uint64_t>{7});
}

TEST_CASE("a counter of the salted store is its inner store's, and so are policy and hasher") {
  SaltedStore store{MemoryStore<std::uint64_t>{{.wrong_hide_rate = 1e-6, .seed = 5}},
                    [](std::uint64_t user) { return std::optional(user); }};
  CHECK(store.policy().seed == 5);
  CHECK(store.hasher()(std::uint64_t{1}) == store.inner().hasher()(std::uint64_t{1}));
  SeenFilter filter{std::move(store)};
  REQUIRE(filter.record_all(alice, range(0, 10)));
  CHECK(filter.store().counters().records == 10);
}
