#pragma once
// SPDX-License-Identifier: MIT
// ArticleStore: reads and writes the quiz article's keys (u5 exponent, k single bits an item), its three faults fixed.

#include <bit>
#include <concepts>
#include <cstdint>
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
#include "seenby/redis_article/article_protocol.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::redis {

/// The article's hash(questionId, i), which it leaves open: the i-th value of an item, of which the store takes the
/// remainder modulo m. Bring your own for keys that another program wrote.
template <class Hash, class Item>
concept ArticleHash = std::copyable<Hash> &&
    requires(const Hash& hash, const Item& item, Digest digest, std::uint32_t i) {
  { hash(item, digest, i) } -> std::same_as<std::uint64_t>;
};

/// g_i = h1 + i * h2 (Kirsch and Mitzenmacher), as the article advises; h2 is odd, so that the k positions differ for
/// every m = 2^e of at least k bits.
struct ArticleDoubleHash {
  /// h1 + i * h2.
  template <class Item>
  [[nodiscard]] constexpr std::uint64_t operator()(const Item&, Digest digest, std::uint32_t i) const noexcept {
    return digest.value + i * (std::rotl(digest.value, 32) | 1U);
  }
};

/// What a migration did.
struct Migration {
  std::size_t items = 0;            ///< items recorded in the destination
  std::uint32_t exponent = 0;       ///< the old filter's size was 2^exponent bits
  bool header_was_damaged = false;  ///< items had overwritten the old exponent
};

/// The article's bit fields for those who have such keys; for new ones RedisStore is smaller, faster (one GET instead
/// of k bit reads an item) and loses nothing to concurrent writers of any kind. ArticleProtocol says what is read,
/// written and fixed.
///
/// With a history (`set_item_replay`) a filter grows past its budget and a lost one is rebuilt; write the history
/// before the filter. Without one a filter over its budget stays, and counts in `over_budget`.
///
/// A key that holds something else is `unreachable` (`wrong_type`); so is one whose exponent is impossible or was
/// overwritten (`corrupt`): forget or migrate it.
///
/// Thread-safe.
template <HashableItem User = std::uint64_t, HashableItem Item = std::uint64_t, Hasher Hash = Xxh3Hash,
          ArticleHash<Item> Positions = ArticleDoubleHash>
class ArticleStore {
 public:
  using user_type = User;                  ///< who sees
  using item_type = Item;                  ///< what it holds
  using hasher_type = Hash;                ///< makes digests of items
  static constexpr bool is_remote = true;  ///< a round trip a question: one for a whole request

