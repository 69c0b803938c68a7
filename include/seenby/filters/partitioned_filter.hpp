#pragma once
// SPDX-License-Identifier: MIT
// PartitionedFilter: one global set of billions of items, inserted into and asked by any number of threads.

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "seenby/detail/mapping.hpp"
#include "seenby/detail/range.hpp"
#include "seenby/detail/shared_words.hpp"
#include "seenby/detail/thread_counters.hpp"
#include "seenby/filters/atomic_block.hpp"
#include "seenby/filters/bloom_filter_view.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/filters/partitioned_header.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/table.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

namespace seenby {

/// How large a global set is to be.
struct PartitionedFilterOptions {
  std::uint64_t expected_items = 0;  ///< distinct items it is to hold, over all partitions; at least 1
  double target_fpr = 0.01;          ///< the rate at expected_items, in (0, 1)
  std::uint32_t partitions = 64;     ///< 1 to 65,536; each is a split-block filter of at most 16 GiB
};

/// How a saved filter is opened.
struct PartitionedOpenOptions {
  /// False: inserts stay in this process until save(). True: they go into the file itself, where every process that
  /// opened it so sees them at once.
  bool shared = false;
  bool prefault = false;  ///< read every page in now rather than when it is first asked
  bool verify = false;    ///< check the bits against their checksum as well: reads the whole file
};

/// A concurrent Bloom filter in split blocks, for the one global set of a crawler or an event processor. Partitions are
/// independent split-block filters of one size, each readable as a BloomFilterView; an item's partition comes from a
/// hash of its digest, so that its block and its bits within the partition stay independent of it.
///
/// Thread safety: insert, insert_if_absent, may_contain and the queries may be called from any number of threads at
/// once, without a lock (a thread's first insert takes a number from a pool); so may save(). An insert that has
/// returned is seen by every query that starts after it. Construction, moves and destruction are the owner's alone.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class PartitionedFilter {
 public:
  using item_type = Item;                                           ///< what it holds
  using layout_type = SplitBlockLayout;                             ///< where a digest's bits are
  using hasher_type = Hash;                                         ///< makes digests of items
  using view_type = BloomFilterView<Item, SplitBlockLayout, Hash>;  ///< the same filter over borrowed bytes

  static constexpr std::uint32_t max_partitions = 65'536;                ///< the most partitions
  static constexpr std::size_t max_note_bytes = detail::max_note_bytes;  ///< the longest note, in bytes

  /// An empty filter in memory, on huge pages where the machine grants them; pages are taken as they are first used.
  /// Throws std::invalid_argument for 0 items, a rate outside (0, 1), partitions outside 1 to 65,536 or a partition of
  /// more than 2^37 bits; std::bad_alloc.
  explicit PartitionedFilter(const PartitionedFilterOptions& options, Hash hash = {})
      : PartitionedFilter(planned(options), {}, std::move(hash)) {}

  // Modify

  /// Adds an item. Lock-free; one cache line.
  template <FilterKey<Item> Key>
  void insert(const Key& item) noexcept {
    (void)insert_if_absent(hash_(item));
  }
  void insert(Digest digest) noexcept { (void)insert_if_absent(digest); }  ///< the same for a digest

