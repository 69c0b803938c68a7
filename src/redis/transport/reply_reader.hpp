#pragma once
// SPDX-License-Identifier: MIT
// ReplyReader: replies of RESP2 out of bytes as they come, each within a limit.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/redis/executor.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// Takes bytes in pieces of any size and makes replies of them. Memory follows the bytes that came, never a length that
/// was only announced; every byte is looked at once. What is no RESP2, is longer than its limit, or comes unasked is
/// `corrupt`: then the connection is of no more use. Not thread-safe.
class ReplyReader {
 public:
  /// A status, an error, a number or a length: longer ones are nonsense.
  static constexpr std::size_t longest_line = std::size_t{64} << 10;
  static constexpr std::size_t deepest_array = 8;

  /// Makes it ready for one reply a limit. A limit bounds a reply's bytes, but for an error's, which have that of a
  /// line. `limits` must stay until `done`.
  void start(std::span<const std::size_t> limits);
  [[nodiscard]] bool done() const noexcept { return complete_ == replies_.size(); }

  /// Where the next bytes of a string may be read to, past `feed`; empty while none is open. Then `filled` says how
  /// many came.
  [[nodiscard]] std::span<char> room() noexcept;
  [[nodiscard]] Result<void> filled(std::size_t bytes);
  [[nodiscard]] Result<void> feed(std::string_view bytes);

  /// The replies, once `done`.
  [[nodiscard]] std::vector<Reply> take() noexcept { return std::move(replies_); }

 private:
  /// An array whose elements still come. It is the last element of the one that holds it, so its address stays.
  struct Open {
    Reply::Array* array;
    std::size_t left;
  };

  [[nodiscard]] Result<void> take_line(std::string_view line);
  [[nodiscard]] Result<void> open_string(std::size_t size);
  [[nodiscard]] Result<void> open_array(std::size_t count);
  [[nodiscard]] Result<void> spend(std::size_t bytes);
  [[nodiscard]] Result<void> put(Reply reply);
  Reply& place(Reply reply);
  void close_arrays();

  std::vector<Reply> replies_;
  std::span<const std::size_t> limits_;
  std::size_t complete_ = 0;
  std::size_t spent_ = 0;  ///< of the current reply's limit
  std::vector<Open> open_;
  std::string line_;              ///< the beginning of a line whose end has not come
  std::string string_;            ///< the beginning of a string, as long as its memory so far
  std::size_t string_bytes_ = 0;  ///< its whole length with the line's end; 0 while none is open
  std::size_t string_filled_ = 0;
};

}  // namespace seenby::redis