  /// Throws std::invalid_argument for options that cannot be kept. Does not connect yet.
  explicit ArticleStore(std::shared_ptr<Executor> executor, ArticleOptions options = {}, Hash hash = {},
                        Positions positions = {})
      : hash_(std::move(hash)),
        positions_(std::move(positions)),
        policy_({.wrong_hide_rate = options.target_fpr, .seed = hash_.seed()}),
        protocol_(std::make_unique<ArticleProtocol>(std::move(executor), std::move(options))) {}
  /// From a URL, see `parse_url`. Throws BadResult for a malformed one.
  explicit ArticleStore(std::string_view url, ArticleOptions options = {}, Hash hash = {}, Positions positions = {})
      : ArticleStore(make_executor(url).value(), std::move(options), std::move(hash), std::move(positions)) {}

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }  ///< the hasher, with the policy's seed
  /// As given at construction.
  [[nodiscard]] const ArticleOptions& options() const noexcept { return protocol_->options(); }
  /// A snapshot of the store's counters.
  [[nodiscard]] StoreCounters counters() const { return protocol_->counters(); }
  /// Rebuilds missing and full filters from this from now on. For set-up, before other threads use the store.
  void set_item_replay(ItemReplay<User, Item> replay) { replay_ = std::move(replay); }

  /// As FilterStoreFor says; one round trip, two where a user's filter is not of the default size.
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    std::vector<std::string> keys;
    keys.reserve(users.size());
    for (const User& user : users) keys.push_back(key_of(user));
    protocol_->check({keys, probes_of(batch), seen_by, status});
  }
  /// As FilterStoreFor says.
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    return protocol_->record(key_of(user), probes_of(batch), history_of(user));
  }
  /// An explicit empty filter; an existing one is kept.
  Result<void> create(const User& user) { return protocol_->create(key_of(user)); }
  /// Deletes the user's key; true when there was one.
  Result<bool> forget(const User& user) { return protocol_->forget(key_of(user)); }

  /// Converts a user's key into one of `to` and removes it. `items` is the user's history or, where there is none,
  /// everything that could have been shown: what the old filter surely did not contain is left out, so that no
  /// acknowledged item is lost, and its false positives are copied too. Adds to the old key wait meanwhile; send new
  /// ones to `to` first. Errors: `unknown_user` without such a key, those of either store; then the old key stays.
  template <class Destination>
  Result<Migration> migrate(const User& user, std::span<const Item> items, Destination& to) {
    const std::string key = key_of(user);
    while (true) {
      auto value = protocol_->hold(key);
      if (!value) return std::move(value).error();
      Migration migration{.exponent = inferred_exponent(*value)};
      migration.header_was_damaged = migration.exponent != exponent_of(static_cast<unsigned char>(value->front()));
      const std::vector<Item> kept = contained_in(*value, migration.exponent, items);
      migration.items = kept.size();
      if (auto moved = move_to(to, user, kept); !moved) {
        protocol_->release(key, *value);
        return std::move(moved).error();
      }
      // A writer of the article's own kind may have written meanwhile: then once more, with what it wrote.
      auto removed = protocol_->remove(key, *value);
      if (!removed) return std::move(removed).error();
      if (*removed) return migration;
    }
  }

  /// The user's key: prefix and user.
  [[nodiscard]] std::string key_of(const User& user) const {
    return std::string(options().prefix).append(detail::wire_text(user));
  }

 private:
  [[nodiscard]] Probes probes_of(const ItemBatch<Item>& batch) const {
    Probes probes;
    probes.reserve(batch.size() * options().hash_count);
    for (std::size_t n = 0; n < batch.size(); ++n) {
      for (std::uint32_t i = 0; i < options().hash_count; ++i) {
        probes.push_back(positions_(batch.items[n], batch.digests[n], i));
      }
    }
    return probes;
  }
  [[nodiscard]] std::vector<Digest> digests_of(std::span<const Item> items) const {
    std::vector<Digest> digests;
    digests.reserve(items.size());
    for (const Item& item : items) digests.push_back(hash_(item));
    return digests;
  }
  [[nodiscard]] ReadProbes history_of(const User& user) const {
    if (!replay_) return {};
    return [this, user]() -> Result<Probes> {
      auto items = replay_(user, all_time);
      if (!items) return std::move(items).error();
      const std::vector<Digest> digests = digests_of(*items);
      return probes_of({*items, digests});
    };
  }
  [[nodiscard]] std::vector<Item> contained_in(std::string_view value, std::uint32_t exponent,
                                               std::span<const Item> items) const {
    const std::vector<Digest> digests = digests_of(items);
    std::vector<std::uint8_t> contained(items.size());
    protocol_->test(value, exponent, probes_of({items, digests}), contained);
    std::vector<Item> kept;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (contained[i] != 0) kept.push_back(items[i]);
    }
    return kept;
  }
  template <class Destination>
  [[nodiscard]] static Result<void> move_to(Destination& to, const User& user, const std::vector<Item>& items) {
    if (auto made = to.create(user); !made) return made;
    std::vector<Digest> digests;
    digests.reserve(items.size());
    const auto hash = to.hasher();
    for (const Item& item : items) digests.push_back(hash(item));
    auto recorded = to.record(user, ItemBatch<Item>{items, digests});
    if (!recorded) return std::move(recorded).error();
    return {};
  }

  Hash hash_;
  [[no_unique_address]] Positions positions_;
  StorePolicy policy_;
  ItemReplay<User, Item> replay_;
  std::unique_ptr<ArticleProtocol> protocol_;
};

}  // namespace seenby::redis
