#pragma once
// SPDX-License-Identifier: MIT
// BlobWindow: one user's slices in a key-value store, asked, recorded into, rebuilt and erased.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob/chain.hpp"
#include "seenby/stores/blob/slices.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/slice_clock.hpp"

SEENBY_DETAIL_BEGIN

/// `{user}@N` holds slice N's filters, `{user}@slices` the list of slices. The rule that every write keeps: a slice is
/// listed before it is there, and what is listed (and not as being opened) holds everything acknowledged in it. So:
///
/// - a listed slice that is not there was lost, or its rebuild is under way: the user is unknown, never wrongly unseen;
/// - no write of a rebuild is visible before the last: a reader between two of them, and a writer killed there, leave
///   the user unknown, and the next record ends the work;
/// - a slice is opened in three writes, list it as opening, write it, list it as open, and acknowledged after the
///   third. Between them it is empty, or holds what is not acknowledged yet;
/// - whatever there is can be found by the list, and erased.
///
/// A lost compare-and-swap means that somebody else wrote: everything is read again.
template <class Backend, Hasher H>
class BlobWindow {
 public:
  using Blob = std::vector<std::byte>;
  using Chain = BlobChain<H>;
  struct Recorded {
    std::size_t newly_added = 0;
    bool grew = false;
    bool rebuilt = false;
    std::uint64_t dropped = 0;
  };

  /// All of it must outlive this.
  BlobWindow(Backend& backend, const Chain& chain, const H& hash, const SliceClock& clock, std::int64_t newest,
             std::string user)
      : backend_(backend), chain_(chain), hash_(hash), clock_(clock), newest_(newest), user_(std::move(user)) {}

  /// Whether the whole window is there; seen[i] = 1 where digest i may be in it.
  [[nodiscard]] Result<bool> test(std::span<const Digest> digests, std::span<std::uint8_t> seen) const {
    auto list = load_list();
    if (!list) return std::move(list).error();
    bool any = false;
    for (const BlobSlices::Slice& slice : list->slices.all()) {
      if (!is_live(*list, slice.number)) continue;
      auto blob = backend_.load(key(slice.number));
      if (!blob) return std::move(blob).error();
      if (!*blob && slice.opening) continue;
      if (!*blob) return false;
      any = true;
      if (auto done = Chain::test(**blob, hash_, digests, seen); !done) return named(slice.number, done.error());
    }
    return any;
  }

  /// One attempt; false when a compare-and-swap was lost. Counts what was written in `recorded`. `history` may be
  /// empty.
  [[nodiscard]] Result<bool> record(std::span<const Digest> digests, const ReadSeen& history, Recorded& recorded) {
    auto list = load_list();
    if (!list) return std::move(list).error();
    if (list->slices.slice_seconds() != clock_.slice_seconds()) return begin_anew(*list, recorded);
    auto blobs = load_slices(*list, history != nullptr);
    if (!blobs) return std::move(blobs).error();
    return is_whole(*list, *blobs, history != nullptr) ? add(*list, *blobs, digests, history, recorded)
                                                       : rebuild(*list, *blobs, digests, history, recorded);
  }

  /// The list goes between two passes: one that fails before it has gone can be done again, and what a record wrote
  /// after the first pass falls to the second, or is listed anew.
  [[nodiscard]] Result<bool> forget() {
    bool any = false;
    auto blob = backend_.load(list_key());
    if (!blob) return std::move(blob).error();
    // A damaged list says nothing, and goes all the same.
    const auto list = BlobSlices::decode(*blob ? std::span<const std::byte>(**blob) : std::span<const std::byte>());
    for (const BlobSlices::Slice& slice : list ? list->all() : std::vector<BlobSlices::Slice>()) {
      if (auto gone = erase(key(slice.number), any); !gone) return std::move(gone).error();
    }
    if (auto gone = erase(list_key(), any); !gone) return std::move(gone).error();
    for (std::int64_t slice = newest_ + 1; slice > newest_ - clock_.tested(); --slice) {
      if (auto gone = erase(key(slice), any); !gone) return std::move(gone).error();
    }
    return any;
  }

 private:
  struct List {
    std::optional<Blob> blob;
    BlobSlices slices;
  };
  using Slices = std::map<std::int64_t, std::optional<Blob>>;
  using Known = std::map<std::int64_t, std::vector<Digest>>;

  [[nodiscard]] std::string key(std::int64_t slice) const {
    return std::string(user_).append("@").append(std::to_string(slice));
  }
  [[nodiscard]] std::string list_key() const { return std::string(user_).append("@slices"); }
  [[nodiscard]] Error named(std::int64_t slice, Error error) const {
    error.message.append(" (key \"").append(key(slice)).append("\")");
    return error;
  }

