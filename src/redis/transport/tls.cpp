// SPDX-License-Identifier: MIT
// TLS through hiredis_ssl (1.0 and later; Debian 12's 0.14 has none).

#include "redis/transport/tls.hpp"

#include <string>

#ifdef SEENBY_REDIS_TLS
#include <hiredis/hiredis.h>
#include <hiredis/hiredis_ssl.h>

#include <mutex>
#endif

namespace seenby::redis {
namespace tls {
namespace {

sigset_t sigpipe_alone() noexcept {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool sigpipe_is_pending() noexcept {
  sigset_t pending{};
  return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

BlockSigpipe::BlockSigpipe() noexcept : pending_before_(sigpipe_is_pending()) {
  const sigset_t set = sigpipe_alone();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

BlockSigpipe::~BlockSigpipe() {
  // Take back the signal that our own write raised, never one that was there before.
  if (!pending_before_ && sigpipe_is_pending()) {
    const sigset_t set = sigpipe_alone();
    const timespec at_once{};
    sigtimedwait(&set, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace tls

#ifdef SEENBY_REDIS_TLS

bool tls_available() noexcept { return true; }

namespace tls {

Result<void> Session::start(redisContext& context, const TlsOptions& options, const Endpoint& endpoint) {
  static std::once_flag once;
  std::call_once(once, [] { redisInitOpenSSL(); });
  const auto text_or_null = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  const std::string& name = options.server_name.empty() ? endpoint.host : options.server_name;
  redisSSLContextError failure = REDIS_SSL_CTX_NONE;
  redisSSLContext* made =
      redisCreateSSLContext(text_or_null(options.ca_file), options.ca_file.empty() ? "/etc/ssl/certs" : nullptr,
                            text_or_null(options.certificate_file), text_or_null(options.key_file),
                            endpoint.is_socket() ? nullptr : name.c_str(), &failure);
  const auto error = [&](ErrorCode code, const char* what) {
    std::string message = "seenby::redis: ";
    message.append(endpoint.text()).append(": TLS: ").append(what);
    return Error{code, std::move(message)};
  };
  if (made == nullptr) return error(ErrorCode::invalid_argument, redisSSLContextGetError(failure));
  state_ = std::shared_ptr<void>(made, [](void* ssl) { redisFreeSSLContext(static_cast<redisSSLContext*>(ssl)); });
  if (redisInitiateSSLWithContext(&context, made) != REDIS_OK) return error(ErrorCode::unreachable, context.errstr);
  return {};
}

}  // namespace tls

#else

bool tls_available() noexcept { return false; }

namespace tls {

Result<void> Session::start(redisContext&, const TlsOptions&, const Endpoint& endpoint) {
  std::string message = "seenby::redis: ";
  message.append(endpoint.text())
      .append(": expected a build with hiredis_ssl (hiredis 1.0 or later) for TLS, got one without");
  return Error{ErrorCode::unavailable, std::move(message)};
}

}  // namespace tls

#endif

}  // namespace seenby::redis
