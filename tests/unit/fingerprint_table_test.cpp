// SPDX-License-Identifier: MIT
// FingerprintTable: grows without a history, ages, forgets single items, and stays within its share.

#include "seenby/filters/fingerprint_table.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "support/binomial.hpp"
#include "support/random.hpp"

namespace {

using seenby::Digest;
using seenby::FingerprintItem;
using seenby::FingerprintShape;
using seenby::FingerprintTable;
using seenby::FingerprintView;
using seenby::FingerprintWindow;
using Inserted = FingerprintTable::Inserted;

/// A table that owns its bytes, as a store does, and leaves a little room when it moves.
class Owned {
 public:
  explicit Owned(double share, bool sliced = false) : share_(share), sliced_(sliced) { shape_.sliced = sliced; }

  [[nodiscard]] FingerprintTable table() { return {shape_, count_, body_.data()}; }
  [[nodiscard]] FingerprintView view() const { return {shape_, count_, body_.data()}; }
  [[nodiscard]] std::size_t bytes() const { return body_.size(); }
  [[nodiscard]] const std::vector<std::byte>& body() const { return body_; }

  Inserted insert(Digest digest, std::uint8_t slice = 0, FingerprintWindow window = {}) {
    FingerprintTable now = table();
    const Inserted done = now.insert({digest, slice}, window);
    count_ = now.count();
    if (done != Inserted::full) return done;
    FingerprintItem item{digest, slice};
    insert_all({&item, 1}, window, count_ / 32);
    return Inserted::added;
  }
  void insert_all(std::span<FingerprintItem> items, FingerprintWindow window = {}, std::uint32_t spare = 0) {
    const FingerprintView old = view();
    FingerprintShape shape = grown_shape(&old, items.size(), share_, sliced_);
    shape.capacity += spare;
    std::vector<std::byte> body(shape.bytes(), std::byte{0xA5});
    FingerprintTable grown(shape, 0, body.data());
    REQUIRE(grown.rebuild(&old, items, window));
    if (grown.shape().bucket_bits > shape_.bucket_bits) ++growths_;
    shape_ = shape;
    count_ = grown.count();
    body_ = std::move(body);
  }
  bool erase(Digest digest) {
    FingerprintTable now = table();
    const bool done = now.erase(digest);
    count_ = now.count();
    return done;
  }
  std::uint32_t drop(FingerprintWindow window) {
    FingerprintTable now = table();
    const std::uint32_t dropped = now.drop(window);
    count_ = now.count();
    return dropped;
  }
  [[nodiscard]] int growths() const { return growths_; }

 private:
  double share_;
  bool sliced_;
  FingerprintShape shape_;
  std::uint32_t count_ = 0;
  std::vector<std::byte> body_;
  int growths_ = 0;
};

std::uint64_t hits_of(const FingerprintView& view, seenby::test::Random& random, std::uint64_t probes) {
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < probes; ++i) hits += view.may_contain(Digest{random()}) ? 1U : 0U;
  return hits;
}

/// Asks every kernel that runs here about random digests and some of `inside`.
void require_equal_kernels(const FingerprintView& view, FingerprintWindow window, seenby::test::Random& random,
                           const std::vector<Digest>& inside = {}) {
  using seenby::detail::Answers;
  std::vector<Digest> digests(random.below(150));
  for (Digest& digest : digests) {
    digest = inside.empty() || random.below(2) == 0 ? Digest{random()} : inside[random.below(inside.size())];
  }
  for (const auto& ref : {view.ref(), view.shape().sliced ? view.ref(window) : view.ref()}) {
    std::vector<std::uint8_t> expected(digests.size() + 1, 0xA5);
    for (std::size_t i = 0; i < digests.size(); ++i) {
      expected[i] = fingerprint_test(ref, digests[i]) ? 1 : 0;
      if (ref.slices != nullptr) REQUIRE((fingerprint_age(ref, digests[i]) <= ref.max_age) == (expected[i] == 1));
    }
    for (const auto& kernel : seenby::detail::compiled_kernels()) {
      if (!kernel.runs_here()) continue;
      CAPTURE(kernel.name, ref.bucket_bits, ref.capacity, ref.tail_bytes, digests.size());
      std::vector<std::uint8_t> seen(digests.size() + 1, 0xA5);  // the last one stays
      kernel.check_table(ref, digests.data(), digests.size(), seen.data(), Answers::replace);
      REQUIRE(seen == expected);
      kernel.check_table(ref, digests.data(), digests.size(), seen.data(), Answers::add);
      for (std::size_t i = 0; i < digests.size(); ++i) REQUIRE(seen[i] == 2 * expected[i]);
      REQUIRE(seen.back() == 0xA5);
    }
  }
}

