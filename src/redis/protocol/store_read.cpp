// SPDX-License-Identifier: MIT
// The reading half of StoreProtocol: lookups in one pipelined round trip.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "redis/protocol/exact_value.hpp"
#include "redis/protocol/recycled.hpp"
#include "redis/protocol/store_state.hpp"
#include "redis/protocol/table_value.hpp"
#include "redis/transport/large_strings.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/kernels/table.hpp"

namespace seenby::redis {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

/// One filter key of one user of one job.
struct KeyRead {
  std::string key;
  std::int64_t slice = 0;
  std::size_t reply = none;                 ///< the first of its replies
  std::shared_ptr<const Shape> by_block{};  ///< read by block, as this shape says; null: whole
  bool found = false;
  bool may_be_gone = false;                      ///< a slice of another length, past its time
  std::vector<detail::SplitBlockRef> filters{};  ///< in the reply, once read whole
  std::string_view table{};                      ///< in the reply, where it is one
  std::vector<std::uint8_t> answers{};           ///< of a table, and of filters once read by block

  void clear() noexcept {
    key.clear();
    slice = 0;
    reply = none;
    by_block.reset();
    found = false;
    may_be_gone = false;
    filters.clear();
    table = {};
    answers.clear();
  }
};

/// One user of one job.
struct UserRead {
  std::size_t job = 0;
  std::size_t user = 0;
  std::string key;
  std::size_t table_reply = none;  ///< with a window: the table, or a list of slices of version 1
  std::size_t exact_reply = none;  ///< hides and last items
  std::shared_ptr<const ExactList> exact{};
  Recycled<KeyRead> reads{};
  UserState state = UserState::known;
  std::shared_ptr<const Error> error{};

  void clear() noexcept {
    job = 0;
    user = 0;
    key.clear();
    table_reply = none;
    exact_reply = none;
    exact.reset();
    reads.clear();
    state = UserState::known;
    error.reset();
  }
  void fail(Error what) {
    state = UserState::unreachable;
    error = std::make_shared<const Error>(std::move(what));
  }
};

/// From here on it can pay to read single blocks, and shapes are remembered.
constexpr std::size_t large_value_bytes = std::size_t{16} << 10;
/// What one block costs, in bytes of a value read whole. Over a network that is what goes over the wire. On one machine
/// it is processor time, of the server for 100 candidates in 128 KiB over a Unix socket: 16 us whole, 47 us by GETRANGE
/// a block, and in one script 160 us by GETRANGE and 180 to 210 us by GET.
constexpr std::size_t block_bytes_on_the_wire = 64;
constexpr std::size_t block_bytes_of_time = 4'096;
/// Much more than this in one pipeline no longer stays in the caches of server and client, and what the replies lie in
/// no longer comes back from `give_back`.
constexpr std::size_t trip_bytes = std::size_t{1} << 20;

/// A read that must be repeated whole, in the second trip.
struct Again {
  std::size_t user;
  std::size_t read;
};

/// What a lookup builds, kept by its thread from one to the next.
struct Workshop {
  Recycled<UserRead> users;
  Recycled<Command> batch;
  std::vector<Again> again;
  std::vector<detail::SplitBlockRef> simple;
  std::vector<std::uint8_t> flags;
  std::vector<std::uint8_t> scratch;
};

/// The thread's workshop, or a new one while a lookup is in it: an executor may run another on the same thread.
class WorkshopLoan {
 public:
  WorkshopLoan() : workshop_(std::move(of_thread())) {
    if (!workshop_) workshop_ = std::make_unique<Workshop>();
  }
  WorkshopLoan(const WorkshopLoan&) = delete;
  WorkshopLoan& operator=(const WorkshopLoan&) = delete;
  ~WorkshopLoan() {
    // Not what a large tick took.
    constexpr std::size_t most_kept = 256;
    if (workshop_->users.kept() > most_kept || workshop_->batch.kept() > most_kept) return;
    workshop_->users.clear();
    workshop_->batch.clear();
    workshop_->again.clear();
    of_thread() = std::move(workshop_);
  }
  [[nodiscard]] Workshop& operator*() const noexcept { return *workshop_; }

