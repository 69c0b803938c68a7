#pragma once
// SPDX-License-Identifier: MIT
// TLS for a connection: hiredis_ssl where the build has it, a typed refusal elsewhere.

#include <signal.h>

#include <memory>

#include "seenby/redis/url.hpp"
#include "seenby/result.hpp"

struct redisContext;

namespace seenby::redis::tls {

/// The TLS state of one connection; it must live as long as the connection.
class Session {
 public:
  Session() = default;
  /// The TLS handshake on a connected, blocking context.
  [[nodiscard]] Result<void> start(redisContext& context, const TlsOptions& options, const Endpoint& endpoint);
  [[nodiscard]] bool active() const noexcept { return state_ != nullptr; }

 private:
  std::shared_ptr<void> state_;
};

/// Keeps this thread from being signalled while OpenSSL writes to a connection that the server has closed.
class BlockSigpipe {
 public:
  BlockSigpipe() noexcept;
  BlockSigpipe(const BlockSigpipe&) = delete;
  BlockSigpipe& operator=(const BlockSigpipe&) = delete;
  ~BlockSigpipe();

 private:
  sigset_t before_{};
  bool pending_before_ = false;
};

}  // namespace seenby::redis::tls
