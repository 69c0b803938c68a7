// SPDX-License-Identifier: MIT
// One connection on hiredis, through the calls that 0.14 and 1.x share.

#include "redis/transport/connection.hpp"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "redis/transport/large_strings.hpp"
#include "redis/transport/tls.hpp"

namespace seenby::redis {
namespace {

struct FreeContext {
  void operator()(redisContext* context) const noexcept { redisFree(context); }
};
timeval timeval_of(std::chrono::milliseconds span) noexcept {
  timeval value{};
  value.tv_sec = static_cast<decltype(value.tv_sec)>(span.count() / 1000);
  value.tv_usec = static_cast<decltype(value.tv_usec)>(span.count() % 1000 * 1000);
  return value;
}

/// Where the reader puts what it parses: straight into the batch's replies, without hiredis's own reply objects.
struct Destination {
  std::vector<Reply> replies;
  std::size_t complete = 0;
};

Reply* slot_of(const redisReadTask* task) noexcept {
  if (task->parent == nullptr) {
    auto& destination = *static_cast<Destination*>(task->privdata);
    return &destination.replies[destination.complete];
  }
  return &static_cast<Reply*>(task->parent->obj)->array()->at(static_cast<std::size_t>(task->idx));
}

template <class Value>
void* put(const redisReadTask* task, Value value) noexcept {
  Reply* slot = slot_of(task);
  *slot = Reply(std::move(value));
  return slot;
}

void* put_string(const redisReadTask* task, char* text, std::size_t size) {
  std::string value(text, size);
  if (task->type != REDIS_REPLY_ERROR) return put(task, std::move(value));
  const ErrorCode code = classify_error(value);
  return put(task, Error{code, std::move(value)});
}

/// The count is an int in hiredis 0.14 and a size_t in 1.x. Nothing seenby asks for is longer than the limit; null
/// makes the reader fail instead of allocating whatever a broken peer announces.
template <class Count>
void* put_array(const redisReadTask* task, Count count) {
  constexpr Count longest = 1 << 20;
  if (count > longest) return nullptr;
  return put(task, Reply::Array(static_cast<std::size_t>(count)));
}

void* put_integer(const redisReadTask* task, long long number) { return put(task, static_cast<std::int64_t>(number)); }

void* put_nil(const redisReadTask* task) {
  Reply* slot = slot_of(task);
  *slot = Reply();
  return slot;
}

redisReplyObjectFunctions& reply_functions() {
  static redisReplyObjectFunctions functions = [] {
    redisReplyObjectFunctions made{};
    made.createString = put_string;
    made.createArray = put_array;
    made.createInteger = put_integer;
    made.createNil = put_nil;
    made.freeObject = [](void*) {};
    return made;
  }();
  return functions;
}

void append_count(std::string& out, char kind, std::size_t count) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), count).ptr;
  out.push_back(kind);
  out.append(digits.data(), end).append("\r\n");
}

/// The batch in RESP, in place of what `out` held.
void encode(std::span<const Command> batch, std::string& out) {
  out.clear();
  for (const Command& command : batch) {
    append_count(out, '*', command.size());
    for (std::size_t i = 0; i < command.size(); ++i) {
      append_count(out, '$', command[i].size());
      out.append(command[i]).append("\r\n");
    }
  }
}

constexpr std::string_view line_end = "\r\n";

/// The `$123\r\n` before a string, if all of it stands at the front.
struct StringPrefix {
  std::size_t bytes;  ///< of the prefix
  std::size_t size;   ///< of the string
};
std::optional<StringPrefix> string_prefix(std::string_view came) noexcept {
  constexpr std::size_t longest = 24;
  if (came.empty() || came[0] != '$') return std::nullopt;
  const std::string_view line = came.substr(0, longest);
  const std::size_t end = line.find(line_end);
  std::size_t size = 0;
  if (end == std::string_view::npos) return std::nullopt;
  const auto [rest, problem] = std::from_chars(line.data() + 1, line.data() + end, size);
  // Nil ("$-1") and nonsense are hiredis's business.
  if (problem != std::errc{} || rest != line.data() + end || size > std::size_t{512} << 20) return std::nullopt;
  return StringPrefix{end + line_end.size(), size};
}

bool set_blocking(int fd, bool blocking) noexcept {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  return fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0;
}

}  // namespace

