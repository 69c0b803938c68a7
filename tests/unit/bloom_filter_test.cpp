// SPDX-License-Identifier: MIT
// BloomFilter and its view: what is inserted is found, what does not fit together is refused.

#include "seenby/filters/bloom_filter.hpp"

#include <array>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "seenby/filters/layout/split_block.hpp"
#include "support/allocations.hpp"
#include "support/random.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using seenby::BloomFilter;
using seenby::BloomFilterView;
using seenby::ClassicLayout;
using seenby::Digest;
using seenby::ErrorCode;
using seenby::FilterShape;
using seenby::HashKind;
using seenby::Mix64Hash;
using seenby::SplitBlockLayout;
using seenby::Xxh3Hash;
using seenby::Xxh64Hash;
using seenby::test::allocations_of;

using Number = std::uint64_t;
using Kinds =
    std::tuple<BloomFilter<Number, ClassicLayout, Xxh3Hash>, BloomFilter<Number, ClassicLayout, Mix64Hash>,
               BloomFilter<Number, SplitBlockLayout, Xxh3Hash>, BloomFilter<Number, SplitBlockLayout, Xxh64Hash>>;

/// XXH3 that counts how often it hashes.
class CountingHash {
 public:
  static constexpr HashKind kind = HashKind::xxh3_64;
  explicit CountingHash(std::uint64_t* calls) : calls_(calls) {}
  template <seenby::HashableItem T>
  Digest operator()(const T& item) const noexcept {
    ++*calls_;
    return Xxh3Hash{}(item);
  }
  [[nodiscard]] std::uint64_t seed() const noexcept { return 0; }

 private:
  std::uint64_t* calls_;
};

