// SPDX-License-Identifier: MIT
// Short codes for URLs: a code that the set of all codes does not hold is free without a look into storage; one that it
// may hold is looked up. Many servers share the set where a Redis is given.
//   redis_shortener         the set is in this process
//   redis_shortener URL     it is a SharedSet on that server: redis://127.0.0.1:6379
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <seenby/filters/bloom_filter.hpp>
#include <seenby/hash.hpp>
#include <seenby/redis/shared_set.hpp>
#include <string>
#include <unordered_map>
#include <utility>

namespace {

/// Adds a code to the set of all codes. True: it was certainly not there before.
using AddCode = std::function<seenby::Result<bool>(const std::string&)>;

constexpr std::uint64_t expected = 20'000;

AddCode in_memory() {
  auto codes = std::make_shared<seenby::BloomFilter<std::string>>(
      seenby::BloomFilterOptions{.expected_items = expected, .target_fpr = 0.01});
  return [codes](const std::string& code) -> seenby::Result<bool> {
    const bool fresh = !codes->may_contain(code);
    codes->insert(code);
    return fresh;
  };
}

AddCode in_redis(const char* url) {
  auto codes = std::make_shared<seenby::redis::SharedSet<std::string>>(
      seenby::redis::make_executor(url).or_throw(), "short codes",
      seenby::redis::SharedSetOptions{.expected_items = expected});
  codes->create().or_throw();
  return [codes](const std::string& code) { return codes->add(code); };
}

class Shortener {
 public:
  explicit Shortener(AddCode add_code) : add_code_(std::move(add_code)) {}

  /// Five letters of the URL's hash; the next five where another URL has them.
  std::string shorten(const std::string& url) {
    for (std::uint64_t attempt = 0;; ++attempt) {
      const std::string code = code_of(url, attempt);
      const auto certainly_free = add_code_(code);
      // A set that cannot be asked costs a look-up, not the code.
      if (!certainly_free || !*certainly_free) {
        ++storage_reads;
        const auto taken = storage_.find(code);
        if (taken != storage_.end() && taken->second == url) return code;
        if (taken != storage_.end()) {
          ++collisions;
          continue;
        }
      }
      // Storage's unique key has the last word: where many servers write, an insert that it refuses tries on.
      storage_.emplace(code, url);
      return code;
    }
  }
  std::uint64_t storage_reads = 0;
  std::uint64_t collisions = 0;

 private:
  static std::string code_of(const std::string& url, std::uint64_t attempt) {
    constexpr char letters[] = "0123456789abcdefghijklmnopqrstuv";
    std::uint64_t bits = seenby::Xxh3Hash{attempt}(url).value;
    std::string code;
    for (int i = 0; i < 5; ++i, bits >>= 5U) code.push_back(letters[bits & 31U]);
    return code;
  }
  AddCode add_code_;
  std::unordered_map<std::string, std::string> storage_;
};

}  // namespace

int main(int count, char** arguments) {
  Shortener shortener(count > 1 ? in_redis(arguments[1]) : in_memory());
  const auto url = [](int i) { return "https://example.org/page/" + std::to_string(i); };
  for (int i = 0; i < 20'000; ++i) (void)shortener.shorten(url(i));
  std::printf("20,000 URLs: %llu looked up in storage, %llu codes that another URL had\n",
              static_cast<unsigned long long>(shortener.storage_reads),
              static_cast<unsigned long long>(shortener.collisions));
  shortener.storage_reads = 0;
  const bool same = shortener.shorten(url(7)) == shortener.shorten(url(7));
  std::printf("one of them twice more: %s, %llu looked up\n", same ? "the same code" : "another code",
              static_cast<unsigned long long>(shortener.storage_reads));
}
