// SPDX-License-Identifier: MIT
// Three crawlers that follow links: one that the set of all links certainly does not hold is fetched without a look
// into the store of pages; one that it may hold is confirmed there. Crawlers on many machines share a set in Redis.
//   redis_crawler               the set is in this process
//   redis_crawler URL           a SharedSet on that server: redis://127.0.0.1:6379
//   redis_crawler URL bloom     a key of its RedisBloom module
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <seenby/filters/bloom_filter.hpp>
#include <seenby/redis/shared_bloom_set.hpp>
#include <seenby/redis/shared_set.hpp>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

/// Adds a link to the set of all links. True: it was certainly not there before.
using AddLink = std::function<seenby::Result<bool>(std::uint64_t)>;

constexpr std::uint64_t pages = 5'000;

AddLink in_memory() {
  struct Links {
    std::mutex mutex;
    seenby::BloomFilter<std::uint64_t> set{{.expected_items = pages, .target_fpr = 0.01}};
  };
  auto links = std::make_shared<Links>();
  return [links](std::uint64_t link) -> seenby::Result<bool> {
    const std::lock_guard lock(links->mutex);
    return links->set.insert_if_absent(link);
  };
}

template <class Set, class Options>
AddLink in_redis(const char* url, Options options) {
  auto links = std::make_shared<Set>(seenby::redis::make_executor(url).or_throw(), "crawled", options);
  links->create().or_throw();
  return [links](std::uint64_t link) { return links->add(link); };
}

/// A made-up web: every page links to three others, and all can be reached from page 0.
std::array<std::uint64_t, 3> links_on(std::uint64_t page) {
  return {(page + 1) % pages, (page * 7 + 3) % pages, (page * 31 + 11) % pages};
}

/// Links to follow, and the pages that are stored: a database in a real crawler.
class Store {
 public:
  /// False when the page is there, or is being fetched: its unique key decides.
  bool claim(std::uint64_t page) {
    const std::lock_guard lock(mutex_);
    if (!stored_.insert(page).second) return false;
    frontier_.push_back(page);
    return true;
  }
  bool has(std::uint64_t page) {
    const std::lock_guard lock(mutex_);
    ++reads_;
    return stored_.contains(page);
  }
  std::optional<std::uint64_t> next() {
    const std::lock_guard lock(mutex_);
    if (frontier_.empty()) return std::nullopt;
    const std::uint64_t page = frontier_.front();
    frontier_.pop_front();
    return page;
  }
  [[nodiscard]] std::uint64_t size() const { return stored_.size(); }
  [[nodiscard]] std::uint64_t reads() const { return reads_; }

 private:
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> stored_;
  std::deque<std::uint64_t> frontier_;
  std::uint64_t reads_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  using namespace seenby::redis;
  const bool module = count > 2 && std::string(arguments[2]) == "bloom";
  const AddLink add_link =
      count < 2 ? in_memory()
      : module  ? in_redis<SharedBloomSet<std::uint64_t>>(arguments[1], RedisBloomOptions{.capacity = pages})
                : in_redis<SharedSet<std::uint64_t>>(arguments[1], SharedSetOptions{.expected_items = pages});
  Store store;
  std::atomic<std::uint64_t> fetched{0};
  std::atomic<std::uint64_t> spared{0};  // looks into the store
  (void)add_link(0);
  store.claim(0);
  {
    std::vector<std::jthread> crawlers;
    for (int i = 0; i < 3; ++i) {
      crawlers.emplace_back([&] {
        // Until every page that was claimed is fetched: another crawler may be finding links.
        while (fetched < pages) {
          const auto page = store.next();
          if (!page) {
            std::this_thread::yield();
            continue;
          }
          for (const std::uint64_t link : links_on(*page)) {
            const auto certainly_new = add_link(link);
            // A set that cannot be asked costs a look, not the page.
            const bool looks = !certainly_new || !*certainly_new;
            spared += looks ? 0U : 1U;
            if (!looks || !store.has(link)) store.claim(link);
          }
          ++fetched;
        }
      });
    }
  }
  const std::uint64_t links = 3 * fetched;
  std::printf("%llu links on %llu pages, each fetched once: %s\n", static_cast<unsigned long long>(links),
              static_cast<unsigned long long>(store.size()), fetched == store.size() ? "yes" : "no");
  // Of the new links at most one in a hundred is taken for an old one.
  const bool screened = spared + store.reads() == links && spared > pages - pages / 50 && spared < pages;
  std::printf("looks into the store spared for at least 98%% of the new links: %s\n", screened ? "yes" : "no");
  return fetched == pages && screened ? 0 : 1;
}