TEST_CASE("items inserted one by one are all there after every growth, and the rate keeps within the share",
          "[fingerprint_table][000-02][003-06]") {
  SEENBY_RANDOM(random);
  constexpr std::uint64_t probes = 200'000;
  for (const double share : {0.005, 0.0008, 1e-5}) {
    Owned owned(share);
    std::vector<Digest> inserted;
    for (const std::size_t until : {1U, 2U, 10U, 11U, 12U, 60U, 214U, 1'000U, 4'000U, 20'000U}) {
      while (inserted.size() < until) {
        inserted.push_back(Digest{random()});
        owned.insert(inserted.back());
      }
      const FingerprintView view = owned.view();
      INFO("share " << share << ", " << until << " items, " << owned.bytes() << " bytes");
      CHECK(std::all_of(inserted.begin(), inserted.end(), [&](Digest it) { return view.may_contain(it); }));
      CHECK(view.estimated_fpr() <= share);
      const std::uint64_t hits = hits_of(view, random, probes);
      CHECK(hits <= seenby::test::most_hits(probes, share));
      CHECK(hits <= seenby::test::most_hits(probes, view.estimated_fpr()));
      CHECK(hits >= seenby::test::fewest_hits(probes, view.estimated_fpr()));
      CHECK(view.count() <= until);
      CHECK(view.count() + 5 + until / 100 >= until);
    }
    CHECK(owned.growths() == 11);
  }
}

TEST_CASE("the expected rate is the measured one, grown or filled at once", "[fingerprint_table]") {
  SEENBY_RANDOM(random);
  constexpr double share = 0.005;
  for (const std::uint64_t items : {3U, 10U, 40U, 214U, 3'000U}) {
    // One table's estimate is exact for its bits; over many tables it is what was expected.
    double grown_sum = 0;
    double filled_sum = 0;
    constexpr int tables = 40;
    for (int i = 0; i < tables; ++i) {
      Owned grown(share);
      std::vector<FingerprintItem> all;
      for (std::uint64_t item = 0; item < items; ++item) {
        all.push_back({Digest{random()}, 0});
        grown.insert(all.back().digest);
      }
      Owned filled(share);
      filled.insert_all(all);
      grown_sum += grown.view().estimated_fpr();
      filled_sum += filled.view().estimated_fpr();
    }
    const auto expected = seenby::sizing::grown_table(items, share, false);
    const double filled = seenby::sizing::expected_fpr(expected.shape, items);
    INFO(items << " items");
    CHECK(std::abs(grown_sum / tables / expected.expected_fpr - 1) < 0.05);
    CHECK(std::abs(filled_sum / tables / filled - 1) < 0.05);
    CHECK(expected.expected_fpr <= share);
  }
}

TEST_CASE("a table is as large as its items, whatever their number", "[fingerprint_table][000-15]") {
  SEENBY_RANDOM(random);
  for (const std::uint64_t items : {2U, 5U, 10U, 12U, 30U, 100U, 214U, 230U, 1'000U, 10'000U, 100'000U}) {
    Owned owned(0.005);
    Owned sliced(0.005, true);
    for (std::uint64_t i = 0; i < items; ++i) {
      owned.insert(Digest{random()});
      sliced.insert(Digest{random()}, 7, {7, 30});
    }
    INFO(items << " items: " << owned.bytes() << " bytes, " << sliced.bytes() << " with slices");
    const double bits = static_cast<double>(owned.bytes()) * 8 / static_cast<double>(items);
    CHECK(bits <= 18.7 + 16.0 / 32);
    CHECK(static_cast<double>(sliced.bytes()) * 8 / static_cast<double>(items) <= 26.7 + 24.0 / 32);
    const auto planned = seenby::sizing::grown_table(items, 0.005, false).shape.bytes();
    CHECK(std::abs(static_cast<double>(owned.bytes()) / static_cast<double>(planned) - 1) < 0.04);
  }
}

TEST_CASE("an item that is there already costs nothing", "[fingerprint_table]") {
  SEENBY_RANDOM(random);
  Owned owned(0.005);
  std::vector<Digest> items(300);
  for (Digest& item : items) {
    item = Digest{random()};
    owned.insert(item);
  }
  const std::vector<std::byte> before = owned.body();
  for (int again = 0; again < 3; ++again) {
    for (const Digest item : items) CHECK(owned.insert(item) == Inserted::present);
  }
  CHECK(owned.body() == before);
  std::vector<FingerprintItem> twice;
  for (int again = 0; again < 2; ++again) {
    for (const Digest item : items) twice.push_back({item, 0});
  }
  Owned fresh(0.005);
  fresh.insert_all(twice);
  CHECK(fresh.view().count() <= items.size());
}

TEST_CASE("an erased item is gone, and no other goes with it", "[fingerprint_table][004-18]") {
  SEENBY_RANDOM(random);
  Owned owned(1e-9);  // lanes of 32 bits: no twins
  std::vector<Digest> items(1'000);
  for (Digest& item : items) {
    item = Digest{random()};
    owned.insert(item);
  }
  std::shuffle(items.begin(), items.end(), random);
  const std::uint32_t full = owned.view().count();
  for (std::size_t gone = 0; gone < items.size(); ++gone) {
    REQUIRE(owned.erase(items[gone]));
    CHECK_FALSE(owned.erase(items[gone]));
    CHECK_FALSE(owned.view().may_contain(items[gone]));
    if (gone % 100 != 0) continue;
    CHECK(std::all_of(items.begin() + static_cast<std::ptrdiff_t>(gone) + 1, items.end(),
                      [&](Digest it) { return owned.view().may_contain(it); }));
  }
  CHECK(full == items.size());
  CHECK(owned.view().count() == 0);
  CHECK(std::all_of(owned.body().begin(), owned.body().end(), [](std::byte byte) { return byte == std::byte{0}; }));
  CHECK(owned.insert(items.front()) == Inserted::added);
}

TEST_CASE("what a table of many groups drops takes no live lane with it") {
  std::vector<seenby::FingerprintItem> items;
  for (std::uint64_t i = 0; i < 5'000; ++i) {
    items.push_back({seenby::Xxh3Hash{}(i), static_cast<std::uint8_t>(i % 7)});
  }
  auto sorted = items;
  const auto shape = seenby::grown_shape(nullptr, items.size(), 0.01, true);
  std::vector<std::byte> body(static_cast<std::size_t>(shape.bytes()));
  seenby::FingerprintTable table(shape, 0, body.data());
  REQUIRE(table.rebuild(nullptr, sorted, {.newest = 6, .max_age = 6}));
  for (std::uint8_t newest = 7; newest < 12; ++newest) {
    const seenby::FingerprintWindow window{.newest = newest, .max_age = 6};
    table.drop(window);
    std::size_t lost = 0;
    for (const auto& item : items) {
      if (window.is_live(item.slice) && !table.view().may_contain(item.digest, window)) ++lost;
    }
    CHECK(lost == 0);
  }
}

TEST_CASE("a sliced table tells ages, takes late events, and drops what left the window",
          "[fingerprint_table][003-03]") {
  SEENBY_RANDOM(random);
  constexpr std::uint8_t max_age = 30;
  Owned owned(1e-9, true);
  std::map<std::uint64_t, unsigned> newest_of;  // digest to slice
  for (unsigned now = 200; now < 400; ++now) {  // past 255, where the byte wraps
    const FingerprintWindow window{static_cast<std::uint8_t>(now), max_age};
    owned.drop(window);
    std::erase_if(newest_of, [&](const auto& entry) { return now - entry.second > max_age; });
    for (int i = 0; i < 8; ++i) {
      const bool again = !newest_of.empty() && random.below(4) == 0;
      const std::uint64_t digest = again ? newest_of.lower_bound(random()) == newest_of.end() ? newest_of.begin()->first
                                                                                              : newest_of.begin()->first
                                         : random();
      const unsigned slice = now - static_cast<unsigned>(random.below(max_age + 1));  // most are late
      owned.insert(Digest{digest}, static_cast<std::uint8_t>(slice), window);
      unsigned& newest = newest_of[digest];
      newest = std::max(newest, slice);
    }
    REQUIRE(owned.view().count() == newest_of.size());
    for (const auto& [digest, slice] : newest_of) {
      REQUIRE(owned.view().age(Digest{digest}, window) == now - slice);
      // A reader later on, before the next write, sees what is in its window and nothing else.
      const FingerprintWindow later{static_cast<std::uint8_t>(now + 10), max_age};
      REQUIRE(owned.view().may_contain(Digest{digest}, later) == (now + 10 - slice <= max_age));
    }
    CHECK(owned.view().age(Digest{random()}, window) == 255);
  }
  CHECK(owned.view().oldest_age({static_cast<std::uint8_t>(399), max_age}) <= max_age);
}

TEST_CASE("a table of which little is left gets fewer buckets, and keeps its items and its rate",
          "[fingerprint_table]") {
  SEENBY_RANDOM(random);
  for (const double share : {0.005, 0.0003, 1e-12}) {
    Owned owned(share);
    std::vector<Digest> items(20'000);
    for (Digest& item : items) owned.insert(item = Digest{random()});
    while (items.size() > 300) {
      owned.erase(items.back());
      items.pop_back();
    }
    const auto before = owned.view().shape();
    std::vector<FingerprintItem> none;
    owned.insert_all(none);
    INFO("share " << share);
    CHECK(before.bucket_bits == 11);
    CHECK(owned.view().shape().bucket_bits == 6);
    CHECK(owned.bytes() < 300 * 8);
    CHECK(owned.view().estimated_fpr() <= share);
    // Twins of what was erased went with it, seldom.
    const auto found =
        std::count_if(items.begin(), items.end(), [&](Digest it) { return owned.view().may_contain(it); });
    CHECK(found >= 240);
    for (int i = 0; i < 300; ++i) owned.insert(items.emplace_back(Digest{random()}));
    CHECK(owned.view().estimated_fpr() <= share);
  }
}

TEST_CASE("random inserts, erases and batches agree with an exact set", "[fingerprint_table][000-02]") {
  SEENBY_RANDOM(random);
  for (const bool sliced : {false, true}) {
    Owned owned(1e-9, sliced);
    const FingerprintWindow window{sliced ? std::uint8_t{9} : std::uint8_t{0}, 20};
    std::vector<Digest> inside;
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t what = random.below(10);
      if (what < 5) {
        inside.push_back(Digest{random()});
        owned.insert(inside.back(), window.newest, window);
      } else if (what < 8 && !inside.empty()) {
        std::swap(inside[random.below(inside.size())], inside.back());
        REQUIRE(owned.erase(inside.back()));
        inside.pop_back();
      } else {
        std::vector<FingerprintItem> batch(random.below(60));
        for (FingerprintItem& item : batch) {
          item = {Digest{random()}, window.newest};
          inside.push_back(item.digest);
        }
        owned.insert_all(batch, window, static_cast<std::uint32_t>(random.below(20)));
      }
      REQUIRE(owned.view().count() == inside.size());
      REQUIRE(std::all_of(inside.begin(), inside.end(), [&](Digest it) { return owned.view().may_contain(it); }));
    }
    CHECK(inside.size() > 1'000);
  }
}

TEST_CASE("fingerprints out of bits stand in every bucket they may belong to", "[fingerprint_table]") {
  SEENBY_RANDOM(random);
  Owned owned(0.9);  // never a tail: 15 bits to give
  std::vector<Digest> first(10);
  for (Digest& item : first) {
    item = Digest{random()};
    owned.insert(item);
  }
  std::vector<FingerprintItem> more(2'000'000);
  for (FingerprintItem& item : more) item = {Digest{random()}, 0};
  const std::vector<FingerprintItem> kept(more.begin(), more.begin() + 1'000);
  owned.insert_all(more);
  CHECK(owned.view().shape().bucket_bits == 18);
  CHECK(owned.view().shape().tail_bytes == 0);
  // Each of the first ten has given 15 bits of 18: it stands in eight buckets and matches all of each.
  CHECK(owned.view().estimated_fpr() >= std::ldexp(70.0, -18));
  for (const Digest item : first) CHECK(owned.view().may_contain(item));
  for (const FingerprintItem& item : kept) CHECK(owned.view().may_contain(item.digest));
}

TEST_CASE("items chosen to share a bucket take no more room than others, and are found", "[fingerprint_table]") {
  SEENBY_RANDOM(random);
  Owned owned(1e-9, true);
  std::vector<Digest> items;
  const FingerprintWindow window{3, 9};
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    items.push_back(Digest{(std::uint64_t{0x12345} << 44) | i << 34});
    owned.insert(items.back(), 3, window);
  }
  for (const Digest item : items) CHECK(owned.view().age(item, window) == 0);
  CHECK(owned.bytes() < 6'000);
}

TEST_CASE("whatever the bytes say, every kernel gives the scalar answer and stays inside them",
          "[fingerprint_table][kernels]") {
  SEENBY_RANDOM(random);
  for (int round = 0; round < 2'000; ++round) {
    FingerprintShape shape;
    shape.bucket_bits = static_cast<std::uint8_t>(random.below(9));
    shape.tail_bytes = static_cast<std::uint8_t>(random.below(5));
    shape.sliced = random.below(2) == 1;
    shape.capacity = static_cast<std::uint32_t>(random.below(40));
    std::vector<std::byte> body(shape.bytes());  // exactly: ASan sees a byte past it
    for (std::byte& byte : body) byte = static_cast<std::byte>(random() % (random.below(2) == 0 ? 256 : 20));
    const FingerprintView view(shape, static_cast<std::uint32_t>(random.below(80)), body.data());
    require_equal_kernels(view, {1, 9}, random);
  }
}

TEST_CASE("every kernel gives the scalar answer on sound tables of every size", "[fingerprint_table][kernels]") {
  SEENBY_RANDOM(random);
  for (const double share : {0.005, 1e-5}) {
    for (const bool sliced : {false, true}) {
      Owned owned(share, sliced);
      std::vector<Digest> inside;
      for (const std::uint64_t until : {1U, 4U, 10U, 11U, 15U, 16U, 17U, 40U, 160U, 161U, 400U, 2'000U, 30'000U}) {
        while (inside.size() < until) {
          inside.push_back(Digest{random()});
          owned.insert(inside.back(), static_cast<std::uint8_t>(random.below(9)), {8, 30});
        }
        CAPTURE(share, sliced, until);
        for (int i = 0; i < 5; ++i) require_equal_kernels(owned.view(), {8, 4}, random, inside);
      }
    }
  }
}

TEST_CASE("the bytes of a table are these", "[fingerprint_table]") {
  // Eleven items: two buckets, by the top bit; the lane is the fifteen bits behind it and a one.
  std::vector<FingerprintItem> items;
  for (std::uint64_t i = 0; i < 11; ++i) items.push_back({Digest{(i % 2) << 63 | (i + 1) << 48}, 0});
  FingerprintShape shape = seenby::grown_shape(nullptr, 11, 0.005, false);
  REQUIRE(shape.bucket_bits == 1);
  REQUIRE(shape.bytes() == 4 + 22);
  std::vector<std::byte> body(shape.bytes(), std::byte{0xFF});
  FingerprintTable table(shape, 0, body.data());
  REQUIRE(table.rebuild(nullptr, items, {}));
  const std::vector<unsigned> expected{0, 6, 11, 0,                              // the index, rounded up
                                       3, 0, 7,  0, 11, 0, 15, 0, 19, 0, 23, 0,  // 1, 3, ... 11: bucket 0
                                       5, 0, 9,  0, 13, 0, 17, 0, 21, 0};        // 2, 4, ... 10: bucket 1
  for (std::size_t i = 0; i < body.size(); ++i) CHECK(std::to_integer<unsigned>(body[i]) == expected[i]);
}

TEST_CASE("a million items, and every one is found", "[fingerprint_table][000-02]") {
  SEENBY_RANDOM(random);
  Owned owned(0.005);
  std::vector<FingerprintItem> items(1'000'000);
  for (FingerprintItem& item : items) item = {Digest{random()}, 0};
  owned.insert_all(items);
  std::size_t found = 0;
  for (const FingerprintItem& item : items) found += owned.view().may_contain(item.digest) ? 1U : 0U;
  CHECK(found == items.size());
  CHECK(owned.bytes() * 8 < items.size() * 18);
}

}  // namespace
