#pragma once
// SPDX-License-Identifier: MIT
// Histories by URL: sqlite:PATH, postgres://... and redis://..., opened in one place.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "seenby/histories/keyed_history.hpp"
#include "store_url.hpp"
#ifdef SEENBY_TOOL_WITH_POSTGRES
#include "seenby/postgres/log.hpp"
#endif
#ifdef SEENBY_TOOL_WITH_REDIS
#include "seenby/redis/history.hpp"
#endif
#ifdef SEENBY_TOOL_WITH_SQLITE
#include "seenby/sqlite/log.hpp"
#endif

namespace seenby::tool {

/// The log of any history that this build knows. Thread safety and errors: the log's.
class AnyLog {
 public:
  template <class Log>
  explicit AnyLog(Log log) : log_(std::move(log)) {}

  Result<std::size_t> append(std::span<const KeyedEvent> events) {
    return call([&](auto& log) { return log.append(events); });
  }
  Result<void> contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out, Time since) {
    return call([&](auto& log) { return log.contains(user, items, out, since); });
  }
  Result<void> contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                        std::span<std::uint8_t> hides, Time since) {
    return call([&](auto& log) { return log.contains(user, items, out, hides, since); });
  }
  Result<std::size_t> hide(const KeyView& user, std::span<const Hide<KeyView>> hides) {
    return call([&](auto& log) { return log.hide(user, hides); });
  }
  Result<std::size_t> unhide(const KeyView& user, std::span<const KeyView> items) {
    return call([&](auto& log) { return log.unhide(user, items); });
  }
  Result<void> hidden(const KeyView& user, const std::function<void(const KeyView&, Time)>& row) {
    return call([&](auto& log) { return log.hidden(user, row); });
  }
  Result<void> seen_since(const KeyView& user, Time since, const std::function<void(const KeyView&, Time)>& row) {
    return call([&](auto& log) { return log.seen_since(user, since, row); });
  }
  Result<bool> forget(const KeyView& user) {
    return call([&](auto& log) { return log.forget(user); });
  }
  Result<std::size_t> erase(const KeyView& user, std::span<const KeyView> items) {
    return call([&](auto& log) { return log.erase(user, items); });
  }
  Result<bool> merge(const KeyView& from, const KeyView& into) {
    return call([&](auto& log) { return log.merge(from, into); });
  }
  Result<void> users(const std::optional<KeyView>& after, std::size_t limit,
                     const std::function<void(const KeyView&)>& row) {
    return call([&](auto& log) { return log.users(after, limit, row); });
  }
  Result<std::uint64_t> item_count(const KeyView& user, Time since) {
    return call([&](auto& log) { return log.item_count(user, since); });
  }
  Result<std::uint64_t> event_count(const KeyView& item) {
    return call([&](auto& log) { return log.event_count(item); });
  }

 private:
  /// A build without any history still compiles; nothing opens this one.
  struct None {};
  using Logs = std::variant<None
#ifdef SEENBY_TOOL_WITH_POSTGRES
                            ,
                            postgres::Log
#endif
#ifdef SEENBY_TOOL_WITH_REDIS
                            ,
                            redis::HistoryLog
#endif
#ifdef SEENBY_TOOL_WITH_SQLITE
                            ,
                            sqlite::Log
#endif
                            >;

  template <class Call>
  auto call(const Call& function) -> decltype(function(std::declval<AnyLog&>())) {
    using Answer = decltype(function(*this));
    return std::visit(
        [&](auto& log) -> Answer {
          if constexpr (std::is_same_v<std::decay_t<decltype(log)>, None>) {
            return Error{ErrorCode::unavailable, "expected a history, got none"};
          } else {
            return function(log);
          }
        },
        log_);
  }

  Logs log_;
};

template <class Item>
using History = KeyedHistory<AnyLog, std::string, Item>;

/// Opens a history of users by name and items of a kind. Throws InputError for a URL that is no history's, for a
/// component that this build lacks, and for a history of another kind.
[[nodiscard]] AnyLog open_log(const std::string& url, ItemKind items, IfMissing if_missing);

template <class Item>
[[nodiscard]] History<Item> open_history(const std::string& url, IfMissing if_missing) {
  return History<Item>(open_log(url, item_kind<Item>, if_missing));
}

/// Adds --history, and --items: text unless it says integer.
void add_history_options(CLI::App& command, std::string& url, std::string& items);

}  // namespace seenby::tool