  [[nodiscard]] Result<List> load_list() const {
    auto blob = backend_.load(list_key());
    if (!blob) return std::move(blob).error();
    if (!*blob) return List{std::nullopt, BlobSlices(clock_.slice_seconds())};
    auto slices = BlobSlices::decode(**blob);
    if (!slices) {
      Error error = std::move(slices).error();
      error.message.append(" (key \"").append(list_key()).append("\")");
      return error;
    }
    return List{std::move(*blob), std::move(*slices)};
  }

  /// Numbers of slices of another length mean other times. A slice past the newest was opened by a clock that runs
  /// ahead of ours.
  [[nodiscard]] bool is_live(const List& list, std::int64_t slice) const noexcept {
    return list.slices.slice_seconds() == clock_.slice_seconds() && slice > newest_ - clock_.tested();
  }
  [[nodiscard]] bool any_live(const List& list) const noexcept {
    const auto& all = list.slices.all();
    return std::any_of(all.begin(), all.end(), [&](const auto& slice) { return is_live(list, slice.number); });
  }

  /// The newest slice; the other live ones too where they may have to be rebuilt. Without a list that says which there
  /// are, all that there may be, a clock ahead of ours included.
  [[nodiscard]] Result<Slices> load_slices(const List& list, bool has_history) const {
    Slices slices{{newest_, std::nullopt}};
    if (!any_live(list)) {
      for (std::int64_t age = -1; age < clock_.tested(); ++age) slices[newest_ - age];
    } else if (has_history) {
      for (const BlobSlices::Slice& slice : list.slices.all()) {
        if (is_live(list, slice.number)) slices[slice.number];
      }
    }
    for (auto& [slice, blob] : slices) {
      auto loaded = backend_.load(key(slice));
      if (!loaded) return std::move(loaded).error();
      blob = std::move(*loaded);
    }
    return slices;
  }

  [[nodiscard]] bool is_whole(const List& list, const Slices& blobs, bool has_history) const {
    if (!any_live(list)) return false;
    if (!has_history) return true;  // there is nothing to rebuild from
    return std::all_of(blobs.begin(), blobs.end(), [&](const auto& is) {
      // One that is being opened may have been written to and evicted since.
      return is.second || list.slices.find(is.first) == nullptr;
    });
  }

  /// Adds to the newest slice, which it opens where it is not listed. False: a compare-and-swap was lost.
  [[nodiscard]] Result<bool> add(const List& list, const Slices& blobs, std::span<const Digest> digests,
                                 const ReadSeen& history, Recorded& recorded) {
    const BlobSlices::Slice* listed = list.slices.find(newest_);
    const std::optional<Blob>& blob = blobs.at(newest_);
    const bool open = listed != nullptr && !listed->opening && blob;
    if (open && digests.empty()) return true;
    if (listed == nullptr) {
      BlobSlices next(clock_.slice_seconds());
      for (const BlobSlices::Slice& slice : list.slices.all()) {
        if (is_live(list, slice.number)) next.put(slice.number, slice.opening);
      }
      drop_dead(list, next, recorded);
      next.put(newest_, true);
      if (auto swapped = backend_.compare_and_swap(list_key(), list.blob, next.encode()); !swapped || !*swapped) {
        return swapped;
      }
    }
    Known known;
    // A new slice too: another writer may have filled it, and it was evicted before this one does.
    const bool from_history = history && (!blob || chain_.full(*blob, digests.size()));
    if (from_history) {
      auto all = read(history);
      if (!all) return std::move(all).error();
      known = std::move(*all);
    }
    auto written = write(newest_, blob, digests, known, from_history, recorded);
    if (!written || !*written || open) return written;
    return confirm();
  }

  /// Lists the slices that there are and those of the history, then writes what is missing of them, the oldest first.
  [[nodiscard]] Result<bool> rebuild(const List& list, const Slices& blobs, std::span<const Digest> digests,
                                     const ReadSeen& history, Recorded& recorded) {
    // Read after the slices were: what they held is in it.
    auto known = read(history);
    if (!known) return std::move(known).error();
    BlobSlices next(clock_.slice_seconds());
    for (const auto& [slice, blob] : blobs) {
      if (blob) next.put(slice, false);
    }
    for (const auto& [slice, seen] : *known) next.put(slice, false);
    drop_dead(list, next, recorded);
    if (auto swapped = backend_.compare_and_swap(list_key(), list.blob, next.encode()); !swapped || !*swapped) {
      return swapped;
    }
    const Known nothing;
    for (const auto& [slice, seen] : *known) {
      const auto at = blobs.find(slice);
      const std::optional<Blob> blob = at == blobs.end() ? std::nullopt : at->second;
      const auto items = slice == newest_ ? digests : std::span<const Digest>();
      const bool from_history = history && (!blob || !holds(*blob, seen) || chain_.full(*blob, items.size()));
      if (blob && !from_history && items.empty()) continue;
      auto written = write(slice, blob, items, from_history ? *known : nothing, from_history, recorded);
      if (!written || !*written) return written;
    }
    return confirm();
  }

