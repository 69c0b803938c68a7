#pragma once
// SPDX-License-Identifier: MIT
// TableWriter: the writes of one call to one user's table.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/store_state.hpp"
#include "redis/protocol/table_value.hpp"
#include "redis/transport/script.hpp"

namespace seenby::redis {

/// Lives for one call, on one thread.
///
/// A value that others write in another form (filters of version 1, a list of slices) is taken over by the first write
/// that meets it, together with its slices' keys, if all of them still are what was read.
class TableWriter {
 public:
  TableWriter(StoreState& state, const std::string& user, const ReadSeen& history)
      : state_(state),
        key_(state.key_of(user)),
        history_(history),
        deadline_(Deadline::after(history ? state.options.rebuild_timeout : state.timeout)) {}

  /// In one round trip where the table has room, or is not there and there is no history. What was seen before the
  /// window is not stored.
  Result<RecordOutcome> record(std::span<const SlicedDigest> items);
  /// The first step of `record` as a command, for round trips that many users share; nothing when there are too many
  /// items. `take` says what came of it; nothing when `record` must do it.
  [[nodiscard]] std::optional<Command> command(std::span<const SlicedDigest> items) const;
  [[nodiscard]] Result<std::optional<RecordOutcome>> take(const Reply& reply) const;

  Result<void> create();
  /// From the history, which is united with what is there, unless that is damaged.
  Result<void> rebuild();

 private:
  /// Past this many items one script would hold the server for more than about half a millisecond.
  static constexpr std::size_t items_in_one_script = 256;
  /// A lost race is run again this often, within the deadline; each round trip of a rival is progress of that rival.
  static constexpr int most_attempts = 256;

  /// What is there, whole, and the filters of old slices that belong to it.
  struct Found {
    std::string value{};  ///< empty: nothing
    bool list = false;    ///< the value is a list of slices
    std::vector<detail::OldFilters> old{};
    std::vector<std::string> old_keys{};
    std::vector<std::string> old_heads{};  ///< how the filters at those keys began
  };
  /// Nothing: a race was lost and must be run again.
  using Attempt = Result<std::optional<RecordOutcome>>;

  [[nodiscard]] Deadline step_deadline() const { return deadline_.earlier(Deadline::after(state_.timeout)); }
  [[nodiscard]] Error conflict() const;

  Attempt add_by_script(std::span<const SlicedDigest> items);
  Attempt add_to_missing(std::span<const SlicedDigest> items);
  /// Edits what was found and swaps it.
  Attempt add_by_swap(const Found& found, std::span<const SlicedDigest> items, const std::vector<SlicedDigest>* known);
  /// As `add_by_swap`, for a value that must be united with the history: one of version 1, or a damaged one.
  Attempt replace(const Found& found, std::span<const SlicedDigest> items);

  Result<Found> find(std::optional<std::string> value);
  Result<void> find_slices(Found& found);
  Result<std::vector<SlicedDigest>> read_history();
  Result<std::string> read_value();
  Result<bool> put(const std::string& value, std::int64_t ttl);
  Result<bool> swap(const Found& found, const std::string& value, const std::string& ttl);

  StoreState& state_;
  std::string key_;
  const ReadSeen& history_;
  Deadline deadline_;
};

}  // namespace seenby::redis
