// SPDX-License-Identifier: MIT
// Every kernel gives the scalar kernel's answers, bit for bit, on every size and alignment.

#include "seenby/kernels.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "seenby/kernels/every_kernel.hpp"

namespace {

using seenby::Digest;
using seenby::detail::Answers;
using seenby::detail::DigestLanes;
using seenby::detail::DigestsRef;
using seenby::detail::Kernel;
using seenby::detail::SplitBlockRef;

constexpr std::size_t largest_batch = 300;
/// Written beside every buffer: a kernel that writes past its end changes it.
constexpr std::uint8_t canary = 0xA5;

std::vector<Digest> random_digests(std::size_t count, std::mt19937_64& random) {
  std::vector<Digest> digests(count);
  for (Digest& digest : digests) digest.value = random();
  return digests;
}

/// The vector kernels that run here; empty in builds without them.
std::vector<const Kernel*> other_kernels() {
  std::vector<const Kernel*> kernels;
  for (const Kernel& kernel : seenby::detail::compiled_kernels()) {
    if (kernel.name != "scalar" && kernel.runs_here()) kernels.push_back(&kernel);
  }
  return kernels;
}

const Kernel& scalar_kernel() { return seenby::detail::compiled_kernels().front(); }

/// A filter whose first block is `misalignment` bytes off its allocation, filled until about one test in four hits.
class Filter {
 public:
  Filter(std::uint32_t block_count, std::size_t misalignment, std::mt19937_64& random)
      : bytes_(block_count * 32 + misalignment), misalignment_(misalignment), block_count_(block_count) {
    const auto items = random_digests(std::size_t{58} * block_count, random);
    scalar_kernel().insert(blocks(), block_count, items.data(), items.size());
  }
  std::byte* blocks() { return bytes_.data() + misalignment_; }
  SplitBlockRef ref() { return {blocks(), block_count_}; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t misalignment_;
  std::uint32_t block_count_;
};

/// A checking function's answers into a buffer that already holds counts, with the bytes behind the end.
template <class Check>
std::vector<std::uint8_t> answers(std::size_t count, const Check& check) {
  std::vector<std::uint8_t> seen(count + 64, canary);
  for (std::size_t i = 0; i < count; ++i) seen[i] = static_cast<std::uint8_t>(i % 7);
  check(seen.data());
  return seen;
}

/// The kernel's lanes of the digests; none when it uses none.
std::vector<DigestLanes> lanes_of(const Kernel& kernel, const Digest* digests, std::size_t count) {
  std::vector<DigestLanes> lanes(kernel.precompute == nullptr ? 0 : (count + 63) / 64);
  if (!lanes.empty()) kernel.precompute(digests, count, lanes.data());
  return lanes;
}

void require_equal_checks(const Kernel& kernel, SplitBlockRef first, SplitBlockRef second,
                          const std::vector<Digest>& digests, std::size_t offset, std::size_t count) {
  const Kernel& scalar = scalar_kernel();
  const Digest* from = digests.data() + offset;
  CAPTURE(kernel.name, first.block_count, second.block_count, offset, count);
  const auto lanes = lanes_of(kernel, from, count);
  const auto same = [&](auto member, auto... filters) {
    for (const Answers kept : {Answers::replace, Answers::add}) {
      const auto with = [&](const Kernel& asked, DigestsRef digests_of) {
        return answers(count, [&](std::uint8_t* seen) { (asked.*member)(filters..., digests_of, count, seen, kept); });
      };
      const auto expected = with(scalar, from);
      if (with(kernel, from) != expected) return false;
      if (!lanes.empty() && with(kernel, {from, lanes.data()}) != expected) return false;
    }
    return true;
  };
  REQUIRE(same(&Kernel::check, first));
  REQUIRE(same(&Kernel::check, second));
  REQUIRE(same(&Kernel::check_pair, first, second));
}

}  // namespace

TEST_CASE("the scalar kernel sets the bits that Parquet prescribes", "[kernels]") {
  // By hand: low half 1 leaves each salt's five high bits, high half 2^31 chooses the middle block.
  const Digest digest{0x8000000000000001U};
  std::vector<std::byte> blocks(3 * 32);
  REQUIRE(scalar_kernel().insert(blocks.data(), 3, &digest, 1) == 1);
  const std::uint32_t expected[8] = {1U << 8, 1U << 8, 1U << 17, 1U << 20, 1U << 14, 1U << 5, 1U << 19, 1U << 11};
  for (std::size_t word = 0; word < 24; ++word) {
    CAPTURE(word);
    const std::uint32_t bits = word / 8 == 1 ? expected[word % 8] : 0U;
    for (std::size_t byte = 0; byte < 4; ++byte) {
      REQUIRE(std::to_integer<std::uint32_t>(blocks[4 * word + byte]) == (bits >> (8 * byte) & 0xFFU));
    }
  }
}

TEST_CASE("every kernel checks as the scalar kernel does, for every batch size", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(largest_batch, random);
  for (const auto& [blocks_a, blocks_b] :
       {std::pair{1U, 2U}, {3U, 1U}, {8U, 5U}, {16U, 13U}, {16U, 17U}, {37U, 1000U}}) {
    Filter a(blocks_a, 0, random);
    Filter b(blocks_b, 0, random);
    for (const Kernel* kernel : other_kernels()) {
      for (std::size_t count = 0; count <= largest_batch; ++count) {
        require_equal_checks(*kernel, a.ref(), b.ref(), digests, 0, count);
      }
    }
  }
}

TEST_CASE("every kernel checks random filters of few blocks as the scalar kernel does", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(2 * largest_batch, random);
  for (std::uint32_t blocks = 1; blocks <= 40; ++blocks) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      Filter a(blocks, random() % 64, random);
      Filter b(static_cast<std::uint32_t>(1 + random() % 40), random() % 64, random);
      for (const Kernel* kernel : other_kernels()) {
        require_equal_checks(*kernel, a.ref(), b.ref(), digests, random() % 200, random() % largest_batch);
      }
    }
  }
}