 private:
  static std::unique_ptr<Workshop>& of_thread() noexcept {
    thread_local std::unique_ptr<Workshop> workshop;
    return workshop;
  }
  std::unique_ptr<Workshop> workshop_;
};

detail::SplitBlockRef ref_of(std::string_view value, const Frame& frame) noexcept {
  const auto bytes = std::as_bytes(std::span(value));
  return {bytes.data() + frame.bits_at, static_cast<std::uint32_t>(frame.header.shape.bits / split_block_bits)};
}

/// One round trip of `check`: plan, ask, and ask again for what has changed since its shape was remembered.
class Reader {
 public:
  /// For the first jobs of the given, as many as `taken` then says: those whose values stay in the caches together.
  Reader(const StoreState& state, std::span<const StoreProtocol::Job> jobs, ItemKind kind, Workshop& workshop)
      : state_(state),
        jobs_(jobs),
        kind_(kind),
        window_(state.window()),
        newest_(window_.newest),
        users_(workshop.users),
        batch_(workshop.batch),
        again_(workshop.again),
        workshop_(workshop) {
    users_.clear();
    batch_.clear();
    again_.clear();
    plan();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    for (auto* const replies : {&first_, &second_}) {
      if (!*replies) continue;
      for (Reply& reply : **replies) {
        if (reply.string() != nullptr) give_back(std::move(*reply.string()));
      }
    }
  }

  /// Asks; afterwards `users()` hold the values or the errors.
  void run(Deadline deadline) {
    if (auto right = state_.check_kind(kind_); !right) return fail_all(right.error());
    first_ = execute_batch(*state_.executor, batch_.all(), deadline);
    if (!first_) return fail_all(first_.error());
    if (kind_reply_ != none) {
      state_.learn_kind(reply(kind_reply_));
      if (auto right = state_.check_kind(kind_); !right) return fail_all(right.error());
    }
    for (std::size_t i = 0; i < users_.size(); ++i) take_first(i);
    if (again_.empty()) return;
    batch_.clear();
    for (const Again& again : again_) batch_.next().reads_only().add("GET").add_key(read_of(again).key);
    second_ = execute_batch(*state_.executor, batch_.all(), deadline);
    for (std::size_t i = 0; i < again_.size(); ++i) take_second(i);
  }

  /// Writes every job's answers.
  void answer() {
    std::size_t next = 0;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      const std::size_t begin = next;
      next += jobs_[job].users.size();
      answer_job(jobs_[job], users_.all().subspan(begin, next - begin));
    }
  }

  [[nodiscard]] std::size_t taken() const noexcept { return jobs_.size(); }
  [[nodiscard]] std::span<const UserRead> users() const noexcept { return users_.all(); }
  [[nodiscard]] std::int64_t newest() const noexcept { return newest_; }
  [[nodiscard]] const detail::SliceWindow& window() const noexcept { return window_; }

  /// flags[i] becomes 1 where one of the key's filters may contain digest i; other entries stay.
  static void mark(const KeyRead& read, std::span<const Digest> digests, std::span<std::uint8_t> flags,
                   std::vector<std::uint8_t>& scratch) {
    for (std::size_t i = 0; i < read.answers.size(); ++i) flags[i] |= read.answers[i];
    scratch.resize(digests.size());
    for (const detail::SplitBlockRef filter : read.filters) {
      detail::check(filter, digests.data(), digests.size(), scratch.data());
      for (std::size_t i = 0; i < digests.size(); ++i) flags[i] |= scratch[i];
    }
  }

 private:
  [[nodiscard]] KeyRead& read_of(const Again& again) { return users_[again.user].reads[again.read]; }
  [[nodiscard]] std::span<const Digest> digests_of(const UserRead& user) const { return jobs_[user.job].digests; }
  [[nodiscard]] const Reply& reply(std::size_t index) const { return (*first_)[index]; }

  void plan() {
    plan_jobs();
    if (state_.knows_kind()) return;
    kind_reply_ = batch_.size();
    batch_.next().reads_only().add("GET").add_key(state_.kind_key());
  }

