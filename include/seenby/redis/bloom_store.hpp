#pragma once
// SPDX-License-Identifier: MIT
// RedisBloomStore: users' filters in the RedisBloom module, shared with other clients of BF.MADD and BF.MEXISTS.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/detail/wire_text.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/keeps_exact.hpp"
#include "seenby/redis/options.hpp"
#include "seenby/redis/redis_metrics.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::redis {

/// What BF.INFO says.
struct BloomInfo {
  std::uint64_t capacity = 0;    ///< items it holds at its rate
  std::uint64_t size_bytes = 0;  ///< in the server's memory
  std::uint64_t filters = 0;     ///< of the chain in the key
  std::uint64_t items = 0;       ///< items that the server counted
  std::uint64_t expansion = 0;   ///< 0: NONSCALING
};

/// Whether the server has the module.
enum class ModuleState : std::uint8_t {
  unknown,  ///< it could not be asked yet
  present,
  absent,
};

/// What a RedisBloomStore counts beside StoreCounters.
struct BloomCounters {
  ModuleState module = ModuleState::unknown;  ///< as last asked
  std::uint64_t unavailable = 0;              ///< calls refused because the module is not there
  std::uint64_t full_filters = 0;             ///< records that a full NONSCALING filter cut short
  std::uint64_t rebuilds = 0;                 ///< missing filters rebuilt from the history
};

/// One user's items as RedisBloom keeps them: text for numbers, the bytes for everything else.
using WireItems = std::vector<std::string>;
/// Reads one user's whole history; empty when there is none to read.
using ReadItems = std::function<Result<WireItems>()>;

/// The RedisBloom commands behind RedisBloomStore.
///
/// **Lookup**: GET of the exact items, TYPE, BF.MEXISTS, TYPE for each user, all in one pipeline. BF.MEXISTS alone
/// answers 0 for a key that is missing and for one that holds something else; TYPE before and after it tells both.
///
/// **Hides, last items and items in flight** are one string as RedisStore's, under `{key}:hides`, in the cluster slot
/// of the key.
///
/// **Adding** is one script, so that no crash or expiry falls between its parts: on a missing key it changes nothing
/// and says so (BF.MADD would make a filter of the module's default size); told to create, it runs BF.RESERVE, BF.MADD
/// and PEXPIRE.
///
/// Thread-safe.
class BloomProtocol {
 public:
  /// One request's question, as the spans of `check`.
  struct Job {
    std::span<const std::string> keys;   ///< a key a user
    std::span<const std::string> items;  ///< as RedisBloom keeps them
    std::span<std::uint8_t> seen_by;     ///< overwritten: for each item, the users whose filter says seen
    std::span<UserStatus> status;        ///< overwritten, one a user
  };
  /// One user's items to record.
  struct Write {
    std::string key;                ///< the user's key
    WireItems items;                ///< what was seen
    ReadItems history{};            ///< what a missing filter is rebuilt from; empty: from nothing
    std::uint64_t known_items = 0;  ///< what a rebuilt filter must have room for
  };

  /// Asks for the module at once. Throws std::invalid_argument for options that cannot be kept.
  BloomProtocol(std::shared_ptr<Executor> executor, RedisBloomOptions options);
  BloomProtocol(const BloomProtocol&) = delete;
  BloomProtocol& operator=(const BloomProtocol&) = delete;
  ~BloomProtocol();

  void check(std::span<const Job> jobs);  ///< all jobs in one pipeline: one round trip
  /// One pipelined round trip for all users; a second one for those whose filter is missing.
  [[nodiscard]] std::vector<Result<RecordOutcome>> record(std::span<const Write> writes);
  Result<void> create(const std::string& key);  ///< BF.RESERVE; a filter that exists is kept
  /// Deletes the filter and the exact items; true when there were any. One command, so all or nothing; two in a
  /// cluster where the key has a '}' and no hash tag.
  Result<bool> forget(const std::string& key);
  Result<BloomInfo> info(const std::string& key);  ///< BF.INFO of the key

  /// Where a user's exact items are, given the user's key.
  [[nodiscard]] static std::string exact_key(const std::string& key);
  /// The exact items of a user, given the user's key.
  [[nodiscard]] Result<detail::ExactItems> exact(const std::string& key) const;
  /// Edits them, and returns what `edit` returned. Compare and swap, tried again when another writer was first.
  Result<std::size_t> change_exact(const std::string& key, const EditExact& edit);

