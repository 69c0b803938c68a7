#pragma once
// SPDX-License-Identifier: MIT
// PageMixer: one page from many pools, each filtered or not, each with its places.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/candidates.hpp"
#include "seenby/select/selection.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// One of the pools of a mixed page, and the places it has before the others may take them.
template <class Pool>
class PoolShare {
 public:
  /// So many places.
  [[nodiscard]] static PoolShare quota(const Pool& pool, std::size_t places) { return {pool, places, 0, true}; }
  /// A share of the page, in [0, 1], rounded. Throws std::invalid_argument.
  [[nodiscard]] static PoolShare share(const Pool& pool, double share) {
    if (!(share >= 0 && share <= 1)) throw std::invalid_argument("seenby: expected a pool's share in [0, 1]");
    return {pool, 0, share, true};
  }
  static PoolShare quota(const Pool&&, std::size_t) = delete;
  static PoolShare share(const Pool&&, double) = delete;
  /// The same pool, shown to users who have seen its items, too.
  [[nodiscard]] PoolShare unfiltered() const { return {*pool_, places_, share_, false}; }

  [[nodiscard]] const Pool& pool() const noexcept { return *pool_; }     ///< the pool it is a share of
  [[nodiscard]] bool is_filtered() const noexcept { return filtered_; }  ///< whether seen items are left out
  /// Places of a page of `limit`.
  [[nodiscard]] std::size_t places(std::size_t limit) const noexcept {
    return places_ + static_cast<std::size_t>(std::lround(share_ * static_cast<double>(limit)));
  }

 private:
  PoolShare(const Pool& pool, std::size_t places, double share, bool filtered) noexcept
      : pool_(&pool), places_(places), share_(share), filtered_(filtered) {}
  const Pool* pool_;
  std::size_t places_;
  double share_;
  bool filtered_;
};

/// A pick as a mixer's rerank hook sees and moves it.
template <class Item>
struct MixedPick : Pick {
  const Item* item = nullptr;  ///< in its pool
};

/// Makes pages from many pools: followed, discovery, trending, similar.
///
/// @code
/// seenby::PageMixer mixer{filter};
/// auto& page = mixer.mix(std::array{Share::share(*followed, 0.5), Share::quota(ads, 2).unfiltered()}, users, 20,
///                        [](auto picks) { std::ranges::stable_sort(picks, by_score); });
/// @endcode
///
/// Every pool gives its best candidates that the users have not seen (or its best, unfiltered), in its own order; what
/// an earlier pool has given is dropped. The hook may put them in any order. In that order a pool's candidates take
/// its places; places that are left over go to the next pool. Each filtered pool counts as a request of the
/// filter; a remote store gets one question for all.
///
/// A mixer keeps its buffers: over a local store it allocates nothing once warm. Thread safety: one for each thread.
/// The filter must outlive it, and the pools the page.
template <class Filter, HashableItem Item>
class PageMixer {
 public:
  using User = typename Filter::user_type;                            ///< who sees
  using Pool = CandidatePool<Item, typename Filter::hasher_type>;     ///< candidates, hashed as the filter hashes
  using Share = PoolShare<Pool>;                                      ///< a pool and its part of the page
  using Options = SelectOptions<Item, typename Filter::hasher_type>;  ///< the options of one request

  explicit PageMixer(const Filter& filter) : filter_(&filter) {}  ///< over a filter that outlives it

  /// The page, which serves until the next one. At most 65,535 pools. Throws as select_unseen.
  template <class Rerank>
  const Selection<Item>& mix(std::span<const Share> pools, std::span<const User> users, std::size_t limit,
                             Rerank&& rerank, OnUnknown on_unknown = OnUnknown::show) {
    if (pools.size() > std::numeric_limits<std::uint16_t>::max()) {
      throw std::invalid_argument("seenby: expected at most 65535 pools in a page");
    }
    begin(pools, limit);
    select(pools, users, limit, on_unknown);
    collect(pools, limit);
    rerank(std::span<MixedPick<Item>>(picks_));
    cut(pools, limit);
    return page_;
  }
  /// The same in the pools' own order.
  const Selection<Item>& mix(std::span<const Share> pools, std::span<const User> users, std::size_t limit) {
    return mix(pools, users, limit, [](std::span<MixedPick<Item>>) {});
  }