  void plan_jobs() {
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      if (expected_bytes_ >= trip_bytes) {
        jobs_ = jobs_.first(job);
        return;
      }
      for (std::size_t i = 0; i < jobs_[job].users.size(); ++i) {
        UserRead& user = users_.next();
        user.job = job;
        user.user = i;
        state_.append_key(user.key, jobs_[job].users[i]);
        if (!jobs_[job].status.empty()) {  // not for ages
          user.exact_reply = batch_.size();
          batch_.next().reads_only().add("GET").add_key(StoreState::exact_key(user.key));
        }
        if (!state_.slices.windowed()) {
          plan_key(user, user.key, 0);
          continue;
        }
        user.table_reply = batch_.size();
        batch_.next().reads_only().add("GET").add_key(user.key);
      }
    }
  }

  void plan_key(UserRead& user, const std::string& key, std::int64_t slice) {
    KeyRead& read = user.reads.next();
    read.slice = slice;
    read.reply = batch_.size();
    read.key = key;
    if (state_.any_large.load(std::memory_order_relaxed)) {
      auto shape = state_.shapes.find(key);
      if (shape && pays_by_block(*shape, digests_of(user).size())) {
        read.by_block = std::move(shape);
      } else if (shape) {
        expected_bytes_ += shape->value_bytes;
      }
    }
    if (read.by_block) return plan_blocks(read, digests_of(user));
    batch_.next().reads_only().add("GET").add_key(key);
  }

  [[nodiscard]] bool pays_by_block(const Shape& shape, std::size_t digests) const {
    if (!shape.complete || shape.value_bytes <= large_value_bytes) return false;
    const std::size_t blocks = shape.frames.size() * digests;
    const bool over_limit = shape.value_bytes > state_.whole_read_bytes;
    return blocks * (over_limit ? block_bytes_on_the_wire : block_bytes_of_time) < shape.value_bytes;
  }

  void plan_blocks(const KeyRead& read, std::span<const Digest> digests) {
    // The header before and after the blocks: a generation never comes back, so if both are the one we know, every
    // block between was read from that value.
    const auto range = [&](std::size_t from, std::size_t bytes) {
      batch_.next()
          .reads_only()
          .add("GETRANGE")
          .add_key(read.key)
          .add(static_cast<std::int64_t>(from))
          .add(static_cast<std::int64_t>(from + bytes - 1))
          .expects_at_most(bytes + 16);
    };
    range(0, header_bytes);
    for (const Frame& frame : read.by_block->frames) {
      for (const Digest digest : digests) {
        range(frame.bits_at + block_at(frame, digest) * detail::block_bytes, detail::block_bytes);
      }
    }
    range(0, header_bytes);
  }

  [[nodiscard]] static std::size_t block_at(const Frame& frame, Digest digest) noexcept {
    return static_cast<std::size_t>(detail::block_index(digest, frame.header.shape.bits / split_block_bits));
  }

  void fail_all(const Error& error) {
    const auto shared = std::make_shared<const Error>(error);
    for (UserRead& user : users_) {
      user.state = UserState::unreachable;
      user.error = shared;
    }
  }

  void take_first(std::size_t index) {
    UserRead& user = users_[index];
    if (user.exact_reply != none && !take_exact(user)) return;
    if (user.table_reply != none) return take_window(index, user);
    for (std::size_t i = 0; i < user.reads.size() && user.state == UserState::known; ++i) {
      KeyRead& read = user.reads[i];
      const bool done = !read.by_block || take_blocks(user, read);
      if (!done) again_.push_back({index, i});
      if (!read.by_block) take_whole(user, read, reply(read.reply));
      if (done && !read.found && user.state == UserState::known) user.state = UserState::missing;
    }
  }

  void take_window(std::size_t index, UserRead& user) {
    const Reply& got = reply(user.table_reply);
    if (got.is_nil()) {
      user.state = UserState::missing;
      return;
    }
    if (got.string() == nullptr) return user.fail(unexpected(got, "a table", user.key));
    const std::string_view value = *got.string();
    if (is_marked(value)) {
      user.state = UserState::missing;
      return;
    }
    if (!is_table(value)) return ask_slices(index, user, value);
    KeyRead& read = user.reads.next();
    read.key = user.key;
    take_table(user, read, value);
  }

  void take_table(UserRead& user, KeyRead& read, std::string_view value) {
    read.found = true;
    read.table = value;
    const auto digests = digests_of(user);
    read.answers.resize(digests.size());
    if (auto done = test_table(state_.tables, window_, value, digests, read.answers); !done) {
      user.fail(named(std::move(done).error(), read.key));
    }
  }

  /// The slices that a list of version 1 names, in the second trip. One that is named and not there was lost.
  void ask_slices(std::size_t index, UserRead& user, std::string_view value) {
    const auto list = SliceList::decode(value);
    if (!list) return user.fail(named(list.error(), user.key));
    const bool same_length = list->slice_seconds() == state_.slices.slice_seconds();
    for (const std::int64_t slice : list->slices()) {
      if (same_length && slice <= newest_ - state_.slices.tested()) continue;
      KeyRead& read = user.reads.next();
      read.key = state_.slice_key(user.key, slice);
      // Another writer's clock may be ahead; slices of another length (a configuration before this one) are read, and
      // expire when they will.
      read.slice = std::clamp(slice, newest_ - 254, newest_);
      read.may_be_gone = !same_length;
      again_.push_back({index, user.reads.size() - 1});
    }
  }

  /// False when they cannot be read: then nothing is known of the user, since an item may be hidden.
  bool take_exact(UserRead& user) {
    const Reply& got = reply(user.exact_reply);
    if (got.is_nil()) return true;
    auto items = exact_in(got, StoreState::exact_key(user.key));
    if (!items) return user.fail(std::move(items).error()), false;
    user.exact = items->list();
    return true;
  }

  void take_whole(UserRead& user, KeyRead& read, const Reply& got) {
    if (got.is_nil()) return;
    if (got.string() == nullptr) return user.fail(unexpected(got, "a filter", read.key));
    take_value(user, read, *got.string());
  }

  void take_value(UserRead& user, KeyRead& read, std::string_view value) {
    read.found = true;
    std::size_t at = 0;
    do {
      const auto frame = decode_frame(value, at, value.size(), state_.hash);
      if (!frame) return user.fail(named(frame.error(), read.key));
      if (frame->building) {
        user.state = UserState::missing;
        return;
      }
      read.filters.push_back(ref_of(value, *frame));
      at = frame->end();
    } while (at < value.size());
    remember_if_large(read, value);
  }

  /// False when the value has changed since its shape was remembered, or while it was read.
  bool take_blocks(UserRead& user, KeyRead& read) {
    const Shape& shape = *read.by_block;
    const auto digests = digests_of(user);
    std::size_t next = read.reply + 1;
    const std::size_t last = next + shape.frames.size() * digests.size();
    for (const std::size_t index : {read.reply, last}) {
      const std::string* header = reply(index).string();
      if (header == nullptr) {
        user.fail(unexpected(reply(index), "a header", read.key));
        return true;
      }
      if (identity_of(*header) != shape.identity) return false;
    }
    read.found = true;
    read.answers.assign(digests.size(), 0);
    constexpr FilterShape one_block{.layout = LayoutKind::split_block, .hash_count = 8, .bits = split_block_bits};
    for (std::size_t frame = 0; frame < shape.frames.size(); ++frame) {
      for (std::size_t i = 0; i < digests.size(); ++i, ++next) {
        const std::string* block = reply(next).string();
        if (block == nullptr || block->size() != detail::block_bytes) {
          // The header promises the block; let the whole value tell what is wrong.
          return false;
        }
        const auto bytes = std::as_bytes(std::span(*block));
        if (SplitBlockLayout::test(bytes.data(), one_block, digests[i])) read.answers[i] = 1;
      }
    }
    return true;
  }

  void take_second(std::size_t index) {
    UserRead& user = users_[again_[index].user];
    KeyRead& read = read_of(again_[index]);
    if (user.state == UserState::unreachable) return;
    if (!second_) return user.fail(named(second_.error(), read.key));
    const Reply& got = (*second_)[index];
    if (got.is_nil()) {
      if (!read.may_be_gone) user.state = UserState::missing;
      return;
    }
    if (got.string() == nullptr) return user.fail(unexpected(got, "a filter", read.key));
    read.by_block = nullptr;
    take_value(user, read, *got.string());
  }

  /// So that the next lookup can ask for the blocks it needs.
  void remember_if_large(const KeyRead& read, std::string_view value) const {
    if (value.size() <= large_value_bytes) return;
    const auto known = state_.shapes.find(read.key);
    if (known && known->complete && known->identity == value.substr(0, identity_bytes)) return;
    auto frames = decode_frames(value, state_.hash);
    state_.remember(read.key, value, std::move(*frames), true, value.size());
    state_.any_large.store(true, std::memory_order_relaxed);
  }

  void answer_job(const StoreProtocol::Job& job, std::span<const UserRead> users) {
    const auto digests = job.digests;
    std::vector<detail::SplitBlockRef>& simple = workshop_.simple;
    simple.clear();
    for (const UserRead& user : users) {
      job.status[user.user] = {user.state, user.error, user.exact};
      if (is_simple(user)) simple.push_back(user.reads[0].filters[0]);
    }
    // Users of one filter go through the pair kernel together, one mask for two of them.
    detail::check_all(simple.data(), simple.size(), digests.data(), digests.size(), job.seen_by.data());
    for (const UserRead& user : users) {
      if (user.state != UserState::known || is_simple(user)) continue;
      std::vector<std::uint8_t>& flags = workshop_.flags;
      flags.assign(digests.size(), 0);
      for (const KeyRead& read : user.reads) mark(read, digests, flags, workshop_.scratch);
      for (std::size_t i = 0; i < digests.size(); ++i) {
        job.seen_by[i] = static_cast<std::uint8_t>(job.seen_by[i] + flags[i]);
      }
    }
  }

  [[nodiscard]] static bool is_simple(const UserRead& user) noexcept {
    return user.state == UserState::known && user.reads.size() == 1 && user.reads[0].filters.size() == 1 &&
           user.reads[0].table.empty();
  }

  const StoreState& state_;
  std::span<const StoreProtocol::Job> jobs_;
  ItemKind kind_;
  detail::SliceWindow window_;
  std::int64_t newest_;
  std::size_t kind_reply_ = none;   ///< while the kind of the store's items is not known
  std::size_t expected_bytes_ = 0;  ///< of values known to be large, read whole
  Recycled<UserRead>& users_;
  Recycled<Command>& batch_;
  std::vector<Again>& again_;
  Workshop& workshop_;
  Result<std::vector<Reply>> first_{std::vector<Reply>{}};
  Result<std::vector<Reply>> second_{std::vector<Reply>{}};
};

}  // namespace

