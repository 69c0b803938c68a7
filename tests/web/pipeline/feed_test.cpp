// SPDX-License-Identifier: MIT
// The web feed over a Redis stream, PostgreSQL and filters in Redis, in a real browser: as the embedded one.

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/browser.hpp"
#include "support/feed_page.hpp"
#include "support/postgres_server.hpp"
#include "support/redis_server.hpp"

namespace {

using namespace std::chrono_literals;
using namespace seenby::test;

/// The servers and a folder for the cookies' secret; each feed on them is a process of its own.
struct Servers {
  TemporaryFolder data;
  RedisServer redis;
  PostgresServer postgres;

  [[nodiscard]] std::vector<std::string> feed() const {
    return {"example_web_feed_pipeline", "--data",     data.path(),       "--redis",
            redis.socket_url(),          "--postgres", postgres.address()};
  }
  [[nodiscard]] int rows(const std::string& user) const {
    return std::stoi(postgres.sql("select count(*) from seenby.impressions where user_key = '" + user + "'"));
  }
};

/// The page once nothing of `seen` is on it. What was flushed is in the stream, and the worker may be behind: after a
/// kill by as long as the dead one's events are left to it. A minute at most.
std::vector<std::string> items_without(const std::vector<std::string>& seen, Browser& browser, const std::string& url) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (true) {
    open_feed(browser, url);
    auto shown = items(browser);
    if (!any_of(seen, shown) || std::chrono::steady_clock::now() > deadline) return shown;
    std::this_thread::sleep_for(100ms);
  }
}

}  // namespace

TEST_CASE("Over Redis and PostgreSQL what was scrolled past does not come back, what was only fetched does",
          "[web][pipeline][002-01][002-02][002-03]") {
  SEENBY_NEED_POSTGRES();
  Servers servers;
  FeedServer server(servers.feed());
  Browser browser;
  open_feed(browser, server.url());
  log_in(browser, "ann");
  const auto seen = scroll_past(browser, 3);
  const auto fetched = items(browser);
  wait_until_flushed(browser, seen.size());
  keep_screenshot(browser, "feed-pipeline");
  const auto again = items_without(seen, browser, server.url());
  CHECK_FALSE(any_of(seen, again));
  CHECK(servers.rows("ann") >= static_cast<int>(seen.size()));
  CHECK(any_of(fetched, again));
  CHECK(browser.console_errors().empty());
  // A second process of the same service knows it too.
  FeedServer second(servers.feed());
  Browser other;
  open_feed(other, second.url());
  log_in(other, "ann");
  CHECK_FALSE(any_of(seen, items(other)));
}

TEST_CASE("A killed pipeline loses nothing that was flushed, and hides stay hidden", "[web][pipeline][003-07]") {
  SEENBY_NEED_POSTGRES();
  Servers servers;
  std::string hidden;
  std::vector<std::string> seen;
  Browser browser;
  {
    FeedServer server(servers.feed());
    open_feed(browser, server.url());
    log_in(browser, "cleo");
    hidden = items(browser).front();
    browser.click("li.card .hide");
    browser.wait_until("return document.querySelectorAll('#hidden li').length === 1");
    seen = scroll_past(browser, 2);
    wait_until_flushed(browser, seen.size());
    server.end(SIGKILL);
  }
  FeedServer server(servers.feed());
  open_feed(browser, server.url());
  CHECK_FALSE(any_of({hidden}, items(browser)));
  CHECK_FALSE(any_of(seen, items_without(seen, browser, server.url())));
  browser.wait_until("return document.querySelectorAll('#hidden li').length === 1");
}

TEST_CASE("Over Redis and PostgreSQL what an anonymous visitor saw is theirs after they log in",
          "[web][pipeline][002-07]") {
  SEENBY_NEED_POSTGRES();
  Servers servers;
  auto command = servers.feed();
  command.insert(command.end(), {"--posts", "30"});  // a page holds most of them, in whatever order
  FeedServer server(command);
  Browser browser;
  open_feed(browser, server.url());
  const auto seen = scroll_past(browser, 2);
  wait_until_flushed(browser, seen.size());
  log_in(browser, "dan");
  CHECK_FALSE(any_of(seen, items_without(seen, browser, server.url())));
  wait_until_flushed(browser, seen.size());
}
