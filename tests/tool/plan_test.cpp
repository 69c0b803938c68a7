// SPDX-License-Identifier: MIT
// The prices that `seenby plan` quotes, against figures worked out by hand.

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "seenby_command.hpp"
#include "support/data.hpp"
#include "support/random.hpp"

using Catch::Approx;
using seenby::test::json_of;
using seenby::test::refused;
using seenby::test::run_seenby;

TEST_CASE("plan gives the textbook figures [000-03]", "[000-03]") {
  const auto plan = json_of({"plan", "--users", "1", "--items", "1000000", "--fpr", "0.01"});
  CHECK(plan["bits"] == 9'585'059);
  CHECK(plan["hash_count"] == 7);
  CHECK(plan["false_positive_rate"] <= 0.01);
  CHECK(plan["false_positive_rate"] > 0.0099);
  CHECK(plan["filter_bits"] >= 9'585'059);
  CHECK(plan["filter_bits"] < 9'700'000);
  CHECK(json_of({"plan", "--items", "1M", "--fpr", "0.1%"})["bits"] == 14'377'588);
}

TEST_CASE("a hundred million users of 2,000 items cost 240 GB against 1.6 TB", "[003-02]") {
  const auto plan = json_of({"plan", "--users", "100M", "--items", "2000", "--fpr", "0.01"});
  CHECK(plan["users"] == 100'000'000);
  CHECK(plan["bytes_per_user"].get<double>() == Approx(2'400).epsilon(0.01));
  CHECK(plan["total_bytes"].get<double>() == Approx(240e9).epsilon(0.01));
  CHECK(plan["exact_bytes_per_user"] == 16'000);
  CHECK(plan["exact_total_bytes"] == 1'600'000'000'000);
  const auto text = run_seenby({"plan", "--users", "100M", "--items", "2000", "--fpr", "0.01"}).out;
  CHECK(text.find("2.40 KB") != std::string::npos);
  CHECK(text.find("240 GB") != std::string::npos);
  CHECK(text.find("1.60 TB") != std::string::npos);
  CHECK(text.find("Every user is taken to be alike") != std::string::npos);
}

TEST_CASE("a window splits the budget over its slices and users", "[003-04]") {
  const auto plan =
      json_of({"plan", "--items", "3000", "--window", "30d", "--slices", "30", "--users-per-request", "2"});
  CHECK(plan["window_seconds"] == 30 * 86'400);
  CHECK(plan["filters_per_user"] == 31);
  CHECK(plan["filter_items"] == 100);
  // 62 filters at this rate together hide 1%: (1 - p)^62 = 0.99.
  CHECK(plan["filter_fpr"].get<double>() == Approx(0.000162088).epsilon(1e-4));
  CHECK(plan["false_positive_rate"] <= 0.01);
  CHECK(plan["bytes_per_user"] == 31 * (plan["filter_bits"].get<std::uint64_t>() / 8));
}

TEST_CASE("the median and the p99 user get their own rates") {
  const auto plan = json_of({"plan", "--items", "40", "--median-items", "40", "--p99-items", "3000"});
  CHECK(plan["median"]["false_positive_rate"] <= 0.01);
  CHECK(plan["p99"]["items"] == 3'000);
  CHECK(plan["p99"]["false_positive_rate"] > 0.99);  // sized by the median: useless for the busy
}

TEST_CASE("the split-block layout keeps its promise too") {
  const auto plan = json_of({"plan", "--items", "2000", "--layout", "split-block"});
  CHECK(plan["hash_count"] == 8);
  CHECK(plan["filter_bits"].get<std::uint64_t>() % 256 == 0);
  CHECK(plan["false_positive_rate"] <= 0.01);
}

TEST_CASE("plan takes users and items from a log") {
  // Users of 1, 2 and 4 items: a median of 2, a p99 of 4.
  const std::string log = "a\tx\t0\nb\tx\t0\nb\ty\t100\nc\tv\t0\nc\tw\t100\nc\tx\t200\nc\ty\t300\n";
  const auto plan = json_of({"plan", "--from", "-"}, log);
  CHECK(plan["users"] == 3);
  CHECK(plan["items"] == 4);
  CHECK(plan["median"]["items"] == 2);
  CHECK(plan["p99"]["items"] == 4);
  CHECK(plan["exact_total_bytes"] == 7 * 8);
  CHECK(plan["grown_total_bytes"] <= plan["total_bytes"]);
  CHECK(json_of({"plan", "--from", "-", "--users", "3M"}, log)["exact_total_bytes"] == 56'000'000);
  CHECK(json_of({"plan", "--from", "-", "--items", "9"}, log)["items"] == 9);
  // Within any 150 s the busiest user saw two items, and the newest of them ends the stretch.
  CHECK(json_of({"plan", "--from", "-", "--window", "150s"}, log)["items"] == 2);
}

TEST_CASE("a repeat is the same item, within a window as in all") {
  CHECK(json_of({"plan", "--from", "-"}, "u1,i1,1\nu1,i1,2\n")["items"] == 1);
  CHECK(json_of({"plan", "--from", "-", "--window", "1h"}, "u1,i1,1\nu1,i1,2\nu1,i2,3\n")["items"] == 2);
  // Seen at 0 and 50, the item is within every 60 s until 110; the second one alone is there with it.
  const std::string log = "u,a,0\nu,a,50\nu,b,100\nu,c,200\nv,a,0\n";
  CHECK(json_of({"plan", "--from", "-", "--window", "60s"}, log)["items"] == 2);
  CHECK(json_of({"plan", "--from", "-", "--window", "40s"}, log)["items"] == 1);
}

TEST_CASE("plan tells what replay measures, with a window and without") {
  const seenby::test::TemporaryFolder folder;
  std::string repeated;  // each of 300 users sees 1 to 60 items, each item three times
  for (int user = 0; user < 300; ++user) {
    for (int i = 0; i < 3 * (1 + user % 60); ++i) {
      repeated.append("u" + std::to_string(user) + "," + std::to_string(i / 3) + "," +
                      std::to_string(1'700'000'000 + i * 7'000 + user * 1'000) + "\n");
    }
  }
  const std::vector<std::string> logs{
      folder.file("made_up", run_seenby({"generate", "--users", "2000", "--events", "20000"}).out),
      folder.file("repeated", repeated)};
  const std::vector<std::vector<std::string>> windows{
      {}, {"--window", "30d", "--slices", "30"}, {"--window", "2d", "--slices", "4"}};
  for (const std::string& log : logs) {
    for (const auto& window : windows) {
      INFO(log << ", window " << (window.empty() ? "none" : window[1]));
      std::vector<std::string> plan{"plan", "--from", log, "--users-per-request", "2"};
      std::vector<std::string> replay{"replay", log, "--users-per-request", "2", "--requests", "10"};
      plan.insert(plan.end(), window.begin(), window.end());
      replay.insert(replay.end(), window.begin(), window.end());
      const auto planned = json_of(plan)["memory_store"];
      const auto measured = json_of(replay);
      const double users = measured["active_users"];
      CHECK(planned["users"] == users);
      for (const char* figure : {"median", "p99", "mean"}) {
        INFO(figure);
        CHECK(planned["bytes_per_user"][figure].get<double>() ==
              Approx(measured["bytes_per_user"][figure].get<double>()).epsilon(0.15));
      }
      CHECK(planned["store_bytes_per_user"].get<double>() * users ==
            Approx(measured["store_bytes"].get<double>()).epsilon(0.15));
    }
  }
}

TEST_CASE("a long log of few users is priced by some of them, never by none") {
  for (const std::uint64_t users : {1U, 3U}) {
    INFO(users << " users");
    std::string log;
    for (std::uint64_t i = 0; i < 2'000'001; ++i) {
      log.append(1, static_cast<char>('a' + i % users))
          .append(",")
          .append(std::to_string(i / users % 1'000))
          .append(",1\n");
    }
    const auto priced = json_of({"plan", "--from", "-"}, log)["memory_store"];
    CHECK(priced["users"] == users);
    CHECK(priced["live_items_per_user"].get<double>() == Approx(1'000.0).epsilon(0.01));
  }
}

TEST_CASE("without a log plan prices users who are all alike as replay measures them") {
  const auto log_of = [](int items, int spread) {
    std::string log;
    for (int i = 0; i < items; ++i) {
      for (int user = 0; user < 200; ++user) {
        log.append("u" + std::to_string(user) + "," + std::to_string(i) + "," +
                   std::to_string(1'700'000'000 + i * spread) + "\n");
      }
    }
    return log;
  };
  const auto close = [](const nlohmann::json& planned, const nlohmann::json& measured) {
    CHECK(planned["memory_store"]["bytes_per_user"]["mean"].get<double>() ==
          Approx(measured["bytes_per_user"]["mean"].get<double>()).epsilon(0.15));
    CHECK(planned["memory_store"]["live_items_per_user"].get<double>() ==
          Approx(measured["live_items"].get<double>() / 200).epsilon(0.15));
  };
  close(json_of({"plan", "--items", "100", "--users-per-request", "2"}),
        json_of({"replay", "-", "--requests", "10"}, log_of(100, 1)));
  // Forty-eight items an hour apart: twenty-four are within a day.
  close(json_of({"plan", "--items", "24", "--window", "1d", "--slices", "6", "--users-per-request", "2"}),
        json_of({"replay", "-", "--requests", "10", "--window", "1d", "--slices", "6"}, log_of(100, 3'600)));
}

TEST_CASE("k and m may be given, and the rates are listed by usage", "[000-16][000-21]") {
  const auto plan = json_of({"plan", "--hashes", "4", "--bits", "2048", "--items", "100"});
  CHECK(plan["hash_count"] == 4);
  CHECK(plan["filter_bits"] == 2'048);
  CHECK(plan["bytes_per_user"] == 256);
  const auto rate_at = [](const nlohmann::json& of, int items) {
    for (const auto& entry : of["rates"]) {
      if (entry["items"] == items) return entry["false_positive_rate"].get<double>();
    }
    return -1.0;
  };
  // (1 - e^(-400/2048))^4 = 0.00099, for a pair twice that.
  CHECK(rate_at(plan, 100) == Approx(0.00099).epsilon(0.03));
  CHECK(rate_at(json_of({"plan", "--hashes", "4", "--bits", "2048", "--items", "100", "--users-per-request", "2"}),
                100) == Approx(0.00198).epsilon(0.03));
  CHECK(rate_at(plan, 200) == Approx(0.0109).epsilon(0.03));
  CHECK(rate_at(plan, 1'000) > 0.5);
  // Half full, 355 items: 6.25% each, 12.1% for the pair of them.
  CHECK(rate_at(json_of({"plan", "--hashes", "4", "--bits", "2048", "--items", "355", "--users-per-request", "2"}),
                355) == Approx(0.121).epsilon(0.01));
  // Without --items: what it holds within the budget.
  const auto capacity = json_of({"plan", "--hashes", "4", "--bits", "2048", "--users-per-request", "2"});
  CHECK(capacity["false_positive_rate"] <= 0.01);
  CHECK(capacity["false_positive_rate"] > 0.0095);
  // A log's percentiles.
  std::string log;
  for (int user = 1; user <= 100; ++user) {
    for (int i = 0; i < user; ++i) { log.append(std::to_string(user) + "," + std::to_string(i) + ",1700000000\n"); }
  }
  const auto used = json_of({"plan", "--from", "-", "--hashes", "4", "--bits", "2048"}, log);
  for (const int items : {50, 90, 99, 100}) {
    INFO(items);
    CHECK(rate_at(used, items) > 0);
  }
  CHECK(refused(run_seenby({"plan", "--hashes", "4"}), "plan: expected --hashes and --bits together"));
  CHECK(refused(run_seenby({"plan", "--hashes", "65", "--bits", "64"}), "--hashes: expected 1 to 64"));
}

TEST_CASE("bare ids are 6.67 times as much at 1%, not ten times", "[003-11]") {
  const auto plan = json_of({"plan", "--users", "100M", "--items", "2000"});
  CHECK(plan["exact_ratio"].get<double>() == Approx(6.67).epsilon(0.005));
  CHECK(run_seenby({"plan", "--users", "100M", "--items", "2000"}).out.find("6.67 times as much") != std::string::npos);
}

TEST_CASE("a cluster is sized by its fullest node, its processors and its network") {
  const std::vector<std::string> base{"plan", "--store", "redis", "--users", "1G", "--items", "100"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return json_of(more)["cluster"];
  };
  const auto cluster = with({"--requests-per-second", "100K"});
  const double value = cluster["value_bytes_per_user"];
  CHECK(value > 100 * 9.6 / 8);
  CHECK(cluster["bytes_per_user"].get<double>() > value);
  CHECK(cluster["memory_bytes"].get<double>() == Approx(2 * 1e9 * cluster["bytes_per_user"].get<double>()));
  CHECK(cluster["network_bytes_per_second"].get<double>() > 100e3 * value);
  CHECK(cluster["largest_node_bytes"].get<double>() <= 16e9);
  CHECK(cluster["nodes"].get<double>() * 16e9 >= 1e9 * value);
  CHECK(with({"--replicas", "0"})["memory_bytes"].get<double>() * 2 == Approx(cluster["memory_bytes"].get<double>()));
  CHECK(with({"--node-memory", "4G"})["nodes"].get<double>() > 3.5 * cluster["nodes"].get<double>());
  CHECK(with({"--requests-per-second", "100K", "--users-per-request", "2"})["network_bytes_per_second"].get<double>() >
        1.9 * cluster["network_bytes_per_second"].get<double>());
  // One table of all slices, whose time to live Redis keeps beside it.
  const auto window = with({"--window", "30d", "--slices", "6"});
  CHECK(window["keys_per_user"] == 1);
  CHECK(window["value_bytes_per_user"].get<double>() > 100 * 24 / 8);
  CHECK(window["bytes_per_user"].get<double>() > window["value_bytes_per_user"].get<double>() + 100);
  // Nothing is asked of it: memory alone decides.
  CHECK(window["cpu_seconds_per_second"] == 0);
  // A small population under many requests: processors decide.
  const auto busy = json_of(
      {"plan", "--store", "redis", "--users", "1K", "--items", "100", "--requests-per-second", "1M"})["cluster"];
  CHECK(busy["nodes"].get<double>() == Approx(busy["cpu_seconds_per_second"].get<double>() / 0.5).epsilon(0.1));
  CHECK_FALSE(json_of({"plan", "--items", "100"}).contains("cluster"));
  CHECK(refused(run_seenby({"plan", "--items", "100", "--replicas", "2"}), "--replicas requires --store"));
  CHECK(run_seenby({"plan", "--items", "100", "--store", "redis"}).out.find("whole values pay up to") !=
        std::string::npos);
}

TEST_CASE("a log's users are priced in Redis each by what they saw") {
  std::string log;
  for (int user = 0; user < 40; ++user) {
    for (int i = 0; i < (user == 0 ? 1'000 : 4); ++i)
      log.append(std::to_string(user) + "," + std::to_string(i) + ",1\n");
  }
  const auto value_of = [](const nlohmann::json& plan) {
    return plan["cluster"]["value_bytes_per_user"].get<double>();
  };
  const double busy = value_of(json_of({"plan", "--store", "redis", "--items", "1000"}));
  const double quiet = value_of(json_of({"plan", "--store", "redis", "--items", "4"}));
  CHECK(value_of(json_of({"plan", "--store", "redis", "--from", "-"}, log)) == Approx((busy + 39 * quiet) / 40));
}

namespace {

/// CRC16 as Redis Cluster uses it (XMODEM: polynomial 0x1021, start 0).
std::uint32_t slot_of(const std::string& key) {
  std::uint32_t crc = 0;
  for (const char c : key) {
    crc ^= static_cast<std::uint32_t>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = ((crc << 1) ^ ((crc & 0x8000U) != 0 ? 0x1021U : 0U)) & 0xFFFFU;
  }
  return crc % 16'384;
}

/// The users of the fullest of so many nodes, each of which has a range of the slots.
std::uint64_t fullest(const std::vector<std::uint64_t>& users_of_slot, std::uint64_t nodes) {
  std::vector<std::uint64_t> on_node(nodes);
  for (std::uint64_t slot = 0; slot < users_of_slot.size(); ++slot) {
    on_node[slot * nodes / users_of_slot.size()] += users_of_slot[slot];
  }
  return *std::max_element(on_node.begin(), on_node.end());
}

}  // namespace

TEST_CASE("the fullest node holds as many users as a simulation of the slots says") {
  REQUIRE(slot_of("123456789") == 0x31C3 % 16'384);  // the published check value
  constexpr std::uint64_t users = 1'000'000;
  std::vector<std::uint64_t> users_of_slot(16'384);
  for (std::uint64_t user = 0; user < users; ++user) ++users_of_slot[slot_of("u" + std::to_string(user))];
  // Nodes small enough that there are about a hundred of them.
  const auto cluster = json_of({"plan", "--store", "redis", "--users", std::to_string(users), "--items", "100",
                                "--node-memory", "5M"})["cluster"];
  const std::uint64_t nodes = cluster["nodes"];
  REQUIRE(nodes > 50);
  const auto most = static_cast<double>(fullest(users_of_slot, nodes));
  CHECK(most <= cluster["largest_node_users"].get<double>() * 1.01);
  CHECK(most > cluster["largest_node_users"].get<double>() * 0.97);
}

TEST_CASE("a billion users' fullest node is as full as a simulation of the slots says") {
  SEENBY_RANDOM(random);
  for (const auto& [node, bytes] : {std::pair{"16G", 16e9}, std::pair{"1G", 1e9}}) {
    const auto cluster =
        json_of({"plan", "--store", "redis", "--users", "1G", "--items", "100", "--node-memory", node})["cluster"];
    const std::uint64_t nodes = cluster["nodes"];
    const double promised = cluster["largest_node_users"];
    INFO(nodes << " nodes");
    // Each slot's users are Poisson: a billion users are too many to hash one by one.
    std::poisson_distribution<std::uint64_t> users_in_slot(1e9 / 16'384);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::uint64_t> users_of_slot(16'384);
      for (std::uint64_t& users : users_of_slot) users = users_in_slot(random);
      const auto most = static_cast<double>(fullest(users_of_slot, nodes));
      CHECK(most <= promised * 1.002);
      CHECK(most > promised * 0.99);
    }
    CHECK(promised * cluster["bytes_per_user"].get<double>() <= bytes);
  }
}

TEST_CASE("plan reads the real log's distribution") {
  const std::filesystem::path path = seenby::test::data_file("movietweetings100k.tsv");
  if (!std::filesystem::exists(path)) SKIP("the real log is not here: " + path.string());
  const auto plan = json_of({"plan", "--from", path.string()});
  CHECK(plan["users"] == 16'554);
  CHECK(plan["median"]["items"] == 2);
  CHECK(plan["p99"]["items"] == 58);
  CHECK(plan["exact_total_bytes"] == 800'000);
}

TEST_CASE("plan refuses nonsense and says what it expected") {
  const std::string rate = "a rate above 0 and below 1 (such as 0.01 or 1%), got ";
  for (const char* fpr : {"0", "1", "-1", "nan", "inf", "1.5", "100%", "x", ""}) {
    INFO(fpr);
    CHECK(refused(run_seenby({"plan", "--items", "10", "--fpr", fpr}), "--fpr: expected " + rate + "'" + fpr + "'"));
  }
  const std::string count = "expected a whole number from 1 to 9000000000G (such as 2000, 10K or 100M), got ";
  for (const char* items : {"0", "-1", "1.5", "0.0001K", "2^60", "many", "K", "1e3", "9000000000000000001",
                            "99999999999999999999", "10000000000G"}) {
    INFO(items);
    CHECK(refused(run_seenby({"plan", "--items", items}), "--items: " + count + "'" + items + "'"));
  }
  CHECK(
      refused(run_seenby({"plan", "--items", "1152921504606846976"}),
              "expected a filter of at most 2^37 bits (16 GiB), but 1152921504606846976 items at fpr 0.01 need more"));
  for (const char* users : {"0", "99999999999999999999"}) {
    INFO(users);
    CHECK(refused(run_seenby({"plan", "--items", "10", "--users", users}), "--users: " + count + "'" + users + "'"));
  }
  CHECK(
      refused(run_seenby({"plan", "--items", "1G", "--users", "9000000000G"}), "--users: expected a total below 2^63"));
  for (const char* window : {"0d", "-3d", "30", "30x", "d", "99999999w"}) {
    INFO(window);
    CHECK(refused(run_seenby({"plan", "--items", "10", "--window=" + std::string(window)}),
                  "--window: expected a duration"));
  }
  CHECK(refused(run_seenby({"plan", "--items", "10", "--slices", "6"}), "--slices requires --window"));
  CHECK(refused(run_seenby({"plan", "--items", "10", "--users-per-request", "256"}),
                "--users-per-request: expected 1 to 255, got '256'"));
  CHECK(refused(run_seenby({"plan"}), "plan: expected --items N or --from EVENTS, got neither"));
}

TEST_CASE("suffixes and durations mean what they say") {
  CHECK(json_of({"plan", "--items", "2.5K"})["items"] == 2'500);
  CHECK(json_of({"plan", "--items", "10", "--users", "3b"})["users"] == 3'000'000'000);
  CHECK(json_of({"plan", "--items", "10", "--users", "3G"})["users"] == 3'000'000'000);
  CHECK(json_of({"plan", "--items", "10", "--window", "12h"})["window_seconds"] == 43'200);
  CHECK(json_of({"plan", "--items", "10", "--window", "2w"})["window_seconds"] == 1'209'600);
  CHECK(json_of({"plan", "--items", "10", "--window", "15m"})["window_seconds"] == 900);
}
