#pragma once
// SPDX-License-Identifier: MIT
// Site: a small JSON server for the web examples, on cpp-httplib and nlohmann-json.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace web {

using Json = nlohmann::ordered_json;  // in the order in which a page shows it

/// What a browser asked.
struct Call {
  Json body;  ///< null for GET
  std::map<std::string, std::string> cookies;
};

/// What it gets.
struct Answer {
  Json body = Json::object();
  int status = 200;
  std::vector<std::string> set_cookies{};  ///< "name=value; attributes"
};

/// A cookie that scripts cannot read and other sites do not send. An empty value removes it.
[[nodiscard]] std::string cookie(const std::string& name, const std::string& value);

/// Thrown by a handler for a request that cannot be carried out; its text is shown to the person.
struct Refused : std::runtime_error {
  Refused(int code, const std::string& message) : std::runtime_error(message), status(code) {}
  int status;
};

/// Keeps SIGINT and SIGTERM for Site::run: the first thing in main, before any thread starts.
void hold_stop_signals();

/// Serves files of a few folders and JSON under /api. Handlers run on several threads at once.
class Site {
 public:
  using Handler = std::function<Answer(const Call&)>;
  /// `folders` hold the files served at "/", the first that has one wins.
  explicit Site(const std::vector<std::string>& folders);
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
  ~Site();

  void get(const std::string& path, Handler handler);
  void post(const std::string& path, Handler handler);
  /// Text as it is, for /metrics.
  void text(const std::string& path, std::function<std::string()> content);

  /// Listens on 127.0.0.1 until SIGINT or SIGTERM; prints the address once it does. Port 0: any that is free. False
  /// when it cannot listen.
  bool run(std::uint16_t port);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The secret that cookies are signed with, kept in a file (mode 0600) so that a restart does not log people out.
[[nodiscard]] std::vector<std::byte> secret_of(const std::string& path);

}  // namespace web
