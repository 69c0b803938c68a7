#pragma once
// SPDX-License-Identifier: MIT
// Digest: the 64-bit seeded hash of an item, computed once and good for every filter of every size.

#include <array>
#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "seenby/config.hpp"

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
// GCC 12 takes an intrinsic of its own that xxHash uses with AVX-512 for uninitialized.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <xxhash.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace seenby {

/// The 64-bit hash of an item. Every position in every filter derives from it and from nothing else.
struct Digest {
  std::uint64_t value = 0;  ///< all 64 bits are used
  constexpr Digest() noexcept = default;
  /// Explicit, so that `insert({42})` is no digest by accident.
  constexpr explicit Digest(std::uint64_t hash) noexcept : value(hash) {}
  friend constexpr auto operator<=>(Digest, Digest) noexcept = default;  ///< ordered by value
};

/// The hash function behind a digest, as serialized filters name it.
enum class HashKind : std::uint8_t { xxh3_64 = 1, xxh64 = 2, mix64 = 3 };

/// An item whose bytes are characters: std::string, std::string_view, const char*.
template <class T>
concept StringItem = std::convertible_to<const T&, std::string_view>;
/// An item given as raw bytes.
template <class T>
concept BytesItem = !StringItem<T> && std::convertible_to<const T&, std::span<const std::byte>>;
/// An item that is a number. Every width hashes as its 64-bit two's complement value in little-endian bytes, so 42 has
/// one digest as int, long or uint64_t; a char or wchar_t is never negative. Wider ones (__int128) would lose their
/// high half: hash their bytes instead.
template <class T>
concept IntegerItem = (std::integral<std::remove_cvref_t<T>> ||
                       std::is_enum_v<std::remove_cvref_t<T>>)&&sizeof(std::remove_cvref_t<T>) <= sizeof(std::uint64_t);

/// Anything the library hashes. For your own types give the bytes, a string or an integer that identifies them.
template <class T>
concept HashableItem = StringItem<T> || BytesItem<T> || IntegerItem<T>;

/// The three kinds of items. 42 and "42" are two items: what is recorded as one kind is not found as another.
enum class ItemKind : std::uint8_t { integer = 1, text = 2, bytes = 3 };
/// The kind of a type: what its digests are of.
template <HashableItem Item>
inline constexpr ItemKind item_kind = StringItem<Item>  ? ItemKind::text
                                      : BytesItem<Item> ? ItemKind::bytes
                                                        : ItemKind::integer;

/// The enumerator's name; "unnamed" for a value that is none.
[[nodiscard]] constexpr std::string_view to_string(ItemKind kind) noexcept {
  switch (kind) {
    case ItemKind::integer: return "integer";
    case ItemKind::text: return "text";
    case ItemKind::bytes: return "bytes";
  }
  return "unnamed";
}

/// What may be looked up in a filter of Item: for strings anything convertible to std::string_view, for integers any
/// integer, for bytes any span of bytes. Keeps a filter of strings from being asked about a number.
template <class Key, class Item>
concept FilterKey = (StringItem<Item> && StringItem<Key>) || (IntegerItem<Item> && IntegerItem<Key>) ||
                    (BytesItem<Item> && BytesItem<Key>);

/// A hash policy: computes the digests of items. Copyable, stateless but for its seed, callable from any thread.
/// Change it when another program's bits must be read (Xxh64Hash with seed 0 is Apache Parquet's), or when items are
/// integers and hashing shows in the profile (Mix64Hash).
// clang-format 14 breaks noexcept requirements apart.
// clang-format off
template <class H>
concept Hasher = std::copyable<H> && requires(const H& hash, std::string_view text, std::uint64_t number) {
  { hash(text) } noexcept -> std::same_as<Digest>;
  { hash(number) } noexcept -> std::same_as<Digest>;
  { hash.seed() } noexcept -> std::convertible_to<std::uint64_t>;
  { H::kind } -> std::convertible_to<HashKind>;
};
// clang-format on

}  // namespace seenby

SEENBY_DETAIL_BEGIN

template <IntegerItem T>
[[nodiscard]] constexpr std::uint64_t as_uint64(T item) noexcept {
  if constexpr (std::is_enum_v<T>) {
    return as_uint64(static_cast<std::underlying_type_t<T>>(item));
  } else if constexpr (std::same_as<T, char> || std::same_as<T, wchar_t>) {
    // The platform says whether these have a sign; a digest must not depend on that.
    return static_cast<std::make_unsigned_t<T>>(item);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(item));
  } else {
    return static_cast<std::uint64_t>(item);
  }
}

[[nodiscard]] constexpr std::array<unsigned char, 8> little_endian_bytes(std::uint64_t value) noexcept {
  // One store: eight of a byte each, which GCC 12 makes of the loop at -O2, hold up the hash's load of them all, and an
  // integer's XXH3 took 11 ns for 2.
  if constexpr (std::endian::native == std::endian::little) {
    return std::bit_cast<std::array<unsigned char, 8>>(value);
  } else {
    std::array<unsigned char, 8> bytes{};
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
    return bytes;
  }
}

