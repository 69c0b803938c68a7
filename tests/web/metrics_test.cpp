// SPDX-License-Identifier: MIT
// The feed's /metrics, as a real Prometheus scrapes it; the alert rules and the dashboard beside it.

#include <httplib.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "seenby_test_paths.hpp"
#include "support/browser.hpp"
#include "support/feed_page.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using namespace seenby::test;

const std::string monitoring = SEENBY_SOURCE_DIR "/examples/web/monitoring";

std::string content(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}
int port_of(const std::string& url) { return std::stoi(url.substr(url.rfind(':') + 1)); }

/// A Prometheus of the test's own that scrapes one address every two seconds: a scrape that takes longer has failed.
class Prometheus {
 public:
  explicit Prometheus(int target) : port_(Browser::free_port()) {
    std::ofstream(folder_.path("prometheus.yml"))
        << "global: {scrape_interval: 2s, scrape_timeout: 2s}\n"
        << "rule_files: [" << monitoring << "/alerts.yml]\n"
        << "scrape_configs: [{job_name: feed, static_configs: [{targets: ['127.0.0.1:" << target << "']}]}]\n";
    process_ = std::make_unique<Process>(std::vector<std::string>{
        "prometheus", "--config.file=" + folder_.path("prometheus.yml"), "--storage.tsdb.path=" + folder_.path("data"),
        "--web.listen-address=127.0.0.1:" + std::to_string(port_), "--log.level=error"});
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
    Browser::wait_for([&] { return get("/-/ready").has_value(); }, "Prometheus to be ready", 60s);
  }
  /// The value of an instant query that gives one sample.
  std::optional<double> query(const std::string& expression) {
    const auto reply = get("/api/v1/query?query=" + httplib::detail::encode_query_param(expression));
    if (!reply) return std::nullopt;
    const Json result = Json::parse(*reply).at("data").at("result");
    if (result.size() != 1) return std::nullopt;
    return std::stod(result[0].at("value")[1].get<std::string>());
  }
  std::optional<std::string> get(const std::string& path) {
    const auto reply = client_->Get(path);
    return reply && reply->status == 200 ? std::optional(reply->body) : std::nullopt;
  }

 private:
  TemporaryFolder folder_;
  int port_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<httplib::Client> client_;
};

std::set<std::string> metrics_named(const std::string& text) {
  static const std::regex name("\\bseenby_[a-z_]+");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), name); at != std::sregex_iterator(); ++at) {
    names.insert(at->str());
  }
  return names;
}

}  // namespace

TEST_CASE("A real Prometheus scrapes the feed, and its figures are the feed's", "[web][metrics]") {
  const TemporaryFolder data;
  FeedServer server(data.path());
  httplib::Client client("127.0.0.1", port_of(server.url()));
  client.set_read_timeout(60s);
  for (int i = 0; i < 3; ++i) {
    const auto page = client.Post("/api/page", R"({"limit":10,"have":[]})", "application/json");
    REQUIRE(page);
    REQUIRE(page->status == 200);
  }
  const auto scraped = client.Get("/metrics");
  REQUIRE(scraped);
  CHECK(scraped->get_header_value("Content-Type") == "text/plain; version=0.0.4");
  Prometheus prometheus(port_of(server.url()));
  // Each is asked until it is so: a scrape that failed on a slow machine takes the figures away until the next.
  const auto becomes = [&](const std::string& expression) {
    Browser::wait_for([&] { return prometheus.query(expression).has_value(); }, expression);
  };
  becomes("seenby_requests_total == 3");
  becomes("up == 1");
  becomes("seenby_request_seconds_count{filter=\"feed\"} == 3");
  becomes("seenby_store_check_seconds_count{filter=\"feed\"} >= 3");
  becomes("histogram_quantile(0.5, seenby_request_seconds_bucket) > 0");
  becomes("feed_queue_waiting_events == 0");
  // Prometheus itself read the alert rules, and none of them failed.
  const auto rules = prometheus.get("/api/v1/rules");
  REQUIRE(rules);
  CHECK(Json::parse(*rules).at("data").at("groups")[0].at("rules").size() == 7);
  CHECK(rules->find("\"health\":\"err\"") == std::string::npos);
}

TEST_CASE("promtool accepts the page, the alert rules and what they fire on", "[web][metrics]") {
  const TemporaryFolder folder;
  FeedServer server(folder.path("data"));
  httplib::Client client("127.0.0.1", port_of(server.url()));
  client.set_read_timeout(60s);
  const auto page = client.Get("/metrics");
  REQUIRE(page);
  std::ofstream(folder.path("page")) << page->body;
  const auto passes = [](const std::string& command) {
    CAPTURE(command);
    return std::system(command.c_str()) == 0;  // NOLINT(cert-env33-c): the commands are this test's own
  };
  CHECK(passes("promtool check metrics < " + folder.path("page")));
  CHECK(passes("promtool check rules " + monitoring + "/alerts.yml"));
  CHECK(passes("promtool check config " + monitoring + "/prometheus.yml"));
  CHECK(passes("promtool test rules " + monitoring + "/alerts_test.yml"));
}

TEST_CASE("Dashboard and alerts name metrics that there are", "[web][metrics]") {
  const std::string dashboard = content(monitoring + "/dashboard.json");
  CHECK(Json::parse(dashboard).at("panels").size() == 13);
  std::string exported = content(SEENBY_SOURCE_DIR "/include/seenby/metrics.hpp");
  exported += content(SEENBY_SOURCE_DIR "/include/seenby/ingest/ingest_metrics.hpp");
  exported += content(SEENBY_SOURCE_DIR "/include/seenby/redis/redis_metrics.hpp");
  exported += content(SEENBY_SOURCE_DIR "/include/seenby/redis/set_counters.hpp");
  exported += content(SEENBY_SOURCE_DIR "/include/seenby/redis/shared_set.hpp");
  const auto known = metrics_named(exported);
  for (std::string name : metrics_named(dashboard + content(monitoring + "/alerts.yml"))) {
    if (name.ends_with("_bucket")) name.resize(name.size() - 7);
    CAPTURE(name);
    CHECK(known.contains(name));
  }
}
