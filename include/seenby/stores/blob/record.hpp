#pragma once
// SPDX-License-Identifier: MIT
// BlobRecord: one user's value in a BlobStore, a fingerprint table in format 2, asked and changed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/detail/random_generation.hpp"
#include "seenby/filters/fingerprint/format.hpp"
#include "seenby/stores/blob/version_one.hpp"
#include "seenby/stores/exact_sections.hpp"
#include "seenby/stores/slice_clock.hpp"

SEENBY_DETAIL_BEGIN

/// The window that a store has now; without one, every item is in slice 0 and stays.
struct SliceWindow {
  std::int64_t newest = 0;
  std::int64_t seconds = 0;  // what a slice covers; 0 without a window
  std::uint8_t max_age = 0;  // slices behind the newest that still count

  [[nodiscard]] bool windowed() const noexcept { return seconds != 0; }
  /// Whether anything that a table last written in slice `written` holds can still count.
  [[nodiscard]] bool reaches(std::int64_t written) const noexcept { return newest - written <= max_age; }
  /// The window as that table's bytes count it, from their own newest: counted from ours, an age could pass 255 and
  /// come round. The table is in reach.
  [[nodiscard]] FingerprintWindow bytes_at(std::int64_t written) const noexcept {
    return {static_cast<std::uint8_t>(written), static_cast<std::uint8_t>(max_age - (newest - written))};
  }
  /// Whether a slice still counts; one that a clock ahead of ours opened does.
  [[nodiscard]] bool is_live(std::int64_t slice) const noexcept { return !windowed() || slice >= newest - max_age; }
  /// The same window in slices of another length, as a table written under that length has it.
  [[nodiscard]] SliceWindow in(const TableHeader& header) const noexcept {
    if (!windowed() || !header.shape.sliced) return {};
    SliceWindow other = *this;
    if (header.slice_seconds != seconds) {
      other.seconds = header.slice_seconds;
      other.newest = newest * seconds / other.seconds;
      const bool far_longer = seconds / other.seconds >= 254;
      const std::int64_t ages = far_longer ? 254 : (max_age * seconds + other.seconds - 1) / other.seconds;
      other.max_age = static_cast<std::uint8_t>(std::min<std::int64_t>(254, ages));
    }
    other.newest = std::max<std::int64_t>(other.newest, header.newest);
    return other;
  }
};

/// The slice of what is seen now.
inline constexpr std::int64_t slice_of_now = std::numeric_limits<std::int64_t>::max();

/// Filters of version 1 that no history could replace: section kind 3, i64 the first second of the slice they were
/// written in, then the filters.
inline constexpr SectionKind old_filters = static_cast<SectionKind>(3);
inline constexpr std::int64_t no_slice = std::numeric_limits<std::int64_t>::min();
struct OldFilters {
  std::int64_t since = no_slice;
  std::vector<std::byte> filters;
};

/// Whether filters written in the slice that begins `since` still count.
[[nodiscard]] inline bool old_filters_live(std::int64_t since, const SliceWindow& window) noexcept {
  return since == no_slice || !window.windowed() || window.is_live(since / window.seconds);
}

/// An error that names the key it is about.
[[nodiscard]] inline Error at_key(const std::string& key, Error error) {
  error.message.append(" (key \"").append(key).append("\")");
  return error;
}

template <Hasher H>
class BlobRecord {
 public:
  /// What ages[i] says of an item that is not in the window.
  static constexpr std::uint8_t unseen = 255;