  /// Adds an item; true when it was certainly new. Of several callers that race with one new item, exactly one is told
  /// true (filters/atomic_block.hpp has the proof): it alone crawls the page or handles the event. False: another
  /// caller has it, or had it, or the filter errs at its rate.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool insert_if_absent(const Key& item) noexcept {
    return insert_if_absent(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool insert_if_absent(Digest digest) noexcept {
    const bool fresh = detail::insert_atomically(block_of(digest), digest);
    if (fresh) inserted_.row().add(0, 1);
    return fresh;
  }

  /// Adds a batch, prefetching each item's cache line; returns how many were certainly new. From
  /// about 100,000 items in the filter on, several times as fast as one by one.
  std::size_t insert(std::span<const Digest> digests) noexcept {
    return each_prefetched(digests, [](std::size_t, bool) {});
  }
  /// As above; fresh[i] = 1 when item i was certainly new. Throws std::invalid_argument when `fresh` is too short.
  std::size_t insert_if_absent(std::span<const Digest> digests, std::span<std::uint8_t> fresh) {
    detail::require_room(digests.size(), fresh.size());
    return each_prefetched(digests, [&](std::size_t i, bool was_new) { fresh[i] = was_new ? 1 : 0; });
  }

  // Query

  /// False: no insert of the item had returned when the call began. True: it was inserted, or the filter errs.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool may_contain(const Key& item) const noexcept {
    return may_contain(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool may_contain(Digest digest) const noexcept {
    return detail::test({partition_data(partition_of(digest)), blocks_}, digest);
  }
  /// out[i] = 1 when digest i may be contained, else 0; prefetches each cache line. Throws
  /// std::invalid_argument when out is too short.
  void may_contain(std::span<const Digest> digests, std::span<std::uint8_t> out) const {
    detail::require_room(digests.size(), out.size());
    std::array<const std::byte*, lookahead> partitions;
    for (std::size_t i = 0; i < std::min(lookahead, digests.size()); ++i) partitions[i] = prefetched(digests[i]);
    for (std::size_t i = 0; i < digests.size(); ++i) {
      const std::byte* partition = partitions[i % lookahead];
      if (i + lookahead < digests.size()) partitions[i % lookahead] = prefetched(digests[i + lookahead]);
      out[i] = detail::test({partition, blocks_}, digests[i]) ? 1 : 0;
    }
  }

  /// The item's digest, good for every filter with the same hasher and seed.
  template <FilterKey<Item> Key>
  [[nodiscard]] Digest digest(const Key& item) const noexcept {
    return hash_(item);
  }

  /// One partition, for reading: its bits, its own estimates (while no thread inserts). The filter must outlive it.
  [[nodiscard]] view_type partition(std::uint32_t index) const {
    if (index >= partitions_) {
      std::string message = "seenby: expected a partition below ";
      message.append(std::to_string(partitions_)).append(", got ").append(std::to_string(index));
      throw std::out_of_range(message);
    }
    return view_type(partition_shape(), {partition_data(index), partition_bytes()}, hash_);
  }
  /// Which partition an item is in.
  [[nodiscard]] std::uint32_t partition_of(Digest digest) const noexcept {
    return static_cast<std::uint32_t>(detail::multiply_high(detail::mix64(digest.value), partitions_));
  }

  // Capacity

  /// Items that were certainly new when inserted. Exact once the inserting threads are done; in a file opened shared,
  /// those of other processes count after their sync().
  [[nodiscard]] std::uint64_t size() const noexcept {
    return detail::FileItems(map_.data()).load() + inserted_.sum(0) - inserted_.sum(1);
  }
  /// The items it was sized for.
  [[nodiscard]] std::uint64_t expected_items() const noexcept { return expected_items_; }
  [[nodiscard]] double target_fpr() const noexcept { return target_fpr_; }  ///< the rate it was made for
  /// How many parts it has, all of one shape.
  [[nodiscard]] std::uint32_t partitions() const noexcept { return partitions_; }
  /// The shape of each partition.
  [[nodiscard]] FilterShape partition_shape() const noexcept {
    return {.layout = LayoutKind::split_block, .hash_count = 8, .bits = std::uint64_t{blocks_} * split_block_bits};
  }
  /// Bits in memory, over all parts.
  [[nodiscard]] std::uint64_t capacity_bits() const noexcept {
    return std::uint64_t{blocks_} * partitions_ * split_block_bits;
  }
  [[nodiscard]] const Hash& hasher() const noexcept { return hash_; }  ///< the hasher, with its seed
  /// The expected rate with this many distinct items.
  [[nodiscard]] double expected_fpr(std::uint64_t distinct_items) const {
    return detail::split_block_fpr(blocks_, distinct_items, partitions_);
  }
  /// The rate at which these very bits err. O(m).
  [[nodiscard]] double estimated_fpr() const {
    double sum = 0;
    for (std::size_t at = 0; at < bits_bytes(); at += detail::block_bytes) {
      sum += detail::block_rate_atomically(bits() + at);
    }
    return sum / (static_cast<double>(blocks_) * partitions_);
  }

  // Files

  /// Saves to a file. Replaces a regular file that is there in one step and keeps its permissions; links are
  /// followed. Filters that have the old file open, this one too, keep it. Holds every item whose insert had returned
  /// when the call began. Errors: io. `note` is kept beside the bits: up to max_note_bytes of the caller's. Throws
  /// std::invalid_argument for a longer one.
  Result<void> save(const std::string& path, std::span<const std::byte> note = {}) const {
    detail::require_note(note);
    auto file = detail::ReplacementFile::create(path, map_.size());
    if (!file) return std::move(file).error();
    {
      auto copy = detail::Mapping::of_file(file->handle(), map_.size(), detail::MappingKind::shared, false, path);
      if (!copy) return std::move(copy).error();
      const std::uint64_t count = size();
      detail::copy_words(reinterpret_cast<std::uint64_t*>(copy->data() + detail::partitioned_header_bytes),
                         reinterpret_cast<const std::uint64_t*>(bits()), bits_bytes() / 8);
      auto header = this->header();
      header.bits_checksum = detail::xxh3_bytes(copy->data() + detail::partitioned_header_bytes, bits_bytes(), 0);
      header.checksum_valid = true;
      detail::encode_partitioned_header(header, copy->data());
      detail::encode_note(note, copy->data());
      detail::FileItems(copy->data()).store(count);
      if (auto written = copy->sync(path); !written) return written;
    }
    return file->commit();
  }

  /// Maps a saved file: milliseconds whatever its size, pages are read as they are asked for. The header and the size
  /// are checked first. The file must not be cut short while it is open. Errors: io, truncated, bad_magic, wrong_type,
  /// unsupported_version, corrupt, too_large, parameter_mismatch (another hash or seed), unavailable (verify asked of
  /// a file that was written to in place).
  [[nodiscard]] static Result<PartitionedFilter> open(const std::string& path,
                                                      const PartitionedOpenOptions& options = {}, Hash hash = {}) {
    // Without O_NONBLOCK opening a pipe waits for a writer.
    const int access = options.shared ? O_RDWR : O_RDONLY;
    const detail::FileHandle file(::open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) return detail::system_error("open", path);
    auto header = detail::read_partitioned_header(file, path);
    if (!header) return std::move(header).error();
    if (auto same = check_hash(*header, hash); !same) return std::move(same).error();
    auto map = detail::Mapping::of_file(
        file, header->file_bytes(), options.shared ? detail::MappingKind::shared : detail::MappingKind::private_copy,
        options.prefault, path);
    if (!map) return std::move(map).error();
    if (options.verify) {
      if (auto intact = detail::verify_bits(*header, *map); !intact) return std::move(intact).error();
    }
    if (options.shared) {
      header->checksum_valid = false;  // from now on the bits change under it
      detail::encode_partitioned_header(*header, map->data());
    }
    return PartitionedFilter(*header, std::move(*map), std::move(hash));
  }

  /// The note of the file that this filter was opened from; empty without one, or when it is damaged.
  [[nodiscard]] std::span<const std::byte> note() const noexcept { return detail::decode_note(map_.data()); }

  /// For a filter opened shared: counts this process's items into the file, writes changed pages and waits for the
  /// disk. Without it the system writes them in its own time. One caller at a time. Errors: io.
  Result<void> sync() {
    const std::uint64_t uncounted = inserted_.sum(0) - inserted_.sum(1);
    inserted_.row().add(1, uncounted);
    detail::FileItems(map_.data()).add(uncounted);
    return map_.sync("the mapped filter");
  }

 private:
  /// How many items ahead their cache lines are asked for. 16, 32 and 64 took 9.3, 5.9 and 4.4 ns a check in 26 MB, and
  /// all of them 22 ns an insert, whose atomic operations take most of that.
  static constexpr std::size_t lookahead = detail::prefetch_distance;

  PartitionedFilter(const detail::PartitionedHeader& header, detail::Mapping map, Hash hash)
      : map_(map.size() != 0 ? std::move(map) : detail::Mapping::anonymous(header.file_bytes())),
        partitions_(header.partitions),
        blocks_(header.blocks),
        expected_items_(header.expected_items),
        target_fpr_(header.target_fpr),
        hash_(std::move(hash)) {}

  [[nodiscard]] static detail::PartitionedHeader planned(const PartitionedFilterOptions& options) {
    detail::require_items(options.expected_items);
    detail::require_rate(options.target_fpr, "target_fpr");
    if (options.partitions < 1 || options.partitions > max_partitions) {
      std::string message = "seenby: expected 1 to 65536 partitions, got ";
      throw std::invalid_argument(message.append(std::to_string(options.partitions)));
    }
    detail::PartitionedHeader header;
    header.partitions = options.partitions;
    header.expected_items = options.expected_items;
    header.target_fpr = options.target_fpr;
    header.blocks = detail::partition_blocks(options.expected_items, options.target_fpr, options.partitions);
    return header;
  }
  [[nodiscard]] detail::PartitionedHeader header() const noexcept {
    return {.hash = Hash::kind,
            .partitions = partitions_,
            .blocks = blocks_,
            .expected_items = expected_items_,
            .target_fpr = target_fpr_,
            .seed_check = seed_check(hash_)};
  }
  [[nodiscard]] static Result<void> check_hash(const detail::PartitionedHeader& header, const Hash& hash) {
    FilterHeader named;
    named.hash = header.hash;
    named.seed_check = header.seed_check;
    return seenby::check_hash(named, hash);
  }

  [[nodiscard]] std::byte* bits() const noexcept { return map_.data() + detail::partitioned_header_bytes; }
  [[nodiscard]] std::size_t partition_bytes() const noexcept { return std::size_t{blocks_} * detail::block_bytes; }
  [[nodiscard]] std::size_t bits_bytes() const noexcept { return partition_bytes() * partitions_; }
  [[nodiscard]] std::byte* partition_data(std::uint32_t partition) const noexcept {
    return bits() + partition * partition_bytes();
  }
  [[nodiscard]] std::byte* block_of(Digest digest) const noexcept {
    return partition_data(partition_of(digest)) + detail::split_block_offset(digest, blocks_);
  }
  /// The item's partition, its block on the way into the cache.
  [[nodiscard]] const std::byte* prefetched(Digest digest) const noexcept {
    const std::byte* partition = partition_data(partition_of(digest));
    __builtin_prefetch(partition + detail::split_block_offset(digest, blocks_));
    return partition;
  }

  template <class Told>
  std::size_t each_prefetched(std::span<const Digest> digests, Told told) noexcept {
    std::array<std::byte*, lookahead> blocks;
    const auto ask = [&](std::size_t i) {
      blocks[i % lookahead] = block_of(digests[i]);
      __builtin_prefetch(blocks[i % lookahead], 1);
    };
    for (std::size_t i = 0; i < std::min(lookahead, digests.size()); ++i) ask(i);
    std::size_t fresh = 0;
    for (std::size_t i = 0; i < digests.size(); ++i) {
      std::byte* block = blocks[i % lookahead];
      if (i + lookahead < digests.size()) ask(i + lookahead);
      const bool was_new = detail::insert_atomically(block, digests[i]);
      fresh += was_new ? 1U : 0U;
      told(i, was_new);
    }
    inserted_.row().add(0, fresh);
    return fresh;
  }

  detail::Mapping map_;  // a page of header, then the partitions
  std::uint32_t partitions_;
  std::uint32_t blocks_;  // in each partition
  std::uint64_t expected_items_;
  double target_fpr_;
  [[no_unique_address]] Hash hash_;
  detail::ThreadCounters<2> inserted_;  // items new to this object; of those, already in the header's count
};

}  // namespace seenby
