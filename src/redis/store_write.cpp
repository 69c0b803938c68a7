// SPDX-License-Identifier: MIT
// The writing half of StoreProtocol: add, grow, create, rebuild, forget.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "seenby/detail/bits.hpp"
#include "seenby/layout/split_block.hpp"
#include "seenby/redis/script.hpp"
#include "store_scripts.hpp"
#include "store_state.hpp"

namespace seenby::redis {
namespace {

/// A lost race is run again this often, within the deadline; each round trip of a rival is progress of that rival.
constexpr int most_attempts = 256;
/// Past this many items one script would hold the server for more than about half a millisecond.
constexpr std::size_t items_in_one_script = 256;
/// Values past Redis's own comfort: SET and the copies of a script are milliseconds each.
constexpr std::uint64_t largest_value_bytes = std::uint64_t{128} << 20;
/// A listed slice outlives its last look-up by this much, so that clocks may differ.
constexpr std::int64_t clock_slack_seconds = 60;
constexpr int bulk_attempts = 4;

/// Where items go: a filter's key and, with a window, its slice and the user's list.
struct Target {
  std::string key;
  std::string list;  ///< empty without a window
  std::int64_t slice = 0;
};

std::string packed(const FilterHeader& header, std::span<const Digest> digests) {
  constexpr std::size_t entry_bytes = 4 + detail::block_bytes;
  std::string out(digests.size() * entry_bytes, '\0');
  std::byte* at = std::as_writable_bytes(std::span(out)).data();
  for (const Digest digest : digests) {
    const auto block = detail::block_index(digest, header.shape.bits / split_block_bits);
    detail::store_le(at, static_cast<std::uint32_t>(block));
    for (std::size_t word = 0; word < detail::block_words; ++word) {
      detail::store_le(at + 4 + 4 * word, detail::block_mask_word(digest, word));
    }
    at += entry_bytes;
  }
  return out;
}

/// The writes of one call to one store.
class Writer {
 public:
  Writer(StoreState& state, const std::string& user, const ReadHistory& history)
      : state_(state),
        key_(state.key_of(user)),
        history_(history),
        deadline_(Deadline::after(history ? state.options.rebuild_timeout : state.options.timeout)) {}

  Result<RecordOutcome> record(std::span<const Digest> digests) {
    if (!state_.slices.windowed()) return add({.key = key_, .list = {}, .slice = 0}, digests);
    const std::int64_t slice = state_.slices.newest(state_.now());
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      lost_slice_ = false;
      auto outcome = add(slice_target(slice), digests);
      if (outcome || !lost_slice_) return outcome;
      if (auto rebuilt = rebuild_window(); !rebuilt) return std::move(rebuilt).error();
    }
    return conflict();
  }

  Result<void> create() {
    const std::string value = state_.slices.windowed() ? SliceList::make(state_.slices.slice_seconds(), false)
                                                       : first_frame(state_.policy.initial_items);
    const std::int64_t ttl = state_.slices.windowed() ? list_ttl() : creation_ttl();
    auto put = put_if_absent(key_, value, ttl);
    if (!put) return std::move(put).error();
    return {};
  }

  Result<bool> forget() {
    Command command;
    command.add("UNLINK").add_key(key_);
    state_.shapes.forget(key_);
    if (state_.slices.windowed()) {
      // One slice more on either side, for clocks that differ.
      const std::int64_t newest = state_.slices.newest(state_.now());
      for (std::int64_t slice = newest + 1; slice >= newest - state_.slices.tested(); --slice) {
        const std::string key = state_.slice_key(key_, slice);
        state_.shapes.forget(key);
        command.add(key);
      }
    }
    auto reply = execute_one(*state_.executor, command, step_deadline());
    if (!reply) return named(std::move(reply).error(), key_);
    return reply->integer() != nullptr && *reply->integer() > 0;
  }

  Result<void> rebuild() {
    if (!history_) {
      return Error{ErrorCode::invalid_argument, "seenby::redis: expected a history to rebuild from, got none"};
    }
    if (state_.slices.windowed()) return rebuild_window();
    const Target target{.key = key_, .list = {}, .slice = 0};
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      auto head = read_head(target.key);
      if (!head) return std::move(head).error();
      auto done = *head ? replace_from_history(target, **head, {}) : create_from_history(target, {});
      if (!done) return std::move(done).error();
      if (*done) return {};
    }
    return conflict();
  }

