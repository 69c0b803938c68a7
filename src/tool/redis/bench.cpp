// SPDX-License-Identifier: MIT
// seenby bench: how many requests a second a Redis answers from here.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "input_error.hpp"
#include "progress.hpp"
#include "random.hpp"
#include "report.hpp"
#include "seenby/select/seen_filter.hpp"
#include "store_url.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

using Pool = CandidatePool<std::string>;
using Filter = SeenFilter<RedisTextStore>;
using Clock = std::chrono::steady_clock;

struct BenchOptions {
  StoreOptions remote;
  std::string users = "1000";
  std::string items = "200";
  std::string candidates = "100";
  std::string users_per_request = "2";
  std::string requests_per_call = "1";
  std::string seconds = "3s";
  std::string fpr = "0.01";
  bool json = false;
};

struct BenchSettings {
  std::uint64_t users;
  std::uint64_t items;
  std::uint64_t candidates;
  std::uint64_t users_per_request;
  std::uint64_t requests_per_call;
  std::chrono::seconds duration;
};

struct BenchFigures {
  std::uint64_t requests = 0;
  double seconds = 0;
  double median_microseconds = 0;  ///< of a call
  double p99_microseconds = 0;
  std::optional<double> server_cpu_microseconds;  ///< a request; nothing where INFO is not to be had
  std::uint64_t unknown_users = 0;

  [[nodiscard]] double requests_per_second() const { return static_cast<double>(requests) / seconds; }
};

/// The seconds of processor time a server has used, out of INFO cpu.
std::optional<double> server_cpu_seconds(redis::Executor& executor) {
  const auto reply = redis::execute_one(executor, redis::Command::with_key(redis::Command::no_key, "INFO", "cpu"),
                                        redis::Deadline::after(std::chrono::seconds(5)));
  if (!reply || reply->string() == nullptr) return std::nullopt;
  double total = 0;
  for (const std::string_view field : {"used_cpu_sys:", "used_cpu_user:"}) {
    const std::size_t at = reply->string()->find(field);
    if (at == std::string::npos) return std::nullopt;
    total += std::strtod(reply->string()->c_str() + at + field.size(), nullptr);
  }
  return total;
}

std::string user_name(std::uint64_t user) { return "user" + std::to_string(user); }

/// Users' filters that exist as long as this does.
class Population {
 public:
  Population(Filter& filter, const BenchSettings& settings) : filter_(filter) {
    Progress progress("loading", settings.users);
    std::vector<std::string> items(settings.items);
    for (; loaded_ < settings.users; ++loaded_) {
      for (std::uint64_t i = 0; i < settings.items; ++i) {
        items[i] = std::to_string(loaded_ * 7 + i);  // neighbours have most of their items in common
      }
      value_of(filter_.record_all(user_name(loaded_), items));
      progress.update(loaded_);
    }
  }
  ~Population() {
    for (std::uint64_t user = 0; user < loaded_; ++user) {
      if (!filter_.store().forget(user_name(user))) return;  // the keys expire by themselves
    }
    (void)filter_.store().protocol().forget_kind();
  }
  Population(const Population&) = delete;
  Population& operator=(const Population&) = delete;

 private:
  Filter& filter_;
  std::uint64_t loaded_ = 0;
};

/// Draws and answers calls until the time is over.
class Runner {
 public:
  Runner(const Filter& filter, const BenchSettings& settings) : filter_(filter), settings_(settings), random_(1) {
    // A few pools shared by all requests, as a service's cache would hold them.
    for (std::uint64_t p = 0; p < 16; ++p) {
      std::vector<std::string> items;
      for (std::uint64_t i = 0; i < settings.candidates; ++i) items.push_back(std::to_string(p * 431 + i * 17));
      pools_.emplace_back(std::move(items));
    }
    users_.resize(settings.requests_per_call);
    pages_.resize(settings.requests_per_call);
  }

  BenchFigures run() {
    BenchFigures figures;
    std::vector<double> microseconds;
    Progress progress("asking", static_cast<std::uint64_t>(settings_.duration.count()) * 1000);
    const auto start = Clock::now();
    const auto end = start + settings_.duration;
    for (auto now = start; now < end;) {
      draw();
      const auto begin = Clock::now();
      filter_.select_many(requests_, pages_);
      now = Clock::now();
      microseconds.push_back(std::chrono::duration<double, std::micro>(now - begin).count());
      figures.requests += requests_.size();
      figures.seconds += std::chrono::duration<double>(now - begin).count();
      for (const auto& page : pages_) {
        if (page.error()) throw std::runtime_error(page.error()->message);
        figures.unknown_users += page.unknown_users().size();
      }
      progress.update(
          static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - start).count()));
    }
    std::sort(microseconds.begin(), microseconds.end());
    figures.median_microseconds = microseconds[microseconds.size() / 2];
    figures.p99_microseconds = microseconds[microseconds.size() * 99 / 100];
    return figures;
  }

 private:
  void draw() {
    requests_.clear();
    for (auto& users : users_) {
      users.clear();
      for (std::uint64_t u = 0; u < settings_.users_per_request; ++u)
        users.push_back(user_name(random_.below(settings_.users)));
      SelectOptions<std::string> options;
      options.on_unreachable = OnUnknown::fail;
      requests_.emplace_back(pools_[random_.below(pools_.size())], users, std::move(options));
    }
  }

  const Filter& filter_;
  const BenchSettings& settings_;
  Random random_;
  std::vector<Pool> pools_;
  std::vector<std::vector<std::string>> users_;
  std::vector<Filter::Request<std::string>> requests_;
  std::vector<Selection<std::string>> pages_;
};

