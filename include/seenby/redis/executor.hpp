#pragma once
// SPDX-License-Identifier: MIT
// The small interface between seenby's Redis protocol code and a Redis client: execute(batch) -> replies.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// The moment by which an answer must be there. Steady clock: setting the system's time does not move it.
struct Deadline {
  using clock = std::chrono::steady_clock;  ///< which no change of the system's time moves
  clock::time_point at;                     ///< the first moment that is too late

  /// `milliseconds::max()` is "never".
  [[nodiscard]] static Deadline after(std::chrono::milliseconds span) noexcept {
    return {saturating_add(clock::now(), span)};
  }
  /// Time left, rounded up to whole milliseconds so that waiting for it does not spin; zero once passed.
  [[nodiscard]] std::chrono::milliseconds left() const noexcept {
    const auto rest = at - clock::now();
    return rest.count() <= 0 ? std::chrono::milliseconds{0} : std::chrono::ceil<std::chrono::milliseconds>(rest);
  }
  [[nodiscard]] bool passed() const noexcept { return clock::now() >= at; }  ///< whether the moment is over
  /// The earlier of two deadlines.
  [[nodiscard]] Deadline earlier(Deadline other) const noexcept { return at < other.at ? *this : other; }
};

/// One Redis command: its arguments, the command's name first, and the key that decides which cluster node serves it.
/// Arguments are binary-safe and packed into one buffer, so that a command costs two allocations whatever its length.
/// A value: not for concurrent writers.
class Command {
 public:
  Command() = default;
  /// A command of given arguments. `key` is the index of its routing key, `no_key` for a command without one.
  static constexpr std::size_t no_key = static_cast<std::size_t>(-1);
  /// The command of these arguments; `key` is the index of its routing key.
  template <class... Arguments>
  static Command with_key(std::size_t key, const Arguments&... arguments) {
    Command command;
    command.ends_.reserve(sizeof...(arguments));
    (command.add(arguments), ...);
    command.key_ = key;
    return command;
  }

  /// Makes it a command of no arguments again, which keeps its memory.
  Command& clear() noexcept {
    bytes_.clear();
    ends_.clear();
    key_ = no_key;
    reply_limit_ = any_reply;
    read_only_ = false;
    return *this;
  }

  /// Appends an argument.
  Command& add(std::string_view argument) {
    bytes_.append(argument);
    ends_.push_back(bytes_.size());
    return *this;
  }
  /// Appends an argument and names it the routing key.
  Command& add_key(std::string_view key) {
    key_ = ends_.size();
    return add(key);
  }
  /// Appends a number in decimal.
  Command& add(std::int64_t number) { return add(std::string_view{std::to_string(number)}); }

  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }  ///< arguments, the command's name included
  /// The argument; valid until the command changes.
  [[nodiscard]] std::string_view operator[](std::size_t index) const noexcept {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view{bytes_}.substr(begin, ends_[index] - begin);
  }
  /// Whether it has a routing key.
  [[nodiscard]] bool has_key() const noexcept { return key_ < ends_.size(); }
  /// The routing key; empty without one (then any node will do).
  [[nodiscard]] std::string_view key() const noexcept { return has_key() ? (*this)[key_] : std::string_view{}; }

  /// Says that the command changes nothing, so that a cluster may send it to a replica if its user chose that.
  Command& reads_only() noexcept {
    read_only_ = true;
    return *this;
  }
  [[nodiscard]] bool is_read_only() const noexcept { return read_only_; }  ///< whether `reads_only` was called

  /// Says that a longer answer is none to this command, so that no server can make a client take in more. An error
  /// reply is no answer and has a limit of its own.
  Command& expects_at_most(std::size_t bytes) noexcept {
    reply_limit_ = bytes;
    return *this;
  }
  /// The longest answer in bytes; 512 MiB unless said.
  [[nodiscard]] std::size_t reply_limit() const noexcept { return reply_limit_; }

 private:
  /// The longest string that Redis keeps.
  static constexpr std::size_t any_reply = std::size_t{512} << 20;

  std::string bytes_;
  std::vector<std::size_t> ends_;
  std::size_t key_ = no_key;
  std::size_t reply_limit_ = any_reply;
  bool read_only_ = false;
};

/// What a server answered to one command: nil, an integer, a string (bulk or status), an array, or an error.
///
/// An error is part of the answer, not of the transport: its code tells kinds apart (see `classify_error`), its message
/// is the server's own line. A cluster also puts `unreachable` or `timed_out` here for the commands of a node that
/// could not be asked, so that one dead node does not cost the others' answers. A value: not for concurrent writers.
class Reply {
 public:
  struct Nil {};
  using Array = std::vector<Reply>;  ///< an array's elements

  Reply() = default;
  explicit Reply(std::int64_t number) : value_(number) {}          ///< an integer reply
  explicit Reply(std::string text) : value_(std::move(text)) {}    ///< a bulk or status string
  explicit Reply(Array elements) : value_(std::move(elements)) {}  ///< an array of replies
  explicit Reply(Error error) : value_(std::move(error)) {}        ///< an error reply