 private:
  /// A filter's first header, and its identity as it stands in the value.
  struct Head {
    Frame frame;
    std::string identity;
  };
  /// Nothing: a race was lost and must be run again.
  using Attempt = Result<std::optional<RecordOutcome>>;

  // ---- adding

  Result<RecordOutcome> add(const Target& target, std::span<const Digest> digests) {
    RecordOutcome total;
    for (std::size_t at = 0; at < digests.size() || at == 0;) {
      std::size_t count = digests.size() - at;
      auto done = add_some(target, digests.subspan(at), count);
      if (!done) return std::move(done).error();
      total.newly_added += done->newly_added;
      total.grew = total.grew || done->grew;
      at += std::max<std::size_t>(count, 1);
    }
    return total;
  }

  /// Adds the first items of the batch, as many as `count` then says; all, unless a script would be too long.
  Result<RecordOutcome> add_some(const Target& target, std::span<const Digest> digests, std::size_t& count) {
    int bulk = 0;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      if (deadline_.passed()) break;
      const auto head = known_head(target.key);
      Attempt outcome = std::optional<RecordOutcome>{};
      count = digests.size();
      if (head && !head->frame.building && must_grow(*head, digests.size())) {
        outcome = grow(target, *head, digests);
      } else if (head && bulk < bulk_attempts && is_bulk(*head, digests.size())) {
        ++bulk;
        outcome = add_by_swap(target, *head, digests);
      } else {
        // Without a known header the script is a question: nothing is added yet.
        if (head) count = std::min(digests.size(), items_in_one_script);
        outcome = add_by_script(target, head, digests.first(count));
      }
      if (!outcome) return std::move(outcome).error();
      if (*outcome) return **outcome;
    }
    return conflict();
  }

  [[nodiscard]] bool must_grow(const Head& head, std::size_t more) const {
    return growable_ && head.frame.header.items + std::uint64_t{more} > state_.capacity_of(head.frame.header);
  }

  /// Whether sending the value back and forth is less work for the server than the script: about 35 bytes a bit set.
  [[nodiscard]] static bool is_bulk(const Head& head, std::size_t items) noexcept {
    constexpr std::size_t fewest = 64;
    return items >= fewest &&
           head.frame.header.shape.bytes() < 35 * std::uint64_t{head.frame.header.shape.hash_count} * items;
  }

  Attempt add_by_script(const Target& target, const std::optional<Head>& head, std::span<const Digest> digests) {
    const std::string items = head ? packed(head->frame.header, digests) : std::string{};
    const std::string ttl = refresh_ttl_text();
    const std::array<std::string_view, 3> arguments{head ? std::string_view(head->identity) : std::string_view{}, items,
                                                    ttl};
    auto reply = run_add(target, arguments);
    if (!reply) return std::move(reply).error();
    if (reply->is_nil()) return add_to_missing(target, digests);
    if (reply->string() != nullptr) return learn(target.key, *reply->string());
    const auto* numbers = reply->array();
    if (numbers == nullptr || numbers->size() != 3) return unexpected(*reply, target.key);
    const auto added = static_cast<std::size_t>(*(*numbers)[0].integer());
    update_items(target.key, *head, static_cast<std::uint32_t>(*(*numbers)[1].integer()));
    return std::optional(RecordOutcome{.newly_added = added, .grew = false});
  }

  /// The add script; with a window also, in the same round trip, whether all listed slices are still there.
  Result<Reply> run_add(const Target& target, std::span<const std::string_view> arguments) {
    const std::array<std::string_view, 2> keys{target.key, target.list};
    const auto used = std::span(keys).first(target.list.empty() ? 1 : 2);
    std::vector<Command> batch{scripts::add().call(used, arguments)};
    std::vector<const Script*> called{&scripts::add()};
    if (!target.list.empty() && watch_slices_) {
      batch.emplace_back().add("GET").add_key(target.list);
      Command& exists = batch.emplace_back().add("EXISTS").add_key(target.key);
      for (std::int64_t slice = target.slice - 1; slice > target.slice - state_.slices.tested(); --slice) {
        exists.add(state_.slice_key(key_, slice));
      }
      called.resize(3, nullptr);
    }
    auto replies = execute_scripts(*state_.executor, batch, called, step_deadline());
    if (!replies) return named(std::move(replies).error(), target.key);
    for (const Reply& reply : *replies) {
      const Error* error = reply.error();
      if (error == nullptr) continue;
      // The script's own word for a value shorter than its header says.
      const bool truncated = error->message.starts_with("TRUNCATED");
      return named(truncated ? Error{ErrorCode::truncated, error->message} : *error, target.key);
    }
    if (batch.size() > 1 && slices_lost(target, (*replies)[1], (*replies)[2])) {
      lost_slice_ = true;
      return Error{ErrorCode::conflict, "seenby::redis: a slice of the window was evicted"};
    }
    return std::move(replies->front());
  }

  [[nodiscard]] bool slices_lost(const Target& target, const Reply& list, const Reply& existing) const {
    if (list.string() == nullptr || existing.integer() == nullptr) return false;
    const auto decoded = SliceList::decode(*list.string());
    if (!decoded || decoded->building()) return false;
    const auto slices = decoded->slices();
    const auto listed = std::count_if(slices.begin(), slices.end(), [&](std::int64_t slice) {
      return slice <= target.slice && slice > target.slice - state_.slices.tested();
    });
    return listed > *existing.integer();
  }

  /// Read, set bits here, swap if identity and sequence still stand: for batches that would keep a script busy.
  Attempt add_by_swap(const Target& target, const Head& head, std::span<const Digest> digests) {
    Command get;
    get.add("GET").add_key(target.key);
    auto reply = execute_one(*state_.executor, get, step_deadline());
    if (!reply) return named(std::move(reply).error(), target.key);
    std::string* value = reply->string();
    if (value == nullptr) return add_to_missing(target, digests);
    auto frame = decode_frame(*value, 0, value->size(), state_.hash);
    if (!frame) return named(std::move(frame).error(), target.key);
    const std::string identity = identity_of(*value);
    if (identity != head.identity) return learn(target.key, std::string_view(*value).substr(0, header_bytes));
    const FilterHeader before = frame->header;
    const std::size_t added = insert_into_first(*value, before, digests);
    const std::string sequence = std::to_string(before.sequence);
    const std::string ttl = frame->building ? std::string{} : refresh_ttl_text();
    const std::array<std::string_view, 4> arguments{identity, sequence, *value, ttl};
    auto swapped = run(scripts::swap(), target.key, arguments);
    if (!swapped) return std::move(swapped).error();
    if (swapped->is_nil()) return add_to_missing(target, digests);
    if (swapped->string() != nullptr) return learn(target.key, *swapped->string());
    if (swapped->integer() == nullptr) return unexpected(*swapped, target.key);
    if (*swapped->integer() == 0) return std::optional<RecordOutcome>{};
    update_items(target.key, head, static_cast<std::uint32_t>(before.items + added));
    return std::optional(RecordOutcome{.newly_added = added, .grew = false});
  }

  // ---- creating

  Attempt add_to_missing(const Target& target, std::span<const Digest> digests) {
    state_.shapes.forget(target.key);
    if (!target.list.empty()) return open_slice(target, digests);
    if (history_) return create_from_history(target, digests);
    std::string value = first_frame(std::max<std::uint64_t>(state_.policy.initial_items, digests.size()));
    const std::size_t added = insert_fresh(value, digests);
    auto put = put_if_absent(target.key, value, creation_ttl());
    if (!put) return std::move(put).error();
    if (!*put) return std::optional<RecordOutcome>{};
    remember_fresh(target.key, value);
    return std::optional(RecordOutcome{.newly_added = added, .grew = false});
  }

  /// Marked first, read after: whatever is acknowledged once the mark stands is in the history that is then read, or
  /// on the marked filter itself.
  Attempt create_from_history(const Target& target, std::span<const Digest> digests) {
    std::string marked = make_frame(SplitBlockLayout::shape_of(split_block_bits), state_.fpr, state_.hash);
    mark_building(marked);
    auto put = put_if_absent(target.key, marked, state_.options.rebuild_timeout.count());
    if (!put) return std::move(put).error();
    if (!*put) return std::optional<RecordOutcome>{};
    const auto frame = decode_frame(marked, 0, marked.size(), state_.hash);
    return replace_from_history(target, Head{*frame, identity_of(marked)}, digests);
  }

  // ---- growing and rebuilding

  Attempt grow(const Target& target, const Head& head, std::span<const Digest> digests) {
    if (history_) return replace_from_history(target, head, digests);
    const FilterHeader& full = head.frame.header;
    // Halved for each filter of the chain so that all together stay within the budget; past the twelfth the rest of
    // the budget is a rounding error that bits should not be spent on.
    const double fpr = std::max(full.target_fpr / 2, state_.fpr / 4096);
    const auto capacity = std::max<std::uint64_t>(scaled(full.items), digests.size());
    const auto shape = shape_for(capacity, fpr);
    if (!shape) return cannot_grow();
    std::string value = make_frame(*shape, fpr, state_.hash);
    const std::size_t added = insert_fresh(value, digests);
    auto kept = replace(target, head, "-1", value, "0");
    if (!kept) return std::move(kept).error();
    if (!*kept) return std::optional<RecordOutcome>{};
    state_.growths.fetch_add(1, std::memory_order_relaxed);
    return std::optional(RecordOutcome{.newly_added = added, .grew = true});
  }

  /// The filter, built anew from the history in the place of `head` (a full filter, one to rebuild, or a marked one).
  Attempt replace_from_history(const Target& target, const Head& head, std::span<const Digest> digests) {
    auto known = history_of(target);
    if (!known) return std::move(known).error();
    const bool fresh = head.frame.building;
    const std::uint64_t items = known->size() + digests.size();
    // A new filter gets room to grow into; one that is rebuilt with room left keeps to what it needs.
    const std::uint64_t capacity = std::max<std::uint64_t>(
        {state_.policy.initial_items, fresh ? items : scaled(std::max<std::uint64_t>(known->size(), 1)), items});
    const auto shape = shape_for(capacity, state_.fpr);
    if (!shape) return cannot_grow();
    std::string value = make_frame(*shape, state_.fpr, state_.hash);
    insert_fresh(value, *known);
    const auto frame = decode_frame(value, 0, value.size(), state_.hash);
    const std::size_t added = insert_into_first(value, frame->header, digests);
    auto kept = replace(target, head, std::to_string(head.frame.header.sequence), value, vouched(known->size()));
    if (!kept) return std::move(kept).error();
    if (!*kept) return std::optional<RecordOutcome>{};
    (fresh ? state_.rebuilds : state_.growths).fetch_add(1, std::memory_order_relaxed);
    if (!fresh) state_.rebuilds.fetch_add(1, std::memory_order_relaxed);
    if (**kept == Kept::history_knows_less) state_.over_budget.fetch_add(1, std::memory_order_relaxed);
    if (**kept == Kept::raced) compact(target, value);
    return std::optional(RecordOutcome{.newly_added = added, .grew = !fresh});
  }

  /// After a contended growth: merges a second reading of the history into the new filter and drops the old ones
  /// behind it, all of whose items that reading holds. If it fails the old ones stay, which is merely slower.
  void compact(const Target& target, const std::string& value) {
    auto known = history_of(target);
    if (!known) return;
    const auto frame = decode_frame(value, 0, value.size(), state_.hash);
    if (known->size() > state_.capacity_of(frame->header)) return;
    std::string merged = make_frame(frame->header.shape, frame->header.target_fpr, state_.hash);
    insert_fresh(merged, *known);
    const std::string identity = identity_of(value);
    const std::string items = std::to_string(known->size());
    const std::string scratch = target.key + ":merge";
    const auto text = std::string_view(merged);
    const std::array<std::string_view, 2> keys{target.key, scratch};
    const std::string limit = vouched(known->size());
    const std::array<std::string_view, 5> arguments{identity, text.substr(0, header_bytes), text.substr(header_bytes),
                                                    items, limit};
    auto reply = execute_script(*state_.executor, scripts::merge(), keys, arguments, step_deadline());
    if (reply && reply->integer() != nullptr) remember_fresh(target.key, merged);
  }

  /// What became of the filters that were replaced.
  enum class Kept : std::uint8_t { nothing = 0, raced = 1, history_knows_less = 2 };

  /// How many items a filter may hold for a history of this size to stand for all of them: the filter counts items that
  /// changed bits, so at most the distinct ones; the slack is for histories that are read while they are written.
  [[nodiscard]] static std::string vouched(std::size_t known) { return std::to_string(known + known / 16 + 8); }

  /// Runs the replace script. Nothing: the race was lost.
  Result<std::optional<Kept>> replace(const Target& target, const Head& head, const std::string& sequence,
                                      const std::string& value, const std::string& limit) {
    const std::string ttl = head.frame.building ? std::to_string(creation_ttl()) : refresh_ttl_text();
    const std::array<std::string_view, 5> arguments{head.identity, sequence, value,
                                                    ttl == "0" ? std::string_view{} : std::string_view(ttl), limit};
    auto reply = run(scripts::replace(), target.key, arguments);
    if (!reply) return std::move(reply).error();
    if (reply->is_nil()) {
      state_.shapes.forget(target.key);
      return std::optional<Kept>{};
    }
    if (reply->string() != nullptr) {
      if (auto learnt = learn(target.key, *reply->string()); !learnt) return std::move(learnt).error();
      return std::optional<Kept>{};
    }
    if (reply->integer() == nullptr) return unexpected(*reply, target.key);
    remember_fresh(target.key, value);
    return std::optional(static_cast<Kept>(*reply->integer()));
  }

  Attempt cannot_grow() {
    growable_ = false;
    state_.over_budget.fetch_add(1, std::memory_order_relaxed);
    return std::optional<RecordOutcome>{};
  }

  // ---- windows

  [[nodiscard]] Target slice_target(std::int64_t slice) const {
    return {.key = state_.slice_key(key_, slice), .list = key_, .slice = slice};
  }

  /// The slice is not there, or its list is not: create what is new, and report what was lost.
  Attempt open_slice(const Target& target, std::span<const Digest> digests) {
    auto list = read_list();
    if (!list) return std::move(list).error();
    // Without a list nobody knows which slices there were.
    if (!*list) return lost();
    std::string value;
    std::size_t added = 0;
    if (!digests.empty()) {
      value = first_frame(std::max<std::uint64_t>(state_.policy.initial_items, digests.size()));
      added = insert_fresh(value, digests);
    }
    auto opened = run_open_slice(target, (*list)->identity(), value);
    if (!opened) return std::move(opened).error();
    if (*opened == -1) return lost();
    if (*opened != 1) return std::optional<RecordOutcome>{};
    remember_fresh(target.key, value);
    return std::optional(RecordOutcome{.newly_added = added, .grew = false});
  }

  Attempt lost() {
    lost_slice_ = true;
    return Error{ErrorCode::conflict, "seenby::redis: the user's window must be rebuilt"};
  }

  Result<std::int64_t> run_open_slice(const Target& target, const std::string& identity, const std::string& value) {
    const std::string slice = packed_number(target.slice);
    const std::string oldest = packed_number(std::max<std::int64_t>(0, newest_slice() - state_.slices.tested() + 1));
    const std::string ttl = std::to_string(slice_ttl(target.slice));
    const std::string list_lives = std::to_string(list_ttl());
    const std::array<std::string_view, 2> keys{target.key, target.list};
    const std::array<std::string_view, 6> arguments{identity, slice, value, ttl, list_lives, oldest};
    auto reply = execute_script(*state_.executor, scripts::open_slice(), keys, arguments, step_deadline());
    if (!reply) return named(std::move(reply).error(), target.key);
    if (reply->integer() == nullptr) return unexpected(*reply, target.key);
    return *reply->integer();
  }

  /// Marks a new list as building, reads the history after that, adds every slice's items, lists every slice there is,
  /// then takes the mark off. While it stands the user is `missing`.
  Result<void> rebuild_window() {
    const Deadline patience = deadline_.earlier(Deadline::after(state_.options.timeout));
    bool waited = false;
    for (int attempt = 0; attempt < most_attempts && !deadline_.passed(); ++attempt) {
      auto list = read_list();
      if (!list) return std::move(list).error();
      const bool others_build = *list && (*list)->building();
      if (waited && *list && !others_build) return {};
      if (others_build && !patience.passed()) {
        // Two builders would only take the mark from each other; one that has died is succeeded.
        waited = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + attempt));
        continue;
      }
      const std::string marked = SliceList::make(state_.slices.slice_seconds(), true);
      auto begun = swap_identity(*list ? (*list)->identity() : std::string{}, marked, false,
                                 state_.options.rebuild_timeout.count());
      if (!begun) return std::move(begun).error();
      if (!*begun) continue;
      auto filled = fill_window(marked);
      if (!filled) return std::move(filled).error();
      if (!*filled) continue;
      std::string done = marked;
      done[1] = '\0';
      auto ended = swap_identity(marked, done, true, list_ttl());
      if (!ended) return std::move(ended).error();
      if (!*ended) continue;
      state_.rebuilds.fetch_add(1, std::memory_order_relaxed);
      return {};
    }
    return conflict();
  }

  /// False when the list was replaced meanwhile.
  Result<bool> fill_window(const std::string& list_identity) {
    std::vector<SeenDigest> known;
    if (history_) {
      auto read = history_();
      if (!read) return std::move(read).error();
      known = std::move(*read);
    }
    const std::int64_t newest = newest_slice();
    auto existing = slices_that_exist(newest);
    if (!existing) return std::move(existing).error();
    const bool watched = std::exchange(watch_slices_, false);
    Result<bool> good = true;
    for (std::int64_t slice = newest; good && *good && slice > newest - state_.slices.tested(); --slice) {
      std::vector<Digest> digests;
      for (const SeenDigest& seen : known) {
        if (std::min(state_.slices.number(seen.seen_at), newest) == slice) digests.push_back(seen.digest);
      }
      const bool exists = (*existing)[static_cast<std::size_t>(newest - slice)];
      if (exists || !digests.empty()) good = fill_slice(slice_target(slice), list_identity, digests);
    }
    watch_slices_ = watched;
    return good;
  }

  /// By age. Asked after the mark was set: a slice made later is listed by whoever makes it.
  Result<std::vector<bool>> slices_that_exist(std::int64_t newest) {
    std::vector<Command> batch;
    for (std::int64_t age = 0; age < state_.slices.tested(); ++age) {
      batch.emplace_back().add("EXISTS").add_key(state_.slice_key(key_, newest - age));
    }
    auto replies = state_.executor->execute(batch, step_deadline());
    if (!replies) return named(std::move(replies).error(), key_);
    std::vector<bool> existing;
    for (const Reply& reply : *replies) {
      if (reply.error() != nullptr) return named(*reply.error(), key_);
      existing.push_back(reply.integer() != nullptr && *reply.integer() == 1);
    }
    return existing;
  }

  Result<bool> fill_slice(const Target& target, const std::string& list_identity, std::span<const Digest> digests) {
    lost_slice_ = false;
    if (!digests.empty()) {
      auto added = add(target, digests);
      if (!added && lost_slice_) return false;
      if (!added) return std::move(added).error();
    }
    // The slice may have been there before the list: list it.
    auto listed = run_open_slice(target, list_identity, {});
    if (!listed) return std::move(listed).error();
    return *listed >= 0;
  }

  Result<std::optional<SliceList>> read_list() {
    Command get;
    get.add("GET").add_key(key_);
    auto reply = execute_one(*state_.executor, get, step_deadline());
    if (!reply) return named(std::move(reply).error(), key_);
    if (reply->is_nil()) return std::optional<SliceList>{};
    if (reply->string() == nullptr) return unexpected(*reply, key_);
    auto list = SliceList::decode(*reply->string());
    if (!list) return named(std::move(list).error(), key_);
    return std::optional(std::move(*list));
  }

  Result<bool> swap_identity(const std::string& expected, const std::string& value, bool keep_rest, std::int64_t ttl) {
    const std::string ttl_text = std::to_string(ttl);
    const std::array<std::string_view, 4> arguments{expected, value, keep_rest ? "1" : "0", ttl_text};
    auto reply = run(scripts::swap_identity(), key_, arguments);
    if (!reply) return std::move(reply).error();
    return reply->integer() != nullptr && *reply->integer() == 1;
  }

  // ---- small things

  [[nodiscard]] Deadline step_deadline() const { return deadline_.earlier(Deadline::after(state_.options.timeout)); }
  [[nodiscard]] std::int64_t newest_slice() const { return state_.slices.newest(state_.now()); }

  /// What is known of a key's head without asking: what this process saw last.
  [[nodiscard]] std::optional<Head> known_head(const std::string& key) const {
    const auto shape = state_.shapes.find(key);
    if (!shape) return std::nullopt;
    return Head{shape->frames.front(), shape->identity};
  }

  Result<std::optional<Head>> read_head(const std::string& key) {
    Command get;
    get.add("GETRANGE").add_key(key).add("0").add(static_cast<std::int64_t>(header_bytes - 1));
    auto reply = execute_one(*state_.executor, get, step_deadline());
    if (!reply) return named(std::move(reply).error(), key);
    if (reply->string() == nullptr) return unexpected(*reply, key);
    if (reply->string()->empty()) return std::optional<Head>{};
    if (auto learnt = learn(key, *reply->string()); !learnt) return std::move(learnt).error();
    return known_head(key);
  }

  /// Takes in another header than was expected. Always "run again", unless the value is no filter of ours.
  Attempt learn(const std::string& key, std::string_view header) {
    // Only the header is here; whether the rest is as long as it says is for those who read it.
    auto frame = decode_frame(header, 0, std::numeric_limits<std::uint64_t>::max(), state_.hash);
    if (!frame) return named(std::move(frame).error(), key);
    state_.remember(key, header, {*frame}, false, 0);
    return std::optional<RecordOutcome>{};
  }

  void update_items(const std::string& key, const Head& head, std::uint32_t items) {
    const auto shape = state_.shapes.find(key);
    if (!shape || shape->identity != head.identity) return;
    auto updated = std::make_shared<Shape>(*shape);
    updated->frames.front().header.items = items;
    state_.shapes.put(key, std::move(updated));
  }

  void remember_fresh(const std::string& key, std::string_view value) {
    auto frame = decode_frame(value, 0, value.size(), state_.hash);
    if (frame) state_.remember(key, value, {*frame}, false, value.size());
  }

  Result<Reply> run(const Script& script, const std::string& key, std::span<const std::string_view> arguments) {
    const std::string_view view = key;
    auto reply = execute_script(*state_.executor, script, {&view, 1}, arguments, step_deadline());
    if (!reply) return named(std::move(reply).error(), key);
    return reply;
  }

  /// True when it was absent and now is there.
  Result<bool> put_if_absent(const std::string& key, const std::string& value, std::int64_t ttl) {
    Command set;
    set.add("SET").add_key(key).add(value).add("NX");
    if (ttl > 0) set.add("PX").add(ttl);
    auto reply = execute_one(*state_.executor, set, step_deadline());
    if (!reply) return named(std::move(reply).error(), key);
    return !reply->is_nil();
  }

  [[nodiscard]] std::optional<FilterShape> shape_for(std::uint64_t items, double fpr) const {
    // Ten bits an item at the least; far past the limit the sizing itself would refuse.
    if (items > largest_value_bytes) return std::nullopt;
    const FilterShape shape = SplitBlockLayout::shape_for(items, fpr);
    if (shape.bytes() > largest_value_bytes) return std::nullopt;
    return shape;
  }
  [[nodiscard]] std::uint64_t scaled(std::uint64_t items) const {
    return static_cast<std::uint64_t>(std::ceil(static_cast<double>(items) * state_.policy.growth_factor));
  }
  /// A user's or slice's first filter. Without a history half the budget is left to those that may follow in its chain.
  [[nodiscard]] std::string first_frame(std::uint64_t items) const {
    const double fpr = history_ ? state_.fpr : state_.fpr / 2;
    return make_frame(SplitBlockLayout::shape_for(items, fpr), fpr, state_.hash);
  }
  std::size_t insert_fresh(std::string& value, std::span<const Digest> digests) const {
    const auto frame = decode_frame(value, 0, value.size(), state_.hash);
    return insert_into_first(value, frame->header, digests);
  }

  /// The history's digests, with a window those of the target's slice.
  Result<std::vector<Digest>> history_of(const Target& target) const {
    auto read = history_();
    if (!read) return std::move(read).error();
    const std::int64_t newest = newest_slice();
    std::vector<Digest> digests;
    digests.reserve(read->size());
    for (const SeenDigest& seen : *read) {
      if (target.list.empty() || std::min(state_.slices.number(seen.seen_at), newest) == target.slice) {
        digests.push_back(seen.digest);
      }
    }
    return digests;
  }

  [[nodiscard]] std::int64_t creation_ttl() const {
    return state_.options.time_to_live == TimeToLive::none ? 0 : std::chrono::milliseconds(state_.options.ttl).count();
  }
  [[nodiscard]] std::string refresh_ttl_text() const {
    const bool refreshed = !state_.slices.windowed() && state_.options.time_to_live == TimeToLive::refreshed;
    return refreshed ? std::to_string(creation_ttl()) : std::string{};
  }
  /// Until the slice has left the window, in milliseconds.
  [[nodiscard]] std::int64_t slice_ttl(std::int64_t slice) const {
    const std::int64_t end = (slice + state_.slices.tested()) * state_.slices.slice_seconds() + clock_slack_seconds;
    return std::max<std::int64_t>(1, end - state_.now().time_since_epoch().count()) * 1000;
  }
  [[nodiscard]] std::int64_t list_ttl() const { return slice_ttl(newest_slice()); }

  [[nodiscard]] static Error unexpected(const Reply& reply, std::string_view key) {
    std::string message = "seenby::redis: did not expect a reply of type ";
    return named({ErrorCode::corrupt, message.append(reply.type_name())}, key);
  }
  [[nodiscard]] Error conflict() const {
    if (deadline_.passed()) {
      return named({ErrorCode::timed_out, "seenby::redis: the deadline passed while others kept changing it"}, key_);
    }
    return named({ErrorCode::conflict, "seenby::redis: others kept changing it"}, key_);
  }

  StoreState& state_;
  std::string key_;
  const ReadHistory& history_;
  Deadline deadline_;
  bool growable_ = true;
  bool watch_slices_ = true;
  bool lost_slice_ = false;
};

}  // namespace

