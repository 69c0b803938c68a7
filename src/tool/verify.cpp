// SPDX-License-Identifier: MIT
// seenby verify: compares users' filters with what the history says.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "history_url.hpp"
#include "input_error.hpp"
#include "progress.hpp"
#include "random.hpp"
#include "report.hpp"
#include "seenby/clock.hpp"
#include "seenby/stores/filter_store.hpp"
#include "store_url.hpp"
#include "time_text.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct VerifyOptions {
  std::string history;
  std::string items = "text";
  StoreOptions store;
  std::string sample;
  bool json = false;
};

struct VerifyFigures {
  std::uint64_t users = 0;
  std::uint64_t events = 0;  ///< of them: the items each saw within the window
  std::uint64_t false_negatives = 0;
  std::uint64_t unknown_users = 0;  ///< without a filter, though the history has events
  std::uint64_t unreachable_users = 0;
  std::uint64_t probes = 0;
  std::uint64_t hidden_probes = 0;

  [[nodiscard]] double wrong_hide_rate() const {
    return probes == 0 ? 0 : static_cast<double>(hidden_probes) / static_cast<double>(probes);
  }
};

/// All users of the history, or so many of them, each as likely.
template <class Item>
std::vector<std::string> sample_users(const History<Item>& history, std::uint64_t most) {
  constexpr std::size_t page_size = 10'000;
  std::vector<std::string> users;
  std::uint64_t listed = 0;
  Random random(0x5eeb);
  std::optional<std::string> after;
  for (;;) {
    const std::vector<std::string> page = value_of(history.users(after, page_size));
    for (const std::string& user : page) {
      ++listed;
      if (users.size() < most) {
        users.push_back(user);
      } else if (const std::uint64_t place = random.below(listed); place < most) {
        users[place] = user;
      }
    }
    if (page.size() < page_size) return users;
    after = page.back();
  }
}

/// Items that nobody has seen.
template <class Item>
std::vector<Item> probe_items(std::size_t count) {
  Random random(0x9a3d);
  std::vector<Item> probes;
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Item, std::string>) {
      probes.push_back("\1seenby verify " + std::to_string(random.next()));
    } else {
      probes.push_back(random.next());
    }
  }
  return probes;
}

template <class Item, class Store>
class Verifier {
 public:
  Verifier(const History<Item>& history, const Store& store) : history_(history), store_(store) {}

  /// A filter may lag behind its history for an instant, so who lacks something is asked again a second later.
  VerifyFigures verify(const std::vector<std::string>& users) {
    Progress progress("verifying", users.size());
    std::vector<std::string> doubtful;
    for (const std::string& user : users) {
      progress.update(++figures_.users);
      if (!check(user, true)) doubtful.push_back(user);
    }
    if (!doubtful.empty()) std::this_thread::sleep_for(std::chrono::seconds{1});
    for (const std::string& user : doubtful) check(user, false);
    return figures_;
  }

 private:
  static constexpr std::size_t probe_count = 1'000;
  static constexpr std::uint64_t shown = 10;

  /// Asks about what the user saw, and about what nobody has. False, and nothing counted, when the first answer lacks
  /// something.
  bool check(const std::string& user, bool first) {
    const StorePolicy& policy = store_.policy();
    const auto seen = value_of(history_.seen_since(user, window_start(policy.clock(), policy.window)));
    std::vector<Item> items = probes_;
    for (const auto& entry : seen) items.push_back(entry.item);
    std::vector<Digest> digests;
    digests.reserve(items.size());
    for (const Item& item : items) digests.push_back(store_.hasher()(item));
    std::vector<std::uint8_t> found(items.size());
    UserStatus status;
    store_.check(std::span(&user, 1), ItemBatch<Item>{items, digests}, std::span(found), std::span(&status, 1));
    const std::span answers = std::span(found).subspan(probes_.size());
    const auto lacking = static_cast<std::uint64_t>(std::count(answers.begin(), answers.end(), std::uint8_t{0}));
    const bool healthy = status.state == UserState::known ? lacking == 0 : seen.empty();
    if (first && !healthy) return false;
    figures_.events += seen.size();
    if (status.state == UserState::unreachable) {
      if (figures_.unreachable_users++ < shown)
        std::cerr << "seenby: " << without_prefix(status.error->message) << '\n';
    } else if (status.state == UserState::missing) {
      if (!seen.empty()) ++figures_.unknown_users;
    } else {
      for (std::size_t i = 0; i < seen.size(); ++i) {
        if (answers[i] == 0) report(user, seen[i]);
      }
      figures_.probes += probes_.size();
      figures_.hidden_probes += static_cast<std::uint64_t>(
          std::count_if(found.begin(), found.begin() + probe_count, [](auto hidden) { return hidden != 0; }));
    }
    return true;
  }

