#pragma once
// SPDX-License-Identifier: MIT
// A windowed user's slices as version 1 of a BlobStore kept them, each under a key of its own: read, and erased.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"
#include "seenby/stores/blob/record.hpp"
#include "seenby/stores/blob/version_one.hpp"

SEENBY_DETAIL_BEGIN

struct OldSlices {
  std::vector<OldFilters> filters;
  std::vector<std::string> keys;
  bool whole = true;  // nothing that is listed was lost

  [[nodiscard]] static std::string list_key(const std::string& at) { return at + "@slices"; }
  [[nodiscard]] static std::string slice_key(const std::string& at, std::int64_t slice) {
    return std::string(at).append("@").append(std::to_string(slice));
  }

  /// The live slices of the user at a key, and the keys of all; `list` is the value at list_key(at).
  template <BlobBackend Backend>
  [[nodiscard]] static Result<OldSlices> load(Backend& backend, const std::string& at,
                                              const std::optional<Blob>& list_blob, const SliceWindow& window) {
    OldSlices old;
    if (!list_blob) return old;
    auto list = SliceList::decode(*list_blob);
    if (!list) return at_key(list_key(at), std::move(list).error());
    for (const auto& slice : list->slices) {
      old.keys.push_back(slice_key(at, slice.number));
      const std::int64_t since = slice.number * list->slice_seconds;
      if (!old_filters_live(since, window)) continue;
      auto filters = backend.load(old.keys.back());
      if (!filters) return std::move(filters).error();
      if (*filters) old.filters.push_back({since, std::move(**filters)});
      old.whole = old.whole && (*filters || slice.opening);
    }
    old.keys.push_back(list_key(at));
    return old;
  }
  /// A damaged list says nothing, and goes all the same. Where the list was lost, the slices of today's window are
  /// tried if `search` says so.
  template <BlobBackend Backend>
  [[nodiscard]] static Result<bool> forget(Backend& backend, const std::string& at, const SliceWindow& window,
                                           bool search) {
    auto blob = backend.load(list_key(at));
    if (!blob) return std::move(blob).error();
    std::vector<std::string> keys;
    const auto list = SliceList::decode(*blob ? std::span<const std::byte>(**blob) : std::span<const std::byte>());
    for (const auto& slice : list ? list->slices : std::vector<SliceList::Slice>()) {
      keys.push_back(slice_key(at, slice.number));
    }
    if (*blob) keys.push_back(list_key(at));
    for (std::int64_t age = -1; window.windowed() && !list && (search || *blob) && age <= window.max_age; ++age) {
      keys.push_back(slice_key(at, window.newest - age));
    }
    return erase(backend, keys);
  }
  /// Whether there was any of the keys.
  template <BlobBackend Backend>
  [[nodiscard]] static Result<bool> erase(Backend& backend, const std::vector<std::string>& keys) {
    bool any = false;
    for (const std::string& key : keys) {
      auto gone = backend.erase(key);
      if (!gone) return gone;
      any = any || *gone;
    }
    return any;
  }
};

SEENBY_DETAIL_END