  /// Asks the server again whether it has the module.
  ModuleState probe();
  [[nodiscard]] const RedisBloomOptions& options() const noexcept;  ///< as given at construction
  [[nodiscard]] StoreCounters counters() const noexcept;            ///< a snapshot of the store's counters
  [[nodiscard]] BloomCounters bloom_counters() const noexcept;      ///< a snapshot of what is RedisBloom's own
  [[nodiscard]] PoolCounters connections() const;                   ///< the executor's

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Filters in a server with RedisBloom: BF.RESERVE, BF.MADD, BF.MEXISTS, BF.INFO. The server gets the items themselves
/// (numbers as decimal text), so any other client may share the key. See BloomProtocol for what is sent.
///
/// - A missing key is `missing`, never "unseen". A key that holds something else is `unreachable` with a `wrong_type`
///   error that names it.
/// - `record` on a missing key makes a filter of the options' size, never of the module's default; with a history
///   (`set_item_replay`) of everything the user ever saw. Write the history before the filter. Without one a lost
///   filter and a new user look the same.
/// - `record` returns an error when not every item was acknowledged; those that were stay, and records and
///   write_failures count each.
/// - Whether the module is there is asked at construction; without it every call is `unavailable` at once, and counted.
///   The question is repeated every five seconds at most.
///
/// - What a user hid, saw last and has in flight is kept by the items' digests (see KeepsExact): give every process the
///   same hash.
///
/// `newly_added` is exact but for the filter's false positives. RedisBloomStore cannot replace a filter while others
/// add to it, so it offers neither slices nor growth by a history: for those use RedisStore.
///
/// Thread-safe.
template <HashableItem User = std::uint64_t, HashableItem Item = std::uint64_t, Hasher Hash = Xxh3Hash>
class RedisBloomStore : public KeepsExact<RedisBloomStore<User, Item, Hash>, User> {
  using Exact = KeepsExact<RedisBloomStore, User>;
  friend Exact;

 public:
  using user_type = User;                  ///< who sees
  using item_type = Item;                  ///< what it holds
  using hasher_type = Hash;                ///< makes digests of items
  static constexpr bool is_remote = true;  ///< a round trip a question: one for a whole request

  /// Asks the server for the module; a server that cannot be reached yet is no error. Throws std::invalid_argument for
  /// options that cannot be kept.
  explicit RedisBloomStore(std::shared_ptr<Executor> executor, RedisBloomOptions options = {}, Hash hash = {})
      : hash_(std::move(hash)),
        policy_(policy_of(options, hash_)),
        protocol_(std::make_unique<BloomProtocol>(std::move(executor), std::move(options))) {}
  /// From a URL, see `parse_url`. Throws BadResult for a malformed one.
  explicit RedisBloomStore(std::string_view url, RedisBloomOptions options = {}, Hash hash = {})
      : RedisBloomStore(make_executor(url).value(), std::move(options), std::move(hash)) {}

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }  ///< the hasher, with the policy's seed
  /// As given at construction.
  [[nodiscard]] const RedisBloomOptions& options() const noexcept { return protocol_->options(); }
  /// Rebuilds missing filters from this from now on. For set-up, before other threads use the store.
  void set_item_replay(ItemReplay<User, Item> replay) { replay_ = std::move(replay); }

