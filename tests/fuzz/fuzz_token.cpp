// SPDX-License-Identifier: MIT
// Feeds strings to SeenTokens: whoever lacks the key gets nothing in, and a sealed payload comes back whole or not at
// all.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/token/seen_token.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::ErrorCode;

void require(bool condition) {
  if (!condition) std::abort();
}

const seenby::SeenTokens& mint() {
  static const seenby::SeenTokens tokens({.keys = {{.id = 1, .secret = std::vector<std::byte>(32, std::byte{0x5a})},
                                                   {.id = 2, .secret = std::vector<std::byte>(40, std::byte{0xa5})}},
                                          .audience = "fuzz",
                                          .clock = [] { return seenby::Time{1'700'000'000s}; }});
  return tokens;
}

bool is_refusal(ErrorCode code) {
  return code == ErrorCode::forged || code == ErrorCode::truncated || code == ErrorCode::too_large;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // As a token. Only a corpus file that holds a good one (made under these very keys) may open.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto raw = mint().open_bytes(text);
  if (!raw) {
    require(!raw.error().message.empty());
    require(is_refusal(raw.error().code) || raw.error().code == ErrorCode::expired);
  }

  // As a payload: sealed, opened, and then with one character of the token changed, which the input chooses.
  const auto payload = std::as_bytes(std::span(data, size));
  const auto token = mint().seal_bytes(payload, 1h);
  require(token.has_value() == (seenby::SeenTokens::characters_for(size) <= 3'800));
  if (!token) return 0;
  const auto opened = mint().open_bytes(*token);
  require(opened.has_value() && std::ranges::equal(*opened, payload));
  std::string changed = *token;
  const std::size_t at = size == 0 ? 0 : (data[0] * 256U + data[size - 1]) % changed.size();
  const char other = size < 2 ? '!' : static_cast<char>(data[1]);
  if (changed[at] != other) {
    changed[at] = other;
    const auto refused = mint().open_bytes(changed);
    require(!refused.has_value() && refused.error().code == ErrorCode::forged);
  }
  // What is signed may still be no filter: a typed error, or a filter that answers.
  const auto filter = mint().open<seenby::BloomFilter<std::uint64_t>>(*token);
  if (filter) require(filter->estimated_fpr() >= 0 && filter->estimated_fpr() <= 1);
  return 0;
}
