#pragma once
// SPDX-License-Identifier: MIT
// The web feed's page as a test drives it.

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "seenby_test_paths.hpp"
#include "support/browser.hpp"

namespace seenby::test {

/// A feed's server, on a port of its own; its data outlive it.
class FeedServer {
 public:
  explicit FeedServer(const std::string& data, const std::string& posts = "400")
      : FeedServer(std::vector<std::string>{"example_web_feed", "--data", data, "--posts", posts}) {}
  /// The program of build/bin and its arguments.
  explicit FeedServer(std::vector<std::string> command)
      : process_(with_port(std::move(command))), url_(process_.line()) {
    REQUIRE(url_.starts_with("http://127.0.0.1:"));
  }
  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  int end(int signal) { return process_.end(signal); }

 private:
  static std::vector<std::string> with_port(std::vector<std::string> command) {
    command.front().insert(0, SEENBY_BINARY_DIR "/bin/");
    command.insert(command.end(), {"--port", "0"});
    return command;
  }
  Process process_;
  std::string url_;
};

inline std::vector<std::string> items(Browser& browser, const std::string& which = "li.card") {
  return browser.run("return [...document.querySelectorAll(arguments[0])].map(card => card.dataset.item)", {which})
      .get<std::vector<std::string>>();
}
/// Until a page of cards is there, or the page says that none is left: what was seen meanwhile on a slow machine is no
/// longer among them.
inline void wait_until_loaded(Browser& browser) {
  browser.wait_until(
      "return document.getElementById('cards').getAttribute('aria-busy') === 'false' &&"
      " (document.querySelector('li.card') !== null ||"
      "  document.getElementById('note').textContent.includes('seen everything'))");
}
inline void open_feed(Browser& browser, const std::string& url) {
  browser.open(url);
  wait_until_loaded(browser);
}
/// Scrolls card by card, each until it is seen; returns those that the page took for seen.
inline std::vector<std::string> scroll_past(Browser& browser, int cards) {
  for (int i = 0; i < cards; ++i) {
    browser.run("document.querySelectorAll('li.card')[arguments[0]].scrollIntoView({block: 'center'})", {i});
    browser.wait_until("return document.querySelectorAll('li.card')[" + std::to_string(i) +
                       "].dataset.seen === 'true'");
  }
  auto seen = items(browser, "li.card[data-seen=true]");
  REQUIRE(seen.size() >= static_cast<std::size_t>(cards));
  return seen;
}
inline void log_in(Browser& browser, const std::string& name) {
  browser.type("#name", name);
  browser.click("#login button[type=submit]");
  browser.wait_until("return document.getElementById('who').textContent.includes('" + name + "')");
  wait_until_loaded(browser);
}
/// The figure beside a name in the side panel.
inline std::string figure(const std::string& name) {
  return "[...document.querySelectorAll('dt')].find(term => term.textContent === '" + name +
         "')?.nextElementSibling.textContent";
}
/// Until the server has each card that was seen, and counts so many; a hidden one may be among those that it counts.
inline void wait_until_flushed(Browser& browser, std::size_t seen) {
  browser.wait_until("return document.querySelectorAll('li.card[data-seen=true]:not([data-flushed])').length === 0");
  browser.wait_until("return Number(" + figure("posts you have seen") + ") >= " + std::to_string(seen));
}
/// A user's calls without a page on a screen: nothing that is asked for here is ever seen.
class Caller {
 public:
  Caller(const std::string& url, const std::string& name)
      : client_("127.0.0.1", std::stoi(url.substr(url.rfind(':') + 1))) {
    client_.set_read_timeout(60);
    const auto reply = client_.Post("/api/login", Json{{"name", name}}.dump(), "application/json");
    REQUIRE(reply);
    REQUIRE(reply->status == 200);
    answer_ = Json::parse(reply->body);
    const std::string cookie = reply->get_header_value("Set-Cookie");
    client_.set_default_headers({{"Cookie", cookie.substr(0, cookie.find(';'))}});
  }
  /// How many posts the user had seen at the login.
  [[nodiscard]] int posts_seen() const { return answer_.at("filter").at("posts you have seen").get<int>(); }
  /// What the user's next page would show.
  [[nodiscard]] std::vector<std::string> page() {
    const auto reply = client_.Post("/api/page", R"({"limit":20,"have":[]})", "application/json");
    REQUIRE(reply);
    REQUIRE(reply->status == 200);
    std::vector<std::string> shown;
    const Json answer = Json::parse(reply->body);
    for (const Json& item : answer.at("items")) shown.push_back(item.at("id").get<std::string>());
    return shown;
  }

 private:
  httplib::Client client_;
  Json answer_;
};
inline bool any_of(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  const std::set<std::string> set(others.begin(), others.end());
  for (const std::string& each : some) {
    if (set.contains(each)) return true;
  }
  return false;
}

}  // namespace seenby::test
