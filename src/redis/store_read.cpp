// SPDX-License-Identifier: MIT
// The reading half of StoreProtocol: look-ups in one pipelined round trip.

#include <algorithm>
#include <optional>
#include <utility>

#include "large_strings.hpp"
#include "seenby/detail/kernels.hpp"
#include "seenby/layout/split_block.hpp"
#include "store_state.hpp"

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
  std::vector<detail::SplitBlockRef> filters{};  ///< in the reply, once read whole
  std::vector<std::uint8_t> answers{};           ///< once read by block
};

/// One user of one job.
struct UserRead {
  std::size_t job = 0;
  std::size_t user = 0;
  std::string key;
  std::size_t list_reply = none;  ///< with a window: the list of slices
  std::vector<KeyRead> reads{};
  UserState state = UserState::known;
  std::shared_ptr<const Error> error{};

  void fail(Error what) {
    state = UserState::unreachable;
    error = std::make_shared<const Error>(std::move(what));
  }
};

/// From here on it can pay to read single blocks, and shapes are remembered.
constexpr std::size_t large_value_bytes = std::size_t{16} << 10;
/// More than this in one pipeline no longer stays in the caches of server and client: 100 requests of two filters of
/// 128 KiB each take 97 ms whole and 19 ms by block.
constexpr std::size_t whole_batch_bytes = std::size_t{2} << 20;

/// A read that must be repeated whole, in the second trip.
struct Again {
  std::size_t user;
  std::size_t read;
};

detail::SplitBlockRef ref_of(std::string_view value, const Frame& frame) noexcept {
  const auto bytes = std::as_bytes(std::span(value));
  return {bytes.data() + frame.bits_at, static_cast<std::uint32_t>(frame.header.shape.bits / split_block_bits)};
}

Error unexpected(const Reply& reply, std::string_view expected, std::string_view key) {
  if (const Error* error = reply.error()) return named(*error, key);
  std::string message = "seenby::redis: expected ";
  return named({ErrorCode::corrupt, message.append(expected).append(", got ").append(reply.type_name())}, key);
}

/// One call of `check`: plan, ask, and ask again for what turned out to be large or to have changed meanwhile.
class Reader {
 public:
  Reader(const StoreState& state, std::span<const StoreProtocol::Job> jobs)
      : state_(state), jobs_(jobs), newest_(state.slices.newest(state.now())) {}
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
  void run() {
    const Deadline deadline = Deadline::after(state_.options.timeout);
    plan();
    first_ = state_.executor->execute(batch_, deadline);
    if (!first_) return fail_all(first_.error());
    for (std::size_t i = 0; i < users_.size(); ++i) take_first(i);
    if (again_.empty()) return;
    batch_.clear();
    for (const Again& again : again_) batch_.emplace_back().reads_only().add("GET").add_key(read_of(again).key);
    second_ = state_.executor->execute(batch_, deadline);
    for (std::size_t i = 0; i < again_.size(); ++i) take_second(i);
  }