  void report(const std::string& user, const SeenItem<Item>& entry) {
    if (figures_.false_negatives++ >= shown) return;
    std::cerr << "seenby: user " << in_quotes(user) << " saw ";
    if constexpr (std::is_same_v<Item, std::string>) {
      std::cerr << in_quotes(entry.item);
    } else {
      std::cerr << entry.item;
    }
    std::cerr << " at " << as_time(std::max<std::int64_t>(0, entry.seen_at.time_since_epoch().count()))
              << ", and the filter says unseen\n";
  }

  const History<Item>& history_;
  const Store& store_;
  const std::vector<Item> probes_ = probe_items<Item>(probe_count);
  VerifyFigures figures_;
};

void print(const VerifyFigures& figures, bool json) {
  if (json) {
    std::cout << nlohmann::ordered_json{{"users", figures.users},
                                        {"events", figures.events},
                                        {"false_negatives", figures.false_negatives},
                                        {"wrong_hide_rate", figures.wrong_hide_rate()},
                                        {"unknown_users", figures.unknown_users},
                                        {"unreachable_users", figures.unreachable_users},
                                        {"probes", figures.probes}}
                     .dump(2)
              << '\n';
    return;
  }
  Report report;
  report.row("users", with_commas(figures.users));
  report.row("events", with_commas(figures.events));
  report.row("false negatives", with_commas(figures.false_negatives));
  report.row("wrong-hide rate", as_percent(figures.wrong_hide_rate()) + " of " + with_commas(figures.probes) +
                                    " items that their user has not seen");
  report.row("unknown users",
             with_commas(figures.unknown_users) + (figures.unknown_users == 0 ? "" : "; seenby repair rebuilds them"));
  if (figures.unreachable_users != 0) report.row("could not be asked", with_commas(figures.unreachable_users));
  std::cout << report;
}

void verify(const VerifyOptions& options) {
  const std::uint64_t most =
      options.sample.empty() ? std::numeric_limits<std::uint64_t>::max() : parse_count("--sample", options.sample);
  VerifyFigures figures;
  const auto verify_as = [&](auto item) {
    using Item = decltype(item);
    const auto history = open_history<Item>(options.history, IfMissing::refuse);
    with_store(options.store, policy_of(options.store), IfMissing::refuse, [&](auto& store) {
      figures = Verifier<Item, std::decay_t<decltype(store)>>(history, store).verify(sample_users(history, most));
    });
  };
  options.items == "integer" ? verify_as(std::uint64_t{}) : verify_as(std::string());
  print(figures, options.json);
  if (figures.false_negatives != 0) {
    throw std::runtime_error("expected no false negatives, got " + with_commas(figures.false_negatives) +
                             "; seenby repair --history URL --store URL mends the filters");
  }
  if (figures.unreachable_users != 0) {
    throw std::runtime_error("expected an answer for each user, got none for " +
                             with_commas(figures.unreachable_users));
  }
}

}  // namespace

void add_verify(CLI::App& app) {
  CLI::App* command = app.add_subcommand("verify", "Compare users' filters with the history");
  const auto options = std::make_shared<VerifyOptions>();
  add_history_options(*command, options->history, options->items);
  add_store_options(*command, "--store", options->store)->required();
  command->add_option("--sample", options->sample, "Ask so many users, drawn at random (default: all)")->type_name("N");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Changes nothing. Exits with 1 when it finds a false negative: none is allowed.\n"
      "A user without a filter is unknown, which is reported too.\n\n"
      "Example:\n"
      "  seenby verify --history sqlite:seen.sqlite --store lmdb:seen.lmdb");
  command->callback([options] { verify(*options); });
}

}  // namespace seenby::tool
