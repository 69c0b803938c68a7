#pragma once
// SPDX-License-Identifier: MIT
// Script: a Lua script called by its SHA-1, sent in full only to a server that does not have it.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/redis/executor.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// A Lua script and its digest. Immutable, so thread-safe.
class Script {
 public:
  /// `longest_reply` bounds what it may answer, in bytes (`Command::expects_at_most`).
  explicit Script(std::string source, std::size_t longest_reply = 4'096);
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  /// 40 hexadecimal digits, as EVALSHA wants them.
  [[nodiscard]] const std::string& sha1() const noexcept { return sha1_; }
  /// `EVALSHA sha1 keys... arguments...`; the first key routes it.
  [[nodiscard]] Command call(std::span<const std::string_view> keys, std::span<const std::string_view> arguments) const;

 private:
  std::string source_;
  std::string sha1_;
  std::size_t longest_reply_;
};

/// Executes a batch, and makes sure that every command has its reply: an executor of the user's own may err.
[[nodiscard]] Result<std::vector<Reply>> execute_batch(Executor& executor, std::span<const Command> batch,
                                                       Deadline deadline);

/// Executes a batch in which `scripts[i]`, when set, is the script that command i calls by EVALSHA. Where a server
/// answers NOSCRIPT (a restart, SCRIPT FLUSH, a new cluster node), those commands alone are sent once more as EVAL,
/// which also loads the script. Two round trips at worst.
[[nodiscard]] Result<std::vector<Reply>> execute_scripts(Executor& executor, std::span<const Command> batch,
                                                         std::span<const Script* const> scripts, Deadline deadline);

/// One script call.
[[nodiscard]] Result<Reply> execute_script(Executor& executor, const Script& script,
                                           std::span<const std::string_view> keys,
                                           std::span<const std::string_view> arguments, Deadline deadline);

}  // namespace seenby::redis
