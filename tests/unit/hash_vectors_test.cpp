// SPDX-License-Identifier: MIT
// Known digests: xxHash's published sanity vectors, and our own values that must never change.

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "seenby/hash.hpp"

namespace {

using seenby::Mix64Hash;
using seenby::Xxh3Hash;
using seenby::Xxh64Hash;

/// The bytes that xxHash's own sanity test hashes (xxhash cli/xsum_sanity_check.c describes them).
std::vector<std::byte> sanity_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint64_t state = 2'654'435'761U;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(state >> 56);
    state *= 11'400'714'785'074'694'797U;
  }
  return bytes;
}

struct Vector {
  std::size_t length;
  std::uint64_t unseeded;
  std::uint64_t seeded;
};

TEST_CASE("XXH3 gives the digests that xxHash publishes for every length class", "[hash]") {
  constexpr std::array vectors{
      Vector{0, 0x2d06800538d394c2U, 0xa8a6b918b2f0364aU},      // empty
      Vector{1, 0xc44bdff4074eecdbU, 0x032be332dd766ef8U},      // 1 to 3
      Vector{6, 0x27b56a84cd2d7325U, 0x84589c116ab59ab9U},      // 4 to 8
      Vector{12, 0xa713daf0dfbb77e7U, 0xe7303e1b2336de0eU},     // 9 to 16
      Vector{24, 0xa3fe70bf9d3510ebU, 0x850e80fc35bdd690U},     // 17 to 32
      Vector{48, 0x397da259ecba1f11U, 0xadc2cbaa44acc616U},     // 33 to 64
      Vector{80, 0xbcdefbbb2c47c90aU, 0xc6dd0cb699532e73U},     // 65 to 96
      Vector{195, 0xcd94217ee362ec3aU, 0xba68003d370cb3d9U},    // 129 to 240
      Vector{403, 0xcdeb804d65c6dea4U, 0x6259f6ecfd6443fdU},    // one block, overlapping last stripe
      Vector{512, 0x617e49599013cb6bU, 0x3ce457de14c27708U},    // one block, whole stripes
      Vector{2'048, 0xdd59e2c3a5f038e0U, 0x66f81670669ababcU},  // two whole blocks
      Vector{2'240, 0x6e73a90539cf2948U, 0x757ba8487d1b5247U},  // three blocks, whole stripes
      Vector{2'367, 0xcb37aeb9e5d361edU, 0xd2db3415b942b42aU},  // three blocks, overlapping last stripe
  };
  const auto bytes = sanity_bytes(2'400);
  for (const auto& [length, unseeded, seeded] : vectors) {
    INFO("length " << length);
    const auto item = std::span<const std::byte>(bytes).first(length);
    CHECK(Xxh3Hash{}(item).value == unseeded);
    CHECK(Xxh3Hash{11'400'714'785'074'694'797U}(item).value == seeded);
  }
}

TEST_CASE("XXH64 gives the digests that xxHash publishes", "[hash]") {
  constexpr std::array vectors{
      Vector{0, 0xef46db3751d8e999U, 0xac75fda2929b17efU},   Vector{1, 0xe934a84adb052768U, 0x5014607643a9b4c3U},
      Vector{4, 0x9136a0dca57457eeU, 0xcaab286bd8e9fdb5U},   Vector{14, 0x8282dcc4994e35c8U, 0xc3bd6bf63deb6df0U},
      Vector{222, 0xb641ae8cb691c174U, 0x20cb8ab7ae10c14aU},
  };
  const auto bytes = sanity_bytes(222);
  for (const auto& [length, unseeded, seeded] : vectors) {
    INFO("length " << length);
    const auto item = std::span<const std::byte>(bytes).first(length);
    CHECK(Xxh64Hash{}(item).value == unseeded);
    CHECK(Xxh64Hash{2'654'435'761U}(item).value == seeded);
  }
}

// Stored filters hold these digests: a change here makes every one of them forget its items.
TEST_CASE("an integer hashes as its eight little-endian bytes", "[hash]") {
  constexpr std::array<std::byte, 8> bytes{std::byte{0x88}, std::byte{0x77}, std::byte{0x66}, std::byte{0x55},
                                           std::byte{0x44}, std::byte{0x33}, std::byte{0x22}, std::byte{0x11}};
  constexpr std::uint64_t number = 0x1122334455667788U;
  const std::span<const std::byte> span = bytes;
  CHECK(Xxh3Hash{}(number) == Xxh3Hash{}(span));
  CHECK(Xxh64Hash{}(number) == Xxh64Hash{}(span));
  CHECK(Xxh3Hash{9}(number) == Xxh3Hash{9}(span));
}

// splitmix64 seeded with 1234567 begins with these numbers (the published test of Rosetta Code's splitmix64 task);
// its n-th output is the mixer of seed + n * golden.
TEST_CASE("the integer mixer is that of splitmix64", "[hash]") {
  constexpr std::array<std::uint64_t, 5> published{6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                                   4593380528125082431U, 16408922859458223821U};
  std::uint64_t state = 1'234'567;
  for (const std::uint64_t expected : published) {
    state += 0x9e3779b97f4a7c15U;
    CHECK(seenby::detail::mix64(state) == expected);
  }
  // With seed 0 an item is the state before the step, since mix64(0) is 0.
  CHECK(Mix64Hash{}(1'234'567).value == published[0]);
}

TEST_CASE("a mixed digest takes strings as XXH3 does", "[hash]") {
  CHECK(Mix64Hash{5}(std::string_view{"question"}) == Xxh3Hash{5}(std::string_view{"question"}));
}

TEST_CASE("integers wider than 64 bits are no items", "[hash]") {
#if defined(__SIZEOF_INT128__)
  __extension__ using Wide = unsigned __int128;
  STATIC_REQUIRE_FALSE(seenby::HashableItem<Wide>);
#endif
  STATIC_REQUIRE(seenby::HashableItem<std::uint64_t>);
  STATIC_REQUIRE_FALSE(seenby::HashableItem<double>);
}

}  // namespace
