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
#include <limits>
#include <utility>

#include "redis/transport/reply_reader.hpp"
#include "redis/transport/tls.hpp"

namespace seenby::redis {
namespace {

struct FreeContext {
  void operator()(redisContext* context) const noexcept { redisFree(context); }
};
timeval timeval_of(std::chrono::milliseconds span) noexcept {
  // hiredis refuses what it cannot count in milliseconds; a wait that ends early is repeated.
  span = std::min<std::chrono::milliseconds>(span, std::chrono::hours{24});
  timeval value{};
  value.tv_sec = static_cast<decltype(value.tv_sec)>(span.count() / 1000);
  value.tv_usec = static_cast<decltype(value.tv_usec)>(span.count() % 1000 * 1000);
  return value;
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

/// What is here already is read so long after the deadline: another node of a cluster may have used up the time.
constexpr std::chrono::milliseconds grace{5};

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
  bool answered = false;            ///< a byte of the current batch's answer came
  std::string outgoing;             ///< what was sent last; kept for its memory
  std::vector<std::size_t> limits;  ///< of its replies
  ReplyReader replies;
  std::chrono::milliseconds recv_limit{};  ///< SO_RCVTIMEO; 0: none yet, a read would wait for ever

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
      constexpr std::int64_t longest = std::numeric_limits<int>::max();
      const int ready = poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left.count(), longest)));
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return fail(ErrorCode::io, std::strerror(errno));
      if (deadline.passed()) {
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

  Result<void> read_through_tls(Deadline deadline, Deadline last) {
    if (last.passed()) return fail(ErrorCode::timed_out, "timed out waiting for an answer");
    if (auto ready = wait(POLLIN, deadline, "waiting for an answer"); !ready) return ready;
    answered = true;
    if (redisBufferRead(context.get()) != REDIS_OK) return fail_with_context(ErrorCode::unreachable, "reading");
    // Only the bytes are taken from hiredis, which would keep them until it has parsed them.
    const redisReader& read = *context->reader;
    auto taken = take(replies.feed(std::string_view(read.buf + read.pos, read.len - read.pos)));
    redisReaderFree(context->reader);
    context->reader = redisReaderCreate();
    if (context->reader == nullptr) return fail(ErrorCode::unreachable, "hiredis has no memory to read");
    return taken;
  }

  /// Sleeps in the one system call that also reads. Not polled before: that halves the answers of callers who share a
  /// core, and with a yield in between, which gives them 5% more, a busy neighbour keeps the core for milliseconds.
  /// Setting the socket's time-out is another, so it is only set again when it would wake this thread later than the
  /// deadline by more than a tick, or far too early.
  Result<std::size_t> receive_bytes(std::span<iovec> into, Deadline deadline, Deadline last) {
    while (true) {
      const auto left = deadline.left();
      const bool late = left.count() == 0;
      if (late && last.passed()) return fail(ErrorCode::timed_out, "timed out waiting for an answer");
      if (auto set = late ? Result<void>{} : limit_receive(left); !set) return std::move(set).error();
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
  Result<void> limit_receive(std::chrono::milliseconds left) {
    constexpr std::chrono::milliseconds tick{4};
    if (recv_limit.count() != 0 && recv_limit <= left + std::min(left / 64, tick) && recv_limit >= left / 4) return {};
    const timeval limit = timeval_of(left);
    if (setsockopt(context->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
      return fail(ErrorCode::io, std::strerror(errno));
    }
    recv_limit = left;
    return {};
  }

  /// Reads what has come. A large string goes where it stays: 128 KiB are then copied once, by the kernel, into memory
  /// that the thread has used before.
  Result<void> read_some(Deadline deadline, Deadline last) {
    if (session.active()) return read_through_tls(deadline, last);
    std::array<char, std::size_t{16} << 10> buffer;  // NOLINT: recvmsg fills it
    const std::span<char> room = replies.room();
    std::array<iovec, 2> into{iovec{room.data(), room.size()}, iovec{buffer.data(), buffer.size()}};
    const auto received = receive_bytes(into, deadline, last);
    if (!received) return received.error();
    answered = true;
    const std::size_t direct = std::min(*received, room.size());
    if (auto taken = take(replies.filled(direct)); !taken) return taken;
    return take(replies.feed(std::string_view(buffer.data(), *received - direct)));
  }
  Result<void> take(Result<void> parsed) {
    if (parsed) return parsed;
    return fail(parsed.error().code, parsed.error().message);
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
  impl.limits.clear();
  for (const Command& command : batch) impl.limits.push_back(command.reply_limit());
  auto sent =
      impl.session.active() ? impl.write_through_tls(impl.outgoing, deadline) : impl.write(impl.outgoing, deadline);
  constexpr std::size_t enough_to_keep = std::size_t{256} << 10;
  if (impl.outgoing.capacity() > enough_to_keep) impl.outgoing = {};
  return sent;
}

Result<std::vector<Reply>> Connection::receive(Deadline deadline) {
  Impl& impl = *impl_;
  if (!impl.usable) return impl.fail(ErrorCode::unreachable, "the connection was dropped before");
  impl.replies.start(impl.limits);
  const Deadline last{std::max(deadline.at, Deadline::after(grace).at)};
  while (!impl.replies.done()) {
    if (auto read = impl.read_some(deadline, last); !read) return std::move(read).error();
  }
  return impl.replies.take();
}

Result<std::vector<Reply>> Connection::execute(std::span<const Command> batch, Deadline deadline) {
  if (auto sent = send(batch, deadline); !sent) return std::move(sent).error();
  return receive(deadline);
}

}  // namespace seenby::redis
