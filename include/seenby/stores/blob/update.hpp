#pragma once
// SPDX-License-Identifier: MIT
// BlobUpdate: changes users' values by compare-and-swap, and joins two.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"
#include "seenby/stores/blob/batches.hpp"
#include "seenby/stores/blob/values.hpp"
#include "seenby/stores/filter_store.hpp"

SEENBY_DETAIL_BEGIN

/// What a BlobStore counts.
struct BlobCounters {
  std::atomic<std::uint64_t> records{0};
  std::atomic<std::uint64_t> write_failures{0};
  std::atomic<std::uint64_t> growths{0};
  std::atomic<std::uint64_t> rebuilds{0};
  std::atomic<std::uint64_t> over_budget{0};
  std::atomic<std::uint64_t> slices_dropped{0};
};

/// One call's changes. Every one is a compare-and-swap of a whole value, tried again where another writer was first.
template <BlobBackend Backend, class User, Hasher Hash>
class BlobUpdate {
 public:
  using Values = BlobValues<Backend, User, Hash>;
  using Record = typename Values::Record;
  static constexpr int tries = 64;

  /// Both are kept by reference.
  BlobUpdate(const Values& values, BlobCounters& counters) noexcept : values_(values), counters_(counters) {}

  /// The edit of a user that is created: an existing one is left alone.
  static constexpr struct Nothing {
    std::size_t operator()(std::size_t, Record&) const noexcept { return 0; }
  } nothing{};

  /// Load, edit(record), compare-and-swap, until it holds.
  template <class Edit>
  Result<RecordOutcome> update(const User& user, const Edit& edit) {
    const auto user_of = [&](std::size_t) -> const User& { return user; };
    if constexpr (std::same_as<Edit, Nothing>) {
      return std::move(update_many(1, user_of, edit).front());
    } else {
      return std::move(update_many(1, user_of, [&](std::size_t, Record& record) { return edit(record); }).front());
    }
  }

