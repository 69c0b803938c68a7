// SPDX-License-Identifier: MIT
// Sealing and opening of tokens. Nothing here branches or indexes by a secret, nor by a token's bytes before its
// signature has verified.

#include "seenby/token/seen_token.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>

#include "seenby/detail/bits.hpp"

namespace seenby {
namespace {

constexpr std::uint8_t token_magic = 0xE1;
constexpr std::size_t header_size = 8;
constexpr std::size_t tag_size = 16;
constexpr std::size_t min_secret_size = 32;
constexpr std::size_t sha256_size = 32;
constexpr std::int64_t year_10000 = 253'402'300'800;  // seconds since 1970
constexpr std::string_view domain = "seenby token 1";

using Bytes = std::vector<std::byte>;
using Tag = std::array<std::byte, sha256_size>;

Error token_error(ErrorCode code, std::string_view message) { return {code, std::string("seenby: ").append(message)}; }

std::size_t encoded_size(std::size_t bytes) { return bytes / 3 * 4 + (bytes % 3 == 0 ? 0 : bytes % 3 + 1); }

/// base64url of RFC 4648, section 5, without padding.
std::string encode_base64url(std::span<const std::byte> bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  text.reserve(encoded_size(bytes.size()));
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = (group << 8) | (i < count ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i <= count; ++i) text.push_back(alphabet[(group >> (18 - 6 * i)) & 63U]);
  }
  return text;
}

/// All ones when low <= c <= high, else zero; no branch.
std::uint32_t within(std::int32_t c, std::int32_t low, std::int32_t high) {
  return ~static_cast<std::uint32_t>(((c - low) | (high - c)) >> 31);
}

struct Decoded {
  Bytes bytes;
  std::uint32_t invalid = 0;  // not zero when a character or a loose bit is wrong
};

/// Decodes every character whatever it is, in the same time: `invalid` tells afterwards.
Decoded decode_base64url(std::string_view text) {
  Decoded decoded;
  decoded.bytes.resize(text.size() / 4 * 3 + (text.size() % 4 == 0 ? 0 : text.size() % 4 - 1));
  decoded.invalid = text.size() % 4 == 1 ? 1 : 0;
  std::uint32_t group = 0;
  std::size_t out = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<std::int32_t>(static_cast<unsigned char>(text[i]));
    const std::uint32_t upper = within(c, 'A', 'Z');
    const std::uint32_t lower = within(c, 'a', 'z');
    const std::uint32_t digit = within(c, '0', '9');
    const std::uint32_t minus = within(c, '-', '-');
    const std::uint32_t underscore = within(c, '_', '_');
    const auto code = static_cast<std::uint32_t>(c);
    const std::uint32_t value = (upper & (code - 'A')) | (lower & (code - 'a' + 26)) | (digit & (code - '0' + 52)) |
                                (minus & 62U) | (underscore & 63U);
    decoded.invalid |= ~(upper | lower | digit | minus | underscore);
    group = (group << 6) | value;
    const std::size_t bits = 6 * (i % 4 + 1) % 8;  // of this character's, that wait for the next byte
    if (i % 4 != 0) decoded.bytes[out++] = static_cast<std::byte>(group >> bits);
  }
  // Bits that no byte takes must be zero, or one payload would have several tokens.
  if (text.size() % 4 == 2) decoded.invalid |= group & 0x0fU;
  if (text.size() % 4 == 3) decoded.invalid |= group & 0x03U;
  return decoded;
}

/// HMAC-SHA-256 over the context and the body. Nothing when the library refuses.
std::optional<Tag> sign(const TokenKey& key, std::span<const std::byte> context, std::span<const std::byte> body) {
  Bytes message(context.size() + body.size());
  std::ranges::copy(body, std::ranges::copy(context, message.begin()).out);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.secret.data(), static_cast<int>(key.secret.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(), &size);
  if (made == nullptr || size != sha256_size) return std::nullopt;
  Tag tag;
  std::memcpy(tag.data(), digest.data(), tag.size());
  return tag;
}

Error library_error() { return token_error(ErrorCode::unavailable, "the crypto library refuses HMAC-SHA-256"); }

}  // namespace