TEMPLATE_LIST_TEST_CASE("what was inserted is contained", "[bloom_filter][000-02]", Kinds) {
  SEENBY_RANDOM(random);
  TestType filter{{.expected_items = 1'000, .target_fpr = 0.01}};
  std::vector<Number> items(3'000);  // three times what it was made for: full filters forget nothing either
  for (Number& item : items) filter.insert(item = random());
  for (const Number item : items) REQUIRE(filter.may_contain(item));
}

TEMPLATE_LIST_TEST_CASE("an empty filter contains nothing", "[bloom_filter][001-01]", Kinds) {
  SEENBY_RANDOM(random);
  const TestType filter{{.expected_items = 1'000, .target_fpr = 0.5}};
  for (int i = 0; i < 1'000; ++i) REQUIRE_FALSE(filter.may_contain(random()));
  CHECK(filter.fill_ratio() == 0);
  CHECK(filter.estimated_items() == 0);
  CHECK(filter.estimated_fpr() == 0);
  CHECK(filter.size() == 0);
}

TEMPLATE_LIST_TEST_CASE("an insert tells newly added from present", "[bloom_filter][001-06]", Kinds) {
  TestType filter{{.expected_items = 1'000, .target_fpr = 0.0001}};
  CHECK(filter.insert_if_absent(Number{1}));
  CHECK_FALSE(filter.insert_if_absent(Number{1}));
  CHECK(filter.size() == 1);
  filter.insert(Number{1});
  CHECK(filter.size() == 1);
  // A false "present" comes with the filter's rate, so the count of new ones is a little low and never high.
  std::uint64_t added = 1;
  for (Number item = 2; item <= 1'000; ++item) added += filter.insert_if_absent(item) ? 1U : 0U;
  CHECK(added <= 1'000);
  CHECK(added >= 990);
  CHECK(filter.size() == added);
}

TEMPLATE_LIST_TEST_CASE("insert_if_absent says no exactly when may_contain said yes", "[bloom_filter][001-03]", Kinds) {
  SEENBY_RANDOM(random);
  TestType filter{{.expected_items = 100, .target_fpr = 0.1}};
  for (int i = 0; i < 500; ++i) {
    const Number item = random.below(400);
    const bool known = filter.may_contain(item);
    REQUIRE(filter.insert_if_absent(item) != known);
  }
}

TEST_CASE("an item is found however its type is written", "[bloom_filter]") {
  BloomFilter<std::string> strings{{.expected_items = 10}};
  strings.insert("literal");
  strings.insert(std::string{"owned"});
  strings.insert(std::string_view{"viewed"});
  for (const char* item : {"literal", "owned", "viewed"}) {
    CHECK(strings.may_contain(item));
    CHECK(strings.may_contain(std::string{item}));
    CHECK(strings.may_contain(std::string_view{item}));
  }
  BloomFilter<std::int32_t> numbers{{.expected_items = 10}};
  numbers.insert(-7);
  CHECK(numbers.may_contain(std::int64_t{-7}));
  CHECK(numbers.may_contain(std::int8_t{-7}));

  BloomFilter<std::span<const std::byte>> bytes{{.expected_items = 10}};
  const std::vector<std::byte> key(20, std::byte{3});
  bytes.insert(key);
  CHECK(bytes.may_contain(std::span<const std::byte>(key)));
}

// Asked about a type that it does not hold, a filter would answer "certainly not": that must not compile.
template <class Filter, class Key>
concept Askable = requires(const Filter& filter, const Key& key) {
  filter.may_contain(key);
};

TEST_CASE("a filter of strings cannot be asked about a number, nor the other way round", "[bloom_filter]") {
  STATIC_REQUIRE(Askable<BloomFilter<std::string>, const char*>);
  STATIC_REQUIRE_FALSE(Askable<BloomFilter<std::string>, int>);
  STATIC_REQUIRE_FALSE(Askable<BloomFilter<int>, std::string>);
  STATIC_REQUIRE_FALSE(Askable<BloomFilter<int>, double>);
}

// Construction

TEMPLATE_LIST_TEST_CASE("nonsense is refused before anything is allocated", "[bloom_filter]", Kinds) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t bytes = 0;
  const auto refused = [&](std::uint64_t items, double fpr, const std::string& message) {
    const auto made = allocations_of([&] {
      try {
        const TestType filter{{.expected_items = items, .target_fpr = fpr}};
        FAIL_CHECK("made a filter of " << items << " items at " << fpr);
      } catch (const std::invalid_argument& refusal) { CHECK_THAT(refusal.what(), ContainsSubstring(message)); }
    });
    bytes = std::max(bytes, made.bytes);
  };
  for (const double fpr : {0.0, 1.0, -1.0, nan}) refused(1'000'000, fpr, "expected 0 < fpr < 1, got ");
  refused(0, 0.01, "expected at least 1 item, got 0");
  refused(std::uint64_t{1} << 60, 0.01,
          "expected a filter of at most 2^37 bits (16 GiB), but 1152921504606846976 items");
  // A message and the assertion about it, but no filter: a million items at 50% would be 180,000 bytes.
  CHECK(bytes < 16'384);
}

TEMPLATE_LIST_TEST_CASE("a shape that is not the layout's is refused", "[bloom_filter]", Kinds) {
  using Layout = typename TestType::layout_type;
  const FilterShape shape = Layout::shape_of(4'096, 8);
  CHECK_NOTHROW(TestType{shape});
  for (const std::uint64_t bits : {std::uint64_t{0}, std::uint64_t{65}, std::uint64_t{4'095}, std::uint64_t{1} << 38}) {
    FilterShape wrong = shape;
    wrong.bits = bits;
    CHECK_THROWS_AS(TestType{wrong}, std::invalid_argument);
    CHECK_THROWS_AS(BloomFilterView<Number>(wrong, {}), std::invalid_argument);
  }
  FilterShape other_layout = shape;
  other_layout.layout =
      Layout::kind == seenby::LayoutKind::classic ? seenby::LayoutKind::split_block : seenby::LayoutKind::classic;
  CHECK_THROWS_WITH(TestType{other_layout}, ContainsSubstring("expected a shape of layout"));
  FilterShape no_hashes = shape;
  no_hashes.hash_count = 0;
  CHECK_THROWS_AS(TestType{no_hashes}, std::invalid_argument);
  CHECK_THROWS_WITH(TestType(shape, 1.0), ContainsSubstring("expected 0 < target_fpr < 1, got 1"));
  // Of 16 GiB, none: the rate is checked first.
  FilterShape huge = shape;
  huge.bits = seenby::max_filter_bits;
  CHECK_THROWS_AS(TestType(huge, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

TEST_CASE("k = 4 and 2^11 bits can be chosen, and k off its optimum", "[bloom_filter][000-06]") {
  const BloomFilter<int> filter{ClassicLayout::shape_of(std::uint64_t{1} << 11, 4)};
  CHECK(filter.capacity_bits() == 2'048);
  CHECK(filter.hash_count() == 4);
  CHECK(filter.bits().size() == 256);
  CHECK(filter.target_fpr() == 0.01);
  CHECK(filter.capacity() == seenby::sizing::capacity_of(filter.shape(), 0.01));
  const BloomFilter<int> off_optimum{ClassicLayout::shape_of(10'000, 1), 0.05};
  CHECK(off_optimum.hash_count() == 1);
}

TEST_CASE("bits are packed: as many bytes as an eighth of the bits", "[bloom_filter][001-02]") {
  for (const std::uint64_t bits : {1U, 63U, 64U, 65U, 1'001U, 9'585'059U}) {
    const BloomFilter<int> filter{ClassicLayout::shape_of(bits, 7)};
    CHECK(filter.bits().size() == (bits + 63) / 64 * 8);
  }
}

// One digest, any filter

TEST_CASE("one digest serves filters of every size", "[bloom_filter][000-09][000-10]") {
  std::uint64_t calls = 0;
  const CountingHash hash{&calls};
  using Filter = BloomFilter<Number, ClassicLayout, CountingHash>;
  std::vector<Filter> users;
  for (std::uint64_t bits = 64; bits <= std::uint64_t{1} << 20; bits *= 2) {
    users.emplace_back(ClassicLayout::shape_of(bits, 7), 0.01, hash);
  }
  const Digest seen = users.front().digest(Number{17});
  const Digest unseen = users.front().digest(Number{18});
  CHECK(calls == 2);
  for (Filter& user : users) user.insert(seen);
  for (const Filter& user : users) {
    CHECK(user.may_contain(seen));
    CHECK_FALSE(user.may_contain(unseen));
    std::array<std::uint8_t, 2> answers{};
    user.may_contain(std::array{seen, unseen}, answers);
    CHECK(answers == std::array<std::uint8_t, 2>{1, 0});
  }
  CHECK(calls == 2);
  // By item it is the same answer, with a hash each.
  for (const Filter& user : users) CHECK(user.may_contain(Number{17}));
  CHECK(calls == 2 + users.size());
}

TEMPLATE_LIST_TEST_CASE("a look-up allocates nothing", "[bloom_filter]", Kinds) {
  TestType filter{{.expected_items = 1'000}};
  std::vector<Digest> digests;
  for (Number item = 0; item < 500; ++item) digests.push_back(filter.digest(item));
  std::vector<std::uint8_t> answers(digests.size());
  const auto made = allocations_of([&] {
    filter.insert(Number{3});
    (void)filter.insert_if_absent(Number{4});
    filter.insert(digests);
    filter.may_contain(digests, answers);
    if (filter.may_contain(Number{3})) filter.clear();
    (void)filter.estimated_items();
    (void)filter.view().may_contain(Number{3});
  });
  CHECK(made.count == 0);
  STATIC_REQUIRE(noexcept(filter.may_contain(Number{3})));
  STATIC_REQUIRE(noexcept(filter.may_contain(Digest{3})));
}

TEMPLATE_LIST_TEST_CASE("a batch answers as single look-ups do, at every length", "[bloom_filter]", Kinds) {
  SEENBY_RANDOM(random);
  for (const std::uint64_t expected : {1U, 40U, 5'000U}) {
    TestType filter{{.expected_items = expected, .target_fpr = 0.2}};
    for (std::uint64_t i = 0; i < expected; ++i) filter.insert(Digest{random()});
    for (std::size_t length = 0; length < 70; ++length) {
      std::vector<Digest> digests(length);
      for (Digest& digest : digests) digest.value = random();
      std::vector<std::uint8_t> answers(length + 1, 0xee);
      filter.may_contain(digests, answers);
      for (std::size_t i = 0; i < length; ++i) REQUIRE(answers[i] == (filter.may_contain(digests[i]) ? 1 : 0));
      REQUIRE(answers[length] == 0xee);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("a batch of inserts is the inserts one by one", "[bloom_filter]", Kinds) {
  SEENBY_RANDOM(random);
  std::vector<Digest> digests(1'000);
  for (Digest& digest : digests) digest.value = random();
  digests.insert(digests.end(), digests.begin(), digests.begin() + 100);
  TestType together{{.expected_items = 1'000}};
  TestType singly{{.expected_items = 1'000}};
  together.insert(digests);
  for (const Digest digest : digests) singly.insert(digest);
  CHECK(together == singly);
  CHECK(together.size() == singly.size());
}

TEMPLATE_LIST_TEST_CASE("a batch without room for its answers is refused", "[bloom_filter]", Kinds) {
  const TestType filter{{.expected_items = 10}};
  const std::array<Digest, 3> digests{};
  std::array<std::uint8_t, 2> answers{};
  CHECK_THROWS_WITH(filter.may_contain(digests, answers), ContainsSubstring("expected room for 3 answers, got 2"));
}

// Merge, clear

TEMPLATE_LIST_TEST_CASE("merge keeps every key of both", "[bloom_filter]", Kinds) {
  TestType a{{.expected_items = 2'000}};
  TestType b{{.expected_items = 2'000}};
  for (Number item = 0; item < 1'000; ++item) a.insert(item);
  for (Number item = 1'000; item < 2'000; ++item) b.insert(item);
  const std::uint64_t items = a.size() + b.size();
  REQUIRE(a.merge(b).has_value());
  CHECK(a.size() == items);
  for (Number item = 0; item < 2'000; ++item) REQUIRE(a.may_contain(item));
  for (Number item = 0; item < 1'000; ++item) {
    if (b.may_contain(item)) continue;
    SUCCEED("the other filter is as it was");
    return;
  }
  FAIL("the other filter took the items over");
}

TEMPLATE_LIST_TEST_CASE("a merge with other parameters is refused and changes nothing", "[bloom_filter]", Kinds) {
  using Layout = typename TestType::layout_type;
  TestType filter{Layout::shape_of(4'096, 8)};
  filter.insert(Number{1});
  const TestType before = filter;
  TestType other_size{Layout::shape_of(8'192, 8)};
  TestType other_seed{Layout::shape_of(4'096, 8), 0.01, typename TestType::hasher_type{7}};
  other_size.insert(Number{2});
  other_seed.insert(Number{2});
  for (const TestType* other : {&other_size, &other_seed}) {
    const auto merged = filter.merge(*other);
    REQUIRE_FALSE(merged.has_value());
    CHECK(merged.error().code == ErrorCode::parameter_mismatch);
    CHECK_THAT(merged.error().message,
               ContainsSubstring("expected a filter of 4096 bits, k = 8 and the same seed, got"));
    CHECK(filter == before);
    CHECK(filter.size() == 1);
  }
  CHECK_THAT(filter.merge(other_size).error().message, ContainsSubstring("got 8192 bits, k = 8, same seed"));
  CHECK_THAT(filter.merge(other_seed).error().message, ContainsSubstring("got 4096 bits, k = 8, another seed"));
}

TEST_CASE("a merge with another k is refused", "[bloom_filter]") {
  BloomFilter<int> four{ClassicLayout::shape_of(2'048, 4)};
  const BloomFilter<int> five{ClassicLayout::shape_of(2'048, 5)};
  REQUIRE(four.merge(five).error().code == ErrorCode::parameter_mismatch);
}

TEMPLATE_LIST_TEST_CASE("a cleared filter is a new one", "[bloom_filter]", Kinds) {
  TestType filter{{.expected_items = 100}};
  const TestType fresh = filter;
  filter.insert(Number{1});
  CHECK_FALSE(filter == fresh);
  filter.clear();
  CHECK(filter == fresh);
  CHECK(filter.size() == 0);
  CHECK_FALSE(filter.may_contain(Number{1}));
}

TEMPLATE_LIST_TEST_CASE("equal filters agree in shape, seed and bits", "[bloom_filter]", Kinds) {
  using Layout = typename TestType::layout_type;
  const TestType filter{Layout::shape_of(4'096, 8)};
  CHECK(filter == TestType{Layout::shape_of(4'096, 8)});
  // The same bits under another seed answer differently from the first insert on.
  CHECK_FALSE(filter == TestType(Layout::shape_of(4'096, 8), 0.01, typename TestType::hasher_type{1}));
  CHECK_FALSE(filter == TestType{Layout::shape_of(8'192, 8)});
}

TEMPLATE_LIST_TEST_CASE("a copy is independent and a moved filter keeps its items", "[bloom_filter]", Kinds) {
  TestType filter{{.expected_items = 100}};
  filter.insert(Number{1});
  TestType copy = filter;
  copy.insert(Number{2});
  CHECK_FALSE(filter.may_contain(Number{2}));
  const TestType moved = std::move(copy);
  CHECK(moved.may_contain(Number{1}));
  CHECK(moved.may_contain(Number{2}));
  filter = moved;
  CHECK(filter == moved);
}

// Growth

TEMPLATE_LIST_TEST_CASE("growth doubles the capacity, keeps the rate and every known item", "[bloom_filter][000-08]",
                        Kinds) {
  TestType filter{{.expected_items = 500, .target_fpr = 0.01}};
  std::vector<Number> history;
  for (Number item = 0; history.size() < 8'000; ++item) {
    // The threshold: the capacity at the budget. A growth in time keeps the rate below it throughout.
    if (filter.size() >= filter.capacity()) {
      const std::uint64_t capacity = filter.capacity();
      filter.grow(history);
      REQUIRE(filter.capacity() >= 2 * capacity);
      REQUIRE(filter.target_fpr() == 0.01);
      for (const Number known : history) REQUIRE(filter.may_contain(known));
    }
    filter.insert(item);
    history.push_back(item);
    // The rate of these very bits wanders around the expected one, in the smallest filter by a few percent.
    REQUIRE(filter.estimated_fpr() < 0.013);
  }
  for (const Number known : history) REQUIRE(filter.may_contain(known));
}

TEMPLATE_LIST_TEST_CASE("growth takes any range of items or digests", "[bloom_filter][000-08]", Kinds) {
  TestType by_items{{.expected_items = 10}};
  TestType by_digests = by_items;
  const std::list<int> items{1, 2, 3};
  std::vector<Digest> digests;
  for (const int item : items) digests.push_back(by_items.digest(item));
  by_items.grow(items);
  by_digests.grow(digests);
  CHECK(by_items == by_digests);
  CHECK(by_items.size() == 3);
  // A history that outgrew twice the capacity still fits at the rate.
  TestType late{{.expected_items = 10}};
  std::vector<Number> history(1'000);
  std::iota(history.begin(), history.end(), Number{0});
  late.grow(history);
  CHECK(late.capacity() >= history.size());
  CHECK(late.estimated_fpr() < 0.013);

  TestType to_size{{.expected_items = 10}};
  to_size.grow_to(5'000, std::vector<Number>{});
  CHECK(to_size.capacity() >= 5'000);
}

/// A history that breaks off, as one read from a database may.
struct BreakingIterator {
  int at = 0;
  using value_type = Number;
  using difference_type = std::ptrdiff_t;
  Number operator*() const {
    if (at == 3) throw std::runtime_error("the history broke off");
    return static_cast<Number>(at);
  }
  BreakingIterator& operator++() { return ++at, *this; }
  void operator++(int) { ++at; }
  bool operator==(std::default_sentinel_t) const { return at == 5; }
};
struct BreakingHistory {
  [[nodiscard]] BreakingIterator begin() const { return {}; }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
};

TEMPLATE_LIST_TEST_CASE("growth that fails leaves the filter as it was", "[bloom_filter]", Kinds) {
  TestType filter{{.expected_items = 10}};
  filter.insert(Number{1});
  const TestType before = filter;
  CHECK_THROWS_AS(filter.grow_to(std::uint64_t{1} << 60, std::vector<Number>{1}), std::invalid_argument);
  CHECK(filter == before);

  CHECK_THROWS_WITH(filter.grow(BreakingHistory{}), "the history broke off");
  CHECK(filter == before);
  CHECK(filter.size() == 1);
}

TEST_CASE("a shape past the largest size is refused", "[bloom_filter]") {
  // The check comes before the allocation, so a shape of 16 GiB need not exist to be refused.
  CHECK_THROWS_AS(seenby::detail::checked_shape<ClassicLayout>(
                      {.layout = seenby::LayoutKind::classic, .hash_count = 7, .bits = 2 * seenby::max_filter_bits}),
                  std::invalid_argument);
}

// Views

TEMPLATE_LIST_TEST_CASE("a view answers as its filter does", "[bloom_filter][view]", Kinds) {
  SEENBY_RANDOM(random);
  TestType filter{{.expected_items = 500, .target_fpr = 0.1}};
  for (int i = 0; i < 500; ++i) filter.insert(random());
  const std::vector<std::byte> encoded = filter.encode();
  const auto over = TestType::view_type::over(encoded);
  REQUIRE(over.has_value());
  for (const auto& view : {filter.view(), *over}) {
    CHECK(view.shape() == filter.shape());
    CHECK(view.fill_ratio() == filter.fill_ratio());
    CHECK(view.estimated_items() == filter.estimated_items());
    CHECK(view.estimated_fpr() == filter.estimated_fpr());
    for (int i = 0; i < 2'000; ++i) {
      const Number item = random();
      REQUIRE(view.may_contain(item) == filter.may_contain(item));
      REQUIRE(view.may_contain(filter.digest(item)) == filter.may_contain(item));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("a view over bytes at any alignment answers the same", "[bloom_filter][view]", Kinds) {
  SEENBY_RANDOM(random);
  TestType filter{{.expected_items = 100, .target_fpr = 0.1}};
  for (int i = 0; i < 100; ++i) filter.insert(random());
  std::vector<Digest> digests(100);
  for (Digest& digest : digests) digest.value = random();
  std::vector<std::uint8_t> expected(digests.size());
  filter.may_contain(digests, expected);
  const auto encoded = filter.encode();
  for (std::size_t offset = 0; offset < 64; ++offset) {
    std::vector<std::byte> shifted(offset);
    shifted.insert(shifted.end(), encoded.begin(), encoded.end());
    const auto view = TestType::view_type::over(std::span<const std::byte>(shifted).subspan(offset));
    REQUIRE(view.has_value());
    std::vector<std::uint8_t> answers(digests.size());
    view->may_contain(digests, answers);
    REQUIRE(answers == expected);
  }
}

TEMPLATE_LIST_TEST_CASE("a view over the wrong number of bytes is refused", "[bloom_filter][view]", Kinds) {
  using Layout = typename TestType::layout_type;
  const FilterShape shape = Layout::shape_of(4'096, 8);
  const std::vector<std::byte> bytes(513);
  const std::span<const std::byte> span = bytes;
  using View = typename TestType::view_type;
  CHECK_NOTHROW(View(shape, span.first(512)));
  CHECK_THROWS_WITH(View(shape, span), ContainsSubstring("expected 512 bytes of bits, got 513"));
  CHECK_THROWS_WITH(View(shape, {}), ContainsSubstring("expected 512 bytes of bits, got 0"));
}

}  // namespace
