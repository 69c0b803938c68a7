#pragma once
// SPDX-License-Identifier: MIT
// RateLimit: how many events a second one user may send.

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"

namespace seenby {

/// How many events of a user pass.
struct RateLimitOptions {
  double events_per_second = 0;  ///< in the long run; 0: no limit
  double burst = 100;            ///< at once, after a quiet time
};

/// A token bucket a user, by the times that it is told. Users who have been quiet for as long as it takes to fill their
/// bucket are forgotten. For one thread.
class RateLimit {
 public:
  /// Every user begins with a full bucket.
  explicit RateLimit(RateLimitOptions options) noexcept : options_(options) {}

  /// Whether the user may send one more; if so it is taken.
  template <HashableItem User>
  [[nodiscard]] bool admit(const User& user, Time now) {
    if (options_.events_per_second <= 0) return true;
    if (buckets_.size() >= full_) forget_quiet(now);
    Bucket& bucket = buckets_.try_emplace(detail::user_key(user), Bucket{options_.burst, now}).first->second;
    bucket.tokens = filled(bucket, now);
    bucket.at = std::max(bucket.at, now);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

 private:
  struct Bucket {
    double tokens;
    Time at;
  };

  [[nodiscard]] double filled(const Bucket& bucket, Time now) const {
    const double quiet = now > bucket.at ? static_cast<double>((now - bucket.at).count()) : 0;
    return std::min(options_.burst, bucket.tokens + quiet * options_.events_per_second);
  }
  void forget_quiet(Time now) {
    std::erase_if(buckets_, [&](const auto& entry) { return filled(entry.second, now) >= options_.burst; });
    full_ = std::max<std::size_t>(65'536, 2 * buckets_.size());  // not again for every one of many busy users
  }

  RateLimitOptions options_;
  std::size_t full_ = 65'536;
  std::unordered_map<detail::UserKey, Bucket, detail::UserKeyHash> buckets_;
};

}  // namespace seenby