  /// The history by live slices; the newest is always among them.
  [[nodiscard]] Result<Known> read(const ReadSeen& history) const {
    Known by_slice{{newest_, {}}};
    if (!history) return by_slice;
    auto all = history(clock_.window_start(newest_));
    if (!all) return std::move(all).error();
    for (const SeenDigest& seen : *all) {
      // A history whose clock runs ahead of ours must not open a slice that does not exist yet.
      const std::int64_t slice = std::min(clock_.number(seen.seen_at), newest_);
      if (slice > newest_ - clock_.tested()) by_slice[slice].push_back(seen.digest);
    }
    return by_slice;
  }

  [[nodiscard]] bool holds(const Blob& blob, std::span<const Digest> digests) const {
    std::vector<std::uint8_t> seen(digests.size());
    const auto tested = Chain::test(blob, hash_, digests, seen);
    return tested && std::all_of(seen.begin(), seen.end(), [](std::uint8_t is) { return is != 0; });
  }

  /// The slice's part of the history. What was seen in one slice and recorded in the next stands in the next one's
  /// filters and not in its history: what they hold of other slices stays with them.
  [[nodiscard]] std::vector<Digest> part_of(const Known& known, std::int64_t slice,
                                            const std::optional<Blob>& blob) const {
    std::vector<Digest> part;
    for (const auto& [number, digests] : known) {
      std::vector<std::uint8_t> seen(digests.size(), number == slice ? 1 : 0);
      // Damaged filters are refused when they are added to.
      if (blob && number != slice) static_cast<void>(Chain::test(*blob, hash_, digests, seen));
      for (std::size_t i = 0; i < digests.size(); ++i) {
        if (seen[i] != 0) part.push_back(digests[i]);
      }
    }
    return part;
  }

  [[nodiscard]] Result<bool> write(std::int64_t slice, const std::optional<Blob>& blob, std::span<const Digest> digests,
                                   const Known& known, bool from_history, Recorded& recorded) {
    const auto old = blob ? std::span<const std::byte>(*blob) : std::span<const std::byte>();
    auto next = chain_.add(old, hash_, digests, part_of(known, slice, blob), from_history);
    if (!next) return named(slice, std::move(next).error());
    auto swapped = backend_.compare_and_swap(key(slice), blob, next->blob);
    if (!swapped || !*swapped) return swapped;
    recorded.newly_added += next->newly_added;
    recorded.grew = recorded.grew || next->grew;
    recorded.rebuilt = recorded.rebuilt || next->rebuilt;
    return true;
  }

  /// Lists the newest slice as open. False where it is not listed any more: somebody forgot the user, and what was
  /// written since belongs to no list.
  [[nodiscard]] Result<bool> confirm() const {
    auto list = load_list();
    if (!list) return std::move(list).error();
    const BlobSlices::Slice* listed = is_live(*list, newest_) ? list->slices.find(newest_) : nullptr;
    if (listed == nullptr) return false;
    if (!listed->opening) return true;
    BlobSlices next = list->slices;
    next.put(newest_, false);
    return backend_.compare_and_swap(list_key(), list->blob, next.encode());
  }

  /// Erases what left the window; what cannot be erased now stays listed, for the next time.
  void drop_dead(const List& list, BlobSlices& next, Recorded& recorded) {
    for (const BlobSlices::Slice& slice : list.slices.all()) {
      if (is_live(list, slice.number)) continue;
      auto gone = backend_.erase(key(slice.number));
      if (!gone) next.put(slice.number, slice.opening);
      if (gone && *gone) ++recorded.dropped;
    }
  }

  /// The list counts in slices of another length. They go first, lest their numbers be taken for other times.
  [[nodiscard]] Result<bool> begin_anew(const List& list, Recorded& recorded) {
    for (const BlobSlices::Slice& slice : list.slices.all()) {
      auto gone = backend_.erase(key(slice.number));
      if (!gone) return gone;
      if (*gone) ++recorded.dropped;
    }
    auto swapped = backend_.compare_and_swap(list_key(), list.blob, BlobSlices(clock_.slice_seconds()).encode());
    if (!swapped) return swapped;
    return false;  // and again, with the list that there is now
  }

  [[nodiscard]] Result<void> erase(const std::string& at, bool& any) {
    auto gone = backend_.erase(at);
    if (!gone) return std::move(gone).error();
    any = any || *gone;
    return {};
  }

  Backend& backend_;
  const Chain& chain_;
  const H& hash_;
  const SliceClock& clock_;
  std::int64_t newest_;
  std::string user_;
};

SEENBY_DETAIL_END