  /// Writes every job's answers.
  void answer() {
    std::size_t next = 0;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      const std::size_t begin = next;
      next += jobs_[job].users.size();
      answer_job(jobs_[job], std::span(users_).subspan(begin, next - begin));
    }
  }

  [[nodiscard]] std::span<const UserRead> users() const noexcept { return users_; }
  [[nodiscard]] std::int64_t newest() const noexcept { return newest_; }

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
    std::size_t count = 0;
    for (const auto& job : jobs_) count += job.users.size();
    user_count_ = count;
    users_.reserve(count);
    batch_.reserve(count * static_cast<std::size_t>(1 + (state_.slices.windowed() ? state_.slices.tested() : 0)));
    limit_text_ = std::to_string(state_.whole_read_bytes);
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      for (std::size_t i = 0; i < jobs_[job].users.size(); ++i) {
        UserRead& user = users_.emplace_back();
        user.job = job;
        user.user = i;
        user.key = state_.key_of(jobs_[job].users[i]);
        if (!state_.slices.windowed()) {
          plan_key(user, user.key, 0);
          continue;
        }
        // The list first: a slice acknowledged before this call is in it, and one that it names must be there below.
        user.list_reply = batch_.size();
        batch_.emplace_back().reads_only().add("GET").add_key(user.key);
        for (std::int64_t slice = newest_; slice > newest_ - state_.slices.tested(); --slice) {
          plan_key(user, state_.slice_key(user.key, slice), slice);
        }
      }
    }
  }

  void plan_key(UserRead& user, const std::string& key, std::int64_t slice) {
    KeyRead& read = user.reads.emplace_back();
    read.slice = slice;
    read.reply = batch_.size();
    read.key = key;
    if (state_.any_large.load(std::memory_order_relaxed)) {
      auto shape = state_.shapes.find(key);
      if (shape && pays_by_block(*shape, digests_of(user).size())) read.by_block = std::move(shape);
    }
    if (read.by_block) return plan_blocks(read, digests_of(user));
    // One byte over the limit tells a value that ends there from a larger one. Our values are never empty, so that ""
    // means missing.
    batch_.emplace_back().reads_only().add("GETRANGE").add_key(key).add("0").add(limit_text_);
  }

  [[nodiscard]] bool pays_by_block(const Shape& shape, std::size_t digests) const {
    if (!shape.complete || shape.value_bytes <= large_value_bytes) return false;
    // A block costs about 64 bytes both ways.
    if (shape.frames.size() * digests * 64 >= shape.value_bytes) return false;
    return shape.value_bytes > state_.whole_read_bytes || shape.value_bytes * user_count_ > whole_batch_bytes;
  }

  void plan_blocks(const KeyRead& read, std::span<const Digest> digests) {
    // The header before and after the blocks: a generation never comes back, so if both are the one we know, every
    // block between was read from that value.
    const auto range = [&](std::size_t from, std::size_t bytes) {
      batch_.emplace_back()
          .reads_only()
          .add("GETRANGE")
          .add_key(read.key)
          .add(static_cast<std::int64_t>(from))
          .add(static_cast<std::int64_t>(from + bytes - 1));
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
    std::optional<SliceList> list;
    if (user.list_reply != none && !take_list(user, list)) return;
    for (std::size_t i = 0; i < user.reads.size() && user.state == UserState::known; ++i) {
      KeyRead& read = user.reads[i];
      const bool done = read.by_block ? take_blocks(user, read) : take_range(user, read);
      if (!done) again_.push_back({index, i});
      const bool must_be_there = !list || list->lists(read.slice);
      if (done && !read.found && must_be_there && user.state == UserState::known) user.state = UserState::missing;
    }
    if (user.state != UserState::known) return;
    // A writer whose clock is ahead of ours has begun a slice that we did not ask for.
    if (!list) return;
    for (const std::int64_t slice : list->slices()) {
      if (slice <= newest_) continue;
      KeyRead& ahead = user.reads.emplace_back();
      ahead.key = state_.slice_key(user.key, slice);
      ahead.slice = slice;
      again_.push_back({index, user.reads.size() - 1});
    }
  }

  /// False when the list itself decides: missing, being built, or unreadable.
  bool take_list(UserRead& user, std::optional<SliceList>& list) {
    const Reply& got = reply(user.list_reply);
    if (got.is_nil()) {
      user.state = UserState::missing;
      return false;
    }
    if (got.string() == nullptr) {
      user.fail(unexpected(got, "a list of slices", user.key));
      return false;
    }
    auto decoded = SliceList::decode(*got.string());
    if (!decoded) {
      user.fail(named(std::move(decoded).error(), user.key));
      return false;
    }
    if (decoded->building()) user.state = UserState::missing;
    list = std::move(*decoded);
    return user.state == UserState::known;
  }

  /// False when the value is larger than was asked for.
  bool take_range(UserRead& user, KeyRead& read) {
    const Reply& got = reply(read.reply);
    if (got.string() == nullptr) {
      user.fail(unexpected(got, "a filter", read.key));
      return true;
    }
    if (got.string()->size() > state_.whole_read_bytes) return false;
    take_value(user, read, *got.string());
    return true;
  }

  void take_value(UserRead& user, KeyRead& read, std::string_view value) {
    if (value.empty()) return;
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
      user.state = UserState::missing;
      return;
    }
    if (got.string() == nullptr) return user.fail(unexpected(got, "a filter", read.key));
    read.by_block = nullptr;
    take_value(user, read, *got.string());
  }

  /// So that the next look-up can ask for the blocks it needs.
  void remember_if_large(const KeyRead& read, std::string_view value) const {
    if (value.size() <= large_value_bytes) return;
    const auto known = state_.shapes.find(read.key);
    if (known && known->complete && known->identity == value.substr(0, identity_bytes)) return;
    auto frames = decode_frames(value, state_.hash);
    state_.remember(read.key, value, std::move(*frames), true, value.size());
    state_.any_large.store(true, std::memory_order_relaxed);
  }

  static void answer_job(const StoreProtocol::Job& job, std::span<UserRead> users) {
    const auto digests = job.digests;
    std::vector<detail::SplitBlockRef> simple;
    for (UserRead& user : users) {
      job.status[user.user] = {user.state, user.error};
      if (is_simple(user)) simple.push_back(user.reads[0].filters[0]);
    }
    // Users of one filter go through the pair kernel together, one mask for two of them.
    detail::check_all(simple, digests.data(), digests.size(), job.seen_by.data());
    std::vector<std::uint8_t> flags;
    std::vector<std::uint8_t> scratch;
    for (const UserRead& user : users) {
      if (user.state != UserState::known || is_simple(user)) continue;
      flags.assign(digests.size(), 0);
      for (const KeyRead& read : user.reads) mark(read, digests, flags, scratch);
      for (std::size_t i = 0; i < digests.size(); ++i) {
        job.seen_by[i] = static_cast<std::uint8_t>(job.seen_by[i] + flags[i]);
      }
    }
  }

  [[nodiscard]] static bool is_simple(const UserRead& user) noexcept {
    return user.state == UserState::known && user.reads.size() == 1 && user.reads[0].filters.size() == 1;
  }

  const StoreState& state_;
  std::span<const StoreProtocol::Job> jobs_;
  std::int64_t newest_;
  std::size_t user_count_ = 0;
  std::string limit_text_;
  std::vector<UserRead> users_;
  std::vector<Command> batch_;
  std::vector<Again> again_;
  Result<std::vector<Reply>> first_{std::vector<Reply>{}};
  Result<std::vector<Reply>> second_{std::vector<Reply>{}};
};

}  // namespace