BenchSettings parse_settings(const BenchOptions& options) {
  return {.users = parse_between("--users", options.users, 100'000'000),
          .items = parse_between("--items", options.items, 10'000'000),
          .candidates = parse_between("--candidates", options.candidates, 1'000'000),
          .users_per_request = parse_between("--users-per-request", options.users_per_request, 255),
          .requests_per_call = parse_between("--requests-per-call", options.requests_per_call, 10'000),
          .duration = parse_duration("--time", options.seconds)};
}

void print(const BenchFigures& figures, const BenchSettings& settings, bool json) {
  const double checks =
      figures.requests_per_second() * static_cast<double>(settings.candidates * settings.users_per_request);
  if (json) {
    nlohmann::ordered_json object{{"requests", figures.requests},
                                  {"requests_per_second", figures.requests_per_second()},
                                  {"checks_per_second", checks},
                                  {"call_microseconds_median", figures.median_microseconds},
                                  {"call_microseconds_p99", figures.p99_microseconds},
                                  {"unknown_users", figures.unknown_users}};
    if (figures.server_cpu_microseconds)
      object["server_cpu_microseconds_per_request"] = *figures.server_cpu_microseconds;
    std::cout << object.dump(2) << '\n';
    return;
  }
  Report report;
  report.heading(with_commas(settings.users_per_request) + (settings.users_per_request == 1 ? " user, " : " users, ") +
                 with_commas(settings.candidates) + " candidates a request, " +
                 with_commas(settings.requests_per_call) +
                 (settings.requests_per_call == 1 ? " request" : " requests") + " a call, one connection");
  report.row("requests a second", with_commas(static_cast<std::uint64_t>(figures.requests_per_second())));
  report.row("checks a second", as_short(checks));
  report.row("a call", "median " + as_short(figures.median_microseconds) + " us, p99 " +
                           as_short(figures.p99_microseconds) + " us");
  if (figures.server_cpu_microseconds)
    report.row("server CPU a request", as_short(*figures.server_cpu_microseconds) + " us");
  if (figures.unknown_users > 0) report.row("unknown users", with_commas(figures.unknown_users) + " (evicted?)");
  std::cout << report;
}

void bench(BenchOptions options) {
  const BenchSettings settings = parse_settings(options);
  options.remote.fpr = options.fpr;
  options.remote.users_per_request = options.users_per_request;
  options.remote.prefix.append("bench:").append(std::to_string(::getpid())).append(":");
  redis::RedisStoreOptions store_options;
  store_options.time_to_live = redis::TimeToLive::fixed;  // should this process die before it removes its keys
  store_options.ttl = std::chrono::hours(1);
  Filter filter(open_redis(options.remote, policy_of(options.remote), store_options));
  const Population population(filter, settings);
  redis::Executor& executor = filter.store().protocol().executor();
  const auto cpu_before = server_cpu_seconds(executor);
  BenchFigures figures = Runner(filter, settings).run();
  const auto cpu_after = server_cpu_seconds(executor);
  if (cpu_before && cpu_after) {
    figures.server_cpu_microseconds = (*cpu_after - *cpu_before) * 1e6 / static_cast<double>(figures.requests);
  }
  print(figures, settings, options.json);
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure how many requests a second a Redis answers from here");
  const auto options = std::make_shared<BenchOptions>();
  const auto add = [&](const char* name, std::string& value, const char* type, const char* text) {
    return command->add_option(name, value, text)->type_name(type)->capture_default_str();
  };
  add_store_options(*command, "store", options->remote)->required();
  add("--users", options->users, "N", "Users to load");
  add("--items", options->items, "N", "Items each has seen");
  add("--candidates", options->candidates, "N", "Candidates a request");
  add("--users-per-request", options->users_per_request, "N", "Users a candidate must be new to");
  add("--requests-per-call", options->requests_per_call, "N", "Requests answered by one call, in one round trip");
  add("--time", options->seconds, "TIME", "How long to ask");
  add("--fpr", options->fpr, "RATE", "Rate at which a fresh candidate may be hidden, end to end");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Loads users of its own under {prefix}bench:PID:, asks from one thread, and removes them again; they\n"
      "expire after an hour where that fails. Server CPU is the whole server's, so measure where nobody\n"
      "else is busy.\n\n"
      "Examples:\n"
      "  seenby bench unix:///run/redis/redis.sock\n"
      "  seenby bench redis://127.0.0.1/ --requests-per-call 100 --json");
  command->callback([options] { bench(*options); });
}

}  // namespace seenby::tool
