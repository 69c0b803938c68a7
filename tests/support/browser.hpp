#pragma once
// SPDX-License-Identifier: MIT
// Browser: headless Chromium by the W3C WebDriver protocol, and the server that a test looks at.

#include <arpa/inet.h>
#include <httplib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temporary_folder.hpp"

namespace seenby::test {

using Json = nlohmann::json;

/// A program that runs until the test ends; what it prints first tells that it is ready.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    int out[2];
    if (::pipe(out) != 0) throw std::runtime_error("pipe failed");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(126);
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]);
      ::close(out[1]);
      for (std::string& variable : environment) ::putenv(variable.data());
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(out[1]);
    output_ = ::fdopen(out[0], "r");
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    end(SIGTERM);
    std::fclose(output_);
  }
  /// The next line it prints; empty when it ended.
  std::string line() {
    char buffer[4096];
    if (std::fgets(buffer, sizeof buffer, output_) == nullptr) return {};
    std::string text = buffer;
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }
  /// Its exit code, or minus the signal that ended it.
  int end(int signal) {
    if (pid_ < 0) return 0;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_ = -1;
  FILE* output_ = nullptr;
};

/// One window of headless Chromium, with a profile of its own. Throws where the driver refuses.
class Browser {
 public:
  explicit Browser(int width = 1200, int height = 900) : port_(free_port()) {
    driver_ = std::make_unique<Process>(
        std::vector<std::string>{"chromedriver", "--port=" + std::to_string(port_), "--log-level=OFF"},
        std::vector<std::string>{"HOME=" + folder_.path()});
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
    client_->set_read_timeout(120);
    wait_for([&] { return static_cast<bool>(client_->Get("/status")); }, "chromedriver to answer");
    const std::vector<std::string> flags{"--headless=new",
                                         "--no-sandbox",
                                         "--disable-gpu",
                                         "--disable-quic",
                                         "--no-first-run",
                                         "--disable-background-networking",
                                         "--disable-component-update",
                                         "--disable-sync",
                                         "--disable-dev-shm-usage",
                                         "--user-data-dir=" + folder_.path("profile"),
                                         "--window-size=" + std::to_string(width) + "," + std::to_string(height)};
    const Json wanted{{"capabilities",
                       {{"alwaysMatch",
                         {{"browserName", "chrome"},
                          {"goog:loggingPrefs", {{"browser", "ALL"}}},
                          {"goog:chromeOptions", {{"args", flags}, {"binary", "/usr/bin/chromium"}}}}}}}};
    session_ = "/session/" + post("/session", wanted).at("sessionId").get<std::string>();
    // The window of --window-size is larger than what a page gets on a phone.
    (void)post(session_ + "/goog/cdp/execute",
               {{"cmd", "Emulation.setDeviceMetricsOverride"},
                {"params", {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", width < 600}}}});
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;
  ~Browser() { (void)client_->Delete(session_); }

  void open(const std::string& url) { (void)post(session_ + "/url", {{"url", url}}); }
  /// What a script that ends in `return` gives.
  Json run(const std::string& script, Json arguments = Json::array()) {
    return post(session_ + "/execute/sync", {{"script", script}, {"args", std::move(arguments)}});
  }
  void click(const std::string& selector) { (void)post(element(selector) + "/click", Json::object()); }
  void type(const std::string& selector, const std::string& text) {
    (void)post(element(selector) + "/value", {{"text", text}});
  }
  /// Presses keys where the focus is; "\ue004" is Tab, "\ue007" Enter.
  void press(const std::string& keys) {
    Json actions = Json::array();
    for (std::size_t at = 0; at < keys.size();) {
      const auto lead = static_cast<unsigned char>(keys[at]);
      const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      actions.push_back({{"type", "keyDown"}, {"value", keys.substr(at, bytes)}});
      actions.push_back({{"type", "keyUp"}, {"value", keys.substr(at, bytes)}});
      at += bytes;
    }
    (void)post(session_ + "/actions",
               {{"actions", {{{"type", "key"}, {"id", "keyboard"}, {"actions", std::move(actions)}}}}});
  }
  /// Those that scripts cannot reach as well.
  void delete_cookies() { (void)client_->Delete(session_ + "/cookie"); }
  /// What the page logged as an error since the last call.
  std::vector<std::string> console_errors() {
    std::vector<std::string> errors;
    for (const Json& entry : post(session_ + "/se/log", {{"type", "browser"}})) {
      if (entry.at("level") == "SEVERE") errors.push_back(entry.at("message").get<std::string>());
    }
    return errors;
  }
  /// A PNG of the window, as base64.
  std::string screenshot() {
    const auto reply = client_->Get(session_ + "/screenshot");
    return Json::parse(reply->body).at("value").get<std::string>();
  }

  /// Waits until `holds`, for at most `patience`; throws with `what` then.
  static void wait_for(const std::function<bool()>& holds, const std::string& what,
                       std::chrono::seconds patience = std::chrono::seconds{60}) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("waited in vain for " + what);
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    }
  }
  /// Waits until a script that ends in `return` gives true.
  void wait_until(const std::string& script, std::chrono::seconds patience = std::chrono::seconds{60}) {
    wait_for([&] { return run(script) == true; }, script, patience);
  }

  /// A loopback port that nothing listens on.
  static int free_port() {
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(probe, reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(probe);
    return ntohs(address.sin_port);
  }

 private:
  Json post(const std::string& path, const Json& body) {
    const auto reply = client_->Post(path, body.dump(), "application/json");
    if (!reply) throw std::runtime_error("chromedriver does not answer " + path);
    Json value = Json::parse(reply->body).at("value");
    if (reply->status != 200) throw std::runtime_error(path + ": " + value.dump().substr(0, 500));
    return value;
  }
  std::string element(const std::string& selector) {
    const Json found = post(session_ + "/element", {{"using", "css selector"}, {"value", selector}});
    return session_ + "/element/" + found.begin().value().get<std::string>();
  }

  TemporaryFolder folder_;
  int port_;
  std::unique_ptr<Process> driver_;
  std::unique_ptr<httplib::Client> client_;
  std::string session_;
};

/// Writes a screenshot where SEENBY_SCREENSHOTS names a folder.
inline void keep_screenshot(Browser& browser, const std::string& name) {
  const char* const folder = std::getenv("SEENBY_SCREENSHOTS");
  if (folder == nullptr) return;
  std::ofstream file(std::string(folder) + "/" + name + ".png", std::ios::binary);
  const std::string text = browser.screenshot();
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = digits.find(letter);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) file.put(static_cast<char>(bits >> (count -= 8)));
  }
}

}  // namespace seenby::test
