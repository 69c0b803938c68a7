#pragma once
// SPDX-License-Identifier: MIT
// The creator marketplace's feed: what is returned is not seen, what the browser reports visible is. Where its parts
// are, a Backend says (backends.hpp).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <seenby/ingest/ingest_metrics.hpp>
#include <seenby/ingest/ingestor.hpp>
#include <seenby/metrics.hpp>
#include <seenby/select/candidate_pool.hpp>
#include <seenby/select/over_fetch.hpp>
#include <seenby/select/seen_filter.hpp>
#include <seenby/token/seen_token.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "../site.hpp"
#include "catalogue.hpp"
#include "options.hpp"

namespace feed {

using seenby::ImpressionEvent;
using web::Answer;
using web::Call;
using web::Json;

/// What a visitor without an account carries in a signed cookie: who they are, and the posts they saw.
struct Visitor {
  std::string user;            ///< empty: anonymous
  std::vector<PostId> seen{};  ///< of an anonymous visitor
};

template <class Backend>
class Feed {
  using History = typename Backend::History;
  using Store = seenby::TimedStore<typename Backend::Store>;
  using Queue = typename Backend::Queue;
  using Pool = seenby::CandidatePool<PostId>;

 public:
  explicit Feed(const Options& options)
      : posts_(options.posts),
        history_(Backend::history(options)),
        filter_(Store(Backend::store(options, policy()), {.log = print}), history_),
        tokens_({.keys = {{.id = 1, .secret = web::secret_of(options.data + "/cookie-secret")}}, .audience = "feed"}),
        trending_(posts_.trending(100)),
        queue_(Backend::queue(options)),
        ingestor_(queue_, history_, filter_.store(), {.wait = std::chrono::milliseconds{200}, .rules = rules_}),
        worker_([this](const std::stop_token& stop) { ingestor_.run(stop); }) {
    filter_.create(anonymous).or_throw();
    filter_.shadow(1);  // an exact set beside every filter: the panel shows the real wrong-hide rate
    filter_.observe({.log = print});
    metrics_.watch(filter_, {{"filter", "feed"}});
    metrics_.watch(ingestor_, {{"filter", "feed"}});
    metrics_.add([this](seenby::MetricPage& page) {
      page.gauge("feed_queue_waiting_events", "Events between browser and filter.", Backend::waiting(queue_));
    });
  }

  // The calls of the page