StoreProtocol::StoreProtocol(std::shared_ptr<Executor> executor, const StorePolicy& policy, RedisStoreOptions options,
                             HashKind hash, std::uint16_t seed_check)
    : state_(std::make_unique<StoreState>(std::move(executor), policy, std::move(options),
                                          HashIdentity{hash, seed_check})) {}
StoreProtocol::~StoreProtocol() = default;

Result<RecordOutcome> StoreProtocol::record(const std::string& user, std::span<const Digest> digests,
                                            const ReadHistory& history) {
  auto outcome = Writer(*state_, user, history).record(digests);
  (outcome ? state_->records : state_->write_failures).fetch_add(digests.size(), std::memory_order_relaxed);
  return outcome;
}

Result<void> StoreProtocol::create(const std::string& user) { return Writer(*state_, user, {}).create(); }
Result<bool> StoreProtocol::forget(const std::string& user) { return Writer(*state_, user, {}).forget(); }
Result<void> StoreProtocol::rebuild(const std::string& user, const ReadHistory& history) {
  return Writer(*state_, user, history).rebuild();
}

StoreCounters StoreProtocol::counters() const noexcept {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  return {.users = 0,
          .records = read(state_->records),
          .write_failures = read(state_->write_failures),
          .growths = read(state_->growths),
          .rebuilds = read(state_->rebuilds),
          .over_budget = read(state_->over_budget),
          .slices_dropped = 0};
}

std::string StoreProtocol::key_of(std::string_view user) const { return state_->key_of(user); }
std::string StoreProtocol::slice_key_of(std::string_view user, std::int64_t slice) const {
  return state_->slice_key(state_->key_of(user), slice);
}
Executor& StoreProtocol::executor() const noexcept { return *state_->executor; }

}  // namespace seenby::redis
