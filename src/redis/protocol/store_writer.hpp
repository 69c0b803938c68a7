#pragma once
// SPDX-License-Identifier: MIT
// StoreWriter: the writes of one call to a store. See StoreProtocol for what each does and why it loses nothing.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/store_state.hpp"
#include "redis/transport/script.hpp"

namespace seenby::redis {

/// Each once, in any order.
[[nodiscard]] std::vector<Digest> distinct(std::span<const Digest> digests);

/// Lives for one call, on one thread.
class StoreWriter {
 public:
  StoreWriter(StoreState& state, const std::string& user, const ReadSeen& history)
      : state_(state),
        key_(state.key_of(user)),
        history_(history),
        deadline_(Deadline::after(history ? state.options.rebuild_timeout : state.timeout)) {}

  Result<RecordOutcome> record(std::span<const Digest> digests);

  Result<void> create();

  Result<bool> forget();

  Result<void> rebuild();

  // Adding in steps that share round trips with those of other users: store_many.cpp

  struct Step;
  /// What a step came to: it is done, asks once more, or needs round trips of its own (`record`).
  enum class Next : std::uint8_t { done, again, alone };
  [[nodiscard]] Step step(std::span<const Digest> digests) const;
  /// Appends the step's commands; false when it needs round trips of its own.
  bool plan(Step& step, std::vector<Command>& batch, std::vector<const Script*>& called) const;
  Next take(Step& step, std::span<const Reply> replies, Result<RecordOutcome>& outcome);

 private:
  /// Past this many items one script would hold the server for more than about half a millisecond.
  static constexpr std::size_t items_in_one_script = 256;
  /// The items as the add script takes them.
  [[nodiscard]] static std::string packed(const FilterHeader& header, std::span<const Digest> digests);

  /// A lost race is run again this often, within the deadline; each round trip of a rival is progress of that rival.
  static constexpr int most_attempts = 256;

  /// A filter's first header, and its identity as in the value.
  struct Head {
    Frame frame;
    std::string identity;
  };
  /// Nothing: a race was lost and must be run again.
  using Attempt = Result<std::optional<RecordOutcome>>;

  // Adding: store_write.cpp

  Result<RecordOutcome> add(std::span<const Digest> digests);

  /// Adds the first items of the batch and sets `count` to how many; all, unless a script would be too long.
  Result<RecordOutcome> add_some(std::span<const Digest> digests, std::size_t& count);

  /// The filter has no room for all of the items: those that it holds already need none.
  Attempt add_to_full(std::span<const Digest> digests);

  [[nodiscard]] bool must_grow(const Head& head, std::size_t more) const;

  /// Whether sending the value back and forth is less work for the server than the script: about 35 bytes a bit set.
  [[nodiscard]] static bool is_bulk(const Head& head, std::size_t items) noexcept {
    constexpr std::size_t fewest = 64;
    return items >= fewest &&
           head.frame.header.shape.bytes() < 35 * std::uint64_t{head.frame.header.shape.hash_count} * items;
  }

  Attempt add_by_script(const std::optional<Head>& head, std::span<const Digest> digests);

  /// What the add script says it added.
  Result<RecordOutcome> take_added(const std::optional<Head>& head, const Reply& reply);
  Result<Reply> run_add(std::span<const std::string_view> arguments);

  /// Read, set bits here, compare-and-swap on identity and sequence: for batches that would keep a script busy.
  Attempt add_by_swap(const Head& head, std::span<const Digest> digests);

  Attempt add_to_missing(std::span<const Digest> digests);

  // Creating from a history, growing, rebuilding: store_grow.cpp

  /// Marked first, read after: whatever is acknowledged once the mark is set is in the history that is then read, or
  /// on the marked filter itself.
  Attempt create_from_history(std::span<const Digest> digests);

  Attempt grow(const Head& head, std::span<const Digest> digests);

  /// The filter, rebuilt from the history in the place of `head` (a full filter, one to rebuild, or a marked one).
  Attempt replace_from_history(const Head& head, std::span<const Digest> digests);

  /// A damaged filter: rebuilt from the history if the value is still what was read.
  Attempt heal(std::span<const Digest> digests, const Error& damage);

  /// After a contended growth: merges a second reading of the history into the new filter and drops the old ones
  /// behind it, all of whose items that reading holds. If it fails the old ones stay, which is merely slower.
  void compact(const std::string& value);

  /// What became of the filters that were replaced.
  enum class Kept : std::uint8_t { nothing = 0, raced = 1, history_knows_less = 2 };

  /// How many items a filter may hold for a history of this size to cover all of them: the filter counts items that
  /// changed bits, so at most the distinct ones; the slack is for histories that are read while they are written.
  [[nodiscard]] static std::string vouched(std::size_t known);

  /// Runs the replace script. Nothing: the race was lost.
  Result<std::optional<Kept>> replace(const Head& head, const std::string& sequence, const std::string& value,
                                      const std::string& limit);

  Attempt cannot_grow();

  // What all of them use: store_write.cpp

  /// The whole value; nothing when there is none.
  Result<std::optional<std::string>> read_value(const std::string& key);

  [[nodiscard]] Deadline step_deadline() const { return deadline_.earlier(Deadline::after(state_.timeout)); }

  /// What is known of a key's head without asking: what this process saw last.
  [[nodiscard]] std::optional<Head> known_head(const std::string& key) const;

  Result<std::optional<Head>> read_head(const std::string& key);

  /// Takes in another header than was expected. Always "run again", unless the value is no filter of ours.
  Attempt learn(const std::string& key, std::string_view header);

  void update_items(const std::string& key, const Head& head, std::uint32_t items);

  void remember_fresh(const std::string& key, std::string_view value);

  Result<Reply> run(const Script& script, const std::string& key, std::span<const std::string_view> arguments);

  /// True when it was absent and now is there.
  Result<bool> put_if_absent(const std::string& key, const std::string& value, std::int64_t ttl);

  [[nodiscard]] std::optional<FilterShape> shape_for(std::uint64_t items, double fpr) const;
  [[nodiscard]] std::uint64_t scaled(std::uint64_t items) const {
    return static_cast<std::uint64_t>(std::ceil(static_cast<double>(items) * state_.policy.growth_factor));
  }
  /// A user's first filter. Without a history half the budget is left to those that may follow in its chain.
  [[nodiscard]] std::string first_frame(std::uint64_t items) const;
  std::size_t insert_fresh(std::string& value, std::span<const Digest> digests) const;

  Result<std::vector<Digest>> read_history() const;

  [[nodiscard]] std::int64_t creation_ttl() const;
  [[nodiscard]] Error conflict() const;

  [[nodiscard]] static Command put_command(const std::string& key, const std::string& value, std::int64_t ttl);

  StoreState& state_;
  std::string key_;
  const ReadSeen& history_;
  Deadline deadline_;
  bool growable_ = true;
};

/// One filter's part of a record of many.
struct StoreWriter::Step {
  std::span<const Digest> digests;
  bool missing = false;        ///< there is no filter: one is put
  std::optional<Head> head{};  ///< of the filter that is added to
  std::string value{};         ///< the filter to put
  std::size_t added = 0;       ///< in it
  std::size_t first_reply = 0;
  std::size_t replies = 0;
};

}  // namespace seenby::redis
