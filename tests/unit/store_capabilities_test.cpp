// SPDX-License-Identifier: MIT
// README.md's table of stores, held: what each store can do beyond the concept. No server is asked.

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/lmdb/store.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/requirements.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/history_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "seenby/stores/salted_store.hpp"

namespace {

using Item = std::uint64_t;

/// What a store offers, capability by capability.
struct Capabilities {
  bool merge = false;   ///< merge_users
  bool age = false;     ///< how long ago, for windows
  bool batch = false;   ///< many requests in one call
  bool many = false;    ///< many users' records in one call
  bool expect = false;  ///< told of a request's users ahead
  bool remote = false;  ///< one big question beats several small ones
  bool timed = false;   ///< a late event goes where it belongs
  bool replay = false;  ///< rebuilt from a history
  bool hides = false;   ///< keeps what users hid and saw last
  bool marks = false;   ///< shares what is in flight
  friend constexpr bool operator==(const Capabilities&, const Capabilities&) = default;
};

template <class Store>
constexpr Capabilities capabilities_of{.merge = seenby::detail::MergingStore<Store>,
                                       .age = seenby::AgeingStore<Store>,
                                       .batch = seenby::BatchingStoreFor<Store, Item>,
                                       .many = seenby::ManyRecordingStoreFor<Store, Item>,
                                       .expect = seenby::ExpectingStoreFor<Store, Item>,
                                       .remote = seenby::RemoteStore<Store>,
                                       .timed = seenby::TimedStoreFor<Store, Item>,
                                       .replay = seenby::ReplayableStore<Store>,
                                       .hides = seenby::HidingStore<Store>,
                                       .marks = seenby::MarkingStore<Store>};

using Memory = seenby::MemoryStore<std::uint64_t>;
static_assert(seenby::FilterStoreFor<Memory, Item>);
static_assert(capabilities_of<Memory> == Capabilities{.merge = true,
                                                      .age = true,
                                                      .batch = true,
                                                      .many = true,
                                                      .expect = true,
                                                      .timed = true,
                                                      .replay = true,
                                                      .hides = true});
static_assert(capabilities_of<seenby::MemoryStore<std::string>> == capabilities_of<Memory>);

struct Backend {
  seenby::Result<std::optional<seenby::Blob>> load(std::string_view);
  seenby::Result<bool> compare_and_swap(std::string_view, const std::optional<seenby::Blob>&, const seenby::Blob&);
  seenby::Result<bool> erase(std::string_view);
};
using Values = seenby::BlobStore<Backend>;
static_assert(seenby::FilterStoreFor<Values, Item>);
constexpr Capabilities of_values{.merge = true,
                                 .age = true,
                                 .batch = true,
                                 .many = true,
                                 .remote = true,
                                 .timed = true,
                                 .replay = true,
                                 .hides = true,
                                 .marks = true};
static_assert(capabilities_of<Values> == of_values);

using Lmdb = seenby::LmdbStore<std::uint64_t>;
static_assert(seenby::FilterStoreFor<Lmdb, Item>);
constexpr Capabilities of_lmdb = [] {
  Capabilities local = of_values;
  local.remote = false;
  return local;
}();
static_assert(capabilities_of<Lmdb> == of_lmdb);

using Redis = seenby::redis::RedisStore<std::uint64_t>;
static_assert(seenby::FilterStoreFor<Redis, Item>);
static_assert(capabilities_of<Redis> == of_values);

using Bloom = seenby::redis::RedisBloomStore<std::uint64_t>;
static_assert(seenby::FilterStoreFor<Bloom, Item>);
static_assert(capabilities_of<Bloom> ==
              Capabilities{.batch = true, .many = true, .remote = true, .hides = true, .marks = true});

using Salted = seenby::SaltedStore<Memory>;
static_assert(seenby::FilterStoreFor<Salted, Item>);
static_assert(capabilities_of<Salted> ==
              Capabilities{.age = true, .batch = true, .many = true, .timed = true, .replay = true, .hides = true});
static_assert(capabilities_of<seenby::SaltedStore<Values>>.marks && capabilities_of<seenby::SaltedStore<Lmdb>>.marks);

using Exact = seenby::HistoryStore<seenby::MemoryHistory<std::uint64_t, Item>>;
static_assert(seenby::FilterStoreFor<Exact, Item>);
static_assert(capabilities_of<Exact> == Capabilities{.merge = true, .many = true, .timed = true, .hides = true});

// Scoped enums, bytes, strings and integers are users and items of every store.
enum class Id : std::int8_t {};
using Bytes = std::vector<std::byte>;
template <class Store>
constexpr bool takes_any_item = seenby::FilterStoreFor<Store, Id>&& seenby::FilterStoreFor<Store, Bytes>&&
    seenby::FilterStoreFor<Store, std::string>&& seenby::FilterStoreFor<Store, int>;
template <class User>
constexpr bool takes = takes_any_item<seenby::MemoryStore<User>>&& takes_any_item<seenby::BlobStore<Backend, User>>&&
    takes_any_item<seenby::LmdbStore<User>>&& takes_any_item<seenby::redis::RedisStore<User>>&&
        takes_any_item<seenby::SaltedStore<seenby::MemoryStore<User>>>&&
            seenby::FilterStoreFor<seenby::redis::RedisBloomStore<User, User>, User>&&
                seenby::FilterStoreFor<seenby::HistoryStore<seenby::MemoryHistory<User, User>>, User>;
static_assert(takes<Id> && takes<Bytes> && takes<std::string> && takes<int>);

}  // namespace

TEST_CASE("the stores' capabilities are those of the table") { CHECK(capabilities_of<Memory>.merge); }