  /// ages[i] becomes the slices since digest i was last seen, as far as the value tells: at most 254, 0 without a
  /// window, 255 where it is not there. Errors: those of the formats, and parameter_mismatch.
  [[nodiscard]] static Result<void> ages(std::span<const std::byte> blob, const H& hash, const SliceWindow& window,
                                         std::span<const Digest> digests, std::span<std::uint8_t> ages) {
    std::fill(ages.begin(), ages.end(), unseen);
    if (is_version_one(blob)) return add_filters(blob, hash, no_slice, window, digests, ages);
    auto value = decode_table(blob);
    if (!value) return std::move(value).error();
    if (auto same = check_hash(value->header, hash); !same) return same;
    const SliceWindow then = window.in(value->header);
    if (!then.windowed()) {
      for (std::size_t i = 0; i < digests.size(); ++i) ages[i] = value->table.may_contain(digests[i]) ? 0 : unseen;
    } else if (then.reaches(value->header.newest)) {
      const auto since = static_cast<std::uint8_t>(then.newest - value->header.newest);
      for (std::size_t i = 0; i < digests.size(); ++i) {
        const std::uint8_t age = value->table.age(digests[i], then.bytes_at(value->header.newest));
        if (age != unseen) ages[i] = static_cast<std::uint8_t>(age + since);
      }
      if (then.seconds != window.seconds) {
        for (std::uint8_t& age : ages) {
          if (age != unseen) age = clamped_age(window.newest - slice_now(then.newest - age, then, window));
        }
      }
    }
    return for_each_old(value->sections, [&](std::int64_t since, std::span<const std::byte> filters) {
      return add_filters(filters, hash, since, window, digests, ages);
    });
  }

  /// seen[i] = 1 where the value may have digest i within the window, else 0; what the value keeps exact. The same
  /// errors.
  [[nodiscard]] static Result<ExactItems> test(std::span<const std::byte> blob, const H& hash,
                                               const SliceWindow& window, DigestSpan digests,
                                               std::span<std::uint8_t> seen) {
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    if (is_version_one(blob)) {
      if (auto done = test_filters(blob, hash, digests.digests, seen); !done) return std::move(done).error();
      return ExactItems{};
    }
    auto value = decode_table(blob);
    if (!value) return std::move(value).error();
    if (auto same = check_hash(value->header, hash); !same) return std::move(same).error();
    const SliceWindow then = window.in(value->header);
    if (!then.windowed()) {
      check(value->table.ref(), digests.data(), digests.size(), seen.data());
    } else if (then.reaches(value->header.newest)) {
      check(value->table.ref(then.bytes_at(value->header.newest)), digests.data(), digests.size(), seen.data());
    }
    auto old = for_each_old(value->sections, [&](std::int64_t since, std::span<const std::byte> filters) {
      return old_filters_live(since, window) ? test_filters(filters, hash, digests.digests, seen) : Result<void>{};
    });
    if (!old) return std::move(old).error();
    return read_exact(value->sections);
  }

  /// An empty record.
  BlobRecord(const H& hash, double share, const SliceWindow& window) : hash_(hash), share_(share), window_(window) {
    header_.hash = H::kind;
    header_.seed_check = seed_check(hash);
    header_.generation = random_generation();
    set_window(window.newest);
  }

  /// A value to change: what left the window goes, and slices become those of this window. The same errors.
  [[nodiscard]] static Result<BlobRecord> decode(std::span<const std::byte> blob, const H& hash, double share,
                                                 const SliceWindow& window) {
    BlobRecord record(hash, share, window);
    if (is_version_one(blob)) {
      if (auto added = record.add_old({no_slice, {blob.begin(), blob.end()}}); !added) return std::move(added).error();
      return record;
    }
    auto value = decode_table(blob);
    if (!value) return std::move(value).error();
    if (auto same = check_hash(value->header, hash); !same) return std::move(same).error();
    record.take_table(*value);
    auto taken = record.take_sections(value->sections);
    if (!taken) return std::move(taken).error();
    return record;
  }