SeenTokens::SeenTokens(SeenTokenOptions options) : options_(std::move(options)) {
  if (options_.keys.empty()) throw std::invalid_argument("seenby: expected at least one token key, got none");
  for (std::size_t i = 0; i < options_.keys.size(); ++i) {
    const TokenKey& key = options_.keys[i];
    if (key.secret.size() < min_secret_size ||
        key.secret.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      std::string message = "seenby: expected a token secret of at least 32 bytes, got ";
      message.append(std::to_string(key.secret.size())).append(" for key ").append(std::to_string(key.id));
      throw std::invalid_argument(message);
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (options_.keys[other].id != key.id) continue;
      std::string message = "seenby: expected token keys of different ids, got two of id ";
      throw std::invalid_argument(message.append(std::to_string(key.id)));
    }
  }
  // With its length before it, no audience and token can be read as another audience and another token.
  context_.resize(domain.size() + 8 + options_.audience.size());
  std::ranges::copy(std::as_bytes(std::span(domain)), context_.begin());
  detail::store_le(context_.data() + domain.size(), std::uint64_t{options_.audience.size()});
  std::ranges::copy(std::as_bytes(std::span(options_.audience)), context_.end() - std::ssize(options_.audience));
}

std::size_t SeenTokens::characters_for(std::size_t payload_bytes) noexcept {
  return encoded_size(header_size + payload_bytes + tag_size);
}

Result<std::string> SeenTokens::seal_bytes(std::span<const std::byte> payload, std::chrono::seconds lifetime) const {
  const Time now = options_.clock ? options_.clock() : system_time();
  const std::int64_t second = now.time_since_epoch().count();
  if (second < 0 || second >= year_10000 || lifetime.count() < 1 || lifetime.count() >= year_10000 - second) {
    std::string message = "expected a token lifetime of at least 1 s that ends before the year 10000, got ";
    return token_error(ErrorCode::invalid_argument, message.append(std::to_string(lifetime.count())).append(" s"));
  }
  if (const std::size_t size = characters_for(payload.size()); size > options_.max_characters) {
    std::string message = "expected a token of at most ";
    message.append(std::to_string(options_.max_characters)).append(" characters, but ");
    message.append(std::to_string(payload.size())).append(" bytes of filter need ").append(std::to_string(size));
    return token_error(ErrorCode::too_large, message);
  }
  const TokenKey& key = options_.keys.front();
  Bytes token(header_size + payload.size() + tag_size);
  const auto body = std::span(token).first(header_size + payload.size());
  detail::store_le(body.data(), static_cast<std::uint64_t>(second + lifetime.count()) << 16 |
                                    static_cast<std::uint64_t>(key.id) << 8 | token_magic);
  std::ranges::copy(payload, body.begin() + header_size);
  const auto tag = sign(key, context_, body);
  if (!tag) return library_error();
  std::copy_n(tag->begin(), tag_size, token.end() - tag_size);
  return encode_base64url(token);
}

Result<std::vector<std::byte>> SeenTokens::open_bytes(std::string_view token) const {
  // A token's length is no secret: these two answer at once.
  if (token.size() > options_.max_characters) {
    std::string message = "expected a token of at most ";
    message.append(std::to_string(options_.max_characters)).append(" characters, got ");
    return token_error(ErrorCode::too_large, message.append(std::to_string(token.size())));
  }
  if (token.size() < characters_for(0)) {
    std::string message = "expected a token of at least ";
    message.append(std::to_string(characters_for(0))).append(" characters, got ");
    return token_error(ErrorCode::truncated, message.append(std::to_string(token.size())));
  }
  const Decoded decoded = decode_base64url(token);
  const std::span<const std::byte> all(decoded.bytes);
  const auto body = all.first(all.size() - tag_size);
  const auto claimed = all.last(tag_size);
  const auto header = detail::load_le<std::uint64_t>(body.data());

  std::uint32_t verified = 0;
  for (const TokenKey& key : options_.keys) {
    const auto tag = sign(key, context_, body);
    if (!tag) return library_error();
    const auto differs = static_cast<std::uint32_t>(CRYPTO_memcmp(tag->data(), claimed.data(), tag_size));
    const auto other_id = static_cast<std::uint32_t>((header >> 8 & 0xffU) ^ key.id);
    // Neither exceeds 31 bits, so subtracting one borrows into the top bit for zero alone.
    verified |= ((differs | other_id) - 1) >> 31;
  }
  const auto wrong_version = static_cast<std::uint32_t>((header & 0xffU) ^ token_magic);
  if ((verified & 1U) == 0 || (decoded.invalid | wrong_version) != 0) {
    return token_error(ErrorCode::forged, "the token does not verify: changed, or of another key or audience");
  }
  const auto expires = static_cast<std::int64_t>(header >> 16);
  const Time now = options_.clock ? options_.clock() : system_time();
  if (now.time_since_epoch().count() >= expires) {
    std::string message = "the token expired at ";
    message.append(std::to_string(expires)).append(" s, and now it is ");
    return token_error(ErrorCode::expired, message.append(std::to_string(now.time_since_epoch().count())).append(" s"));
  }
  const auto payload = body.subspan(header_size);
  return Bytes(payload.begin(), payload.end());
}

}  // namespace seenby