[[nodiscard]] inline std::uint64_t xxh3_bytes(const void* data, std::size_t size, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(data, size, seed);
}
[[nodiscard]] inline std::uint64_t xxh64_bytes(const void* data, std::size_t size, std::uint64_t seed) noexcept {
  return XXH64(data, size, seed);
}

/// A bijection on 64 bits with full avalanche: the finalizer of splitmix64 in Stafford's variant 13 ("Better Bit
/// Mixing", 2011), the one that java.util.SplittableRandom uses.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  x ^= x >> 31;
  return x;
}
/// Its inverse: the factors are those of mix64 inverted modulo 2^64.
[[nodiscard]] constexpr std::uint64_t unmix64(std::uint64_t x) noexcept {
  x ^= x >> 31 ^ x >> 62;
  x *= 0x319642b2d24d8ec3U;
  x ^= x >> 27 ^ x >> 54;
  x *= 0x96de1b173f119089U;
  x ^= x >> 30 ^ x >> 60;
  return x;
}
static_assert(unmix64(mix64(0x0123456789abcdefU)) == 0x0123456789abcdefU);

SEENBY_DETAIL_END

namespace seenby {

/// XXH3 64-bit with a seed: the default. A secret seed keeps outsiders from crafting items that collide.
class Xxh3Hash {
 public:
  static constexpr HashKind kind = HashKind::xxh3_64;  ///< what a header names it by
  constexpr Xxh3Hash() noexcept = default;
  /// Digests of different seeds are unrelated.
  constexpr explicit Xxh3Hash(std::uint64_t seed) noexcept : seed_(seed) {}

  /// The item's digest. O(size of the item).
  template <HashableItem T>
  [[nodiscard]] Digest operator()(const T& item) const noexcept {
    if constexpr (StringItem<T>) {
      const std::string_view text = item;
      return Digest{detail::xxh3_bytes(text.data(), text.size(), seed_)};
    } else if constexpr (BytesItem<T>) {
      const std::span<const std::byte> bytes = item;
      return Digest{detail::xxh3_bytes(bytes.data(), bytes.size(), seed_)};
    } else {
      const auto bytes = detail::little_endian_bytes(detail::as_uint64(item));
      return Digest{detail::xxh3_bytes(bytes.data(), bytes.size(), seed_)};
    }
  }
  [[nodiscard]] constexpr std::uint64_t seed() const noexcept { return seed_; }  ///< the seed as given

 private:
  std::uint64_t seed_ = 0;
};

/// XXH64: with seed 0 the hash that Apache Parquet prescribes for its split-block Bloom filters (INT64 and BYTE_ARRAY
/// columns hash the same bytes as here; for an INT32 column pass its four bytes as a span).
class Xxh64Hash {
 public:
  static constexpr HashKind kind = HashKind::xxh64;  ///< what a header names it by
  constexpr Xxh64Hash() noexcept = default;
  /// Digests of different seeds are unrelated.
  constexpr explicit Xxh64Hash(std::uint64_t seed) noexcept : seed_(seed) {}

  /// The item's digest. O(size of the item).
  template <HashableItem T>
  [[nodiscard]] Digest operator()(const T& item) const noexcept {
    if constexpr (StringItem<T>) {
      const std::string_view text = item;
      return Digest{detail::xxh64_bytes(text.data(), text.size(), seed_)};
    } else if constexpr (BytesItem<T>) {
      const std::span<const std::byte> bytes = item;
      return Digest{detail::xxh64_bytes(bytes.data(), bytes.size(), seed_)};
    } else {
      const auto bytes = detail::little_endian_bytes(detail::as_uint64(item));
      return Digest{detail::xxh64_bytes(bytes.data(), bytes.size(), seed_)};
    }
  }
  [[nodiscard]] constexpr std::uint64_t seed() const noexcept { return seed_; }  ///< the seed as given

 private:
  std::uint64_t seed_ = 0;
};

/// A strong integer mixer: cheaper than XXH3 on integers. Strings and bytes hash as XXH3.
class Mix64Hash {
 public:
  static constexpr HashKind kind = HashKind::mix64;  ///< what a header names it by
  constexpr Mix64Hash() noexcept = default;
  /// Digests of different seeds are unrelated.
  constexpr explicit Mix64Hash(std::uint64_t seed) noexcept : seed_(seed) {}

  /// The item's digest. O(size of the item).
  template <HashableItem T>
  [[nodiscard]] constexpr Digest operator()(const T& item) const noexcept {
    if constexpr (IntegerItem<T>) {
      // The golden-ratio step moves the fixed point away from zero; the seed goes in before the mixing.
      return Digest{detail::mix64(detail::as_uint64(item) + 0x9e3779b97f4a7c15U + detail::mix64(seed_))};
    } else {
      return Xxh3Hash(seed_)(item);
    }
  }
  [[nodiscard]] constexpr std::uint64_t seed() const noexcept { return seed_; }  ///< the seed as given

 private:
  std::uint64_t seed_ = 0;
};

/// Sixteen bits that tell two seeds apart without giving either away; serialized filters carry them.
template <Hasher H>
[[nodiscard]] std::uint16_t seed_check(const H& hash) noexcept {
  return static_cast<std::uint16_t>(Xxh3Hash(hash.seed())(std::string_view{"seenby seed check"}).value >> 48);
}

}  // namespace seenby
