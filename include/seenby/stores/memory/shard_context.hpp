#pragma once
// SPDX-License-Identifier: MIT
// What the shards of a memory store share, and what they count.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "seenby/filters/fingerprint/view.hpp"
#include "seenby/filters/fingerprint_table.hpp"
#include "seenby/hash.hpp"
#include "seenby/stores/memory/address_space.hpp"
#include "seenby/stores/memory/arena.hpp"
#include "seenby/stores/memory/capacity_table.hpp"
#include "seenby/stores/memory/filter_blocks.hpp"

SEENBY_DETAIL_BEGIN

/// What the filters of one user and slice may hide together, and what first filters hold within it.
struct RateTables {
  explicit RateTables(double rate)
      : slice_rate(rate),
        whole_rate(rate),
        first_filter(rate * first_filter_share),
        short_lanes(sizing::tail_bytes_for(0, 0, FingerprintShape{}.most_items(), rate) == 0) {}

  double slice_rate;
  CapacityTable whole_rate;    ///< filters that a history will re-insert may use all of it
  CapacityTable first_filter;  ///< others leave some to the table that takes what comes later
  bool short_lanes;            ///< whether a table of one bucket has lanes of 16 bits
};

/// What all shards of a store share. Immutable but for the address space (thread-safe) and the atomics.
struct ShardContext {
  ShardContext(std::uint64_t max_bytes, const RateTables& tables) : space(max_bytes), rates(tables) {}

  AddressSpace space;
  const RateTables& rates;
  std::atomic<bool> has_history{false};
  std::uint64_t key_seed = 0;
  std::uint32_t exact_items = 0;
  std::uint32_t slices = 0;  ///< live slices before the newest; 0 without a window
  std::uint64_t initial_items = 0;
  double growth_factor = 2;
  std::uint32_t largest_table = 0;          ///< granules; a user with more gets several
  std::atomic<std::uint64_t> last_read{0};  ///< number of the last history read for a missing user

  [[nodiscard]] bool windowed() const noexcept { return slices != 0; }
  [[nodiscard]] const CapacityTable& table() const noexcept {
    return has_history.load(std::memory_order_relaxed) ? rates.whole_rate : rates.first_filter;
  }
  /// Whether what outgrows a few digests goes into a fingerprint table: where it ages, or where no history can be read
  /// to make a filter larger.
  [[nodiscard]] bool uses_tables() const noexcept { return windowed() || !has_history.load(std::memory_order_relaxed); }
  /// Whether a user's first items go into the handle: where a table would take what comes later, and has such lanes. A
  /// caller who asks for more exact digests than a granule has, or for none, gets those.
  [[nodiscard]] bool inlines() const noexcept {
    return !windowed() && uses_tables() && rates.short_lanes && exact_items > 0 && exact_items <= granule_words;
  }
  /// Whether how much a filter errs is for its bits to tell, and not for its items: where it is small, and no history
  /// will ever replace it.
  [[nodiscard]] bool goes_by_bits(std::uint32_t granules) const noexcept {
    return granules <= small_filter_granules && uses_tables();
  }
  [[nodiscard]] bool is_unlucky(const std::uint64_t* words, std::uint32_t granules) const noexcept {
    return goes_by_bits(granules) && errs_too_much(words, granules);
  }
  /// Whether a filter stays good with one more item, which can make the rate of a block 2.5 times what it was. One of
  /// more blocks is asked for every few items.
  [[nodiscard]] bool takes(const std::uint64_t* words, std::uint32_t granules, std::uint32_t items,
                           Digest digest) const noexcept {
    constexpr std::uint32_t few_blocks = 8;  // where that shows in the filter's
    if (!goes_by_bits(granules)) return true;
    if (granules > few_blocks) return items % (granules / few_blocks) != 0 || !errs_too_much(words, granules);
    std::array<std::uint64_t, std::size_t{few_blocks} * granule_words> with;
    copy_words(with.data(), words, std::size_t{granules} * granule_words);
    blocks_insert(with.data(), granules, std::span(&digest, 1));
    return !errs_too_much(with.data(), granules);
  }
  /// What a table may err, beside filters that err so much.
  [[nodiscard]] double table_rate(double filters = 0) const noexcept {
    if (windowed()) return rates.slice_rate * (slices + 1) * table_share;
    return std::max(rates.slice_rate - filters, rates.slice_rate * least_table_share);
  }
  /// Granules of the largest table among several of one user: smaller than one that is alone, since what one insert
  /// moves and one growth copies keeps others waiting. Whole units of the address space.
  [[nodiscard]] std::uint32_t largest_segment() const noexcept {
    constexpr std::uint32_t unit = AddressSpace::unit_granules;
    return std::max(unit, largest_table / 4 / unit * unit);
  }
  [[nodiscard]] FingerprintWindow window_at(std::uint32_t newest) const noexcept {
    return {.newest = static_cast<std::uint8_t>(newest), .max_age = static_cast<std::uint8_t>(slices)};
  }
  /// Whether a slice can still be asked for when `newest` is the newest. One that another thread began meanwhile can.
  [[nodiscard]] bool is_live(std::uint32_t slice, std::uint32_t newest) const noexcept {
    return !windowed() || slice >= newest || newest - slice <= slices;
  }

 private:
  [[nodiscard]] bool errs_too_much(const std::uint64_t* words, std::uint32_t granules) const noexcept {
    return blocks_fpr(words, granules) > rates.slice_rate * unlucky_filter_share;
  }
};

/// A digest on its way into a slice.
struct SliceDigest {
  Digest digest;
  std::uint32_t slice;
};

struct ShardCounters {
  std::uint64_t records = 0;
  std::uint64_t growths = 0;
  std::uint64_t rebuilds = 0;
  std::uint64_t over_budget = 0;
  std::uint64_t slices_dropped = 0;

  ShardCounters& operator+=(const ShardCounters& other) noexcept {
    records += other.records;
    growths += other.growths;
    rebuilds += other.rebuilds;
    over_budget += other.over_budget;
    slices_dropped += other.slices_dropped;
    return *this;
  }
};

/// What an insert did, and whether the user should now be rebuilt from the history.
struct InsertOutcome {
  std::size_t newly_added = 0;
  bool grew = false;
  bool rebuild_wanted = false;
  std::size_t left = 0;  ///< the batch's last items, which are still to be recorded
  bool renewed = false;  ///< something was seen in an older slice only

  /// Counts what a table did with an item; false when it was full.
  [[nodiscard]] bool count(FingerprintTable::Inserted did) noexcept {
    newly_added += did == FingerprintTable::Inserted::added ? 1U : 0U;
    renewed = renewed || did == FingerprintTable::Inserted::renewed;
    return did != FingerprintTable::Inserted::full;
  }
};

SEENBY_DETAIL_END
