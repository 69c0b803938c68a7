// SPDX-License-Identifier: MIT
// Parsing Redis URLs.

#include "seenby/redis/url.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace seenby::redis {
namespace {

/// Nothing that follows "://" is repeated: until it is parsed, any part of it may be the password's.
Error bad_url(std::string_view expected) {
  std::string message = "seenby::redis: expected a URL with ";
  return {ErrorCode::invalid_argument, std::move(message.append(expected))};
}

template <class Number>
std::optional<Number> number_of(std::string_view text, Number low, Number high) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < low || value > high) return std::nullopt;
  return value;
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

constexpr std::string_view a_port =
    "a port from 1 to 65535 (write '/' as %2F, '?' as %3F and '@' as %40 inside a password)";

Result<Endpoint> parse_host(std::string_view text, std::uint16_t default_port) {
  Endpoint endpoint{.port = default_port, .socket_path = {}};
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return bad_url("a ']' after an IPv6 address");
    host = text.substr(1, close - 1);
    std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return bad_url("':port' after an IPv6 address");
    if (!rest.empty()) port = rest.substr(1);
    if (!rest.empty() && port.empty()) return bad_url(a_port);
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return bad_url(a_port);
  }
  if (host.empty()) return bad_url("a host (write '/' as %2F, '?' as %3F and '@' as %40 inside a password)");
  endpoint.host = std::string(host);
  if (!port.empty()) {
    const auto number = number_of<std::uint16_t>(port, 1, std::numeric_limits<std::uint16_t>::max());
    if (!number) return bad_url(a_port);
    endpoint.port = *number;
  }
  return endpoint;
}

Result<void> take_user(std::string_view& rest, ConnectionOptions& connection) {
  // A password may hold an '@' only percent-encoded, but a socket's path may hold one: look before the first '/'.
  const auto at = rest.substr(0, rest.find('/')).rfind('@');
  if (at == std::string_view::npos) return {};
  const std::string_view who = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const auto colon = who.find(':');
  auto user = percent_decoded(who.substr(0, colon));
  auto password = percent_decoded(colon == std::string_view::npos ? std::string_view{} : who.substr(colon + 1));
  if (!user || !password) return bad_url("two hexadecimal digits after each '%' of user and password");
  if (!user->empty() && password->empty()) return bad_url("a password beside its user");
  connection.username = std::move(*user);
  connection.password = std::move(*password);
  return {};
}

Result<void> take_option(std::string_view name, std::string value, Url& url) {
  using std::chrono::milliseconds;
  const auto milliseconds_of = [&]() { return number_of<std::int64_t>(value, 1, 3'600'000); };
  ConnectionOptions& connection = url.connection;
  if (name == "db") {
    const auto database = number_of<std::uint32_t>(value, 0, 1'000'000);
    if (!database) return bad_url("db from 0 to 1000000");
    connection.database = *database;
  } else if (name == "timeout_ms" || name == "connect_timeout_ms") {
    const auto span = milliseconds_of();
    if (!span) return bad_url("a time-out from 1 to 3600000 ms");
    (name == "timeout_ms" ? connection.command_timeout : connection.connect_timeout) = milliseconds{*span};
  } else if (name == "pool") {
    const auto size = number_of<std::size_t>(value, 1, 1024);
    if (!size) return bad_url("pool from 1 to 1024");
    url.pool_size = *size;
  } else if (name == "replicas") {
    if (value != "0" && value != "1") return bad_url("replicas=0 or replicas=1");
    url.read_from_replicas = value == "1";
  } else if (name == "ca") {
    connection.tls.ca_file = std::move(value);
  } else if (name == "cert") {
    connection.tls.certificate_file = std::move(value);
  } else if (name == "key") {
    connection.tls.key_file = std::move(value);
  } else if (name == "sni") {
    connection.tls.server_name = std::move(value);
  } else if (name == "sentinel_password") {
    url.sentinel_password = std::move(value);
  } else {
    return bad_url(
        "known options (db, timeout_ms, connect_timeout_ms, pool, replicas, ca, cert, key, sni, sentinel_password)");
  }
  return {};
}