TEST_CASE("lanes hold each digest's block in every small filter, and the byte and the bit of each word", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const Kernel* kernel : other_kernels()) {
    for (const std::size_t count : {1U, 8U, 9U, 63U, 64U, 65U, 100U, 128U, 200U}) {
      auto digests = random_digests(count, random);
      digests[0].value = 0;
      digests[count / 2].value = ~std::uint64_t{0};
      digests[count - 1].value = std::uint64_t{1} << 63;  // the first of the upper half of the blocks
      const auto lanes = lanes_of(*kernel, digests.data(), count);
      CAPTURE(kernel->name, count);
      for (std::size_t i = 0; i < (lanes.empty() ? 0 : count); ++i) {
        const DigestLanes& of = lanes[i / DigestLanes::candidates];
        const std::size_t lane = i % DigestLanes::candidates;
        CAPTURE(i, digests[i].value);
        for (std::uint32_t blocks = 1; blocks <= seenby::detail::small_filter_blocks; ++blocks) {
          REQUIRE(of.block[blocks - 1][lane] * 8U == seenby::detail::split_block_offset(digests[i], blocks));
        }
        for (std::size_t word = 0; word < 8; ++word) {
          const std::uint32_t number = seenby::detail::split_block_bit_number(digests[i], word);
          REQUIRE((of.bytes[word % 4][lane] >> (word < 4 ? 0 : 4) & 0xFU) == number / 8);
          REQUIRE(of.bit[word][lane] == 1U << number % 8);
        }
      }
    }
  }
}

TEST_CASE("a single test knows which kernels have AVX2", "[kernels]") {
  const auto kernels = seenby::detail::compiled_kernels();
  if (kernels.size() <= seenby::detail::avx2_kernel) return;  // another processor family
  CHECK(kernels[seenby::detail::avx2_kernel].name == "avx2");
  CHECK(kernels[seenby::detail::avx2_kernel - 1].name == "ssse3");
}

TEST_CASE("a part of a batch keeps its lanes where one of them begins", "[kernels]") {
  const std::vector<DigestLanes> lanes(3);
  CHECK(seenby::detail::lanes_at(lanes.data(), 0) == lanes.data());
  CHECK(seenby::detail::lanes_at(lanes.data(), 128) == lanes.data() + 2);
  CHECK(seenby::detail::lanes_at(lanes.data(), 1) == nullptr);
  CHECK(seenby::detail::lanes_at(lanes.data(), 100) == nullptr);
  CHECK(seenby::detail::lanes_at(nullptr, 64) == nullptr);
}

