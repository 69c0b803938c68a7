// SPDX-License-Identifier: MIT
// The kernels of fingerprint tables on small tables of every shape, sound and damaged: the scalar answer, from bytes
// that end where their pages do.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "seenby/filters/fingerprint_table.hpp"
#include "support/random.hpp"

namespace {

using seenby::Digest;
using seenby::FingerprintShape;
using seenby::FingerprintView;
using seenby::detail::FingerprintRef;
using seenby::test::Random;

/// Bytes between two pages that nobody may read, not even masked loads that a sanitizer does not see.
class GuardedBytes {
 public:
  GuardedBytes() : guard_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))), size_(4 * guard_) {
    void* const all = ::mmap(nullptr, size_ + 2 * guard_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    bytes_ = static_cast<std::byte*>(all) + guard_;
    REQUIRE(::mprotect(bytes_, size_, PROT_READ | PROT_WRITE) == 0);
  }
  ~GuardedBytes() { ::munmap(bytes_ - guard_, size_ + 2 * guard_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  /// The last `size` bytes, or the first, all 0.
  [[nodiscard]] std::span<std::byte> take(std::size_t size, bool last) {
    REQUIRE(size <= size_);
    const std::span<std::byte> taken(last ? bytes_ + size_ - size : bytes_, size);
    std::fill(taken.begin(), taken.end(), std::byte{0});
    return taken;
  }

 private:
  std::size_t guard_;
  std::size_t size_;
  std::byte* bytes_;
};

/// How many lanes each bucket has: none, few, as many as a vector holds, and more.
std::vector<std::uint32_t> random_runs(Random& random, std::uint32_t bucket_bits) {
  std::vector<std::uint32_t> runs(std::size_t{1} << bucket_bits);
  const std::uint64_t usual = 1 + random.below(16);
  for (std::uint32_t& run : runs) run = static_cast<std::uint32_t>(random.below(usual));
  constexpr std::uint32_t edges[] = {0, 1, 15, 16, 17, 31, 32, 33};
  if (random.below(2) == 0) runs[random.below(runs.size())] = edges[random.below(std::size(edges))];
  return runs;
}

/// A table that was written by the format's words: a random fingerprint of random length a lane.
class WrittenTable {
 public:
  WrittenTable(GuardedBytes& memory, Random& random, std::uint32_t bucket_bits, bool sliced)
      : runs_(random_runs(random, bucket_bits)) {
    for (const std::uint32_t run : runs_) count_ += run;
    shape_.bucket_bits = static_cast<std::uint8_t>(bucket_bits);
    shape_.sliced = sliced;
    shape_.tail_bytes = static_cast<std::uint8_t>(random.below(4) == 0 ? 1 + random.below(3) : 0);
    shape_.capacity = count_ + static_cast<std::uint32_t>(random.below(4) == 0 ? random.below(600) : random.below(3));
    body_ = memory.take(static_cast<std::size_t>(shape_.bytes()), random.below(2) == 0);
    write_index();
    for (std::uint32_t at = 0; at < shape_.capacity; ++at) {
      const auto bits = static_cast<std::uint32_t>(random() | 1U) << (random.below(4) == 0 ? random.below(16) : 0);
      set_lane(at, bits & 0xFFFFU);
      if (sliced) body_[offset(ref().slices) + at] = static_cast<std::byte>(random());
    }
    for (std::size_t i = 0; i < std::size_t{shape_.tail_bytes} * shape_.capacity; ++i) {
      body_[offset(ref().tails) + i] = static_cast<std::byte>(random());
    }
  }

  [[nodiscard]] FingerprintRef ref(std::uint8_t newest = 0, std::uint8_t max_age = 255) const {
    const FingerprintView view(shape_, count_, body_.data());
    return shape_.sliced ? view.ref({newest, max_age}) : view.ref();
  }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  void set_lane(std::uint32_t at, std::uint32_t bits) {
    const std::size_t lane = offset(ref().lanes) + 2 * std::size_t{at};
    body_[lane] = static_cast<std::byte>(bits & 0xFFU);
    body_[lane + 1] = static_cast<std::byte>(bits >> 8);
  }
  void set_byte(std::size_t at, std::byte value) { body_[at] = value; }
  [[nodiscard]] std::size_t index_bytes() const { return offset(ref().lanes); }

  /// What some lane holds, with a few random bits behind it, and sometimes one of its bits turned over.
  [[nodiscard]] Digest like_a_lane(Random& random) const {
    const std::uint64_t bucket = random.below(runs_.size());
    const std::uint64_t top = shape_.bucket_bits == 0 ? 0 : bucket << (64 - shape_.bucket_bits);
    const FingerprintRef table = ref();
    const auto run = lanes_of(table, bucket);
    if (run.count == 0 || random.below(16) == 0) return Digest{top};  // nothing but zeros, as where no lane is
    std::uint64_t lane = load_lane(table, run.first + static_cast<std::uint32_t>(random.below(run.count)));
    lane ^= random() & (lane ^ (lane - 1));
    if (random.below(4) == 0) lane ^= std::uint64_t{1} << (48 + random.below(16));
    return Digest{top | lane >> shape_.bucket_bits};
  }

 private:
  [[nodiscard]] std::size_t offset(const std::byte* part) const {
    return static_cast<std::size_t>(part - body_.data());
  }
  void write_index() {
    if (shape_.bucket_bits == 0) return;
    const std::size_t groups = (runs_.size() + 15) / 16;
    std::uint32_t ends = 0;
    std::uint32_t base = 0;
    for (std::size_t bucket = 0; bucket < runs_.size(); ++bucket) {
      if (bucket % 16 == 0) {
        base += ends;
        ends = 0;
        for (std::size_t i = 0; groups > 1 && i < 4; ++i) {
          body_[groups * 17 + bucket / 16 * 4 + i] = static_cast<std::byte>(base >> (8 * i));
        }
      }
      ends += runs_[bucket];
      body_[bucket + bucket / 16 + 1] = static_cast<std::byte>(ends);
    }
  }

  std::vector<std::uint32_t> runs_;
  FingerprintShape shape_;
  std::uint32_t count_ = 0;
  std::span<std::byte> body_;
};

/// Every kernel that runs here, at a random alignment of the answers; digests end where their page does.
void require_scalar_answers(const FingerprintRef& table, std::span<const Digest> digests) {
  using seenby::detail::Answers;
  std::vector<std::uint8_t> expected(digests.size() + 2, 0xA5);
  for (std::size_t i = 0; i < digests.size(); ++i) expected[i + 1] = fingerprint_test(table, digests[i]) ? 1 : 0;
  for (const auto& kernel : seenby::detail::compiled_kernels()) {
    if (!kernel.runs_here()) continue;
    CAPTURE(kernel.name, table.bucket_bits, table.capacity, table.count, digests.size());
    std::vector<std::uint8_t> seen(digests.size() + 2, 0xA5);  // the first one and the last stay
    kernel.check_table(table, digests.data(), digests.size(), seen.data() + 1, Answers::replace);
    REQUIRE(seen == expected);
    kernel.check_table(table, digests.data(), digests.size(), seen.data() + 1, Answers::add);
    for (std::size_t i = 1; i <= digests.size(); ++i) REQUIRE(seen[i] == 2 * expected[i]);
    REQUIRE(seen.front() == 0xA5);
    REQUIRE(seen.back() == 0xA5);
  }
}

/// `count` digests at the end of a page, half of them like lanes of the table.
std::span<const Digest> ask(GuardedBytes& memory, Random& random, const WrittenTable& table, std::size_t count) {
  const auto bytes = memory.take(count * sizeof(Digest), true);
  auto* const digests = reinterpret_cast<Digest*>(bytes.data());
  for (std::size_t i = 0; i < count; ++i) {
    digests[i] = random.below(2) == 0 ? Digest{random()} : table.like_a_lane(random);
  }
  return {digests, count};
}

TEST_CASE("small tables give the scalar answer to batches of every size, and nothing past their bytes is read",
          "[fingerprint_table][kernels]") {
  SEENBY_RANDOM(random);
  GuardedBytes table_bytes;
  GuardedBytes digest_bytes;
  std::size_t hits = 0;
  for (std::uint32_t bucket_bits = 0; bucket_bits <= 6; ++bucket_bits) {
    for (std::size_t count = 0; count <= 130; ++count) {
      for (const bool sliced : {false, true}) {
        const WrittenTable table(table_bytes, random, bucket_bits, sliced);
        const auto digests = ask(digest_bytes, random, table, count);
        const auto newest = static_cast<std::uint8_t>(random());
        const std::uint8_t ages[] = {0, 30, 127, 128, 254, 255};
        const FingerprintRef ref = table.ref(newest, ages[random.below(std::size(ages))]);
        require_scalar_answers(ref, digests);
        for (const Digest digest : digests) hits += fingerprint_test(ref, digest) ? 1U : 0U;
      }
    }
  }
  CHECK(hits > 10'000);
}

TEST_CASE("small tables that are damaged give the scalar answer", "[fingerprint_table][kernels]") {
  SEENBY_RANDOM(random);
  GuardedBytes table_bytes;
  GuardedBytes digest_bytes;
  for (int round = 0; round < 3'000; ++round) {
    const auto bucket_bits = static_cast<std::uint32_t>(random.below(7));
    WrittenTable table(table_bytes, random, bucket_bits, random.below(2) == 0);
    const auto digests = ask(digest_bytes, random, table, random.below(131));
    if (table.count() > 0 && random.below(2) == 0) {
      table.set_lane(static_cast<std::uint32_t>(random.below(table.count())), 0);
    }
    for (std::uint64_t i = random.below(3); i > 0 && table.index_bytes() > 0; --i) {
      const std::uint64_t bytes[] = {1, 255 - random.below(24), random()};  // the last ones' buckets end past a group
      table.set_byte(random.below(table.index_bytes()), static_cast<std::byte>(bytes[random.below(std::size(bytes))]));
    }
    FingerprintRef ref = table.ref(9, 100);
    if (random.below(3) == 0) ref.count = static_cast<std::uint32_t>(random.below(1'000));
    if (random.below(3) == 0) ref.capacity = static_cast<std::uint32_t>(random.below(ref.capacity + 1U));
    require_scalar_answers(ref, digests);
  }
}

}  // namespace
