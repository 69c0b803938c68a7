#pragma once
// SPDX-License-Identifier: MIT
// BlobValues: what the values of a BlobStore's users say, and the record that a value or the history makes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/detail/wire_text.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"
#include "seenby/stores/blob/batches.hpp"
#include "seenby/stores/blob/old_slices.hpp"
#include "seenby/stores/blob/record.hpp"
#include "seenby/stores/filter_store.hpp"

SEENBY_DETAIL_BEGIN

/// Where the values are, and how they are read. Any thread may call any member of one that does not change.
template <BlobBackend Backend, class User, Hasher Hash>
struct BlobValues {
  using Record = BlobRecord<Hash>;

  mutable Backend backend;
  StorePolicy policy;
  Replay<User> replay{};
  Hash hash{policy.seed};
  SliceClock slices{policy};
  double share = sizing::split_budget(policy.wrong_hide_rate, policy.users_per_request);

  /// The value of a user that was merged into another. It counts as none.
  static constexpr std::string_view merged = "merged";
  [[nodiscard]] static bool holds_value(const std::optional<Blob>& blob) noexcept {
    return blob && !std::ranges::equal(*blob, std::as_bytes(std::span(merged)));
  }
  [[nodiscard]] static bool lacks_value(const LoadedBlob& loaded) noexcept { return loaded && !holds_value(*loaded); }
  [[nodiscard]] static std::string key_of(const User& user) {
    std::string key = wire_text(user);
    if (key.starts_with('\0')) key.insert(key.begin(), '\0');
    return key;
  }
  [[nodiscard]] SliceWindow current_window() const {
    if (!slices.windowed()) return {};
    return {slices.newest(policy.clock), slices.slice_seconds(), static_cast<std::uint8_t>(slices.tested() - 1)};
  }
  /// The lists of slices of those keys that have no value, in their order.
  [[nodiscard]] std::vector<LoadedBlob> load_lists(const std::vector<std::string>& keys,
                                                   const std::vector<LoadedBlob>& values) const {
    std::vector<std::string> lists;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (lacks_value(values[i])) lists.push_back(OldSlices::list_key(keys[i]));
    }
    return load_all(backend, lists);
  }

  /// Whether there is a value, or what `list` names of version 1 where there is none; its answers in `seen`.
  [[nodiscard]] UserStatus test(const std::string& at, const LoadedBlob& blob, const LoadedBlob* list,
                                const SliceWindow& window, DigestSpan digests, std::vector<std::uint8_t>& seen) const {
    const auto unreachable = [](Error error) {
      return UserStatus{UserState::unreachable, std::make_shared<const Error>(std::move(error))};
    };
    if (!blob) return unreachable(blob.error());
    if (holds_value(*blob)) {
      auto done = Record::test(**blob, hash, window, digests, seen);
      if (!done) return unreachable(at_key(at, std::move(done).error()));
      return {UserState::known, nullptr, done->list()};
    }
    if (!*list) return unreachable(list->error());
    auto old = OldSlices::load(backend, at, **list, window);
    if (!old) return unreachable(std::move(old).error());
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    for (const OldFilters& filters : old->filters) {
      if (auto done = test_filters(filters.filters, hash, digests.digests, seen); !done) {
        return unreachable(at_key(at, std::move(done).error()));
      }
    }
    return {old->whole && !old->filters.empty() ? UserState::known : UserState::missing, nullptr};
  }

  struct Change {
    Record record;
    bool rebuilt = false;
  };
  /// The record of a value, or of none, with what the history knows where there was none or not a sound one.
  [[nodiscard]] Result<Change> changed(const User& user, const std::string& at, const std::optional<Blob>& blob,
                                       OldSlices& old, const SliceWindow& window) const {
    Change change{Record(hash, share, window)};
    bool wants_history = !holds_value(blob);
    if (holds_value(blob)) {
      auto decoded = Record::decode(*blob, hash, share, window);
      if (decoded) {
        change.record = std::move(*decoded);
        wants_history = change.record.has_old();
      } else if (replay && heals(decoded.error().code)) {
        wants_history = true;
        change.record.salvage_hides(*blob);
      } else {
        return at_key(at, std::move(decoded).error());
      }
    }
    for (OldFilters& filters : old.filters) {
      if (auto added = change.record.add_old(std::move(filters)); !added) {
        return at_key(at, std::move(added).error());
      }
    }
    if (!wants_history || !replay) return change;
    auto known = replay(user, slices.window_start(window.newest));
    if (!known) return std::move(known).error();
    if (known->size() >= change.record.old_items()) change.record.drop_old();
    std::vector<FingerprintItem> items;
    for (const SeenDigest& seen : *known) {
      // A history whose clock runs ahead of ours must not open a slice that does not exist yet.
      const std::int64_t slice = std::min(slices.number(seen.seen_at), window.newest);
      if (window.is_live(slice)) items.push_back({seen.digest, static_cast<std::uint8_t>(slice)});
    }
    change.rebuilt = !items.empty();
    change.record.insert(items);
    return change;
  }
  /// What a write may replace: bytes that were a value of ours. Another seed's or a newer format's stay.
  [[nodiscard]] static bool heals(ErrorCode code) noexcept {
    return code == ErrorCode::truncated || code == ErrorCode::corrupt || code == ErrorCode::too_large;
  }
};

SEENBY_DETAIL_END
