// SPDX-License-Identifier: MIT
// Short codes for URLs, behind a filter of all codes. A code that it does not hold is free, and a request for one is a
// 404, both without a look into storage; a positive asks storage. Many servers share the filter where a Redis is given.
//   redis_url_shortener               the filter is in this process
//   redis_url_shortener URL           a SharedSet on that server: redis://127.0.0.1:6379
//   redis_url_shortener URL bloom     a key of its RedisBloom module
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <seenby/filters/bloom_filter.hpp>
#include <seenby/hash.hpp>
#include <seenby/redis/shared_bloom_set.hpp>
#include <seenby/redis/shared_set.hpp>
#include <string>
#include <unordered_map>
#include <utility>

namespace {

using Ask = std::function<seenby::Result<bool>(const std::string&)>;

/// The filter of all codes.
struct Codes {
  Ask add;    ///< true: it was certainly not there before
  Ask check;  ///< false: it was never added
};

constexpr std::uint64_t expected = 20'000;

Codes in_memory() {
  auto codes = std::make_shared<seenby::BloomFilter<std::string>>(
      seenby::BloomFilterOptions{.expected_items = expected, .target_fpr = 0.01});
  return {[codes](const std::string& code) -> seenby::Result<bool> { return codes->insert_if_absent(code); },
          [codes](const std::string& code) -> seenby::Result<bool> { return codes->may_contain(code); }};
}

template <class Set>
Codes shared(std::shared_ptr<Set> codes) {
  codes->create().or_throw();
  return {[codes](const std::string& code) { return codes->add(code); },
          [codes](const std::string& code) { return codes->may_contain(code); }};
}

Codes in_redis(const char* url, bool module) {
  using namespace seenby::redis;
  auto executor = make_executor(url).or_throw();
  if (module) {
    return shared(std::make_shared<SharedBloomSet<std::string>>(std::move(executor), "short codes",
                                                                RedisBloomOptions{.capacity = expected}));
  }
  return shared(std::make_shared<SharedSet<std::string>>(std::move(executor), "short codes",
                                                         SharedSetOptions{.expected_items = expected}));
}

class Shortener {
 public:
  explicit Shortener(Codes codes) : codes_(std::move(codes)) {}

  /// Five letters of the URL's hash; the next five where another URL has them.
  std::string shorten(const std::string& url) {
    for (std::uint64_t attempt = 0;; ++attempt) {
      const std::string code = code_of(url, attempt);
      const auto certainly_free = codes_.add(code);
      // A filter that cannot be asked costs a look-up, not the code.
      if (!certainly_free || !*certainly_free) {
        const auto taken = in_storage(code);
        if (taken == url) return code;
        if (taken) {
          ++collisions;
          continue;
        }
      }
      // Storage's unique key has the last word: where many servers write, an insert that it refuses tries on.
      storage_.emplace(code, url);
      return code;
    }
  }
  /// The URL behind a code, or nothing: 404.
  std::optional<std::string> resolve(const std::string& code) {
    const auto known = codes_.check(code);
    if (known && !*known) return std::nullopt;
    return in_storage(code);
  }
  unsigned long long storage_reads = 0;
  unsigned long long collisions = 0;

 private:
  static std::string code_of(const std::string& url, std::uint64_t attempt) {
    constexpr char letters[] = "0123456789abcdefghijklmnopqrstuv";
    std::uint64_t bits = seenby::Xxh3Hash{attempt}(url).value;
    std::string code;
    for (int i = 0; i < 5; ++i, bits >>= 5U) code.push_back(letters[bits & 31U]);
    return code;
  }
  std::optional<std::string> in_storage(const std::string& code) {
    ++storage_reads;
    const auto found = storage_.find(code);
    return found == storage_.end() ? std::nullopt : std::optional(found->second);
  }
  Codes codes_;
  std::unordered_map<std::string, std::string> storage_;
};

}  // namespace

int main(int count, char** arguments) {
  const bool module = count > 2 && std::string(arguments[2]) == "bloom";
  Shortener shortener(count > 1 ? in_redis(arguments[1], module) : in_memory());
  const auto url = [](int i) { return "https://example.org/page/" + std::to_string(i); };
  for (int i = 0; i < 20'000; ++i) (void)shortener.shorten(url(i));
  std::printf("20,000 URLs: %llu looked up in storage, %llu codes that another URL had\n", shortener.storage_reads,
              shortener.collisions);

  shortener.storage_reads = 0;
  const std::string code = shortener.shorten(url(7));
  const bool same = shortener.shorten(url(7)) == code && shortener.resolve(code) == url(7);
  std::printf("one of them twice more: %s, %llu looked up\n", same ? "the same code" : "another code",
              shortener.storage_reads);

  shortener.storage_reads = 0;
  int found = 0;
  for (int i = 0; i < 10'000; ++i) found += shortener.resolve("guess" + std::to_string(i)) ? 1 : 0;
  std::printf("10,000 guessed codes: %d found, %llu looked up in storage\n", found, shortener.storage_reads);
  return same && found == 0 && shortener.storage_reads < 200 ? 0 : 1;
}
