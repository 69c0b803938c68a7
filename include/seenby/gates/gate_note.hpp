#pragma once
// SPDX-License-Identifier: MIT
// GateNote: what a saved ExistenceGate says beside its bits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/detail/bits.hpp"

SEENBY_DETAIL_BEGIN

/// 0 u32 "GATE", 4 u32 length of the resource's name, 8 u64 version, 16 u64 position, then the names of the resource
/// and of the normaliser.
struct GateNote {
  static constexpr std::uint32_t magic = 0x45544147U;
  static constexpr std::size_t fixed_bytes = 24;
  std::string resource{};
  std::string normaliser{};
  std::uint64_t version = 0;
  std::uint64_t position = 0;

  [[nodiscard]] std::vector<std::byte> encode() const {
    const auto name = std::as_bytes(std::span(resource));
    const auto rule = std::as_bytes(std::span(normaliser));
    std::vector<std::byte> bytes(fixed_bytes + name.size() + rule.size());
    store_le(bytes.data(), magic);
    store_le(bytes.data() + 4, static_cast<std::uint32_t>(name.size()));
    store_le(bytes.data() + 8, version);
    store_le(bytes.data() + 16, position);
    std::copy(rule.begin(), rule.end(), std::copy(name.begin(), name.end(), bytes.begin() + fixed_bytes));
    return bytes;
  }
  [[nodiscard]] static std::optional<GateNote> decode(std::span<const std::byte> bytes) {
    if (bytes.size() < fixed_bytes || load_le<std::uint32_t>(bytes.data()) != magic) return std::nullopt;
    const auto length = load_le<std::uint32_t>(bytes.data() + 4);
    const std::string_view names(reinterpret_cast<const char*>(bytes.data()) + fixed_bytes, bytes.size() - fixed_bytes);
    if (length > names.size()) return std::nullopt;
    return GateNote{.resource = std::string(names.substr(0, length)),
                    .normaliser = std::string(names.substr(length)),
                    .version = load_le<std::uint64_t>(bytes.data() + 8),
                    .position = load_le<std::uint64_t>(bytes.data() + 16)};
  }
};

SEENBY_DETAIL_END
