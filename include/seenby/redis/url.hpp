#pragma once
// SPDX-License-Identifier: MIT
// Where a Redis is and how to talk to it, as one URL: redis://, rediss://, unix://, redis-cluster://,
// redis+sentinel://.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/result.hpp"

namespace seenby::redis {

/// A TCP address, or a Unix socket when `socket_path` is set.
struct Endpoint {
  std::string host = "127.0.0.1";  ///< a name or an address
  std::uint16_t port = 6379;       ///< of TCP
  std::string socket_path{};       ///< empty: TCP

  [[nodiscard]] bool is_socket() const noexcept { return !socket_path.empty(); }  ///< whether it is a Unix socket
  /// A socket or a loopback address.
  [[nodiscard]] bool is_local() const noexcept {
    return is_socket() || host.starts_with("127.") || host == "localhost" || host == "::1";
  }
  /// "host:port", "[v6]:port" or "unix:path".
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;  ///< equal in every member
};

/// TLS, where the build has it (`tls_available()`). Files are PEM; empty means the system's trust store and no client
/// certificate.
struct TlsOptions {
  bool enabled = false;            ///< whether the connection is encrypted
  std::string ca_file{};           ///< whom to trust; empty: the system's store
  std::string certificate_file{};  ///< the client's; empty: none
  std::string key_file{};          ///< the client certificate's key
  std::string server_name{};       ///< for SNI; the host when empty
};

/// How one connection is made and how long it may take to answer.
struct ConnectionOptions {
  std::string username{};  ///< an ACL user; empty for the default user
  std::string password{};  ///< empty: no AUTH is sent
  /// SELECTed after AUTH; 0 in a cluster.
  std::uint32_t database = 0;
  std::chrono::milliseconds connect_timeout{1000};  ///< TCP or socket connect, TLS, AUTH and SELECT together
  std::chrono::milliseconds command_timeout{1000};  ///< one batch, when the caller sets no earlier deadline
  /// Whether and how it is encrypted.
  TlsOptions tls{};
};

/// A parsed Redis URL.
///
/// - `redis://[user[:password]@]host[:port][/database]`; `redis://:password@host` is the default user
/// - `unix://[user[:password]@]/path/to/socket`
/// - `redis-cluster://[user[:password]@]host[:port][,host[:port]...]`
/// - `redis+sentinel://[user[:password]@]sentinel[:26379][,sentinel[:port]...]/master[/database]`: the master of that
///   name, whichever server the Sentinels say it is; user and password are the server's
/// - `rediss://`, `rediss-cluster://` and `rediss+sentinel://`: the same over TLS
///
/// Options follow `?`, joined by `&`: `db`, `timeout_ms`, `connect_timeout_ms`, `pool` (connections a server, 1 to
/// 1,024), `replicas` (`1`: a cluster's replicas serve reads), `ca`, `cert`, `key`, `sni`,
/// `sentinel_password` (the Sentinels' own). User, password, path and option values are percent-decoded. An unknown
/// option is an error, so that a misspelt one is not ignored.
struct Url {
  bool cluster = false;               ///< slots, MOVED and ASK are followed
  bool read_from_replicas = false;    ///< a cluster's replicas serve reads
  std::vector<Endpoint> endpoints{};  ///< at least one; more than one only for a cluster and for Sentinels
  std::string sentinel_master{};      ///< the name of the master that the endpoints, Sentinels then, are asked for
  std::string sentinel_password{};    ///< the Sentinels' own; empty: no AUTH is sent to them
  /// Of every connection.
  ConnectionOptions connection{};
  std::size_t pool_size = 8;  ///< connections a server, from 1 to 1,024
};

/// Parses a URL. Errors are `invalid_argument` and repeat nothing of what follows "://".
[[nodiscard]] Result<Url> parse_url(std::string_view url);

/// True when this build was linked with hiredis_ssl. Without it a `rediss://` URL parses, and connecting is
/// `unavailable`.
[[nodiscard]] bool tls_available() noexcept;

}  // namespace seenby::redis