struct Connection::Impl {
  Endpoint endpoint;
  std::unique_ptr<redisContext, FreeContext> context;
  tls::Session session;
  bool usable = false;
  bool answered = false;  ///< a byte of the current batch's answer came
  std::unique_ptr<Destination> destination = std::make_unique<Destination>();
  std::string outgoing;                    ///< what was sent last; kept for its memory
  std::chrono::milliseconds recv_limit{};  ///< SO_RCVTIMEO
  std::string* partial = nullptr;          ///< a string of which `partial_filled` bytes have come, and no line end
  std::size_t partial_filled = 0;

  Error fail(ErrorCode code, std::string_view what) {
    usable = false;
    std::string message = "seenby::redis: ";
    message.append(endpoint.text()).append(": ").append(what);
    return {code, std::move(message)};
  }
  Error fail_with_context(ErrorCode otherwise, std::string_view doing) {
    std::string what(doing);
    what.append(": ").append(context->errstr);
    if (context->err == REDIS_ERR_PROTOCOL) return fail(ErrorCode::corrupt, what);
    // Blocking sockets report a time-out as EAGAIN (0.14) or ETIMEDOUT (1.x).
    const bool late = context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == ETIMEDOUT);
    return fail(late || std::strstr(context->errstr, "timed out") != nullptr ? ErrorCode::timed_out : otherwise, what);
  }

  /// Waits until the socket can be read or written.
  Result<void> wait(short events, Deadline deadline, std::string_view doing) {
    pollfd entry{.fd = context->fd, .events = events, .revents = 0};
    while (true) {
      const auto left = deadline.left();
      const int ready = poll(&entry, 1, static_cast<int>(left.count()));
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return fail(ErrorCode::io, std::strerror(errno));
      if (ready == 0 || deadline.passed()) {
        std::string what = "timed out ";
        return fail(ErrorCode::timed_out, what.append(doing));
      }
    }
  }

  /// Past hiredis, whose write() would raise SIGPIPE when the server is gone, and without its copy of the batch.
  Result<void> write(std::string_view bytes, Deadline deadline) {
    while (true) {
      const ssize_t sent = ::send(context->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        std::string what = "writing: ";
        return fail(ErrorCode::unreachable, what.append(std::strerror(errno)));
      }
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (bytes.empty()) return {};
      if (auto ready = wait(POLLOUT, deadline, "while writing"); !ready) return ready;
    }
  }
  Result<void> write_through_tls(std::string_view bytes, Deadline deadline) {
    const tls::BlockSigpipe quiet;
    if (redisAppendFormattedCommand(context.get(), bytes.data(), bytes.size()) != REDIS_OK) {
      return fail_with_context(ErrorCode::unreachable, "queueing");
    }
    while (true) {
      int done = 0;
      if (redisBufferWrite(context.get(), &done) != REDIS_OK) {
        return fail_with_context(ErrorCode::unreachable, "writing");
      }
      if (done != 0) return {};
      if (auto ready = wait(POLLOUT, deadline, "while writing"); !ready) return ready;
    }
  }

  Result<void> read_through_tls(std::size_t count, Deadline deadline) {
    if (auto ready = wait(POLLIN, deadline, "waiting for an answer"); !ready) return ready;
    answered = true;
    if (redisBufferRead(context.get()) != REDIS_OK) return fail_with_context(ErrorCode::unreachable, "reading");
    return parse(count);
  }

  /// Sleeps in the one system call that also reads. Not polled before: that halves the answers of callers who share a
  /// core, and with a yield in between, which gives them 5% more, a busy neighbour keeps the core for milliseconds.
  /// Setting the socket's time-out is another, so it is only set anew when it would wake this thread later than the
  /// deadline by more than a sixty-fourth of the time left, or far too early.
  Result<std::size_t> receive_bytes(std::span<iovec> into, Deadline deadline) {
    while (true) {
      // What is already here is taken after the deadline too: another node of a cluster may have used up the time.
      const auto left = deadline.left();
      const bool late = left.count() == 0;
      if (!late && (recv_limit > left + left / 64 || recv_limit < left / 4)) {
        const timeval limit = timeval_of(left);
        if (setsockopt(context->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
          return fail(ErrorCode::io, std::strerror(errno));
        }
        recv_limit = left;
      }
      msghdr message{};
      message.msg_iov = into.data();
      message.msg_iovlen = into.size();
      const ssize_t got = ::recvmsg(context->fd, &message, late ? MSG_DONTWAIT : 0);
      if (got > 0) return static_cast<std::size_t>(got);
      if (late && got < 0 && errno == EAGAIN) return fail(ErrorCode::timed_out, "timed out waiting for an answer");
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      std::string what = "reading: ";
      return fail(ErrorCode::unreachable,
                  what.append(got == 0 ? "the server closed the connection" : std::strerror(errno)));
    }
  }

  /// Reads what has come, and takes replies off it. Past hiredis's reader where it is a string: a value of 128 KiB is
  /// then copied once, by the kernel, into memory that the thread has used before.
  Result<void> read_some(std::size_t count, Deadline deadline) {
    if (session.active()) return read_through_tls(count, deadline);
    std::array<char, std::size_t{16} << 10> buffer;  // NOLINT: recvmsg fills it
    std::array<iovec, 2> into{iovec{nullptr, 0}, iovec{buffer.data(), buffer.size()}};
    if (partial != nullptr) into[0] = {partial->data() + partial_filled, partial->size() - partial_filled};
    const auto received = receive_bytes(into, deadline);
    if (!received) return received.error();
    answered = true;
    const std::size_t direct = std::min(*received, into[0].iov_len);
    partial_filled += direct;
    if (auto whole = end_partial(); !whole) return whole;
    std::string_view came(buffer.data(), *received - direct);
    while (!came.empty() && destination->complete < count) {
      if (between_replies()) {
        if (const auto prefix = string_prefix(came)) {
          if (auto begun = take_string_reply(came, *prefix); !begun) return begun;
          continue;
        }
      }
      if (redisReaderFeed(context->reader, came.data(), came.size()) != REDIS_OK) {
        return fail(ErrorCode::corrupt, context->reader->errstr);
      }
      return parse(count);
    }
    // It would answer the next request's first command.
    if (!came.empty()) return fail(ErrorCode::corrupt, "more came than was asked for");
    return {};
  }

  /// Takes a string, or its beginning, off the front of what came.
  Result<void> take_string_reply(std::string_view& came, StringPrefix prefix) {
    Reply& slot = destination->replies[destination->complete];
    const std::size_t with_end = prefix.size + line_end.size();
    came.remove_prefix(prefix.bytes);
    if (came.size() >= with_end) {
      if (came.substr(prefix.size, line_end.size()) != line_end) return no_line_end();
      slot = Reply(std::string(came.substr(0, prefix.size)));
      ++destination->complete;
      came.remove_prefix(with_end);
      return {};
    }
    slot = Reply(take_string(with_end));
    partial = slot.string();
    partial_filled = came.copy(partial->data(), came.size());
    came = {};
    return {};
  }
  /// Ends the string that was begun, if all of it is there.
  Result<void> end_partial() {
    if (partial == nullptr || partial_filled < partial->size()) return {};
    if (!partial->ends_with(line_end)) return no_line_end();
    partial->resize(partial->size() - line_end.size());
    partial = nullptr;
    ++destination->complete;
    return {};
  }
  Error no_line_end() { return fail(ErrorCode::corrupt, "expected the end of a line after a string"); }

  /// Whether hiredis's reader holds nothing.
  [[nodiscard]] bool between_replies() const noexcept {
    return context->reader->ridx == -1 && context->reader->pos == context->reader->len;
  }
  /// Takes what is whole out of hiredis's reader.
  Result<void> parse(std::size_t count) {
    while (destination->complete < count) {
      void* parsed = nullptr;
      if (redisReaderGetReply(context->reader, &parsed) != REDIS_OK) {
        std::string what = "parsing: ";
        return fail(ErrorCode::corrupt, what.append(context->reader->errstr));
      }
      if (parsed == nullptr) return {};
      ++destination->complete;
    }
    if (!between_replies()) return fail(ErrorCode::corrupt, "more came than was asked for");
    return {};
  }

  Result<void> connect(const ConnectionOptions& options, Deadline deadline) {
    const auto left = deadline.left();
    if (left.count() == 0) return fail(ErrorCode::timed_out, "timed out before connecting");
    const timeval limit = timeval_of(left);
    context.reset(endpoint.is_socket() ? redisConnectUnixWithTimeout(endpoint.socket_path.c_str(), limit)
                                       : redisConnectWithTimeout(endpoint.host.c_str(), endpoint.port, limit));
    if (!context) return fail(ErrorCode::unreachable, "hiredis has no memory for a connection");
    if (context->err != 0) return fail_with_context(ErrorCode::unreachable, "connecting");
    if (!endpoint.is_socket()) redisEnableKeepAlive(context.get());
    if (options.tls.enabled) {
      redisSetTimeout(context.get(), timeval_of(deadline.left() + std::chrono::milliseconds{1}));
      if (auto shaken = session.start(*context, options.tls, endpoint); !shaken) {
        usable = false;
        return shaken;
      }
    }
    // From here on every wait ends at the batch's own deadline: recv_limit's, or that of a poll. hiredis takes EAGAIN
    // as an error only on contexts that it believes to block.
    if (!set_blocking(context->fd, !session.active())) return fail(ErrorCode::io, std::strerror(errno));
    context->flags &= ~REDIS_BLOCK;
    context->reader->fn = &reply_functions();
    context->reader->privdata = destination.get();
    context->reader->maxbuf = 0;  // keep the buffer between batches
    usable = true;
    return {};
  }
};

