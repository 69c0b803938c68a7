// SPDX-License-Identifier: MIT
// load URL: requests of a feed's clients, all at once; ends with 1 where an answer is wrong.
// Each client is a user of its own: it asks for a page, reports what is on it as seen, and asks again. What it reported
// must not come back, and what another user reported must not be missing.
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int clients = 8;
constexpr int users_a_client = 20;
constexpr int pages = 3;
std::atomic<int> requests{0};
std::atomic<int> wrong{0};

void expect(bool holds, const char* what, const std::string& got) {
  if (holds) return;
  if (wrong++ < 10) std::fprintf(stderr, "expected %s, got %s\n", what, got.c_str());
}
std::string body_of(const httplib::Result& answer, int status, const char* what) {
  ++requests;
  const bool right = answer && answer->status == status;
  expect(right, what, answer ? std::to_string(answer->status) + " " + answer->body : "no answer");
  return right ? answer->body : std::string{};
}

void visit(httplib::Client& client, const std::string& user) {
  const std::string path = "/users/" + user;
  (void)body_of(client.Post(path), 201, "a new user to be created");
  std::set<std::string> seen;
  for (int page = 0; page < pages; ++page) {
    const std::string text = body_of(client.Get(path + "/feed?strict=1"), 200, "a page");
    std::istringstream words(text);
    std::vector<std::string> items;
    for (std::string word; words >> word;) items.push_back(word);
    // One fresh item in a hundred may be hidden: ten of a hundred candidates are there all the same.
    expect(items.size() == 10, "ten items", text);
    if (page == 0) expect(!items.empty() && items.front() == "1", "a new user's page to start at the best item", text);
    for (const std::string& item : items) {
      expect(!seen.contains(item), "no item that was seen", item);
      (void)body_of(client.Post(path + "/seen?item=" + item), 200, "a record");
      seen.insert(item);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int number = 0; number < clients; ++number) {
    threads.emplace_back([number, url = std::string(argv[1])] {
      httplib::Client client(url);
      client.set_keep_alive(true);
      client.set_tcp_nodelay(true);
      for (int user = 0; user < users_a_client; ++user) {
        visit(client, "u" + std::to_string(number) + "x" + std::to_string(user));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%d requests in %.1f s, %.0f a second, %d wrong\n", requests.load(), took.count(),
              requests / took.count(), wrong.load());
  return wrong == 0 ? 0 : 1;
}
