// SPDX-License-Identifier: MIT
// Part of the consumer when it asks for the redis component: what it calls stands in the compiled library.

#include <cstdio>
#include <cstdlib>
#include <seenby/redis/url.hpp>

namespace {

[[maybe_unused]] const bool parsed = [] {
  const auto url = seenby::redis::parse_url("redis://localhost:7000");
  if (!url || url->endpoints.front().port != 7000) std::abort();
  std::printf("redis component, TLS %s\n", seenby::redis::tls_available() ? "there" : "absent");
  return true;
}();

}  // namespace