TEST_CASE("every kernel checks as the scalar kernel does, for every alignment and block count", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(largest_batch, random);
  for (std::size_t misalignment = 0; misalignment < 64; ++misalignment) {
    for (std::uint32_t blocks = 1; blocks <= 20; ++blocks) {
      Filter a(blocks, misalignment, random);
      Filter b(blocks + 1, 63 - misalignment, random);
      for (const Kernel* kernel : other_kernels()) {
        require_equal_checks(*kernel, a.ref(), b.ref(), digests, misalignment % 8, 61);
      }
    }
  }
}

TEST_CASE("every kernel checks a large filter as the scalar kernel does", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(5000, random);
  Filter a(100'003, 4, random);
  Filter b(60'000, 0, random);
  for (const Kernel* kernel : other_kernels()) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{47}, digests.size()}) {
      require_equal_checks(*kernel, a.ref(), b.ref(), digests, 0, count);
    }
  }
}

TEST_CASE("every kernel inserts as the scalar kernel does and counts what changed", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const Kernel* kernel : other_kernels()) {
    for (std::size_t count = 0; count <= largest_batch; ++count) {
      auto digests = random_digests(count, random);
      if (count > 10) digests[count / 2] = digests[1];  // a repeat within the batch changes nothing
      const auto blocks = static_cast<std::uint32_t>(1 + count % 9);
      Filter expected(blocks, count % 32, random);
      Filter actual = expected;
      const std::size_t changed = scalar_kernel().insert(expected.blocks(), blocks, digests.data(), count);
      CAPTURE(kernel->name, count, blocks);
      REQUIRE(kernel->insert(actual.blocks(), blocks, digests.data(), count) == changed);
      REQUIRE(std::memcmp(actual.blocks(), expected.blocks(), blocks * std::size_t{32}) == 0);
      REQUIRE(kernel->insert(actual.blocks(), blocks, digests.data(), count) == 0);
    }
  }
}

