// SPDX-License-Identifier: MIT
// The web quiz in two browser windows: both get questions that neither has had, and the pool runs dry gracefully.

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "seenby_test_paths.hpp"
#include "support/browser.hpp"

namespace {

using seenby::test::Browser;
using seenby::test::Process;

void join(Browser& window, const std::string& url, const std::string& name) {
  window.open(url);
  window.type("#name", name);
  window.click("#join button");
}
/// Answers whatever is asked until the match is over; the questions and why each came.
std::set<std::string> play(Browser& window, std::set<std::string>& reasons) {
  std::set<std::string> questions;
  const auto text = [&] {
    return window.run("return document.getElementById('question').textContent").get<std::string>();
  };
  Browser::wait_for(
      [&] {
        const std::string now = text();
        if (now.starts_with("No. ") && questions.insert(now).second) {
          reasons.insert(window.run("return document.getElementById('reason').textContent").get<std::string>());
          window.run("document.querySelector('#answers button').click()");
        }
        return now.find("over") != std::string::npos || now.find("done") != std::string::npos ||
               now.find("left") != std::string::npos;
      },
      "the end of the match", std::chrono::seconds{40});
  return questions;
}

}  // namespace

TEST_CASE("Two windows play matches of questions that neither has had, until the pool runs dry",
          "[web][000-01][000-12]") {
  Process server({SEENBY_BINARY_DIR "/bin/example_web_quiz", "--port", "0", "--questions", "7"});
  const std::string url = server.line();
  REQUIRE(url.starts_with("http://127.0.0.1:"));
  Browser ann;
  Browser ben(500, 800);
  std::set<std::string> all;
  std::set<std::string> reasons;
  for (int match = 0; match < 2; ++match) {
    join(ann, url, "ann");
    join(ben, url, "ben");
    ann.wait_until("return document.querySelectorAll('#answers button').length === 4");
    const auto hers = play(ann, reasons);
    const auto his = play(ben, reasons);
    CHECK(hers == his);
    CHECK(hers.size() == 5);
    for (const std::string& question : hers) CHECK(all.insert(question).second);  // nobody gets one twice
  }
  // Seven in the pool and three in the reserve: ten questions in two matches.
  CHECK(all.size() == 10);
  CHECK(reasons == std::set<std::string>{"from the reserve", "new to both of you"});
  seenby::test::keep_screenshot(ann, "quiz");
  join(ann, url, "ann");
  join(ben, url, "ben");
  ann.wait_until("return document.getElementById('question').textContent.startsWith('No questions are left')");
  CHECK(ann.run("return [...document.querySelectorAll('#match dd')].at(-1).textContent") == "yes");
  CHECK(ben.run("return document.documentElement.scrollWidth <= innerWidth") == true);
  CHECK(ann.console_errors().empty());
  CHECK(ben.console_errors().empty());
  CHECK(server.end(SIGTERM) == 0);
}