  /// Keeps filters of version 1 beside the table. The same errors.
  [[nodiscard]] Result<void> add_old(OldFilters filters) {
    changed_ = true;
    if (!old_filters_live(filters.since, window_)) return {};
    const auto count = [&](const FilterHeader& header, const std::byte*) { old_items_ += header.items; };
    if (auto sound = for_each_filter(filters.filters, hash_, count); !sound) return sound;
    old_.push_back(std::move(filters));
    return {};
  }
  /// The items in filters of version 1, and those filters themselves.
  [[nodiscard]] std::uint64_t old_items() const noexcept { return old_items_; }
  [[nodiscard]] bool has_old() const noexcept { return !old_.empty(); }
  void drop_old() {
    changed_ = changed_ || has_old();
    old_.clear();
  }

  /// Adds items to their slices, which slice_of(i) gives, those of the store's newest slice or later to the table's
  /// newest: another process's clock may run ahead. What is older than the window is left out. Says how many were not
  /// there.
  template <class SliceOf>
  requires std::is_invocable_r_v<std::int64_t, const SliceOf&, std::size_t> std::size_t insert(
      std::span<const Digest> digests, const SliceOf& slice_of) {
    std::vector<FingerprintItem> items;
    items.reserve(digests.size());
    for (std::size_t i = 0; i < digests.size(); ++i) {
      const std::int64_t given = slice_of(i);
      const std::int64_t slice = given >= window_.newest ? newest_ : given;
      if (window_.windowed() && newest_ - slice > window_.max_age) continue;
      items.push_back({digests[i], static_cast<std::uint8_t>(slice)});
    }
    return insert(items);
  }
  std::size_t insert(std::span<const Digest> digests, std::int64_t slice) {
    return insert(digests, [slice](std::size_t) { return slice; });
  }
  /// The same for items with slices of their own, at most 255 behind the newest.
  std::size_t insert(std::vector<FingerprintItem>& items) {
    if (window_.windowed())
      std::erase_if(items, [&](const FingerprintItem& item) { return !bytes_.is_live(item.slice); });
    FingerprintTable now(header_.shape, header_.count, body_.data());
    // What is there is made newer in place; what is not, once each, asks for room.
    std::sort(items.begin(), items.end(), [&](const FingerprintItem& a, const FingerprintItem& b) {
      return a.digest != b.digest ? a.digest < b.digest : bytes_.age(a.slice) < bytes_.age(b.slice);
    });
    items.erase(
        std::unique(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.digest == b.digest; }),
        items.end());
    std::erase_if(items, [&](const FingerprintItem& item) {
      if (!now.view().may_contain(item.digest)) return !window_.windowed() && in_old(item.digest);
      changed_ = now.insert(item, bytes_) == FingerprintTable::Inserted::renewed || changed_;
      return true;
    });
    if (!items.empty()) rebuild(items);
    return items.size();
  }

  // As ExactItems.
  std::size_t hide(std::span<const HiddenItem> items) { return note(exact_.hide(items)); }
  std::size_t unhide(std::span<const Digest> digests) { return note(exact_.unhide(digests)); }
  void keep(std::span<const Digest> digests, Time at, std::size_t most) {
    exact_.keep(digests, at, most);
    changed_ = true;
  }
  void mark(std::span<const Digest> digests, Time until, Time now) {
    exact_.mark(digests, until, now);
    changed_ = true;
  }
  /// Takes out marks of what is recorded, when the value is next written.
  void settle(std::span<const Digest> digests) { exact_.settle(digests); }

  /// Everything that another user's record under this window holds: tables are united, the rest is put beside. A second
  /// time changes nothing but the sequence. True while the table keeps to its share.
  bool absorb(const BlobRecord& from) {
    changed_ = true;
    for (const OldFilters& filters : from.old_) {
      const auto same = [&](const OldFilters& own) {
        return own.since == filters.since && own.filters == filters.filters;
      };
      if (std::none_of(old_.begin(), old_.end(), same)) old_.push_back(filters);
    }
    exact_.merge(from.exact_);
    if (from.header_.count == 0) return true;
    const FingerprintView own(header_.shape, header_.count, body_.data());
    const FingerprintView theirs(from.header_.shape, from.header_.count, from.body_.data());
    set_window(std::max(newest_, from.newest_));
    const FingerprintShape shape = united_shape(own, theirs, share_, window_.windowed());
    std::vector<std::byte> body(static_cast<std::size_t>(shape.bytes()));
    FingerprintTable table(shape, 0, body.data());
    static_cast<void>(table.rebuild(&own, {}, bytes_, &theirs));  // the shape has room for all
    header_.generation = random_generation();
    header_.shape = shape;
    header_.count = table.count();
    body_ = std::move(body);
    return table.view().estimated_fpr() <= share_;
  }

  /// Takes over the hides of a damaged value: those whose bytes are what their item's digest says.
  void salvage_hides(std::span<const std::byte> damaged) {
    for (const HiddenItem& hidden : readable_hides(damaged)) static_cast<void>(hide(std::span(&hidden, 1)));
  }

  [[nodiscard]] bool changed() const noexcept { return changed_; }
  [[nodiscard]] bool grew() const noexcept { return grew_; }
  /// Slices that left the window.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

  [[nodiscard]] std::vector<std::byte> encode() const {
    std::vector<std::byte> sections = other_;
    TableHeader header = header_;
    for (const OldFilters& filters : old_) append_old(sections, filters);
    const std::uint16_t exact = append_exact(sections, exact_);
    header.covers_body = true;
    header.share = share_;
    header.sequence = header_.sequence + 1;
    header.section_count = static_cast<std::uint16_t>(other_count_ + old_.size() + exact);
    header.section_bytes = static_cast<std::uint32_t>(sections.size());
    std::vector<std::byte> blob(table_header_bytes + body_.size() + sections.size());
    std::copy(body_.begin(), body_.end(), blob.begin() + table_header_bytes);
    std::copy(sections.begin(), sections.end(), blob.end() - static_cast<std::ptrdiff_t>(sections.size()));
    const std::span<std::byte> all(blob);
    encode_table_header(header, all.subspan(table_header_bytes), all.template first<table_header_bytes>());
    return blob;
  }

 private:
  std::size_t note(std::size_t changes) {
    changed_ = changed_ || changes != 0;
    return changes;
  }
  [[nodiscard]] static bool is_version_one(std::span<const std::byte> blob) noexcept {
    return !blob.empty() && blob[0] == static_cast<std::byte>(format_magic | format_version);
  }
  [[nodiscard]] static std::uint8_t clamped_age(std::int64_t age) noexcept {
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(age, 0, 254));
  }
  /// Today's slice of one of another length: of its last second, so that nothing is dropped early.
  [[nodiscard]] static std::int64_t slice_now(std::int64_t slice, const SliceWindow& of,
                                              const SliceWindow& now) noexcept {
    // A header may name any slice; one past the newest is the newest.
    if (slice >= std::numeric_limits<std::int64_t>::max() / of.seconds) return now.newest;
    return std::min(now.newest, (slice * of.seconds + of.seconds - 1) / now.seconds);
  }

  template <class Visit>
  [[nodiscard]] static Result<void> for_each_old(std::span<const std::byte> sections, Visit&& visit) {
    Section section;
    while (next_section(sections, section)) {
      if (section.kind != old_filters || section.bytes.size() < 8) continue;
      const auto since = static_cast<std::int64_t>(load_le<std::uint64_t>(section.bytes.data()));
      if (auto done = visit(since, section.bytes.subspan(8)); !done) return done;
    }
    return {};
  }
  [[nodiscard]] static Result<void> add_filters(std::span<const std::byte> filters, const H& hash, std::int64_t since,
                                                const SliceWindow& window, std::span<const Digest> digests,
                                                std::span<std::uint8_t> ages) {
    if (!old_filters_live(since, window)) return {};
    std::vector<std::uint8_t> seen(digests.size());
    const bool timeless = since == no_slice || !window.windowed();
    const std::uint8_t age =
        timeless ? std::uint8_t{0} : clamped_age(window.newest - std::min(since / window.seconds, window.newest));
    auto tested = test_filters(filters, hash, digests, seen);
    for (std::size_t i = 0; tested && i < seen.size(); ++i) {
      if (seen[i] != 0) ages[i] = std::min(ages[i], age);
    }
    return tested;
  }
  static void append_old(std::vector<std::byte>& sections, const OldFilters& filters) {
    const std::size_t at = sections.size();
    sections.resize(at + section_header_bytes + 8);
    store_le(sections.data() + at, static_cast<std::uint16_t>(old_filters));
    store_le(sections.data() + at + 4, static_cast<std::uint32_t>(8 + filters.filters.size()));
    store_le(sections.data() + at + 8, static_cast<std::uint64_t>(filters.since));
    sections.insert(sections.end(), filters.filters.begin(), filters.filters.end());
  }

  /// The newest slice, as the header and the table's bytes count it.
  void set_window(std::int64_t newest) noexcept {
    newest_ = std::max<std::int64_t>(newest, 0);
    header_.shape.sliced = window_.windowed();
    header_.slice_seconds = static_cast<std::uint32_t>(window_.seconds);
    header_.newest = window_.windowed() ? static_cast<std::uint32_t>(newest_) : 0;
    bytes_ = {static_cast<std::uint8_t>(header_.newest), window_.max_age};
  }

  /// A table under this window: its dead lanes are dropped, its slices renumbered where their length differs.
  void take_table(const TableValue& value) {
    const SliceWindow then = window_.in(value.header);
    const bool was_sliced = value.header.shape.sliced;
    header_.generation = value.header.generation;
    header_.sequence = value.header.sequence;
    if (then.windowed() && !then.reaches(value.header.newest)) {
      changed_ = true;
      dropped_ += value.table.slices_older_than(-1, static_cast<std::uint8_t>(value.header.newest));
      return;
    }
    TableHeader old = value.header;
    const auto old_bytes = std::span(value_body(value), static_cast<std::size_t>(old.shape.bytes()));
    body_.assign(old_bytes.begin(), old_bytes.end());
    if (then.windowed()) drop_dead(old, then);
    if (then.windowed() && then.seconds != window_.seconds) count_slices_anew(old, then);
    set_window(then.windowed() && then.seconds == window_.seconds ? then.newest : window_.newest);
    if (was_sliced == window_.windowed()) {
      header_.shape = old.shape;
      header_.count = old.count;
      return;
    }
    // Slices come or go: what has none is as if seen now.
    changed_ = true;
    const std::vector<std::byte> from = std::move(body_);
    const FingerprintView view(old.shape, old.count, from.data());
    const bool sliced = header_.shape.sliced;
    header_.shape = old.shape;
    header_.shape.sliced = sliced;
    body_.assign(static_cast<std::size_t>(header_.shape.bytes()), std::byte{0});
    FingerprintTable table(header_.shape, 0, body_.data());
    const FingerprintWindow all{was_sliced ? static_cast<std::uint8_t>(old.newest) : bytes_.newest, 255};
    static_cast<void>(table.rebuild(&view, {}, all));
    header_.count = table.count();
  }
  [[nodiscard]] static const std::byte* value_body(const TableValue& value) noexcept { return value.table.ref().index; }
  void drop_dead(TableHeader& old, const SliceWindow& then) {
    const FingerprintWindow live = then.bytes_at(old.newest);
    FingerprintTable table(old.shape, old.count, body_.data());
    dropped_ += table.view().slices_older_than(live.max_age, live.newest);
    if (table.drop(live) == 0) return;
    changed_ = true;
    // Exactly the lanes that are left.
    const std::vector<std::byte> from = body_;
    const FingerprintView view(old.shape, table.count(), from.data());
    old.count = table.count();
    old.shape.capacity = table.count();
    body_.assign(static_cast<std::size_t>(old.shape.bytes()), std::byte{0});
    FingerprintTable fitted(old.shape, 0, body_.data());
    static_cast<void>(fitted.rebuild(&view, {}, live));
  }
  void count_slices_anew(const TableHeader& old, const SliceWindow& then) {
    changed_ = true;
    const std::size_t at =
        static_cast<std::size_t>(old.shape.index_bytes() + old.shape.capacity * (old.shape.lane_bytes() - 1));
    for (std::uint32_t i = 0; i < old.count; ++i) {
      const std::int64_t slice =
          old.newest - then.bytes_at(old.newest).age(std::to_integer<std::uint8_t>(body_[at + i]));
      const std::int64_t now = std::max(slice_now(slice, then, window_), window_.newest - window_.max_age);
      body_[at + i] = static_cast<std::byte>(now);
    }
  }
  /// Where the sections begin is in the header, which may be damaged too: a hide is believed when its digest is that of
  /// its item, as SeenFilter writes it.
  [[nodiscard]] std::vector<HiddenItem> readable_hides(std::span<const std::byte> damaged) const {
    std::vector<HiddenItem> hides;
    if (damaged.size() < table_header_bytes) return hides;
    const auto section_bytes = load_le<std::uint32_t>(damaged.data() + 40);
    if (section_bytes > damaged.size() - table_header_bytes) return hides;
    auto exact = read_exact(damaged.last(section_bytes));
    if (!exact) return hides;
    for (HiddenItem& hidden : exact->hides) {
      if (digest_of_text(hash_, hidden.text) == hidden.digest) hides.push_back(std::move(hidden));
    }
    return hides;
  }
  /// Sections of other kinds stay as they are.
  [[nodiscard]] Result<void> take_sections(std::span<const std::byte> sections) {
    Section section;
    for (auto rest = sections; next_section(rest, section);) {
      if (section.kind == old_filters || is_exact(section.kind)) continue;
      const std::byte* const from = section.bytes.data() - section_header_bytes;
      other_.insert(other_.end(), from, section.bytes.data() + section.bytes.size());
      ++other_count_;
    }
    auto exact = read_exact(sections);
    if (!exact) return std::move(exact).error();
    exact_ = std::move(*exact);
    const bool changed = changed_;
    auto taken = for_each_old(sections, [&](std::int64_t since, std::span<const std::byte> filters) {
      return add_old({since, {filters.begin(), filters.end()}});
    });
    changed_ = changed;
    return taken;
  }

  [[nodiscard]] bool in_old(Digest digest) const {
    std::uint8_t seen = 0;
    for (const OldFilters& filters : old_) {
      static_cast<void>(test_filters(filters.filters, hash_, std::span(&digest, 1), std::span(&seen, 1)));
    }
    return seen != 0;
  }
  void rebuild(std::vector<FingerprintItem>& items) {
    const FingerprintView view(header_.shape, header_.count, body_.data());
    const FingerprintShape shape = grown_shape(&view, items.size(), share_, window_.windowed());
    std::vector<std::byte> body(static_cast<std::size_t>(shape.bytes()));
    FingerprintTable table(shape, 0, body.data());
    static_cast<void>(table.rebuild(&view, items, bytes_));  // the shape has room for all
    if (shape.bucket_bits != header_.shape.bucket_bits) {
      grew_ = header_.count > 0;
      header_.generation = random_generation();
    }
    header_.shape = shape;
    header_.count = table.count();
    body_ = std::move(body);
    changed_ = true;
  }

  H hash_;
  double share_;
  SliceWindow window_;
  std::int64_t newest_ = 0;  // the later of the store's newest slice and the table's
  FingerprintWindow bytes_;  // the window as the table's bytes count it
  TableHeader header_;
  std::vector<std::byte> body_;
  std::vector<OldFilters> old_;
  std::uint64_t old_items_ = 0;
  ExactItems exact_;
  std::vector<std::byte> other_;
  std::uint16_t other_count_ = 0;
  bool changed_ = false;
  bool grew_ = false;
  std::uint64_t dropped_ = 0;
};

SEENBY_DETAIL_END
