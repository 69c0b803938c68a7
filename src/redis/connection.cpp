// SPDX-License-Identifier: MIT
// One connection on hiredis, through the calls that 0.14 and 1.x share.

#include "seenby/redis/connection.hpp"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tls.hpp"

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
  out.push_back(kind);
  out.append(std::to_string(count)).append("\r\n");
}

/// The batch in RESP, ready to be handed to hiredis in one piece.
std::string encode(std::span<const Command> batch) {
  std::size_t bytes = 0;
  for (const Command& command : batch) {
    bytes += 16;
    for (std::size_t i = 0; i < command.size(); ++i) bytes += command[i].size() + 16;
  }
  std::string out;
  out.reserve(bytes);
  for (const Command& command : batch) {
    append_count(out, '*', command.size());
    for (std::size_t i = 0; i < command.size(); ++i) {
      append_count(out, '$', command[i].size());
      out.append(command[i]).append("\r\n");
    }
  }
  return out;
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
      const ssize_t sent = ::send(context->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
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

  /// Feeds the reader with what has come. Past hiredis, which reads 16 KiB at a time.
  Result<void> read_some() {
    answered = true;
    if (session.active()) {
      if (redisBufferRead(context.get()) != REDIS_OK) return fail_with_context(ErrorCode::unreachable, "reading");
      return {};
    }
    thread_local std::vector<char> buffer(std::size_t{256} << 10);
    const ssize_t got = ::recv(context->fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got <= 0) {
      answered = destination->complete != 0;
      std::string what = "reading: ";
      return fail(ErrorCode::unreachable,
                  what.append(got == 0 ? "the server closed the connection" : std::strerror(errno)));
    }
    if (redisReaderFeed(context->reader, buffer.data(), static_cast<std::size_t>(got)) != REDIS_OK) {
      return fail(ErrorCode::corrupt, context->reader->errstr);
    }
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
    // From here on every wait is a poll with the batch's own deadline. hiredis takes EAGAIN as an error only on
    // contexts that it believes to block.
    if (!set_blocking(context->fd, false)) return fail(ErrorCode::io, std::strerror(errno));
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
  const std::string bytes = encode(batch);
  return impl.session.active() ? impl.write_through_tls(bytes, deadline) : impl.write(bytes, deadline);
}

Result<std::vector<Reply>> Connection::receive(std::size_t count, Deadline deadline) {
  Impl& impl = *impl_;
  if (!impl.usable) return impl.fail(ErrorCode::unreachable, "the connection was dropped before");
  Destination& destination = *impl.destination;
  destination.replies.assign(count, Reply());
  destination.complete = 0;
  while (true) {
    while (destination.complete < count) {
      void* parsed = nullptr;
      if (redisReaderGetReply(impl.context->reader, &parsed) != REDIS_OK) {
        std::string what = "parsing: ";
        return impl.fail(ErrorCode::corrupt, what.append(impl.context->reader->errstr));
      }
      if (parsed == nullptr) break;
      ++destination.complete;
    }
    if (destination.complete == count) return std::move(destination.replies);
    if (auto ready = impl.wait(POLLIN, deadline, "waiting for an answer"); !ready) return std::move(ready).error();
    if (auto read = impl.read_some(); !read) return std::move(read).error();
  }
}

Result<std::vector<Reply>> Connection::execute(std::span<const Command> batch, Deadline deadline) {
  if (auto sent = send(batch, deadline); !sent) return std::move(sent).error();
  return receive(batch.size(), deadline);
}

}  // namespace seenby::redis
