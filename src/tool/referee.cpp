// SPDX-License-Identifier: MIT
// Exact sets, and what they cost.

#include "referee.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
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

Referee::Referee(const EventLog& log, std::int64_t window, std::int64_t slice)
    : begin_(log.users.size() + 1), seen_(log.users.size()), window_(window), slice_(slice) {
  std::vector<std::uint64_t> pairs;
  pairs.reserve(log.events.size());
  for (const Event& event : log.events) pairs.push_back(std::uint64_t{event.user} << 32 | event.item);
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  items_.reserve(pairs.size());
  for (const std::uint64_t pair : pairs) {
    items_.push_back(static_cast<std::uint32_t>(pair));
    begin_[(pair >> 32) + 1] = items_.size();
  }
  for (std::size_t user = 1; user < begin_.size(); ++user) begin_[user] = std::max(begin_[user], begin_[user - 1]);
  in_order_.resize(items_.size());
  times_.assign(items_.size(), never);
}

std::size_t Referee::find(std::uint64_t user, std::uint32_t item) const {
  const auto begin = items_.begin() + static_cast<std::ptrdiff_t>(begin_[user]);
  const auto end = items_.begin() + static_cast<std::ptrdiff_t>(begin_[user + 1]);
  const auto found = std::lower_bound(begin, end, item);
  return found != end && *found == item ? static_cast<std::size_t>(found - items_.begin()) : items_.size();
}

void Referee::record(const Event& event) {
  const std::size_t at = find(event.user, event.item);
  if (times_[at] == never) in_order_[begin_[event.user] + seen_[event.user]++] = event.item;
  times_[at] = std::max(times_[at], event.time);
}

std::optional<std::int64_t> Referee::last_seen(std::uint64_t user, std::uint32_t item) const {
  const std::size_t at = find(user, item);
  if (at == items_.size() || times_[at] == never) return std::nullopt;
  return times_[at];
}

Verdict Referee::judge(std::span<const std::uint64_t> users, std::uint32_t item, std::int64_t now) const {
  Verdict verdict = Verdict::fresh;
  for (const std::uint64_t user : users) {
    const auto time = last_seen(user, item);
    if (!time) continue;
    if (kept(*time, now)) return Verdict::seen;
    if (now - *time < window_ + slice_) verdict = Verdict::leaving;
  }
  return verdict;
}

bool Referee::ever_seen(std::span<const std::uint64_t> users, std::uint32_t item) const {
  return std::any_of(users.begin(), users.end(), [&](std::uint64_t user) { return last_seen(user, item).has_value(); });
}

std::span<const std::uint32_t> Referee::items_of(std::uint64_t user) const {
  return std::span(in_order_).subspan(begin_[user], seen_[user]);
}

std::uint64_t Referee::live_items(std::uint64_t user, std::int64_t now) const {
  if (window_ == 0) return seen_[user];
  const auto times = std::span(times_).subspan(begin_[user], begin_[user + 1] - begin_[user]);
  return static_cast<std::uint64_t>(
      std::count_if(times.begin(), times.end(), [&](std::int64_t time) { return time != never && kept(time, now); }));
}

struct ExactSetBytes::Sets {
  std::uint64_t bytes = 0;
  IdSet ids{CountingAllocator<std::uint64_t>(&bytes)};
  IdTimes times{CountingAllocator<std::pair<const std::uint64_t, std::int64_t>>(&bytes)};
};

ExactSetBytes::ExactSetBytes(bool with_times) : with_times_(with_times), sets_(std::make_unique<Sets>()) {}
ExactSetBytes::~ExactSetBytes() = default;

std::uint64_t ExactSetBytes::of(std::uint64_t items) {
  while (bytes_.size() <= items) {
    bytes_.push_back(sets_->bytes + (with_times_ ? sizeof(std::unordered_map<std::uint64_t, std::int64_t>)
                                                 : sizeof(std::unordered_set<std::uint64_t>)));
    if (with_times_) {
      sets_->times.emplace(bytes_.size(), 0);
    } else {
      sets_->ids.insert(bytes_.size());
    }
  }
  return bytes_[items];
}

}  // namespace seenby::tool
