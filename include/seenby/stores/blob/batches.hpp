#pragma once
// SPDX-License-Identifier: MIT
// Many keys of a BlobBackend at once: in one round trip where it can, one after the other where it cannot.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"

SEENBY_DETAIL_BEGIN

using LoadedBlob = Result<std::optional<Blob>>;

/// A value or an error for each key.
template <BlobBackend Backend>
[[nodiscard]] std::vector<LoadedBlob> load_all(Backend& backend, const std::vector<std::string>& keys) {
  std::vector<LoadedBlob> values;
  values.reserve(keys.size());
  if (keys.empty()) return values;
  if constexpr (BatchLoadingBackend<Backend>) {
    auto loaded = backend.load_many(std::span<const std::string>(keys));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      values.push_back(loaded ? LoadedBlob(std::move((*loaded)[i])) : LoadedBlob(loaded.error()));
    }
  } else {
    for (const std::string& key : keys) values.push_back(backend.load(key));
  }
  return values;
}

/// Whether each was swapped. None erases.
template <BlobBackend Backend>
[[nodiscard]] std::vector<Result<bool>> swap_all(Backend& backend, const std::vector<BlobSwap>& swaps) {
  std::vector<Result<bool>> swapped;
  swapped.reserve(swaps.size());
  if (swaps.empty()) return swapped;
  if constexpr (BatchSwappingBackend<Backend>) {
    const auto done = backend.swap_many(swaps);
    for (std::size_t i = 0; i < swaps.size(); ++i) {
      swapped.push_back(done ? Result<bool>(bool{(*done)[i]}) : Result<bool>(done.error()));
    }
  } else {
    for (const BlobSwap& one : swaps) {
      swapped.push_back(backend.compare_and_swap(one.key, one.expected, *one.desired));
    }
  }
  return swapped;
}

SEENBY_DETAIL_END
