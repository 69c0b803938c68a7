// SPDX-License-Identifier: MIT
// The web quiz in two browser windows: both get questions that neither has had, and the pool runs dry gracefully.

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "seenby_test_paths.hpp"
#include "support/browser.hpp"

namespace {

using seenby::test::Browser;
using seenby::test::Json;
using seenby::test::Process;

void join(Browser& window, const std::string& url, const std::string& name) {
  window.open(url);
  window.type("#name", name);
  window.click("#join button");
}
/// Answers whatever is asked until the match is over; the questions and why each came.
std::set<std::string> play(Browser& window, std::set<std::string>& reasons) {
  std::set<std::string> questions;
  Browser::wait_for(
      [&] {
        // In one script: between two the page may ask another question.
        const Json asked = window.run(R"(
          const text = document.getElementById('question').textContent;
          const button = document.querySelector('#answers button:enabled');
          const reason = document.getElementById('reason').textContent;
          if (button !== null) button.click();
          return [text, button === null ? '' : reason])");
        const auto now = asked[0].get<std::string>();
        const auto reason = asked[1].get<std::string>();
        if (!reason.empty()) {
          questions.insert(now);
          reasons.insert(reason);
        }
        return now.find("over") != std::string::npos || now.find("done") != std::string::npos ||
               now.find("left") != std::string::npos;
      },
      "the end of the match", std::chrono::seconds{120});
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

TEST_CASE("What the server said before an answer does not bring the old question back after it", "[web]") {
  Process server({SEENBY_BINARY_DIR "/bin/example_web_quiz", "--port", "0", "--questions", "7"});
  const std::string url = server.line();
  REQUIRE(url.starts_with("http://127.0.0.1:"));
  Browser ann;
  Browser ben(500, 800);
  join(ann, url, "ann");
  join(ben, url, "ben");
  ann.wait_until("return document.querySelectorAll('#answers button').length === 4");
  ann.run(R"(
    window.held = [];
    window.late = 0;
    const send = window.fetch;
    window.fetch = async (path, options) => {
      const reply = await send(path, options);
      if (path === '/api/state' && held.length === 0) {
        await new Promise(release => held.push(release));
        setTimeout(() => ++late, 200);
      }
      return reply;
    })");
  ann.wait_until("return held.length === 1");
  const Json old = ann.run(R"(
    const text = document.getElementById('question').textContent;
    document.querySelector('#answers button').click();
    return text)");
  ann.wait_until("return document.getElementById('question').textContent !== " + old.dump());
  // From here on each change of the heading is kept.
  ann.run(R"(
    window.headings = [];
    new MutationObserver(() => headings.push(document.getElementById('question').textContent))
        .observe(document.getElementById('question'), {childList: true});
    held[0]())");
  ann.wait_until("return late === 1");
  CHECK(ann.run("return headings").dump() == "[]");
}