  Answer page(const Call& call) {
    const Visitor visitor = visitor_of(call);
    const std::size_t limit = std::min<std::size_t>(call.body.at("limit").get<std::size_t>(), 50);
    std::vector<seenby::Digest> shown;
    for (const Json& id : call.body.at("have")) shown.push_back(filter_.store().hasher()(id_of(id)));
    for (const PostId id : visitor.seen) shown.push_back(filter_.store().hasher()(id));

    // Over-fetch, drop what was seen, rerank, cut. The longer the list of what was seen, the more is fetched.
    const std::string user = visitor.user.empty() ? anonymous : visitor.user;
    const std::size_t fetched = seenby::over_fetch({.page = 2 * limit, .hide_rate = hide_rate_of(visitor.user)});
    const Pool discovery(posts_.discovery(user, fetched));
    const auto selected = filter_.select_unseen(
        discovery, {user}, {.limit = 2 * limit, .relax = {seenby::NextPool{trending_}}, .also_seen = shown});
    note_hide_rate(visitor.user, selected.hide_rate());

    std::vector<std::size_t> order(selected.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    feed::spread_creators(posts_, order, [&](std::size_t i) { return selected[i].item; });
    order.resize(std::min(order.size(), limit));
    Json items = Json::array();
    for (const std::size_t i : order) items.push_back(card(selected[i]));
    Json answer = behind(visitor);
    answer["items"] = std::move(items);
    answer["page"] = {{"candidates fetched", discovery.size()},
                      {"duplicates dropped", selected.duplicates()},
                      {"seen, removed", selected.removed()},
                      {"from trending", count_from_trending(selected, order)},
                      {"shown", order.size()}};
    return {.body = std::move(answer)};
  }

  Answer impressions(const Call& call) {
    if (call.body.at("version") != 1) throw web::Refused(400, "expected impressions of version 1");
    Visitor visitor = visitor_of(call);
    std::vector<PostId> seen;
    std::vector<ImpressionEvent> events;
    for (const Json& each : call.body.at("events")) {
      const ImpressionEvent reported{.id = each.at("id").get<std::string>(),
                                     .user = visitor.user,
                                     .item = each.at("item").get<std::string>(),
                                     .at = seenby::Time{std::chrono::seconds{each.at("at").get<std::int64_t>()}},
                                     .anonymous = visitor.user.empty(),
                                     .visible_ms = each.at("visible_ms").get<std::uint32_t>(),
                                     .visible_percent = each.at("visible_percent").get<std::uint32_t>(),
                                     .surface = each.at("surface").get<std::string>()};
      if (!reported.anonymous) {
        if (const auto valid = validate(reported, rules_, seenby::system_time()); !valid) {
          throw web::Refused(400, valid.error().message);
        }
      }
      if (!rules_.is_sight(reported)) continue;
      const PostId id = id_of(each.at("item"));
      seen.push_back(id);
      events.push_back(reported);
    }
    if (visitor.user.empty()) {
      visitor.seen.insert(visitor.seen.end(), seen.begin(), seen.end());
      return {.body = behind(visitor), .set_cookies = {web::cookie("seen", sealed(visitor))}};
    }
    // Kept before the answer says so; the worker brings it into the filters, and the overlay hides it until then.
    sent_twice_ += Backend::submit(history_, queue_, events);
    filter_.mark_in_flight(visitor.user, seen);
    return {.body = behind(visitor), .status = 202};
  }

  Answer hide(const Call& call, bool hidden) {
    const Visitor visitor = visitor_of(call);
    if (visitor.user.empty()) throw web::Refused(401, "Log in first: what you hide is kept with your name.");
    const PostId id = id_of(call.body.at("item"));
    (hidden ? filter_.hide(visitor.user, id) : filter_.unhide(visitor.user, id)).or_throw();
    return {.body = behind(visitor)};
  }

  /// Whatever the visitor saw before is the user's from now on.
  Answer login(const Call& call) {
    const auto name = call.body.at("name").get<std::string>();
    if (name.empty() || name.size() > 64) throw web::Refused(400, "expected a name of 1 to 64 characters");
    const Visitor before = visitor_of(call);
    filter_.create(name).or_throw();
    if (!before.seen.empty()) filter_.record_all(name, before.seen).or_throw();
    const Visitor visitor{.user = name};
    return {.body = behind(visitor), .set_cookies = {web::cookie("seen", sealed(visitor))}};
  }
  Answer logout(const Call&) { return {.body = behind({}), .set_cookies = {web::cookie("seen", "")}}; }
  Answer status(const Call& call) { return {.body = behind(visitor_of(call))}; }
  [[nodiscard]] std::string metrics() const { return metrics_.text(); }

 private:
  /// Has seen nothing, ever: what an anonymous visitor saw is in their cookie. No account's name is empty.
  static constexpr const char* anonymous = "";

  static void print(const seenby::LogLine& line) {
    std::fprintf(stderr, "%.*s failed: %.*s\n", static_cast<int>(line.call.size()), line.call.data(),
                 static_cast<int>(line.text.size()), line.text.data());
  }
  static seenby::StorePolicy policy() {
    return {.wrong_hide_rate = 0.01, .window = std::chrono::hours{24 * 30}, .slices = 6};
  }
  [[nodiscard]] PostId id_of(const Json& text) const {
    const PostId id = std::strtoull(text.get<std::string>().c_str(), nullptr, 10);
    if (!posts_.contains(id)) throw web::Refused(400, "expected the id of a post");
    return id;
  }

  // The cookie: a kind, then a name or the posts as 16-bit numbers.
  [[nodiscard]] std::string sealed(const Visitor& visitor) const {
    std::vector<std::byte> bytes{static_cast<std::byte>(visitor.user.empty() ? 0 : 1)};
    for (const char letter : visitor.user) bytes.push_back(static_cast<std::byte>(letter));
    const std::size_t most = 1'000;  // the newest: a cookie holds four kilobytes
    const std::size_t from = visitor.seen.size() > most ? visitor.seen.size() - most : 0;
    for (std::size_t i = from; i < visitor.seen.size(); ++i) {
      bytes.push_back(static_cast<std::byte>(visitor.seen[i]));
      bytes.push_back(static_cast<std::byte>(visitor.seen[i] >> 8));
    }
    return tokens_.seal_bytes(bytes, std::chrono::hours{24 * 30}).or_throw();
  }
  [[nodiscard]] Visitor visitor_of(const Call& call) const {
    const auto found = call.cookies.find("seen");
    if (found == call.cookies.end()) return {};
    const auto bytes = tokens_.open_bytes(found->second);
    if (!bytes || bytes->empty()) return {};  // forged or expired: a new visitor
    Visitor visitor;
    if (bytes->front() == std::byte{1}) {
      for (std::size_t i = 1; i < bytes->size(); ++i) visitor.user.push_back(static_cast<char>((*bytes)[i]));
    } else {
      for (std::size_t i = 1; i + 1 < bytes->size(); i += 2) {
        visitor.seen.push_back(std::to_integer<PostId>((*bytes)[i]) | std::to_integer<PostId>((*bytes)[i + 1]) << 8);
      }
    }
    return visitor;
  }

  [[nodiscard]] Json card(const auto& pick) const {
    const feed::Post& post = posts_[pick.item];
    return {{"id", std::to_string(post.id)},
            {"title", post.title},
            {"creator", post.creator},
            {"topic", post.topic},
            {"picture", post.topic.substr(0, 1)},
            {"tall", post.tall},
            {"pool", pick.pool == 0 ? "discovery" : "trending"},
            {"reason", to_string(pick.reason)}};
  }
  [[nodiscard]] static std::size_t count_from_trending(const auto& selected, const std::vector<std::size_t>& order) {
    return static_cast<std::size_t>(
        std::count_if(order.begin(), order.end(), [&](std::size_t i) { return selected[i].pool != 0; }));
  }

  /// What happens behind the page.
  [[nodiscard]] Json behind(const Visitor& visitor) const {
    const auto counters = filter_.counters();
    const auto ingested = ingestor_.counters();
    Json hidden = Json::array();
    std::uint64_t items = visitor.seen.size();
    if (!visitor.user.empty()) {
      for (const PostId id : filter_.template hidden<PostId>(visitor.user).or_throw()) {
        hidden.push_back({{"id", std::to_string(id)}, {"title", posts_[id].title}});
      }
      items = history_.item_count(visitor.user, seenby::Time{}).or_throw();
    }
    const auto rate = [](std::uint64_t part, std::uint64_t whole) {
      char text[32];
      std::snprintf(text, sizeof text, "%.2f%%",
                    whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
      return std::string(text);
    };
    const auto behind = ingestor_.staleness();
    return {{"user", visitor.user},
            {"hidden", std::move(hidden)},
            {"filter",
             {{"posts you have seen", items},
              {"kept in", visitor.user.empty() ? "your cookie" : "a filter"},
              {"wrongly hidden, all users", rate(counters.shadow_wrong_hides, counters.shadow_fresh)},
              {"allowed", "1.00%"},
              {"seen posts shown again", counters.shadow_false_negatives}}},
            {"ingest",
             {{"waiting", Backend::waiting(queue_)},
              {"behind", behind > std::chrono::hours{1} ? "not started" : std::to_string(behind.count()) + " s"},
              {"recorded", ingested.recorded},
              {"sent twice", sent_twice_ + (Backend::appends_first ? 0 : ingested.duplicates)}}}};
  }

  // The hide rate of a user's last page decides how much the next one fetches.
  [[nodiscard]] double hide_rate_of(const std::string& user) {
    const std::lock_guard lock(rates_mutex_);
    const auto found = rates_.find(user);
    return std::clamp(found == rates_.end() ? 0.5 : found->second, 0.3, 0.9);
  }
  void note_hide_rate(const std::string& user, double rate) {
    const std::lock_guard lock(rates_mutex_);
    rates_[user] = rate;
  }

  feed::Catalogue posts_;
  History history_;
  seenby::SeenFilter<Store, History> filter_;
  seenby::SeenTokens tokens_;
  Pool trending_;
  /// Half of a card for a second; the browser asks less of cards that are larger than the screen.
  seenby::ImpressionRules rules_{.min_visible_ms = 900, .min_visible_percent = 10};
  std::atomic<std::uint64_t> sent_twice_{0};
  Queue queue_;
  seenby::Ingestor<Queue, History, Store> ingestor_;
  std::mutex rates_mutex_;
  std::unordered_map<std::string, double> rates_;
  seenby::Metrics metrics_;
  std::jthread worker_;
};

/// Serves until SIGINT or SIGTERM.
template <class Backend>
int run(int count, char** arguments) try {
  web::hold_stop_signals();
  const Options options = parse(count, arguments);
  std::filesystem::create_directories(options.data);
  Feed<Backend> feed(options);
  web::Site site({WEB_FOLDER "/feed", WEB_FOLDER});
  site.post("/api/page", [&](const Call& call) { return feed.page(call); });
  site.post("/api/impressions", [&](const Call& call) { return feed.impressions(call); });
  site.post("/api/hide", [&](const Call& call) { return feed.hide(call, true); });
  site.post("/api/unhide", [&](const Call& call) { return feed.hide(call, false); });
  site.post("/api/login", [&](const Call& call) { return feed.login(call); });
  site.post("/api/logout", [&](const Call& call) { return feed.logout(call); });
  site.get("/api/status", [&](const Call& call) { return feed.status(call); });
  site.text("/metrics", [&] { return feed.metrics(); });
  return site.run(options.port) ? 0 : 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "feed: %s\n", failure.what());
  return 1;
}

}  // namespace feed