Result<void> take_options(std::string_view& rest, Url& url) {
  const auto mark = rest.find('?');
  if (mark == std::string_view::npos) return {};
  std::string_view options = rest.substr(mark + 1);
  rest = rest.substr(0, mark);
  while (!options.empty()) {
    const auto end = options.find('&');
    const std::string_view option = options.substr(0, end);
    options = end == std::string_view::npos ? std::string_view{} : options.substr(end + 1);
    const auto equals = option.find('=');
    if (equals == std::string_view::npos) return bad_url("name=value options");
    auto value = percent_decoded(option.substr(equals + 1));
    if (!value) return bad_url("two hexadecimal digits after each '%'");
    if (auto taken = take_option(option.substr(0, equals), std::move(*value), url); !taken) return taken;
  }
  return {};
}

/// The master's name, up to the end or to the database.
Result<void> take_master(std::string_view& rest, Url& url) {
  const auto begin = std::min(rest.find('/'), rest.size());
  const std::string_view path = rest.substr(std::min(begin + 1, rest.size()));
  const auto end = std::min(path.find('/'), path.size());
  auto name = percent_decoded(path.substr(0, end));
  if (!name || name->empty()) return bad_url("the master's name behind the Sentinels: redis+sentinel://HOST/MASTER");
  url.sentinel_master = std::move(*name);
  const std::string_view database = path.substr(std::min(end + 1, path.size()));
  rest = rest.substr(0, begin);
  return database.empty() ? Result<void>{} : take_option("db", std::string(database), url);
}

Result<void> take_servers(std::string_view rest, bool sentinel, Url& url) {
  if (sentinel) {
    if (auto taken = take_master(rest, url); !taken) return taken;
  } else if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view database = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
    if (!database.empty()) {
      if (auto taken = take_option("db", std::string(database), url); !taken) return taken;
    }
  }
  while (true) {
    const auto comma = rest.find(',');
    auto endpoint = parse_host(rest.substr(0, comma), sentinel ? 26'379 : 6'379);
    if (!endpoint) return std::move(endpoint).error();
    url.endpoints.push_back(std::move(*endpoint));
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (url.endpoints.size() > 1 && !url.cluster && !sentinel) {
    return bad_url("one server (several only for redis-cluster:// and redis+sentinel://)");
  }
  if (url.cluster && url.connection.database != 0) return bad_url("no database (a cluster has only number 0)");
  return {};
}

}  // namespace

std::string Endpoint::text() const {
  if (is_socket()) return std::string("unix:").append(socket_path);
  std::string out;
  const bool v6 = host.find(':') != std::string::npos;
  if (v6) out.push_back('[');
  out.append(host);
  if (v6) out.push_back(']');
  return out.append(":").append(std::to_string(port));
}

Result<Url> parse_url(std::string_view text) {
  const auto mark = text.find("://");
  const std::string_view scheme = text.substr(0, mark == std::string_view::npos ? 0 : mark);
  Url url;
  url.cluster = scheme == "redis-cluster" || scheme == "rediss-cluster";
  url.connection.tls.enabled = scheme.starts_with("rediss");
  const bool sentinel = scheme == "redis+sentinel" || scheme == "rediss+sentinel";
  if (!url.cluster && !sentinel && scheme != "redis" && scheme != "rediss" && scheme != "unix") {
    Error error = bad_url("a scheme of redis, unix, redis-cluster, redis+sentinel, or rediss in place of redis");
    error.message.append(", got \"").append(scheme).append("\"");
    return error;
  }
  std::string_view rest = text.substr(mark + 3);
  if (auto taken = take_options(rest, url); !taken) return std::move(taken).error();
  if (auto taken = take_user(rest, url.connection); !taken) return std::move(taken).error();
  if (scheme == "unix") {
    auto path = percent_decoded(rest);
    if (!path || path->size() < 2 || path->front() != '/') return bad_url("an absolute socket path");
    url.endpoints.push_back({.socket_path = std::move(*path)});
    return url;
  }
  if (auto taken = take_servers(rest, sentinel, url); !taken) return std::move(taken).error();
  return url;
}

}  // namespace seenby::redis