void StoreProtocol::check(std::span<const Job> jobs) const {
  Reader reader(*state_, jobs);
  reader.run();
  reader.answer();
}

Result<void> StoreProtocol::age(const std::string& user, std::span<const Digest> digests,
                                std::span<std::uint8_t> ages) const {
  std::fill(ages.begin(), ages.end(), std::uint8_t{255});
  const Job job{{&user, 1}, digests, {}, {}};
  Reader reader(*state_, {&job, 1});
  reader.run();
  const UserRead& read = reader.users()[0];
  if (read.state == UserState::unreachable) return *read.error;
  if (read.state == UserState::missing) return {};
  std::vector<std::uint8_t> flags(digests.size());
  std::vector<std::uint8_t> scratch;
  for (const KeyRead& slice : read.reads) {
    std::fill(flags.begin(), flags.end(), std::uint8_t{0});
    Reader::mark(slice, digests, flags, scratch);
    // A slice of a clock ahead of ours counts as the newest.
    const auto age = static_cast<std::uint8_t>(std::clamp<std::int64_t>(reader.newest() - slice.slice, 0, 254));
    for (std::size_t i = 0; i < digests.size(); ++i) {
      if (flags[i] != 0) ages[i] = std::min(ages[i], age);
    }
  }
  return {};
}

}  // namespace seenby::redis
