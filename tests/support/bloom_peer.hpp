#pragma once
// SPDX-License-Identifier: MIT
// BloomPeer: a server that has RedisBloom's commands, for machines where the module cannot be had.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/resp_peer.hpp"

namespace seenby::test {

/// BF.RESERVE, BF.ADD, BF.MADD, BF.EXISTS, BF.MEXISTS and TYPE, GET, SET, DEL, RENAME over sets that never err, with
/// the module's replies. A filter grows by its expansion and refuses what a NONSCALING one has no room for. The store's
/// add script is played by its steps; that the script takes them is what redis_bloom_script.cpp holds. The script that
/// swaps a user's exact items is played too.
class BloomPeer {
 public:
  using Words = RespPeer::Words;

  [[nodiscard]] std::string url() const { return peer_.url(); }
  [[nodiscard]] std::vector<Words> commands() const { return peer_.commands(); }
  /// Runs before each command of that name, as another client's command might.
  void before(std::string name, std::function<void()> what) {
    const std::lock_guard lock(mutex_);
    before_[std::move(name)] = std::move(what);
  }
  /// From now on every BF. command is unknown, or known again.
  void unload(bool unloaded = true) {
    const std::lock_guard lock(mutex_);
    unloaded_ = unloaded;
  }
  /// A command of another client.
  std::string run(const Words& words) {
    const std::lock_guard lock(mutex_);
    return answer(words);
  }
  /// As another client's DEL, inside of before(); true when there was one.
  bool drop(const std::string& key) { return filters_.erase(key) != 0; }
  /// How many filters a key's chain has; 0 without one.
  [[nodiscard]] std::size_t filters(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = filters_.find(key);
    return found == filters_.end() ? 0 : found->second.filters;
  }

 private:
  struct Filter {
    std::set<std::string> items;
    std::uint64_t capacity = 100;  // the module's own, for BF.ADD on a missing key
    std::uint64_t last = 100;      // of the newest filter of the chain
    std::uint64_t expansion = 2;   // 0: NONSCALING
    std::size_t filters = 1;
  };

