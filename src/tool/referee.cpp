// SPDX-License-Identifier: MIT
// Exact sets, and what they cost.

#include "referee.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>

namespace seenby::tool {
namespace {

/// Counts what a container allocates.
template <class T>
struct CountingAllocator {
  using value_type = T;
  std::uint64_t* bytes;

  explicit CountingAllocator(std::uint64_t* counter) : bytes(counter) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : bytes(other.bytes) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    *bytes += count * sizeof(T);  // NOLINT(bugprone-sizeof-expression): buckets are pointers
    return std::allocator<T>{}.allocate(count);
  }
  void deallocate(T* at, std::size_t count) {
    *bytes -= count * sizeof(T);  // NOLINT(bugprone-sizeof-expression)
    std::allocator<T>{}.deallocate(at, count);
  }
  template <class U>
  friend bool operator==(const CountingAllocator& a, const CountingAllocator<U>& b) {
    return a.bytes == b.bytes;
  }
};

using IdSet =
    std::unordered_set<std::uint64_t, std::hash<std::uint64_t>, std::equal_to<>, CountingAllocator<std::uint64_t>>;
using IdTimes = std::unordered_map<std::uint64_t, std::int64_t, std::hash<std::uint64_t>, std::equal_to<>,
                                   CountingAllocator<std::pair<const std::uint64_t, std::int64_t>>>;

}  // namespace

Referee::Referee(std::uint32_t users, std::int64_t window, std::int64_t slice)
    : users_(users), window_(window), slice_(slice) {}

void Referee::record(std::uint32_t user, std::uint32_t item, std::int64_t time) {
  const auto [entry, inserted] = users_[user].last_seen.try_emplace(item, time);
  if (inserted) users_[user].order.push_back(item);
  entry->second = std::max(entry->second, time);
}

Verdict Referee::judge(std::span<const std::uint64_t> users, std::uint32_t item, std::int64_t now) const {
  Verdict verdict = Verdict::fresh;
  for (const std::uint64_t user : users) {
    const auto& seen = users_[user].last_seen;
    const auto found = seen.find(item);
    if (found == seen.end()) continue;
    if (kept(found->second, now)) return Verdict::seen;
    if (now - found->second < window_ + slice_) verdict = Verdict::leaving;
  }
  return verdict;
}

bool Referee::ever_seen(std::span<const std::uint64_t> users, std::uint32_t item) const {
  return std::any_of(users.begin(), users.end(),
                     [&](std::uint64_t user) { return users_[user].last_seen.contains(item); });
}

std::uint64_t Referee::exact_bytes(std::uint64_t user, std::int64_t now) const {
  std::uint64_t bytes = 0;
  if (window_ == 0) {
    IdSet set{CountingAllocator<std::uint64_t>(&bytes)};
    for (const auto& [item, time] : users_[user].last_seen) set.insert(item);
    return bytes + sizeof(std::unordered_set<std::uint64_t>);
  }
  IdTimes times{CountingAllocator<std::pair<const std::uint64_t, std::int64_t>>(&bytes)};
  for (const auto& [item, time] : users_[user].last_seen) {
    if (kept(time, now)) times.emplace(item, time);
  }
  return bytes + sizeof(std::unordered_map<std::uint64_t, std::int64_t>);
}

std::uint64_t Referee::bare_bytes(std::uint64_t user, std::int64_t now) const {
  const auto& seen = users_[user].last_seen;
  if (window_ == 0) return seen.size() * 8;
  return 16 * static_cast<std::uint64_t>(
                  std::count_if(seen.begin(), seen.end(), [&](const auto& entry) { return kept(entry.second, now); }));
}

}  // namespace seenby::tool