  /// Changes many users, each as edit(i, record) says: loads all, swaps all, and again those that another writer
  /// changed meanwhile.
  template <class UserOf, class Edit>
  std::vector<Result<RecordOutcome>> update_many(std::size_t count, const UserOf& user_of, const Edit& edit) {
    std::vector<Result<RecordOutcome>> outcomes(count, RecordOutcome{});
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < count; ++i) pending.push_back({i, values_.key_of(user_of(i))});
    for (int attempt = 0; attempt < tries && !pending.empty(); ++attempt) {
      const SliceWindow window = values_.current_window();
      load_pending(pending, window, outcomes);
      std::vector<BlobSwap> swaps;
      std::erase_if(pending, [&](Pending& one) {
        Result<RecordOutcome>& outcome = outcomes[one.index];
        if (std::same_as<Edit, Nothing> && values_.holds_value(one.blob)) return true;
        const std::size_t before = swaps.size();
        outcome = prepare(user_of(one.index), one, edit, window, swaps);
        return !outcome || swaps.size() == before;
      });
      const auto swapped = swap_all(values_.backend, swaps);
      std::size_t at = 0;
      std::erase_if(pending, [&](Pending& one) {
        const Result<bool>& won = swapped[at++];
        if (won && !*won) return false;
        outcomes[one.index] = won ? finish(one) : Result<RecordOutcome>(won.error());
        return true;
      });
    }
    for (const Pending& one : pending) outcomes[one.index] = lost_all(one.at);
    return outcomes;
  }
  /// Everything `from` has, `into` has from now on; see BlobStore::merge_users.
  Result<void> merge(const User& from, const User& into) {
    const std::string source = values_.key_of(from);
    const std::string target = values_.key_of(into);
    if (source == target) return {};
    for (int attempt = 0; attempt < tries; ++attempt) {
      auto done = try_merge(from, source, into, target);
      if (!done) return std::move(done).error();
      if (*done) return {};
    }
    return lost_all(target);
  }

 private:
  /// One user of an update: what was loaded, and what is to be written.
  struct Pending {
    std::size_t index;
    std::string at;
    std::optional<Blob> blob{};
    OldSlices old{};
    RecordOutcome outcome{};
    bool rebuilt = false;
    std::uint64_t dropped = 0;
  };

  /// Loads values, and the lists of slices of those that have none; takes out what fails.
  void load_pending(std::vector<Pending>& pending, const SliceWindow& window,
                    std::vector<Result<RecordOutcome>>& outcomes) {
    std::vector<std::string> keys;
    keys.reserve(pending.size());
    for (const Pending& one : pending) keys.push_back(one.at);
    std::vector<LoadedBlob> values = load_all(values_.backend, keys);
    const std::vector<LoadedBlob> lists = values_.load_lists(keys, values);
    std::size_t at = 0;
    std::size_t next_list = 0;
    std::erase_if(pending, [&](Pending& one) {
      LoadedBlob& value = values[at++];
      if (!value) return outcomes[one.index] = value.error(), true;
      one.blob = std::move(*value);
      one.old = {};
      if (values_.holds_value(one.blob)) return false;
      const LoadedBlob& list = lists[next_list++];
      auto old = list ? OldSlices::load(values_.backend, one.at, *list, window) : Result<OldSlices>(list.error());
      if (!old) return outcomes[one.index] = old.error(), true;
      one.old = std::move(*old);
      return false;
    });
  }
  /// Appends the swap of one user, unless nothing changes.
  template <class Edit>
  Result<RecordOutcome> prepare(const User& user, Pending& one, const Edit& edit, const SliceWindow& window,
                                std::vector<BlobSwap>& swaps) const {
    auto change = values_.changed(user, one.at, one.blob, one.old, window);
    if (!change) return std::move(change).error();
    Record& record = change->record;
    one.outcome.newly_added = edit(one.index, record);
    one.outcome.grew = record.grew();
    one.rebuilt = change->rebuilt;
    one.dropped = record.dropped();
    if (!values_.holds_value(one.blob) || record.changed()) {
      swaps.push_back({one.at, std::move(one.blob), record.encode()});
    }
    return one.outcome;
  }
  /// Counts what was written, and erases what it replaces.
  Result<RecordOutcome> finish(const Pending& one) {
    if (one.outcome.grew) counters_.growths.fetch_add(1, std::memory_order_relaxed);
    if (one.rebuilt) counters_.rebuilds.fetch_add(1, std::memory_order_relaxed);
    counters_.slices_dropped.fetch_add(one.dropped, std::memory_order_relaxed);
    if (auto gone = OldSlices::erase(values_.backend, one.old.keys); !gone) return std::move(gone).error();
    return one.outcome;
  }
  [[nodiscard]] static Error lost_all(const std::string& at) {
    return at_key(
        at, {ErrorCode::conflict, "seenby: expected to win one of 64 compare-and-swaps, lost all to other writers"});
  }

  /// False where another writer changed one of the two.
  Result<bool> try_merge(const User& from, const std::string& source, const User& into, const std::string& target) {
    const SliceWindow window = values_.current_window();
    std::vector<Pending> both{{0, source}, {1, target}};
    std::vector<Result<RecordOutcome>> failed(2, RecordOutcome{});
    load_pending(both, window, failed);
    for (const auto& outcome : failed) {
      if (!outcome) return outcome.error();
    }
    auto theirs = values_.changed(from, source, both[0].blob, both[0].old, window);
    if (!theirs) return std::move(theirs).error();
    const bool any = values_.holds_value(both[0].blob) || !both[0].old.keys.empty() || theirs->rebuilt;
    if (!any && values_.holds_value(both[1].blob)) return true;
    auto ours = values_.changed(into, target, both[1].blob, both[1].old, window);
    if (!ours) return std::move(ours).error();
    if (!any && !ours->rebuilt) return true;
    if (!ours->record.absorb(theirs->record)) counters_.over_budget.fetch_add(1, std::memory_order_relaxed);
    std::vector<BlobSwap> swaps{{target, both[1].blob, ours->record.encode()}};
    if (values_.holds_value(both[0].blob)) swaps.push_back({source, both[0].blob, std::nullopt});
    auto won = move_values(swaps);
    if (!won || !*won) return won;
    for (const Pending& one : both) {
      if (auto gone = OldSlices::erase(values_.backend, one.old.keys); !gone) return gone;
    }
    return true;
  }
  /// The first swap, then the erasure; together where the backend can. Else `from` is emptied and not erased: a swap is
  /// lost where another process recorded for it meanwhile, which is then merged too, and an erasure would take it
  /// along.
  Result<bool> move_values(const std::vector<BlobSwap>& swaps) {
    if constexpr (AtomicBackend<Backend>) {
      return values_.backend.swap_all(swaps);
    } else {
      auto written = values_.backend.compare_and_swap(swaps[0].key, swaps[0].expected, *swaps[0].desired);
      if (!written || !*written || swaps.size() < 2) return written;
      const auto text = std::as_bytes(std::span(values_.merged));
      return values_.backend.compare_and_swap(swaps[1].key, swaps[1].expected, Blob(text.begin(), text.end()));
    }
  }

  const Values& values_;
  BlobCounters& counters_;
};

SEENBY_DETAIL_END