 private:
  void begin(std::span<const Share> pools, std::size_t limit) {
    auto& page = page_.state();
    page.reset({}, 0, limit);
    page.pools.clear();
    for (const Share& share : pools) page.pools.push_back(share.pool().candidates());
    if (given_.size() < pools.size()) given_.resize(pools.size());
  }

  void select(std::span<const Share> pools, std::span<const User> users, std::size_t limit, OnUnknown on_unknown) {
    options_.limit = limit;
    options_.on_unknown = on_unknown;
    if constexpr (RemoteStore<typename Filter::store_type>) {
      std::vector<typename Filter::template Request<Item>> requests;
      std::vector<Selection<Item>> answers;
      for (const Share& share : pools) {
        if (share.is_filtered()) requests.emplace_back(share.pool(), users, options_);
      }
      answers.resize(requests.size());
      filter_->select_many(requests, answers);
      std::size_t next = 0;
      for (std::size_t i = 0; i < pools.size(); ++i) {
        if (pools[i].is_filtered()) std::swap(given_[i], answers[next++]);
      }
    } else {
      for (std::size_t i = 0; i < pools.size(); ++i) {
        if (pools[i].is_filtered()) filter_->select_unseen(pools[i].pool(), users, options_, given_[i]);
      }
    }
  }

  /// What the pools give, in their order, each candidate once.
  void collect(std::span<const Share> pools, std::size_t limit) {
    auto& page = page_.state();
    picks_.clear();
    digests_.clear();
    for (std::size_t i = 0; i < pools.size(); ++i) {
      const detail::Candidates<Item>& from = page.pools[i];
      if (pools[i].is_filtered()) {
        for (const Pick& pick : given_[i].picks()) add(from, pick.index, pick.reason, i);
        note(given_[i]);
      } else {
        page.duplicates += from.duplicates();
        for (std::size_t j = 0; j < from.distinct.size() && j < limit; ++j) {
          add(from, from.index_of(j), PickReason::unfiltered, i);
        }
      }
    }
    if (!repeats_.find(digests_)) return;
    const auto first_at = repeats_.first_at();
    page.duplicates += picks_.size() - first_at.size();
    for (std::size_t i = 0; i < first_at.size(); ++i) picks_[i] = picks_[first_at[i]];
    picks_.resize(first_at.size());
  }
  void add(const detail::Candidates<Item>& from, std::uint32_t index, PickReason reason, std::size_t pool) {
    picks_.push_back({{index, reason, 0, static_cast<std::uint16_t>(pool)}, &from.items[index]});
    digests_.push_back(from.digest_at(index));
  }
  void note(const Selection<Item>& given) {
    auto& page = page_.state();
    page.checked += given.checked();
    page.removed += given.removed();
    page.duplicates += given.duplicates();
    if (page.unknown.empty()) page.unknown.assign(given.unknown_users().begin(), given.unknown_users().end());
    if (!page.error) page.error = given.error();
  }

  /// Takes each pool's places, then fills what is left over, and puts the picks that were taken in the hook's order.
  void cut(std::span<const Share> pools, std::size_t limit) {
    places_.clear();
    for (const Share& share : pools) places_.push_back(share.places(limit));
    taken_.assign(picks_.size(), 0);
    std::size_t left = limit;
    for (std::size_t i = 0; i < picks_.size() && left > 0; ++i) {
      std::size_t& places = places_[picks_[i].pool];
      if (places == 0) continue;
      --places, --left, taken_[i] = 1;
    }
    for (std::size_t i = 0; i < picks_.size() && left > 0; ++i) {
      if (taken_[i] == 0) --left, taken_[i] = 1;
    }
    for (std::size_t i = 0; i < picks_.size(); ++i) {
      if (taken_[i] != 0) page_.state().add(picks_[i]);
    }
  }

  const Filter* filter_;
  Options options_;
  std::vector<Selection<Item>> given_;  // by each filtered pool
  Selection<Item> page_;
  std::vector<MixedPick<Item>> picks_;
  std::vector<Digest> digests_;  // of picks_
  detail::RepeatFinder repeats_;
  std::vector<std::size_t> places_;
  std::vector<std::uint8_t> taken_;
};

}  // namespace seenby
