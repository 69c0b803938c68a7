#pragma once
// SPDX-License-Identifier: MIT
// FailingHistory: a MemoryHistory that counts what it is asked, and fails or throws at the call it is told to.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "seenby/histories/memory_history.hpp"

namespace seenby::test {

class FailingHistory {
 public:
  using user_type = std::uint64_t;
  using item_type = std::uint64_t;
  using Items = std::span<const std::uint64_t>;

  std::size_t writes = 0;               ///< appends, merges, forgets
  std::size_t fail_write = 0;           ///< the write of this number, from 1, is refused...
  bool throws = false;                  ///< ... or throws
  bool done_before_failing = false;     ///< ... after it was done: the answer was lost
  std::function<void()> after_write{};  ///< called once, after the next merge or forget

  [[nodiscard]] Result<void> append(std::uint64_t user, Items items, Time when) {
    return guarded<void>([&] { return rows_.append(user, items, when); });
  }
  [[nodiscard]] Result<void> contains(std::uint64_t user, Items items, std::span<std::uint8_t> out, Time since) {
    return rows_.contains(user, items, out, since);
  }
  [[nodiscard]] Result<std::vector<SeenItem<std::uint64_t>>> seen_since(std::uint64_t user, Time since) {
    return rows_.seen_since(user, since);
  }
  [[nodiscard]] Result<bool> forget(std::uint64_t user) {
    auto forgotten = guarded<bool>([&] { return rows_.forget(user); });
    if (after_write) std::exchange(after_write, nullptr)();
    return forgotten;
  }
  [[nodiscard]] Result<bool> merge(std::uint64_t from, std::uint64_t into) {
    auto merged = guarded<bool>([&] { return rows_.merge(from, into); });
    if (after_write) std::exchange(after_write, nullptr)();
    return merged;
  }
  [[nodiscard]] std::size_t size(std::uint64_t user) const { return rows_.seen_since(user)->size(); }

 private:
  template <class T, class Write>
  Result<T> guarded(const Write& write) {
    if (++writes != fail_write) return write();
    if (done_before_failing) (void)write();
    if (throws) throw std::runtime_error("the history threw");
    return Error{ErrorCode::io, "the history failed"};
  }
  MemoryHistory<std::uint64_t, std::uint64_t> rows_;
};

}  // namespace seenby::test