TEST_CASE("a single test and a single insert are the scalar kernel's", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(20'000, random);
  Filter expected(97, 0, random);
  Filter actual = expected;
  for (const Digest digest : digests) {
    CAPTURE(digest.value);
    const bool contained = seenby::detail::split_block_test(expected.ref(), digest);
    REQUIRE(seenby::detail::test(actual.ref(), digest) == contained);
    if (digest.value % 16 != 0) continue;
    REQUIRE(seenby::detail::insert(actual.blocks(), 97, digest) ==
            seenby::detail::split_block_insert(expected.blocks(), 97, digest));
    REQUIRE(std::memcmp(actual.blocks(), expected.blocks(), 97 * std::size_t{32}) == 0);
  }
}

TEST_CASE("every kernel finds what it inserted", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(1000, random);
  for (const Kernel& kernel : seenby::detail::compiled_kernels()) {
    if (!kernel.runs_here()) continue;
    std::vector<std::byte> blocks(100 * 32);
    kernel.insert(blocks.data(), 100, digests.data(), digests.size());
    std::vector<std::uint8_t> seen(digests.size());
    kernel.check({blocks.data(), 100}, digests.data(), digests.size(), seen.data(), Answers::replace);
    CAPTURE(kernel.name);
    REQUIRE(seen == std::vector<std::uint8_t>(digests.size(), 1));
  }
}

TEST_CASE("several filters are counted together, however many there are", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(largest_batch, random);
  std::vector<Filter> filters;
  for (std::uint32_t i = 0; i < 7; ++i) filters.emplace_back(1 + 3 * i, 0, random);
  for (std::size_t users = 0; users <= filters.size(); ++users) {
    std::vector<SplitBlockRef> refs;
    std::vector<std::uint8_t> expected(digests.size());
    for (std::size_t i = 0; i < users; ++i) {
      refs.push_back(filters[i].ref());
      scalar_kernel().check(refs.back(), digests.data(), digests.size(), expected.data(), Answers::add);
    }
    std::vector<std::uint8_t> seen(digests.size(), canary);
    seenby::detail::check_all(refs.data(), refs.size(), digests.data(), digests.size(), seen.data());
    CAPTURE(users);
    REQUIRE(seen == expected);
  }
}

TEST_CASE("every kernel finds candidates in a run of exact digests", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto digests = random_digests(largest_batch, random);
  for (const Kernel& kernel : seenby::detail::compiled_kernels()) {
    if (!kernel.runs_here()) continue;
    for (std::size_t run_size = 0; run_size <= 20; ++run_size) {
      for (std::size_t count = 0; count <= 130; ++count) {
        // Half of the run is among the candidates, the last of it beyond the batch.
        std::vector<std::uint64_t> run;
        for (std::size_t i = 0; i < run_size; ++i) run.push_back(i % 2 == 0 ? digests[i * 7].value : random());
        std::vector<std::uint8_t> expected(count + 16, canary);
        for (std::size_t i = 0; i < count; ++i) expected[i] = static_cast<std::uint8_t>(i % 3);
        std::vector<std::uint8_t> seen = expected;
        for (std::size_t i = 0; i < run_size; i += 2) {
          if (i * 7 < count) ++expected[i * 7];
        }
        CAPTURE(kernel.name, run_size, count);
        kernel.match_add(run.data(), run_size, digests.data(), count, seen.data());
        REQUIRE(seen == expected);
      }
    }
  }
}

TEST_CASE("every kernel compresses to the same words, in order", "[kernels]") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const Kernel& kernel : seenby::detail::compiled_kernels()) {
    if (!kernel.runs_here()) continue;
    for (std::size_t count = 0; count <= largest_batch; ++count) {
      for (const std::uint8_t most : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{200}}) {
        const std::uint64_t first = random() >> 1;
        std::vector<std::uint8_t> seen(count);
        for (auto& answer : seen) answer = static_cast<std::uint8_t>(random() % 4 == 0 ? random() % 256 : random() % 2);
        std::vector<std::uint64_t> expected;
        for (std::uint64_t i = 0; i < count; ++i) {
          if (seen[i] <= most) expected.push_back(first + i);
        }
        // Nothing behind `count` words is touched, whatever is written between the last kept one and there.
        std::vector<std::uint64_t> out(count + 16, canary);
        CAPTURE(kernel.name, count, int{most});
        REQUIRE(kernel.compress(seen.data(), count, most, first, out.data()) == expected.size());
        REQUIRE(std::vector(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(expected.size())) == expected);
        for (std::size_t i = count; i < out.size(); ++i) REQUIRE(out[i] == canary);
      }
    }
  }
}

TEST_CASE("a kernel can be listed and forced, and a wrong name is refused", "[kernels]") {
  const std::string before(seenby::active_kernel_name());
  const auto names = seenby::available_kernels();
  REQUIRE(names.front() == "scalar");
  for (const std::string_view name : names) {
    REQUIRE(seenby::use_kernel(name).has_value());
    REQUIRE(seenby::active_kernel_name() == name);
  }
  const auto refused = seenby::use_kernel("mmx");
  REQUIRE_FALSE(refused.has_value());
  REQUIRE(refused.error().code == seenby::ErrorCode::unavailable);
  REQUIRE(refused.error().message.find("mmx") != std::string::npos);
  REQUIRE(refused.error().message.find("scalar") != std::string::npos);
  REQUIRE(seenby::use_kernel(before).has_value());
}

TEST_CASE("a SEENBY_KERNEL that names no kernel is ignored and the best one serves", "[kernels]") {
  const std::string before(seenby::active_kernel_name());
  const char* const set = std::getenv("SEENBY_KERNEL");
  const std::string kept = set == nullptr ? "" : set;
  REQUIRE(seenby::use_kernel("scalar").has_value());
  setenv("SEENBY_KERNEL", "mmx", 1);
  seenby::detail::choose_kernel();
  CHECK(seenby::active_kernel_name() == seenby::available_kernels().back());
  setenv("SEENBY_KERNEL", "scalar", 1);
  seenby::detail::choose_kernel();
  CHECK(seenby::active_kernel_name() == "scalar");
  if (set == nullptr) unsetenv("SEENBY_KERNEL");
  if (set != nullptr) setenv("SEENBY_KERNEL", kept.c_str(), 1);
  REQUIRE(seenby::use_kernel(before).has_value());
}