Connection::Connection(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

bool Connection::usable() const noexcept { return impl_->usable; }
bool Connection::failed_before_answer() const noexcept { return !impl_->usable && !impl_->answered; }
const Endpoint& Connection::endpoint() const noexcept { return impl_->endpoint; }

bool Connection::idle_and_alive() const noexcept {
  if (!impl_->usable) return false;
  pollfd entry{.fd = impl_->context->fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 0;
}

Result<Connection> Connection::open(const Endpoint& endpoint, const ConnectionOptions& options, Deadline deadline) {
  auto impl = std::make_unique<Impl>();
  impl->endpoint = endpoint;
  if (auto connected = impl->connect(options, deadline); !connected) return std::move(connected).error();
  Connection connection(std::move(impl));

  std::vector<Command> greeting;
  if (!options.password.empty()) {
    Command& auth = greeting.emplace_back();
    auth.add("AUTH");
    if (!options.username.empty()) auth.add(options.username);
    auth.add(options.password);
  }
  if (options.database != 0) { greeting.emplace_back().add("SELECT").add(static_cast<std::int64_t>(options.database)); }
  if (greeting.empty()) return connection;
  auto replies = connection.execute(greeting, deadline);
  if (!replies) return std::move(replies).error();
  for (std::size_t i = 0; i < greeting.size(); ++i) {
    const Error* error = (*replies)[i].error();
    if (error == nullptr) continue;
    std::string what(greeting[i][0]);
    what.append(": ").append(error->message);
    return connection.impl_->fail(error->code, what);
  }
  return connection;
}

Result<void> Connection::send(std::span<const Command> batch, Deadline deadline) {
  Impl& impl = *impl_;
  if (!impl.usable) return impl.fail(ErrorCode::unreachable, "the connection was dropped before");
  impl.answered = false;
  encode(batch, impl.outgoing);
  auto sent =
      impl.session.active() ? impl.write_through_tls(impl.outgoing, deadline) : impl.write(impl.outgoing, deadline);
  constexpr std::size_t enough_to_keep = std::size_t{256} << 10;
  if (impl.outgoing.capacity() > enough_to_keep) impl.outgoing = {};
  return sent;
}

Result<std::vector<Reply>> Connection::receive(std::size_t count, Deadline deadline) {
  Impl& impl = *impl_;
  if (!impl.usable) return impl.fail(ErrorCode::unreachable, "the connection was dropped before");
  Destination& destination = *impl.destination;
  destination.replies.assign(count, Reply());
  destination.complete = 0;
  impl.partial = nullptr;
  while (destination.complete < count) {
    if (auto read = impl.read_some(count, deadline); !read) return std::move(read).error();
  }
  return std::move(destination.replies);
}

Result<std::vector<Reply>> Connection::execute(std::span<const Command> batch, Deadline deadline) {
  if (auto sent = send(batch, deadline); !sent) return std::move(sent).error();
  return receive(batch.size(), deadline);
}

}  // namespace seenby::redis