void StoreProtocol::check(std::span<const Job> jobs, ItemKind kind) const {
  const Deadline deadline = Deadline::after(state_->timeout);
  const WorkshopLoan workshop;
  while (!jobs.empty()) {
    Reader reader(*state_, jobs, kind, *workshop);
    reader.run(deadline);
    reader.answer();
    jobs = jobs.subspan(reader.taken());
  }
}

Result<void> StoreProtocol::age(const std::string& user, std::span<const Digest> digests, ItemKind kind,
                                std::span<std::uint8_t> ages) const {
  std::fill(ages.begin(), ages.end(), std::uint8_t{255});
  const Job job{{&user, 1}, digests, {}, {}};
  const WorkshopLoan workshop;
  Reader reader(*state_, {&job, 1}, kind, *workshop);
  reader.run(Deadline::after(state_->timeout));
  const UserRead& read = reader.users()[0];
  if (read.state == UserState::unreachable) return *read.error;
  if (read.state == UserState::missing) return {};
  std::vector<std::uint8_t> flags(digests.size());
  std::vector<std::uint8_t> scratch;
  for (const KeyRead& slice : read.reads) {
    if (!slice.table.empty()) return ages_in_table(state_->tables, reader.window(), slice.table, digests, ages);
    std::fill(flags.begin(), flags.end(), std::uint8_t{0});
    Reader::mark(slice, digests, flags, scratch);
    const auto age = static_cast<std::uint8_t>(std::clamp<std::int64_t>(reader.newest() - slice.slice, 0, 254));
    for (std::size_t i = 0; i < digests.size(); ++i) {
      if (flags[i] != 0) ages[i] = std::min(ages[i], age);
    }
  }
  return {};
}

}  // namespace seenby::redis