  [[nodiscard]] bool is_nil() const noexcept { return std::holds_alternative<Nil>(value_); }  ///< whether it is nil
  /// Whether the server answered with an error.
  [[nodiscard]] bool is_error() const noexcept { return std::holds_alternative<Error>(value_); }
  /// Null when the reply is of another type.
  [[nodiscard]] const std::int64_t* integer() const noexcept { return std::get_if<std::int64_t>(&value_); }
  /// Null when the reply is of another type.
  [[nodiscard]] const std::string* string() const noexcept { return std::get_if<std::string>(&value_); }
  /// Null when the reply is of another type.
  [[nodiscard]] std::string* string() noexcept { return std::get_if<std::string>(&value_); }
  /// Null when the reply is of another type.
  [[nodiscard]] const Array* array() const noexcept { return std::get_if<Array>(&value_); }
  /// Null when the reply is of another type.
  [[nodiscard]] Array* array() noexcept { return std::get_if<Array>(&value_); }
  /// Null when the reply is of another type.
  [[nodiscard]] const Error* error() const noexcept { return std::get_if<Error>(&value_); }
  /// Whether it is this string, such as "OK".
  [[nodiscard]] bool is_status(std::string_view text) const noexcept {
    return string() != nullptr && *string() == text;
  }
  /// "nil", "integer", "string", "array" or "error": for messages.
  [[nodiscard]] std::string_view type_name() const noexcept {
    constexpr std::string_view names[] = {"nil", "integer", "string", "array", "error"};
    return names[value_.index()];
  }

 private:
  std::variant<Nil, std::int64_t, std::string, Array, Error> value_;
};

/// What a client counts of its connections, over all servers. Each figure is exact, the set of them is not atomic.
struct PoolCounters {
  std::uint64_t connects = 0;             ///< connections opened
  std::uint64_t connect_failures = 0;     ///< connections that could not be opened
  std::uint64_t connections_dropped = 0;  ///< after a time-out, a lost connection or a protocol error
  std::uint64_t resent_batches = 0;       ///< a pooled connection was dead; the batch was sent again
  /// Batches that were not tried because the server had failed just before.
  std::uint64_t refused_by_breaker = 0;
  std::uint64_t breaker_openings = 0;  ///< how often a server was given up for a while

  /// Adds those of another server.
  PoolCounters& operator+=(const PoolCounters& other) noexcept {
    connects += other.connects;
    connect_failures += other.connect_failures;
    connections_dropped += other.connections_dropped;
    resent_batches += other.resent_batches;
    refused_by_breaker += other.refused_by_breaker;
    breaker_openings += other.breaker_openings;
    return *this;
  }
};

/// Sends commands to Redis and brings the answers. Derive from it to run seenby over another client (redis-plus-plus,
/// Boost.Redis); `make_executor` gives ours, on hiredis.
///
/// - Replies are in the order of the commands, one each. A batch is one pipelined round trip (one a node in a
///   cluster, the nodes in parallel); commands on one key are carried out in the batch's order. A batch is no
///   transaction.
/// - The result is an error when nothing was answered (`unreachable`, `timed_out`, `refused` while authenticating);
///   what was sent may have been executed anyway.
/// - A lost connection may make an executor send a batch again; seenby's own commands are idempotent.
/// - After a time-out or a protocol error the connection is closed, never used again: a late reply would answer the
///   wrong request.
/// - After fork() the child opens connections of its own and closes the parent's, which it never uses. Fork while no
///   other thread is inside a call.
/// - Callable from any thread at once. Must not throw, except std::bad_alloc.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Sends the batch and waits for its replies until the deadline.
  [[nodiscard]] virtual Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) = 0;
  /// The server's name for messages: scheme, host and port or socket; no password.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether the server is on this machine (a Unix socket or loopback), where bytes are cheap and round trips are not.
  [[nodiscard]] virtual bool is_local() const { return false; }
  /// How long a call waits when the caller sets no timeout: a URL's `timeout_ms`.
  [[nodiscard]] virtual std::chrono::milliseconds default_timeout() const { return std::chrono::milliseconds{1000}; }
  /// All zero where a client counts nothing.
  [[nodiscard]] virtual PoolCounters connections() const { return {}; }
};

/// Tells the kinds of server error apart by their first word: WRONGTYPE is `wrong_type`; LOADING, CLUSTERDOWN, TRYAGAIN
/// and MASTERDOWN are `unreachable`; an unknown command is `unavailable`; everything else is `refused`.
[[nodiscard]] ErrorCode classify_error(std::string_view message) noexcept;

/// A single command, its own batch. The error inside the reply becomes the result's error.
[[nodiscard]] Result<Reply> execute_one(Executor& executor, const Command& command, Deadline deadline);

/// The executor a URL asks for (`parse_url`): a pool of connections to one server, a cluster for `redis-cluster://`, or
/// the master that Sentinels name for `redis+sentinel://`. Connects on first use. Error: `invalid_argument`.
[[nodiscard]] Result<std::shared_ptr<Executor>> make_executor(std::string_view url);

}  // namespace seenby::redis
