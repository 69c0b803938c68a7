// SPDX-License-Identifier: MIT
// PartitionedFilter: one global set for many threads, in memory and in mapped files.

#include "seenby/filters/partitioned_filter.hpp"

#include <array>
#include <atomic>
#include <barrier>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "support/binomial.hpp"
#include "support/files.hpp"
#include "support/random.hpp"

namespace {

using seenby::Digest;
using seenby::ErrorCode;
using seenby::PartitionedFilter;
using seenby::PartitionedFilterOptions;
using seenby::test::read_bytes;
using seenby::test::write_bytes;
using Filter = PartitionedFilter<std::uint64_t>;
using Urls = PartitionedFilter<std::string>;

std::string url(std::uint64_t number) {
  std::string text = "https://host-";
  return text.append(std::to_string(number % 9'973)).append(".example/page/").append(std::to_string(number));
}

/// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "seenby-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::filesystem::path file(const char* name) const { return path_ / name; }
  [[nodiscard]] std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }

 private:
  std::filesystem::path path_;
};

TEST_CASE("a partitioned filter forgets nothing and errs at its planned rate", "[partitioned][003-08]") {
  SEENBY_RANDOM(random);
  const std::uint32_t partitions = GENERATE(1U, 7U, 256U);
  INFO(partitions << " partitions");
  constexpr std::uint64_t items = 100'000;
  constexpr std::uint64_t probes = 400'000;
  Urls filter({.expected_items = items, .target_fpr = 0.01, .partitions = partitions}, seenby::Xxh3Hash{random.seed()});
  for (std::uint64_t i = 0; i < items; ++i) filter.insert(url(i));
  std::uint64_t lost = 0;
  for (std::uint64_t i = 0; i < items; ++i) lost += filter.may_contain(url(i)) ? 0U : 1U;
  CHECK(lost == 0);
  std::uint64_t hits = 0;
  for (std::uint64_t i = items; i < items + probes; ++i) hits += filter.may_contain(url(i)) ? 1U : 0U;
  CHECK(hits <= seenby::test::most_hits(probes, 0.01));
  // The probes err as these very bits say, no more and no less.
  CHECK(hits <= seenby::test::most_hits(probes, filter.estimated_fpr() * 1.01));
  CHECK(hits >= seenby::test::fewest_hits(probes, filter.estimated_fpr() * 0.99));
  CHECK(filter.expected_fpr(items) <= 0.01);
  // The bits' own rate is that of these very items; its spread over seeds is well under 3%.
  CHECK(filter.estimated_fpr() < filter.expected_fpr(items) * 1.03);
  CHECK(filter.estimated_fpr() > filter.expected_fpr(items) * 0.97);
  // Items not counted are those it took for present: at most the final rate of them.
  CHECK(filter.size() <= items);
  CHECK(filter.size() >= items - items / 100);
}

TEST_CASE("a filter for five billion items is planned as any other and takes memory as it fills",
          "[partitioned][003-08]") {
  constexpr std::uint64_t items = 5'000'000'000;
  Filter filter({.expected_items = items, .target_fpr = 0.01, .partitions = 1'024});
  CHECK(filter.expected_fpr(items) <= 0.01);
  CHECK(filter.expected_fpr(items) > 0.0099);
  CHECK(filter.capacity_bits() > 10 * items);
  CHECK(filter.capacity_bits() < 11 * items);
  std::unordered_set<std::uint32_t> partitions;
  for (std::uint64_t item = 0; item < 20; ++item) {
    CHECK(filter.insert_if_absent(item));
    partitions.insert(filter.partition_of(filter.digest(item)));
  }
  for (std::uint64_t item = 0; item < 20; ++item) CHECK(filter.may_contain(item));
  for (std::uint64_t item = 20; item < 1'000; ++item) CHECK_FALSE(filter.may_contain(item));
  CHECK(partitions.size() > 15);
}

TEST_CASE("a partition is a split-block filter that others can read", "[partitioned]") {
  Filter filter({.expected_items = 5'000, .target_fpr = 0.01, .partitions = 16});
  std::vector<seenby::BloomFilter<std::uint64_t, seenby::SplitBlockLayout>> same;
  for (std::uint32_t i = 0; i < 16; ++i) same.emplace_back(filter.partition_shape());
  for (std::uint64_t item = 0; item < 5'000; ++item) {
    filter.insert(item);
    same[filter.partition_of(filter.digest(item))].insert(item);
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    const auto view = filter.partition(i);
    CHECK(view.estimated_items() > 200);
    CHECK(view.estimated_items() < 450);
    for (std::uint64_t item = 0; item < 6'000; ++item) {
      if (view.may_contain(item) != same[i].may_contain(item)) FAIL("partition " << i << " differs for " << item);
    }
  }
  CHECK_THROWS_AS(filter.partition(16), std::out_of_range);
}

TEST_CASE("batches answer as one by one", "[partitioned]") {
  const std::size_t count = GENERATE(0U, 1U, 15U, 16U, 17U, 5'000U);
  const PartitionedFilterOptions options{.expected_items = 3'000, .target_fpr = 0.02, .partitions = 5};
  Filter batch(options);
  Filter single(options);
  std::vector<Digest> digests;
  for (std::uint64_t i = 0; i < count; ++i) digests.push_back(batch.digest(i % 4'000));
  std::vector<std::uint8_t> fresh(count, 9);
  const std::size_t told = batch.insert_if_absent(digests, fresh);
  std::size_t expected = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool was_new = single.insert_if_absent(digests[i]);
    expected += was_new ? 1U : 0U;
    CHECK(fresh[i] == (was_new ? 1 : 0));
  }
  CHECK(told == expected);
  CHECK(batch.size() == single.size());
  for (std::uint64_t i = 0; i < 3'000; ++i) digests.push_back(batch.digest(i + 10'000));
  std::vector<std::uint8_t> seen(digests.size(), 9);
  batch.may_contain(digests, seen);
  for (std::size_t i = 0; i < digests.size(); ++i) CHECK(seen[i] == (single.may_contain(digests[i]) ? 1 : 0));
  CHECK(batch.insert(digests) <= 3'000);
  CHECK_THROWS_WITH(batch.may_contain(digests, std::span(seen).first(2)),
                    "seenby: expected room for " + std::to_string(digests.size()) + " answers, got 2");
}

TEST_CASE("of the threads that race with one item exactly one is told it is new", "[partitioned][concurrent]") {
  // Few blocks, so that different items meet in one; four threads, each with all items in the same order, so that the
  // same item is always being inserted by several at once.
  constexpr std::uint64_t items = 20'000;
  constexpr unsigned threads = 4;
  Filter filter({.expected_items = items, .target_fpr = 1e-4, .partitions = 2});
  std::vector<std::atomic<int>> told(items);
  std::barrier start(threads);
  {
    std::vector<std::jthread> racers;
    for (unsigned t = 0; t < threads; ++t) {
      racers.emplace_back([&] {
        start.arrive_and_wait();
        for (std::uint64_t i = 0; i < items; ++i) {
          if (filter.insert_if_absent(i)) told[i].fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
  }
  std::uint64_t twice = 0;
  std::uint64_t never = 0;
  for (const auto& count : told) {
    twice += count > 1 ? 1U : 0U;
    never += count == 0 ? 1U : 0U;
  }
  CHECK(twice == 0);
  // Never told: false positives of the filter, whose mean rate over its filling is below the final one.
  CHECK(never <= seenby::test::most_hits(items, 1e-4));
  CHECK(filter.size() == items - never);
  for (std::uint64_t i = 0; i < items; ++i) {
    if (!filter.may_contain(i)) FAIL("lost " << i);
  }
}

TEST_CASE("an item races with itself alone and one caller wins every round", "[partitioned][concurrent]") {
  // One fresh block a round: nothing can be a false positive, so exactly one means one, never none.
  constexpr int rounds = 3'000;
  constexpr unsigned threads = 3;
  Filter filter({.expected_items = 1, .target_fpr = 0.5, .partitions = 4'096});
  // Items whose partitions all differ: their bits cannot meet.
  std::vector<Digest> alone;
  std::unordered_set<std::uint32_t> used;
  for (std::uint64_t item = 0; alone.size() < rounds; ++item) {
    if (used.insert(filter.partition_of(filter.digest(item))).second) alone.push_back(filter.digest(item));
  }
  std::vector<std::atomic<int>> told(rounds);
  std::barrier gate(threads);
  {
    std::vector<std::jthread> racers;
    for (unsigned t = 0; t < threads; ++t) {
      racers.emplace_back([&] {
        for (std::size_t round = 0; round < rounds; ++round) {
          if (round % 50 == 0) gate.arrive_and_wait();
          if (filter.insert_if_absent(alone[round])) told[round].fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
  }
  std::uint64_t wrong = 0;
  for (const auto& count : told) wrong += count == 1 ? 0U : 1U;
  CHECK(wrong == 0);
  CHECK(filter.size() == rounds);
}

TEST_CASE("items that crowd into one block never have two winners", "[partitioned][concurrent]") {
  // A single block, ten items, every thread in an order of its own: their bits meet all the time.
  constexpr int rounds = 500;
  constexpr std::uint64_t items = 10;
  constexpr unsigned threads = 3;
  std::vector<Filter> filters;
  for (int round = 0; round < rounds; ++round) {
    filters.emplace_back(PartitionedFilterOptions{.expected_items = 1, .target_fpr = 0.5, .partitions = 1});
  }
  REQUIRE(filters[0].capacity_bits() == 256);
  std::vector<std::atomic<int>> told(rounds * items);
  std::barrier gate(threads);
  {
    std::vector<std::jthread> racers;
    for (unsigned t = 0; t < threads; ++t) {
      racers.emplace_back([&, t] {
        for (std::size_t round = 0; round < rounds; ++round) {
          if (round % 25 == 0) gate.arrive_and_wait();
          for (std::uint64_t i = 0; i < items; ++i) {
            const std::uint64_t item = (i * std::array{1U, 3U, 7U}[t] + t) % items;
            if (filters[round].insert_if_absent(item + items * round)) ++told[round * items + item];
          }
        }
      });
    }
  }
  std::uint64_t twice = 0;
  std::uint64_t lost = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::uint64_t winners = 0;
    for (std::uint64_t item = 0; item < items; ++item) {
      const auto count = static_cast<std::uint64_t>(told[round * items + item].load());
      winners += count;
      twice += count > 1 ? 1U : 0U;
      lost += filters[round].may_contain(item + items * round) ? 0U : 1U;
    }
    if (winners < 1 || winners != filters[round].size()) FAIL("round " << round << ": " << winners << " winners");
  }
  CHECK(twice == 0);
  CHECK(lost == 0);
}

TEST_CASE("what another thread acknowledged is seen, while others insert and save", "[partitioned][concurrent]") {
  const Folder folder;
  constexpr std::uint64_t items = 30'000;
  Filter filter({.expected_items = 2 * items, .target_fpr = 0.01, .partitions = 8});
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<std::uint64_t> lost{0};
  {
    const std::jthread writer([&] {
      for (std::uint64_t i = 0; i < items; ++i) {
        filter.insert(i);
        acknowledged.store(i + 1, std::memory_order_release);
      }
    });
    const std::jthread batch_writer([&] {
      std::vector<Digest> digests;
      for (std::uint64_t i = 0; i < items; ++i) digests.push_back(filter.digest(i + 1'000'000));
      for (std::size_t at = 0; at < items; at += 1'000) filter.insert(std::span(digests).subspan(at, 1'000));
    });
    const std::jthread saver([&] {
      const std::uint64_t before = acknowledged.load(std::memory_order_acquire);
      REQUIRE(filter.save(folder.file("set")).has_value());
      const auto saved = Filter::open(folder.file("set"), {.verify = true});
      REQUIRE(saved.has_value());
      for (std::uint64_t i = 0; i < before; ++i) lost += saved->may_contain(i) ? 0U : 1U;
    });
    std::mt19937_64 random{7};
    while (acknowledged.load(std::memory_order_acquire) < items) {
      const std::uint64_t known = acknowledged.load(std::memory_order_acquire);
      if (known > 0 && !filter.may_contain(random() % known)) ++lost;
      if (filter.estimated_fpr() > 0.02 || filter.size() > 2 * items) ++lost;
    }
  }
  CHECK(lost == 0);
}

TEST_CASE("a filter comes back from its file as it was", "[partitioned]") {
  const Folder folder;
  const auto path = folder.file("urls");
  Urls filter({.expected_items = 20'000, .target_fpr = 0.01, .partitions = 32});
  for (std::uint64_t i = 0; i < 20'000; ++i) filter.insert(url(i));
  REQUIRE(filter.save(path).has_value());
  CHECK(folder.files() == 1);
  const auto opened = Urls::open(path, {.verify = true});
  REQUIRE(opened.has_value());
  CHECK(opened->size() == filter.size());
  CHECK(opened->expected_items() == 20'000);
  CHECK(opened->target_fpr() == 0.01);
  CHECK(opened->partitions() == 32);
  for (std::uint64_t i = 0; i < 30'000; ++i) {
    if (opened->may_contain(url(i)) != filter.may_contain(url(i))) FAIL("differs for " << url(i));
  }
  // Saved again it is the same file, byte for byte.
  REQUIRE(opened->save(folder.file("again")).has_value());
  CHECK(read_bytes(path) == read_bytes(folder.file("again")));
}

TEST_CASE("inserts into an opened file stay in the process until saved", "[partitioned]") {
  const Folder folder;
  const auto path = folder.file("set");
  Filter filter({.expected_items = 1'000});
  filter.insert(std::uint64_t{1});
  REQUIRE(filter.save(path).has_value());
  const auto before = read_bytes(path);
  auto opened = Filter::open(path);
  REQUIRE(opened.has_value());
  opened->insert(std::uint64_t{2});
  CHECK(opened->size() == 2);
  CHECK(read_bytes(path) == before);
  const auto other = Filter::open(path);
  CHECK_FALSE(other->may_contain(std::uint64_t{2}));
  REQUIRE(opened->save(path).has_value());
  // Who had the old file open keeps it; who opens the path now gets the new one.
  CHECK_FALSE(other->may_contain(std::uint64_t{2}));
  CHECK(Filter::open(path)->may_contain(std::uint64_t{2}));
}

TEST_CASE("a file opened shared is one set for all who opened it", "[partitioned]") {
  const Folder folder;
  const auto path = folder.file("set");
  REQUIRE(Filter({.expected_items = 1'000}).save(path).has_value());
  auto first = Filter::open(path, {.shared = true});
  auto second = Filter::open(path, {.shared = true});
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(first->insert_if_absent(std::uint64_t{1}));
  CHECK_FALSE(second->insert_if_absent(std::uint64_t{1}));
  CHECK(second->insert_if_absent(std::uint64_t{2}));
  REQUIRE(first->sync().has_value());
  REQUIRE(second->sync().has_value());
  REQUIRE(second->sync().has_value());
  CHECK(first->size() == 2);
  const auto later = Filter::open(path);
  REQUIRE(later.has_value());
  CHECK(later->size() == 2);
  CHECK(later->may_contain(std::uint64_t{1}));
  CHECK(Filter::open(path, {.verify = true}).error().code == ErrorCode::unavailable);
}

TEST_CASE("a damaged file is a typed error and is never mapped", "[partitioned]") {
  const Folder folder;
  const auto path = folder.file("set");
  Filter filter({.expected_items = 1'000, .partitions = 4});
  for (std::uint64_t i = 0; i < 1'000; ++i) filter.insert(i);
  REQUIRE(filter.save(path).has_value());
  const auto good = read_bytes(path);
  const auto code_of = [&](std::span<const std::byte> bytes) {
    write_bytes(path, bytes);
    const auto result = Filter::open(path);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().message.starts_with("seenby: "));
    return result.error().code;
  };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{63}, std::size_t{4'095}, std::size_t{4'096}, good.size() - 1}) {
    CHECK(code_of(std::span(good).first(size)) == ErrorCode::truncated);
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(code_of(longer) == ErrorCode::corrupt);
  for (std::size_t at = 2; at < 56; ++at) {
    auto flipped = good;
    flipped[at] ^= std::byte{0x20};
    CHECK(code_of(flipped) == ErrorCode::corrupt);
  }
  auto first = good;
  first[0] = std::byte{0x7f};
  CHECK(code_of(first) == ErrorCode::bad_magic);
  first[0] = std::byte{0xC2};
  CHECK(code_of(first) == ErrorCode::unsupported_version);
  first = good;
  first[1] = std::byte{1};
  CHECK(code_of(first) == ErrorCode::wrong_type);
  // A flipped bit behind the header is found by who asks for it.
  auto bit = good;
  bit[5'000] ^= std::byte{1};
  write_bytes(path, bit);
  CHECK(Filter::open(path).has_value());
  CHECK(Filter::open(path, {.verify = true}).error().code == ErrorCode::corrupt);
  write_bytes(path, good);
  CHECK(Filter::open(path, {}, seenby::Xxh3Hash{5}).error().code == ErrorCode::parameter_mismatch);
  CHECK(PartitionedFilter<std::uint64_t, seenby::Mix64Hash>::open(path).error().code == ErrorCode::parameter_mismatch);
  CHECK(Filter::open(folder.file("none")).error().code == ErrorCode::io);
  CHECK(filter.save(folder.file("no-folder") / "set").error().code == ErrorCode::io);
}

TEST_CASE("a partitioned filter refuses options that cannot be", "[partitioned]") {
  CHECK_THROWS_WITH(Filter({.expected_items = 0}), "seenby: expected at least 1 item, got 0");
  CHECK_THROWS_AS(Filter({.expected_items = 10, .target_fpr = 1.5}), std::invalid_argument);
  CHECK_THROWS_WITH(Filter({.expected_items = 10, .partitions = 0}), "seenby: expected 1 to 65536 partitions, got 0");
  CHECK_THROWS_AS(Filter({.expected_items = 100'000'000'000, .partitions = 1}), std::invalid_argument);
}

/// SEENBY_SOAK=1: the full size, on a machine with 1 GiB to spare.
TEST_CASE("a hundred million URLs err within 1% of the plan and open in milliseconds", "[partitioned][soak][003-08]") {
  if (std::getenv("SEENBY_SOAK") == nullptr) SKIP("set SEENBY_SOAK=1 to insert 100,000,000 items");
  const Folder folder;
  constexpr std::uint64_t items = 100'000'000;
  Urls filter({.expected_items = items, .target_fpr = 0.01, .partitions = 256});
  std::vector<Digest> digests(1'000'000);
  std::vector<std::uint8_t> seen(digests.size());
  const auto hash_from = [&](std::uint64_t start) {
    for (std::size_t i = 0; i < digests.size(); ++i) digests[i] = filter.digest(url(start + i));
  };
  for (std::uint64_t at = 0; at < items; at += digests.size()) {
    hash_from(at);
    filter.insert(digests);
  }
  std::uint64_t hits = 0;
  for (std::uint64_t at = items; at < 2 * items; at += digests.size()) {
    hash_from(at);
    filter.may_contain(digests, seen);
    for (const std::uint8_t one : seen) hits += one;
  }
  const double measured = static_cast<double>(hits) / static_cast<double>(items);
  std::printf("planned %.6f, measured %.6f over %llu probes\n", filter.expected_fpr(items), measured,
              static_cast<unsigned long long>(items));
  CHECK(measured > 0.0099);
  CHECK(measured < 0.0101);
  REQUIRE(filter.save(folder.file("urls")).has_value());
  const auto start = std::chrono::steady_clock::now();
  const auto opened = Urls::open(folder.file("urls"));
  const auto took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  REQUIRE(opened.has_value());
  std::printf("second open: %.3f ms for %llu MB\n", took,
              static_cast<unsigned long long>(filter.capacity_bits() / 8'000'000));
  CHECK(took < 100);
  hash_from(0);
  opened->may_contain(digests, seen);
  std::uint64_t lost = 0;
  for (const std::uint8_t one : seen) lost += 1U - one;
  CHECK(lost == 0);
}

}  // namespace
