#pragma once
// SPDX-License-Identifier: MIT
// What the feed's programs are told.

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace feed {

struct Options {
  std::uint16_t port = 8080;
  std::string data = "feed-data";
  std::size_t posts = 400;
  std::string redis{};     ///< a URL
  std::string postgres{};  ///< libpq's address
};

inline Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    const std::string value = i + 1 < count ? arguments[i + 1] : "";
    if (name == "--port" && !value.empty()) {
      options.port = static_cast<std::uint16_t>(std::atoi(value.c_str()));
    } else if (name == "--data" && !value.empty()) {
      options.data = value;
    } else if (name == "--posts" && !value.empty()) {
      options.posts = static_cast<std::size_t>(std::atoi(value.c_str()));
    } else if (name == "--redis" && !value.empty()) {
      options.redis = value;
    } else if (name == "--postgres" && !value.empty()) {
      options.postgres = value;
    } else {
      throw std::invalid_argument(
          "usage: feed [--port N] [--data FOLDER] [--posts N] [--redis URL --postgres ADDRESS]");
    }
  }
  return options;
}

}  // namespace feed