  std::string serve(const Words& words) {
    const std::lock_guard lock(mutex_);
    if (const auto hook = before_.find(words[0]); hook != before_.end()) hook->second();
    if (words[0] == "EVALSHA") return resp::error("NOSCRIPT No matching script. Please use EVAL.");
    if (words[0] != "EVAL") return answer(words);
    return words.at(3).ends_with(":hides") ? swap_script(words) : add_script(words);
  }
  std::string answer(const Words& words) {
    const std::string& name = words[0];
    if (name == "COMMAND") {
      const std::string known = unloaded_ ? "*-1\r\n" : resp::array({resp::status("bf.reserve"), resp::integer(-1)});
      return resp::array({known, known, known});
    }
    if (name == "PING") return resp::status("PONG");
    const std::string& key = words.at(1);
    if (name == "TYPE") {
      return resp::status(strings_.contains(key) ? "string" : filters_.contains(key) ? "MBbloom--" : "none");
    }
    if (name == "GET") return strings_.contains(key) ? resp::bulk(strings_[key]) : resp::nil();
    if (name == "DEL") {
      std::size_t gone = 0;
      for (std::size_t i = 1; i < words.size(); ++i) gone += filters_.erase(words[i]) + strings_.erase(words[i]);
      return resp::integer(static_cast<std::int64_t>(gone));
    }
    if (name == "SET") return filters_.erase(key), strings_[key] = words.at(2), resp::status("OK");
    if (name == "RENAME") {
      auto moved = filters_.extract(key);
      if (moved.empty()) return resp::error("ERR no such key");
      filters_[words.at(2)] = std::move(moved.mapped());
      return resp::status("OK");
    }
    if (unloaded_ || !name.starts_with("BF.")) return resp::error("ERR unknown command '" + name + "'");
    if (strings_.contains(key)) {
      return resp::error("WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    if (name == "BF.RESERVE") return reserve(words);
    if (name == "BF.ADD") return add(filters_[key], words.at(2));
    if (name == "BF.EXISTS") return resp::integer(contains(key, words.at(2)) ? 1 : 0);
    std::vector<std::string> parts;
    for (std::size_t i = 2; i < words.size(); ++i) {
      parts.push_back(name == "BF.MADD" ? add(filters_[key], words[i])
                                        : resp::integer(contains(key, words[i]) ? 1 : 0));
      if (parts.back().front() == '-') break;  // the module ends the reply with the error
    }
    return resp::array(parts);
  }
  [[nodiscard]] bool contains(const std::string& key, const std::string& item) const {
    const auto found = filters_.find(key);
    return found != filters_.end() && found->second.items.contains(item);
  }
  std::string reserve(const Words& words) {
    const double rate = std::strtod(words.at(2).c_str(), nullptr);
    if (!(rate > 0 && rate < 1)) return resp::error("ERR (0 < error rate range < 1)");
    if (filters_.contains(words[1])) return resp::error("ERR item exists");
    Filter made;
    made.capacity = made.last = std::strtoull(words.at(3).c_str(), nullptr, 10);
    if (made.capacity == 0) return resp::error("ERR (capacity should be larger than 0)");
    if (words.size() > 4) {
      made.expansion = words[4] == "NONSCALING" ? 0 : std::strtoull(words.at(5).c_str(), nullptr, 10);
    }
    filters_[words[1]] = made;
    return resp::status("OK");
  }
  static std::string add(Filter& filter, const std::string& item) {
    if (filter.items.contains(item)) return resp::integer(0);
    if (filter.items.size() == filter.capacity) {
      if (filter.expansion == 0) return resp::error("ERR non scaling filter is full");
      filter.last *= filter.expansion;
      filter.capacity += filter.last;
      ++filter.filters;
    }
    filter.items.insert(item);
    return resp::integer(1);
  }
  /// EVAL, text, 1, key, old value, new value, time to live.
  std::string swap_script(const Words& words) {
    const auto found = strings_.find(words.at(3));
    if (words.at(4) != (found == strings_.end() ? std::string() : found->second)) return resp::integer(0);
    strings_[words[3]] = words.at(5);
    if (words[5].empty()) strings_.erase(words[3]);
    return resp::integer(1);
  }
  /// EVAL, text, 1, key, create, rate, capacity, expansion, ttl, refresh, items.
  std::string add_script(const Words& words) {
    const std::string& key = words.at(3);
    std::string made = resp::integer(0);
    if (words.at(4) == "1") {
      Words reserve_words{"BF.RESERVE", key, words.at(5), words.at(6)};
      if (words.at(7) == "0") {
        reserve_words.emplace_back("NONSCALING");
      } else {
        reserve_words.insert(reserve_words.end(), {"EXPANSION", words[7]});
      }
      made = answer(reserve_words);
      if (made.front() == '-' && !made.starts_with("-ERR item exists")) return resp::array({made});
    } else if (!filters_.contains(key) && !strings_.contains(key)) {
      return resp::array({resp::status("missing")});
    }
    std::vector<std::string> parts{made};
    for (std::size_t i = 10; i < words.size(); ++i) {
      const std::string added = answer({"BF.MADD", key, words[i]});
      if (added.front() == '-') {
        parts.push_back(added);
        break;
      }
      parts.push_back(added.substr(added.find("\r\n") + 2));  // the one element
      if (parts.back().front() == '-') break;
    }
    return resp::array(parts);
  }

  std::mutex mutex_;
  std::map<std::string, Filter> filters_;
  std::map<std::string, std::string> strings_;
  std::map<std::string, std::function<void()>> before_;
  bool unloaded_ = false;
  RespPeer peer_{[this](const Words& words) -> std::optional<std::string> { return serve(words); }};
};

}  // namespace seenby::test
