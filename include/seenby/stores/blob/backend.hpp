#pragma once
// SPDX-License-Identifier: MIT
// What a BlobStore needs of a key-value store, and what it uses where there is more.

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/result.hpp"

namespace seenby {

/// A value of a key-value store.
using Blob = std::vector<std::byte>;

/// A key-value store, yours. Any thread may call anything.
///
/// - `load` gives the value, or nothing when there is none; an Error when it cannot tell.
/// - `compare_and_swap` writes `desired` if the value is still `expected` (nothing: still absent), atomically; false
///   when it was not.
/// - `erase` removes a key; true when it was there.
template <class Backend>
concept BlobBackend = requires(Backend& backend, std::string_view key, const std::optional<Blob>& expected,
                               const Blob& desired) {
  { backend.load(key) } -> std::same_as<Result<std::optional<Blob>>>;
  { backend.compare_and_swap(key, expected, desired) } -> std::same_as<Result<bool>>;
  { backend.erase(key) } -> std::same_as<Result<bool>>;
};

/// A backend that loads many keys in one round trip: the values, or nothing, in the keys' order.
template <class Backend>
concept BatchLoadingBackend = requires(Backend& backend, std::span<const std::string> keys) {
  { backend.load_many(keys) } -> std::same_as<Result<std::vector<std::optional<Blob>>>>;
};

/// One compare-and-swap of many; nothing `desired`: the key is erased.
struct BlobSwap {
  std::string key;               ///< whose value
  std::optional<Blob> expected;  ///< what it must still be; nothing: absent
  std::optional<Blob> desired;   ///< what it becomes
};

/// A backend that swaps many keys in one round trip, or one transaction and one sync. For each key whether it was
/// swapped; an Error: it cannot tell, or none was.
template <class Backend>
concept BatchSwappingBackend = requires(Backend& backend, std::span<const BlobSwap> swaps) {
  { backend.swap_many(swaps) } -> std::same_as<Result<std::vector<bool>>>;
};

/// A backend that swaps several keys together, all or none, whenever the process dies; false when one had changed.
template <class Backend>
concept AtomicBackend = requires(Backend& backend, std::span<const BlobSwap> swaps) {
  { backend.swap_all(swaps) } -> std::same_as<Result<bool>>;
};

}  // namespace seenby
