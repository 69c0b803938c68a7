#pragma once
// SPDX-License-Identifier: MIT
// SeenTokens: the filter of an anonymous session as a compact signed string that the client carries.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// A key that tokens are signed with.
struct TokenKey {
  std::uint8_t id = 0;            ///< named in each token, so that keys can be rotated
  std::vector<std::byte> secret;  ///< at least 32 random bytes
};

/// The keys that sign tokens, their audience, and their maximum length.
struct SeenTokenOptions {
  std::vector<TokenKey> keys;          ///< the first signs; all of them verify. At least one, ids all different
  std::string audience;                ///< what the tokens are for (site, tenant, surface); another's are refused
  std::size_t max_characters = 3'800;  ///< of a token: a cookie holds 4,096 with its name and attributes
  Clock clock{};                       ///< the system's when empty
};

/// Seals a filter into a string and opens it again, so that a visitor without an account carries what they have seen in
/// a cookie or a cursor, and the server keeps nothing. A client can read how full its filter is and can replay an older
/// token of its own until that expires; it cannot change one, and neither make nor use one of another audience.
///
/// A token is base64url (no padding) of: 0 u8 0xE1 (token, version 1), 1 u8 key id, 2 u48 the second since 1970 at
/// which it expires (little-endian), the filter in format v1, and the first 16 bytes of HMAC-SHA-256 (RFC 2104,
/// truncated as its section 5 allows) under the key, over "seenby token 1", the audience's length as u64, the audience,
/// and everything before the tag. A session of 100 items at 1% is 235 characters.
///
/// Opening takes as long for a forged token as for a good one of its length: every character is decoded, the signature
/// is computed under every key, and compared without a branch, before anything in the token is believed.
///
/// To rotate keys: add the new key at the end everywhere, then move it to the front, then drop the old one when the
/// last token it signed has expired.
///
/// Thread safety: any thread may call any const member.
class SeenTokens {
 public:
  /// Throws std::invalid_argument for no key, a secret shorter than 32 bytes, or two keys of one id.
  explicit SeenTokens(SeenTokenOptions options);

  /// A token that holds a filter (BloomFilter, ScalableFilter: whatever has encode()) and expires after `lifetime`.
  /// Errors: invalid_argument (a lifetime below one second or past the year 9999), too_large (over max_characters: seal
  /// a smaller filter, or raise the rate), unavailable (the crypto library refuses).
  template <class Filter>
  requires requires(const Filter& filter) { filter.encode(); }
  [[nodiscard]] Result<std::string> seal(const Filter& filter, std::chrono::seconds lifetime) const {
    return seal_bytes(filter.encode(), lifetime);
  }
  /// As above, for bytes of any meaning.
  [[nodiscard]] Result<std::string> seal_bytes(std::span<const std::byte> payload, std::chrono::seconds lifetime) const;

  /// The filter in a token. Errors: too_large (longer than max_characters), truncated (shorter than any token), forged
  /// (anything else that does not verify: changed, cut, not base64url, of another key, version or audience), expired
  /// (signed by us, but past its time), unavailable, and, for a token that we signed over another kind of filter,
  /// those of Filter::decode.
  template <class Filter>
  [[nodiscard]] Result<Filter> open(std::string_view token, typename Filter::hasher_type hash = {}) const {
    auto payload = open_bytes(token);
    if (!payload) return std::move(payload).error();
    return Filter::decode(*payload, std::move(hash));
  }
  /// The filter's bytes in a token, checked but not decoded. Errors: as `open`.
  [[nodiscard]] Result<std::vector<std::byte>> open_bytes(std::string_view token) const;

  /// The characters of a token over a payload of this many bytes.
  [[nodiscard]] static std::size_t characters_for(std::size_t payload_bytes) noexcept;

 private:
  SeenTokenOptions options_;
  std::vector<std::byte> context_;  // what every signature covers before the token itself
};

}  // namespace seenby
