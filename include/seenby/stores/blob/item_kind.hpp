#pragma once
// SPDX-License-Identifier: MIT
// Which kind of items (integer, text, bytes) the digests of a BlobStore are of: kept under a key that no user has.

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"

SEENBY_DETAIL_BEGIN

/// Asked until it is known, and not again. Any thread may call anything.
class BlobKind {
 public:
  /// No user's: a name that begins with a zero byte gets another one.
  [[nodiscard]] static std::string key() { return std::string("\0items", 6); }

  [[nodiscard]] bool is_known() const noexcept { return kind_.load(std::memory_order_relaxed) != 0; }
  /// From the value at `key()`.
  void learn(const std::optional<Blob>& blob) noexcept {
    if (!blob) return;
    const std::string_view text(reinterpret_cast<const char*>(blob->data()), blob->size());
    for (const ItemKind kind : {ItemKind::integer, ItemKind::text, ItemKind::bytes}) {
      if (text == to_string(kind)) kind_.store(static_cast<std::uint8_t>(kind), std::memory_order_relaxed);
    }
  }
  /// Errors: parameter_mismatch, when another kind is known.
  [[nodiscard]] Result<void> check(ItemKind asked) const {
    const auto known = static_cast<ItemKind>(kind_.load(std::memory_order_relaxed));
    if (!is_known() || known == asked) return {};
    std::string message = "seenby: expected items of kind ";
    message.append(to_string(known)).append(", which this store holds, got ").append(to_string(asked));
    return Error{ErrorCode::parameter_mismatch, std::move(message)};
  }
  /// As `check`, and writes the kind where there is none yet.
  template <BlobBackend Backend>
  [[nodiscard]] Result<void> claim(Backend& backend, ItemKind recorded, int tries) {
    for (int attempt = 0; attempt < tries && !is_known(); ++attempt) {
      auto blob = backend.load(key());
      if (!blob) return std::move(blob).error();
      learn(*blob);
      if (*blob) break;
      const auto text = std::as_bytes(std::span(to_string(recorded)));
      const Blob kind(text.begin(), text.end());
      auto swapped = backend.compare_and_swap(key(), std::nullopt, kind);
      if (!swapped) return std::move(swapped).error();
      if (*swapped) learn(kind);
    }
    return check(recorded);
  }

 private:
  std::atomic<std::uint8_t> kind_{0};
};

SEENBY_DETAIL_END
