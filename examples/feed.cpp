// SPDX-License-Identifier: MIT
// A creator marketplace's feed: what is returned is not seen; what the client reports visible is.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <seenby/seenby.hpp>
#include <string>
#include <vector>

namespace {

using Media = std::uint64_t;
using User = std::string;
using Impressions = seenby::MemoryHistory<User, Media>;
using Feed = seenby::SeenFilter<seenby::MemoryStore<User>, Impressions>;
using Pool = seenby::CandidatePool<Media>;

constexpr std::size_t page_size = 20;
constexpr std::size_t fetched = 100;  // over-fetch: five candidates for every place on the page

/// What a client reports: this user had this media on the screen. Anonymous users have no name.
struct Impression {
  User user;
  Media media;
};

/// A stream between the API and the worker.
class ImpressionStream {
 public:
  /// The API's side. Until the worker has come round, the item is hidden as in flight.
  void report(Feed& feed, const Impression& impression) {
    if (impression.user.empty()) return;  // no user to record it for
    feed.mark_in_flight(impression.user, std::vector<Media>{impression.media});
    queue_.push_back(impression);
  }
  /// The worker's side: one batched write a user; the durable log first, then the filter.
  void drain(Feed& feed) {
    std::map<User, std::vector<Media>> by_user;
    for (const Impression& impression : queue_) by_user[impression.user].push_back(impression.media);
    queue_.clear();
    for (const auto& [user, media] : by_user) feed.record_all(user, media).or_throw();
    std::printf("worker: %zu batched writes\n", by_user.size());
  }

 private:
  std::deque<Impression> queue_;
};

/// The ranker's discovery candidates: ids from `first` on, a few of them twice, as when pools overlap.
Pool discovery(Media first) {
  std::vector<Media> media;
  for (Media id = first; media.size() < fetched; ++id) {
    media.push_back(id);
    if (id % 10 == 0) media.push_back(id);
  }
  media.resize(fetched);
  return Pool(std::move(media));
}

/// Builds a page: duplicates out, seen out, the trending pool where discovery is thin, then no creator three times in
/// a row.
std::vector<Media> build_page(const Feed& feed, const User& user, const Pool& candidates, const Pool& trending) {
  const auto page = feed.select_unseen(candidates, {user}, {.limit = page_size, .relax = {seenby::NextPool{trending}}});
  std::vector<Media> media;
  std::size_t from_trending = 0;
  for (const auto& pick : page) {
    media.push_back(pick.item);
    from_trending += pick.pool;
  }
  const auto creator = [](Media id) { return id / 7; };
  for (std::size_t i = 2; i < media.size(); ++i) {
    if (creator(media[i]) != creator(media[i - 1]) || creator(media[i]) != creator(media[i - 2])) continue;
    const auto other = std::find_if(media.begin() + static_cast<std::ptrdiff_t>(i), media.end(),
                                    [&](Media id) { return creator(id) != creator(media[i]); });
    if (other != media.end()) std::rotate(media.begin() + static_cast<std::ptrdiff_t>(i), other, other + 1);
  }
  std::printf("page for %s: %zu items (%zu duplicates out, %zu seen out, %zu from trending), first %llu\n",
              user.c_str(), media.size(), page.duplicates(), page.removed(), from_trending,
              static_cast<unsigned long long>(media.front()));
  return media;
}

std::size_t still_there(const std::vector<Media>& page, const std::vector<Media>& next) {
  return static_cast<std::size_t>(std::count_if(
      page.begin(), page.end(), [&](Media id) { return std::find(next.begin(), next.end(), id) != next.end(); }));
}

}  // namespace

int main() {
  Impressions impressions;  // the durable log
  // Thirty days, in slices of five: an active user's old views fade instead of staying for ever.
  Feed feed(seenby::MemoryStore<User>{{.wrong_hide_rate = 0.01, .window = std::chrono::hours(30 * 24), .slices = 6}},
            impressions);
  feed.create("ann").or_throw();
  const Pool candidates = discovery(1'000);
  const Pool trending(std::vector<Media>{1'003, 5'001, 5'002, 5'003, 5'004, 5'005, 5'006, 5'007, 5'008, 5'009});

  ImpressionStream stream;
  const auto first = build_page(feed, "ann", candidates, trending);
  for (std::size_t i = 0; i < 5; ++i) stream.report(feed, {"ann", first[i]});  // ann scrolls past five and leaves
  stream.report(feed, {"", first[6]});                                         // a visitor without an account

  const auto refreshed = build_page(feed, "ann", candidates, trending);  // before the worker has come round
  stream.drain(feed);
  const auto second = build_page(feed, "ann", candidates, trending);
  std::printf("of 20 returned and 5 seen, %zu came back at once and %zu after the worker\n",
              still_there(first, refreshed), still_there(first, second));

  // ann goes on until discovery has nothing new.
  for (std::size_t i = 0; i < candidates.size(); i += 8) {
    for (std::size_t j = i; j < std::min(i + 8, candidates.size()); ++j) stream.report(feed, {"ann", candidates[j]});
  }
  stream.drain(feed);
  build_page(feed, "ann", candidates, trending);
  std::printf("underfilled pages: %llu\n", static_cast<unsigned long long>(feed.counters().underfilled_pages));
}
