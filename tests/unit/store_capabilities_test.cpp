// SPDX-License-Identifier: MIT
// README.md's table of stores, held: what each store that needs no server can do beyond the concept.

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "seenby/select/requirements.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "seenby/stores/salted_store.hpp"

namespace {

using Item = std::uint64_t;

/// What a store offers, capability by capability.
struct Capabilities {
  bool merge = false;   ///< merge_users
  bool age = false;     ///< how long ago, for windows
  bool batch = false;   ///< many requests in one call
  bool expect = false;  ///< told of a request's users ahead
  bool remote = false;  ///< one big question beats several small ones
  bool timed = false;   ///< a late event goes where it belongs
  bool replay = false;  ///< rebuilt from a history
  bool hides = false;   ///< keeps what users hid and saw last
  friend constexpr bool operator==(const Capabilities&, const Capabilities&) = default;
};

template <class Store>
constexpr Capabilities capabilities_of{.merge = seenby::detail::MergingStore<Store>,
                                       .age = seenby::AgeingStore<Store>,
                                       .batch = seenby::BatchingStoreFor<Store, Item>,
                                       .expect = seenby::ExpectingStoreFor<Store, Item>,
                                       .remote = seenby::RemoteStore<Store>,
                                       .timed = seenby::detail::TimedStoreFor<Store, Item>,
                                       .replay = seenby::ReplayableStore<Store>,
                                       .hides = seenby::HidingStore<Store>};

using Memory = seenby::MemoryStore<std::uint64_t>;
static_assert(seenby::FilterStoreFor<Memory, Item>);
static_assert(capabilities_of<Memory> == Capabilities{.merge = true,
                                                      .age = true,
                                                      .batch = true,
                                                      .expect = true,
                                                      .remote = false,
                                                      .timed = true,
                                                      .replay = true,
                                                      .hides = true});
static_assert(capabilities_of<seenby::MemoryStore<std::string>> == capabilities_of<Memory>);

using Salted = seenby::SaltedStore<Memory>;
static_assert(seenby::FilterStoreFor<Salted, Item>);
static_assert(seenby::ReplayableStore<Salted> && !seenby::RemoteStore<Salted> && !seenby::HidingStore<Salted>);

struct Backend {
  seenby::Result<std::optional<seenby::Blob>> load(std::string_view);
  seenby::Result<bool> compare_and_swap(std::string_view, const std::optional<seenby::Blob>&, const seenby::Blob&);
  seenby::Result<bool> erase(std::string_view);
};
using Values = seenby::BlobStore<Backend>;
static_assert(seenby::FilterStoreFor<Values, Item>);
static_assert(seenby::ReplayableStore<Values> && seenby::RemoteStore<Values> && seenby::HidingStore<Values>);
static_assert(!capabilities_of<Values>.merge && capabilities_of<Values>.batch);

}  // namespace

TEST_CASE("the stores' capabilities are those of the table") { CHECK(capabilities_of<Memory>.merge); }