  /// As FilterStoreFor says; one round trip for all users.
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    const CheckRequest<User, Item> request{users, batch, seen_by, status};
    check_many({&request, 1});
  }
  /// Many requests in one round trip.
  void check_many(std::span<const CheckRequest<User, Item>> requests) const {
    std::vector<std::vector<std::string>> keys;
    std::vector<WireItems> items;
    std::vector<BloomProtocol::Job> jobs;
    keys.reserve(requests.size());
    items.reserve(requests.size());
    for (const auto& request : requests) {
      std::vector<std::string>& names = keys.emplace_back();
      for (const User& user : request.users) names.push_back(key_of(user));
      items.push_back(wire(request.batch.items));
      jobs.push_back({names, items.back(), request.seen_by, request.status});
    }
    protocol_->check(jobs);
  }

  /// As FilterStoreFor says; one round trip, two where the filter is missing.
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    const RecordRequest<User, Item> request{user, batch};
    return std::move(record_many({&request, 1}).front());
  }
  /// As ManyRecordingStoreFor: one round trip, one BF.MADD a user, and a second one for those whose filter is missing.
  /// Times are those of the last items alone: there is no window. With keep_last each user has two more.
  [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(std::span<const RecordRequest<User, Item>> requests) {
    std::vector<BloomProtocol::Write> writes;
    writes.reserve(requests.size());
    for (const auto& request : requests) writes.push_back(write_of(request.user, request.batch.items));
    auto outcomes = protocol_->record(writes);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!outcomes[i]) continue;
      if (auto kept = Exact::keep(requests[i].user, requests[i].batch.digests, requests[i].when); !kept) {
        outcomes[i] = std::move(kept).error();
      }
    }
    return outcomes;
  }

  /// BF.RESERVE; a filter that exists is kept.
  Result<void> create(const User& user) { return protocol_->create(key_of(user)); }
  /// Deletes the user's filter and exact items; true when there were any.
  Result<bool> forget(const User& user) { return protocol_->forget(key_of(user)); }
  /// BF.INFO. Errors: `unknown_user`, `wrong_type`, `unavailable`, those of the transport.
  [[nodiscard]] Result<BloomInfo> info(const User& user) const { return protocol_->info(key_of(user)); }

  /// Whether the server has the module, as last asked.
  [[nodiscard]] ModuleState module_state() const noexcept { return protocol_->bloom_counters().module; }
  /// A snapshot of the store's counters.
  [[nodiscard]] StoreCounters counters() const { return protocol_->counters(); }
  /// A snapshot of what is RedisBloom's own.
  [[nodiscard]] BloomCounters bloom_counters() const { return protocol_->bloom_counters(); }
  /// The executor's, which stores may share.
  [[nodiscard]] PoolCounters connections() const { return protocol_->connections(); }
  /// The user's key: prefix and user.
  [[nodiscard]] std::string key_of(const User& user) const {
    return std::string(options().prefix).append(detail::wire_text(user));
  }

 private:
  [[nodiscard]] Result<detail::ExactItems> exact(const User& user) const { return protocol_->exact(key_of(user)); }
  Result<std::size_t> change_exact(const User& user, const EditExact& edit) {
    return protocol_->change_exact(key_of(user), edit);
  }
  [[nodiscard]] static StorePolicy policy_of(const RedisBloomOptions& options, const Hash& hash) {
    detail::require_rate(options.error_rate, "error_rate");
    return {.wrong_hide_rate = sizing::combined_rate(options.error_rate, options.users_per_request),
            .users_per_request = options.users_per_request,
            .initial_items = options.capacity,
            .seed = hash.seed()};
  }
  [[nodiscard]] static WireItems wire(std::span<const Item> items) {
    WireItems texts;
    texts.reserve(items.size());
    for (const Item& item : items) texts.push_back(detail::wire_text(item));
    return texts;
  }
  [[nodiscard]] BloomProtocol::Write write_of(const User& user, std::span<const Item> items) const {
    BloomProtocol::Write write{.key = key_of(user), .items = wire(items), .history = {}};
    if (replay_) {
      write.history = [this, user]() -> Result<WireItems> {
        auto seen = replay_(user, all_time);
        if (!seen) return std::move(seen).error();
        return wire(*seen);
      };
    }
    return write;
  }

  Hash hash_;
  StorePolicy policy_;
  ItemReplay<User, Item> replay_;
  std::unique_ptr<BloomProtocol> protocol_;
};

/// What a RedisBloomStore counts beside its StoreCounters.
inline void add_metrics(MetricPage& page, const BloomCounters& counters, const MetricLabels& labels) {
  page.gauge("seenby_redisbloom_available", "1 where the server is known to have the module.",
             counters.module == ModuleState::present ? 1 : 0, labels);
  page.counter("seenby_redisbloom_unavailable_calls_total", "Calls refused because the module is not there.",
               counters.unavailable, labels);
  page.counter("seenby_redisbloom_full_filters_total", "Records that a full filter cut short.", counters.full_filters,
               labels);
  page.counter("seenby_redisbloom_rebuilds_total", "Missing filters rebuilt from the history.", counters.rebuilds,
               labels);
}

}  // namespace seenby::redis
