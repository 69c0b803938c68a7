// SPDX-License-Identifier: MIT
// The web feed in a real browser: what was scrolled past stays away, what was only fetched comes back.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/browser.hpp"
#include "support/feed_page.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace seenby::test;

constexpr const char* tab = "\ue004";
constexpr const char* enter = "\ue007";

}  // namespace

TEST_CASE("What was scrolled past does not come back after a reload, what was only fetched does",
          "[web][002-01][002-02][002-03]") {
  const TemporaryFolder data;
  FeedServer server(data.path());
  Browser browser;
  open_feed(browser, server.url());
  log_in(browser, "ann");
  const auto seen = scroll_past(browser, 4);
  const auto fetched = items(browser);
  wait_until_flushed(browser, seen.size());
  seenby::test::keep_screenshot(browser, "feed");
  open_feed(browser, server.url());
  const auto again = items(browser);
  CHECK_FALSE(any_of(seen, again));
  // Whatever was on the page and was not seen is eligible still: the next page begins with it.
  std::size_t back = 0;
  for (const std::string& item : fetched) back += any_of({item}, again) ? 1U : 0U;
  CHECK(back >= (fetched.size() - seen.size()) / 2);
  CHECK(browser.console_errors().empty());
}

TEST_CASE("A card is reported once half of it was visible for a second, and not before", "[web][002-01][002-03]") {
  const TemporaryFolder data;
  FeedServer server(data.path());
  Browser browser;
  open_feed(browser, server.url());
  browser.run(R"(
    window.sent = [];
    const send = window.fetch;
    window.fetch = (path, options) => {
      if (path === '/api/impressions') sent.push(...JSON.parse(options.body).events);
      return send(path, options);
    })");
  // Three tenths of a card at the lower edge, for longer than it takes.
  const std::string at_the_edge = browser
                                      .run(R"(
    const card = [...document.querySelectorAll('li.card:not(.tall)')]
        .find(each => each.getBoundingClientRect().top > innerHeight);
    const box = card.getBoundingClientRect();
    scrollBy({top: box.top + 0.3 * box.height - innerHeight, behavior: 'instant'});
    return card.dataset.item)")
                                      .get<std::string>();
  const std::string edge = "li.card[data-item='" + at_the_edge + "']";
  std::this_thread::sleep_for(std::chrono::milliseconds{2'500});
  CHECK(items(browser, edge + "[data-seen]").empty());
  browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", {edge});
  browser.wait_until("return document.querySelector(\"" + edge + "[data-flushed]\") !== null");
  const Json sent = browser.run("return sent");
  REQUIRE_FALSE(sent.empty());
  bool told = false;
  for (const Json& event : sent) {
    CAPTURE(event.dump());
    CHECK(event.at("visible_ms").get<int>() >= 999);
    told = told || (event.at("item") == at_the_edge && event.at("visible_percent").get<int>() >= 50);
  }
  CHECK(told);
}

TEST_CASE("A page that is left loses nothing that was seen on it, though no flush was due", "[web][002-03]") {
  const TemporaryFolder data;
  FeedServer server(data.path());
  Browser browser;
  open_feed(browser, server.url());
  log_in(browser, "bob");
  browser.wait_until("return document.querySelectorAll('li.card[data-seen=true]').length > 0");
  const auto seen = items(browser, "li.card[data-seen=true]");
  REQUIRE_FALSE(seen.empty());
  Caller bob(server.url(), "bob");
  browser.open("about:blank");  // the beacon of pagehide, which nobody waits for
  Browser::wait_for([&] { return !any_of(seen, bob.page()); }, "the beacon");
  open_feed(browser, server.url());
  CHECK_FALSE(any_of(seen, items(browser)));
}

TEST_CASE("What was hidden stays hidden after the server was killed, and can be shown again", "[web][003-07]") {
  const TemporaryFolder data;
  std::string hidden;
  Browser browser;
  {
    FeedServer server(data.path());
    open_feed(browser, server.url());
    log_in(browser, "cleo");
    hidden = items(browser).front();
    browser.click("li.card .hide");
    browser.wait_until("return document.querySelectorAll('#hidden li').length === 1");
    server.end(SIGKILL);
  }
  FeedServer server(data.path());
  open_feed(browser, server.url());
  CHECK_FALSE(any_of({hidden}, items(browser)));
  browser.wait_until("return document.querySelectorAll('#hidden li').length === 1");
  // What the page asks every two seconds leaves the button, and the focus on it, where they are.
  browser.run(R"(
    window.asked = 0;
    const send = window.fetch;
    window.fetch = async (path, options) => {
      const reply = await send(path, options);
      if (path === '/api/status') ++asked;
      return reply;
    };
    document.querySelector('#hidden button').focus())");
  browser.wait_until("return asked >= 2");
  CHECK(browser.run("return document.activeElement === document.querySelector('#hidden button')") == true);
  browser.click("#hidden button");
  browser.wait_until("return document.querySelectorAll('#hidden li').length === 0");
  open_feed(browser, server.url());
  CHECK(any_of({hidden}, items(browser)));
}

TEST_CASE("What an anonymous visitor saw is theirs after they log in", "[web][002-07]") {
  const TemporaryFolder data;
  // So few that a page holds most of them: everyone is shown the posts in an order of their own.
  FeedServer server(data.path(), "30");
  Browser browser;
  open_feed(browser, server.url());
  const auto seen = scroll_past(browser, 3);
  wait_until_flushed(browser, seen.size());
  open_feed(browser, server.url());
  CHECK_FALSE(any_of(seen, items(browser)));  // by the cookie alone
  log_in(browser, "dan");
  CHECK_FALSE(any_of(seen, items(browser)));
  wait_until_flushed(browser, seen.size());
  browser.delete_cookies();  // what is left is dan's own
  open_feed(browser, server.url());
  // None but what this page itself showed meanwhile, on a slow machine.
  CHECK(browser.run("return Number(" + figure("posts you have seen") +
                    ") <= document.querySelectorAll('li.card[data-seen]').length") == true);
  log_in(browser, "dan");
  CHECK_FALSE(any_of(seen, items(browser)));
  CHECK(browser.console_errors().empty());
}

TEST_CASE("A page that was asked for before a login is not shown after it", "[web]") {
  const TemporaryFolder data;
  FeedServer server(data.path());
  Browser browser;
  open_feed(browser, server.url());
  browser.run(R"(
    window.held = [];
    const send = window.fetch;
    window.fetch = async (path, options) => {
      const hold = path === '/api/page' && held.length === 0;
      const wait = hold ? new Promise(release => held.push(release)) : null;
      const reply = await send(path, options);
      await wait;
      return reply;
    };
    document.getElementById('end').scrollIntoView())");
  browser.wait_until("return held.length === 1");
  log_in(browser, "hal");
  browser.run("scrollTo(0, 0)");
  wait_until_loaded(browser);
  const auto own = items(browser);
  CHECK_FALSE(own.empty());
  browser.run("held[0]()");
  browser.wait_until("return document.getElementById('cards').getAttribute('aria-busy') === 'false'");
  std::this_thread::sleep_for(std::chrono::milliseconds{200});
  auto after = items(browser);
  // A page of the user's own may have come; the visitor's would repeat what is there.
  CHECK(std::set<std::string>(after.begin(), after.end()).size() == after.size());
  REQUIRE(after.size() >= own.size());
  after.resize(own.size());
  CHECK(after == own);
}

TEST_CASE("Two users do not share what they saw", "[web]") {
  const TemporaryFolder data;
  FeedServer server(data.path());
  Browser eve;
  open_feed(eve, server.url());
  log_in(eve, "eve");
  const auto seen = scroll_past(eve, 2);
  wait_until_flushed(eve, seen.size());
  CHECK(Caller(server.url(), "eve").posts_seen() >= static_cast<int>(seen.size()));
  CHECK(Caller(server.url(), "finn").posts_seen() == 0);
}

TEST_CASE("The feed is used by keyboard, named for screen readers, and fits a phone", "[web]") {
  const TemporaryFolder data;
  FeedServer server(data.path());
  Browser phone(360, 740);
  open_feed(phone, server.url());
  seenby::test::keep_screenshot(phone, "feed-phone");
  CHECK(phone.run("return document.documentElement.scrollWidth <= innerWidth") == true);
  // Skip link, name, log in.
  phone.press(std::string(tab).append(tab).append("gil").append(enter));
  phone.wait_until("return document.getElementById('who').textContent.includes('gil')");
  phone.wait_until("return document.querySelectorAll('li.card').length >= 10");
  const auto first = items(phone).front();
  phone.run("document.querySelector('li.card .hide').focus()");
  phone.press(enter);
  phone.wait_until("return document.querySelectorAll('#hidden li').length === 1");
  CHECK_FALSE(any_of({first}, items(phone)));
  CHECK(phone.run("return document.activeElement.tagName") == "BUTTON");  // the focus is not lost
  const Json unnamed = phone.run(R"(
    return [...document.querySelectorAll('button, input, [role], aside, main, ol')]
      .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length || e.id === 'note' ||
                     e.tagName === 'MAIN'))
      .map(e => e.outerHTML.slice(0, 80)))");
  CHECK(unnamed.dump() == "[]");
  CHECK(phone.run("return document.documentElement.lang") == "en");
  CHECK(phone.console_errors().empty());
}

TEST_CASE("A feed that was seen to its end says so, and SIGTERM ends the server cleanly", "[web][002-14]") {
  const TemporaryFolder data;
  FeedServer server(data.path(), "12");
  Browser browser(1200, 12'000);  // everything at once on the screen
  // Nobody logs in: on a slow machine a guest has seen it all by then, and no card is left to wait for.
  open_feed(browser, server.url());
  browser.wait_until("return document.querySelectorAll('li.card:not([data-seen])').length === 0");
  wait_until_flushed(browser, 12);
  browser.open(server.url());
  browser.wait_until("return document.getElementById('note').textContent.includes('seen everything')");
  CHECK(server.end(SIGTERM) == 0);
}
