// SPDX-License-Identifier: MIT
// Scripts by digest, with the fallback to their text.

#include "redis/transport/script.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace seenby::redis {
namespace {

/// SHA-1 (RFC 3174), which Redis names its scripts by. Not used for anything that must be secure.
class Sha1 {
 public:
  [[nodiscard]] static std::string hex_of(std::string_view text) {
    Sha1 sha;
    std::string padded(text);
    padded.push_back('\x80');
    while (padded.size() % 64 != 56) padded.push_back('\0');
    const std::uint64_t bits = static_cast<std::uint64_t>(text.size()) * 8;
    for (int shift = 56; shift >= 0; shift -= 8) padded.push_back(static_cast<char>(bits >> shift & 0xff));
    for (std::size_t at = 0; at < padded.size(); at += 64) sha.add_block(std::string_view(padded).substr(at, 64));
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    for (const std::uint32_t word : sha.state_) {
      for (int shift = 28; shift >= 0; shift -= 4) hex.push_back(digits[word >> shift & 0xf]);
    }
    return hex;
  }

 private:
  void add_block(std::string_view block) {
    std::array<std::uint32_t, 80> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 4; ++j) w[i] = w[i] << 8 | static_cast<unsigned char>(block[i * 4 + j]);
    }
    for (std::size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = state_;
    for (std::size_t i = 0; i < 80; ++i) {
      const std::uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999U
                                  : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1U
                                  : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcU
                                           : (b ^ c ^ d) + 0xca62c1d6U;
      const std::uint32_t next = std::rotl(a, 5) + mixed + e + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    const std::array<std::uint32_t, 5> added{a, b, c, d, e};
    for (std::size_t i = 0; i < 5; ++i) state_[i] += added[i];
  }

  std::array<std::uint32_t, 5> state_{0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U};
};

/// The same call by the script's text.
Command by_text(const Command& call, const Script& script) {
  Command command;
  command.add("EVAL").add(script.source());
  for (std::size_t i = 2; i < call.size(); ++i) {
    if (i == 3 && call.has_key()) {
      command.add_key(call[i]);
    } else {
      command.add(call[i]);
    }
  }
  command.expects_at_most(call.reply_limit());
  if (call.is_read_only()) command.reads_only();
  return command;
}

}  // namespace

Script::Script(std::string source, std::size_t longest_reply)
    : source_(std::move(source)), sha1_(Sha1::hex_of(source_)), longest_reply_(longest_reply) {}

Command Script::call(std::span<const std::string_view> keys, std::span<const std::string_view> arguments) const {
  Command command;
  command.add("EVALSHA").add(sha1_).add(static_cast<std::int64_t>(keys.size()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i == 0) {
      command.add_key(keys[i]);
    } else {
      command.add(keys[i]);
    }
  }
  for (const std::string_view argument : arguments) command.add(argument);
  command.expects_at_most(longest_reply_);
  return command;
}

Result<std::vector<Reply>> execute_batch(Executor& executor, std::span<const Command> batch, Deadline deadline) {
  auto replies = executor.execute(batch, deadline);
  if (!replies || replies->size() == batch.size()) return replies;
  std::string message = "seenby::redis: expected ";
  message.append(std::to_string(batch.size())).append(" replies from the executor, got ");
  return Error{ErrorCode::corrupt, message.append(std::to_string(replies->size()))};
}

Result<std::vector<Reply>> execute_scripts(Executor& executor, std::span<const Command> batch,
                                           std::span<const Script* const> scripts, Deadline deadline) {
  auto replies = execute_batch(executor, batch, deadline);
  if (!replies) return replies;
  std::vector<std::size_t> unknown;
  std::vector<Command> again;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Error* error = (*replies)[i].error();
    if (error == nullptr || scripts[i] == nullptr || !error->message.starts_with("NOSCRIPT")) continue;
    unknown.push_back(i);
    again.push_back(by_text(batch[i], *scripts[i]));
  }
  if (unknown.empty()) return replies;
  auto more = execute_batch(executor, again, deadline);
  if (!more) return more;
  for (std::size_t i = 0; i < unknown.size(); ++i) (*replies)[unknown[i]] = std::move((*more)[i]);
  return replies;
}

Result<Reply> execute_script(Executor& executor, const Script& script, std::span<const std::string_view> keys,
                             std::span<const std::string_view> arguments, Deadline deadline) {
  const Command call = script.call(keys, arguments);
  const Script* const scripts[] = {&script};
  auto replies = execute_scripts(executor, {&call, 1}, scripts, deadline);
  if (!replies) return std::move(replies).error();
  if (const Error* error = replies->front().error()) return *error;
  return std::move(replies->front());
}

}  // namespace seenby::redis
