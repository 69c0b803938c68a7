// SPDX-License-Identifier: MIT
// Visitors without an account: what a session has seen travels in a signed cookie, and the server keeps nothing.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <seenby/filters/bloom_filter.hpp>
#include <seenby/token/seen_token.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Session = seenby::BloomFilter<std::uint64_t>;

/// Keys come from your secret store; this one is for the example alone.
seenby::SeenTokenOptions options(const seenby::Time& now) {
  return {.keys = {{.id = 1, .secret = std::vector<std::byte>(32, std::byte{42})}},
          .audience = "quiz.example",
          .clock = [&now] { return now; }};
}

/// One request: the cookie that came (or none), a page of questions, and the cookie to send back.
std::string serve(const seenby::SeenTokens& tokens, std::string_view cookie) {
  Session seen({.expected_items = 60, .target_fpr = 0.01});
  if (cookie.empty()) {
    std::printf("new visitor:");
  } else if (auto session = tokens.open<Session>(cookie)) {
    std::printf("cookie accepted:");
    seen = *std::move(session);
  } else {
    // Whatever is wrong with it, the visitor starts with an empty filter: repeats, not errors.
    const auto why = to_string(session.error().code);
    std::printf("cookie %.*s:", static_cast<int>(why.size()), why.data());
  }
  int shown = 0;
  for (std::uint64_t question = 1; shown < 5; ++question) {
    if (seen.may_contain(question)) continue;
    std::printf(" %llu", static_cast<unsigned long long>(question));
    seen.insert(question);
    ++shown;
  }
  std::string next = tokens.seal(seen, 24h).value();
  std::printf(" (%zu characters)\n", next.size());
  return next;
}

}  // namespace

int main() {
  seenby::Time now{1'700'000'000s};
  const seenby::SeenTokens tokens(options(now));
  const std::string first = serve(tokens, "");
  const std::string second = serve(tokens, first);
  serve(tokens, second);

  std::string tampered = second;
  tampered[40] = tampered[40] == 'A' ? 'B' : 'A';
  serve(tokens, tampered);

  now += 25h;
  serve(tokens, second);
}
