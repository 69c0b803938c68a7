#pragma once
// SPDX-License-Identifier: MIT
// What an ExistenceGate is told, answers, counts and reports.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "seenby/clock.hpp"

namespace seenby {

/// How a gate is kept. One gate a resource type: what a filter of posts says of a product means nothing.
template <class Item>
struct ExistenceGateOptions {
  double target_fpr = 0.01;       ///< of the ids that do not exist, the share that passes; in (0, 1)
  std::uint32_t partitions = 64;  ///< of the filter
  /// The longest time from add() to the record's being visible to every reader: transaction, replica lag. Ids added
  /// within it are carried into a rebuild and are not remembered as absent.
  std::chrono::seconds write_lag{60};
  std::chrono::seconds negative_ttl{5};    ///< how long "not found" is remembered; zero: not at all
  std::size_t negative_entries = 100'000;  ///< and of how many ids at most
  /// When an id was made, for ids that tell (time-ordered ones). Ids younger than write_lag bypass the gate, so that a
  /// late or lost add() cannot hide a new record.
  std::function<std::optional<Time>(const Item&)> made_at{};
  /// What makes two spellings of an id one (case, Unicode form): used on add and on check alike.
  std::function<Item(const Item&)> normalise{};
  /// Names `normalise` and its version ("nfkc_casefold/icu72"). A saved gate is only opened under the same name, since
  /// under another its bits mean other ids.
  std::string normaliser_name{};
  /// The type of resource and the tenant that the ids are of ("products", "acme/posts"). A saved gate is only opened
  /// under the same name.
  std::string resource{};
  Clock clock{};  ///< the system's when empty
};

/// What a gate says of an id.
enum class Existence : std::uint8_t {
  absent,   ///< certain: answer "not found"
  maybe,    ///< ask the cache and the database; grants nothing
  unknown,  ///< no trusted filter, or too young an id: ask them as if there were no gate
};

/// The enumerator's name.
[[nodiscard]] constexpr std::string_view to_string(Existence existence) noexcept {
  switch (existence) {
    case Existence::absent: return "absent";
    case Existence::maybe: return "maybe";
    case Existence::unknown: return "unknown";
  }
  return "unnamed";
}

/// What a gate counts. A record that was positive but absent is a false positive, or was deleted since the last
/// rebuild, or is not visible yet: the counter cannot tell which.
struct GateCounters {
  std::uint64_t checks = 0;               ///< ids that were asked about
  std::uint64_t negatives = 0;            ///< answered "not found" by the filter
  std::uint64_t bypassed = 0;             ///< no trusted filter, or too young an id
  std::uint64_t negative_cache_hits = 0;  ///< answered "not found" because an earlier lookup found nothing
  std::uint64_t loads = 0;                ///< went on to the cache and the database
  std::uint64_t positive_but_absent = 0;  ///< of those behind a positive, found nothing
  /// Loads that returned an error.
  std::uint64_t load_failures = 0;
  std::uint64_t adds = 0;           ///< ids added
  std::uint64_t rebuilds = 0;       ///< filters switched in
  std::uint64_t over_capacity = 0;  ///< adds past the number of ids the filter was sized for: time for a rebuild
  std::uint64_t load_ns = 0;        ///< time spent in loads

  /// Whether the gate pays for this traffic: the nanoseconds it saves a check on average, which is the mean length of a
  /// load for each negative, less `check_cost` (measure it, or take the round trip where the filter is remote).
  /// Negative: the gate costs more than it saves. 0 before anything was measured.
  [[nodiscard]] double saved_ns_per_check(std::chrono::nanoseconds check_cost) const noexcept {
    if (checks == 0 || loads == 0) return 0;
    const auto ratio = [](std::uint64_t a, std::uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
    return ratio(negatives, checks) * ratio(load_ns, loads) - static_cast<double>(check_cost.count());
  }
};

/// How far a gate is.
enum class GateState : std::uint8_t {
  empty,       ///< no filter yet: everything goes the normal way
  loading,     ///< opened from a file, and not yet caught up with the changes since: the same
  ready,       ///< trusted
  rebuilding,  ///< trusted, a new filter in the making
  distrusted,  ///< the filter is not believed until the next rebuild
};

/// How far it is.
[[nodiscard]] constexpr std::string_view to_string(GateState state) noexcept {
  switch (state) {
    case GateState::empty: return "empty";
    case GateState::loading: return "loading";
    case GateState::ready: return "ready";
    case GateState::rebuilding: return "rebuilding";
    case GateState::distrusted: return "distrusted";
  }
  return "unnamed";
}

/// A gate's state, for a page that a person reads.
struct GateStatus {
  GateState state = GateState::empty;  ///< how far it is
  std::uint64_t version = 0;           ///< larger after each rebuild, over restarts too
  std::uint64_t position = 0;          ///< of the change feed: every change up to it is in
  std::chrono::seconds age{0};         ///< since the filter was switched in or opened
  std::chrono::seconds lag{0};         ///< since the last change or advance() came in
  /// Ids in the filter that serves.
  std::uint64_t items = 0;
  std::uint64_t capacity = 0;  ///< the ids it was sized for
  double expected_fpr = 0;     ///< with the items it has
};

/// What a gate answers when a caller wants to take a name.
enum class Availability : std::uint8_t {
  free,          ///< certain when it was asked: no such name was ever added
  ask_database,  ///< perhaps taken: only the database knows, and its unique constraint decides
};

}  // namespace seenby
