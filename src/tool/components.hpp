#pragma once
// SPDX-License-Identifier: MIT
// The components this build has, and what is said of a URL that needs another.

#include <string>
#include <string_view>

#include "input_error.hpp"

namespace seenby::tool {

#ifdef SEENBY_TOOL_WITH_LMDB
inline constexpr bool with_lmdb = true;
#else
inline constexpr bool with_lmdb = false;
#endif
#ifdef SEENBY_TOOL_WITH_REDIS
inline constexpr bool with_redis = true;
#else
inline constexpr bool with_redis = false;
#endif

/// What stands before the first colon; empty without one.
[[nodiscard]] inline std::string_view scheme_of(std::string_view url) {
  const std::size_t colon = url.find(':');
  return colon == std::string_view::npos ? std::string_view() : url.substr(0, colon);
}

[[noreturn]] inline void refuse_component(std::string_view component, std::string_view package) {
  throw InputError(std::string("expected a build with the component ")
                       .append(component)
                       .append(", got one without; install ")
                       .append(package)
                       .append(", then configure and build seenby again"));
}

/// Repeats the scheme only: a password may stand behind it.
[[noreturn]] inline void refuse_scheme(std::string_view what, std::string_view known, std::string_view url) {
  const std::string_view scheme = scheme_of(url);
  std::string message = std::string("expected a URL of ").append(what).append(" (").append(known).append("), got ");
  throw InputError(scheme.empty() ? message.append(in_quotes(url))
                                  : message.append("one of ").append(in_quotes(scheme)));
}

}  // namespace seenby::tool
