#pragma once
// SPDX-License-Identifier: MIT
// A BlobStore backend over std::map, with switches for failing it.

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "seenby/stores/blob_store.hpp"

namespace seenby::test {

/// Copies share one map.
class MapBlobs {
 public:
  Result<std::optional<Blob>> load(std::string_view key) {
    const std::lock_guard lock(state_->mutex);
    if (state_->down) return Error{ErrorCode::unreachable, "the map is down"};
    if (++state_->loads > state_->good_loads) {
      if (state_->then_evicted) return std::optional<Blob>{};
      return Error{ErrorCode::unreachable, "the map went down"};
    }
    const auto found = state_->values.find(key);
    if (found == state_->values.end()) return std::optional<Blob>{};
    return std::optional<Blob>{found->second};
  }
  Result<bool> compare_and_swap(std::string_view key, const std::optional<Blob>& expected, const Blob& desired) {
    return write([&](auto& values) {
      if (state_->refuse_swaps) return false;
      const auto found = values.find(key);
      const bool same = expected ? found != values.end() && found->second == *expected : found == values.end();
      if (same) values[std::string(key)] = desired;
      return same;
    });
  }
  Result<bool> erase(std::string_view key) {
    return write([&](auto& values) {
      const auto found = values.find(key);
      if (found == values.end()) return false;
      values.erase(found);
      return true;
    });
  }

  struct State {
    std::mutex mutex;
    std::map<std::string, Blob, std::less<>> values;
    bool down = false;
    bool refuse_swaps = false;
    std::size_t loads = 0;
    std::size_t good_loads = std::numeric_limits<std::size_t>::max();  ///< after so many, loads fail or find nothing
    bool then_evicted = false;
    int writes_left = -1;               ///< the map goes down for writers after so many more; negative: never
    std::function<void()> after_write;  ///< called after every swap and erase, without the lock
  };
  [[nodiscard]] State& state() noexcept { return *state_; }

 private:
  template <class Change>
  Result<bool> write(const Change& change) {
    bool done = false;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->down || state_->writes_left == 0) return Error{ErrorCode::unreachable, "the map is down"};
      if (state_->writes_left > 0) --state_->writes_left;
      done = change(state_->values);
    }
    if (state_->after_write) state_->after_write();
    return done;
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace seenby::test
