// SPDX-License-Identifier: MIT
#include "seenby/text/name_normaliser.hpp"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <stdexcept>

namespace seenby {

NameNormaliser::NameNormaliser() {
  UErrorCode failure = U_ZERO_ERROR;
  rules_ = icu::Normalizer2::getNFKCCasefoldInstance(failure);
  if (U_FAILURE(failure) != 0) {
    throw std::runtime_error(std::string("seenby: expected ICU's rules for NFKC_Casefold, got ") +
                             u_errorName(failure));
  }
}

std::string NameNormaliser::operator()(std::string_view name) const {
  // By way of UTF-16, which replaces invalid UTF-8 by U+FFFD; normalizeUTF8 of ICU 72 makes "m" of "\xff".
  const auto text = icu::UnicodeString::fromUTF8(icu::StringPiece(name.data(), static_cast<int32_t>(name.size())));
  UErrorCode failure = U_ZERO_ERROR;
  const icu::UnicodeString folded = static_cast<const icu::Normalizer2*>(rules_)->normalize(text, failure);
  if (U_FAILURE(failure) != 0) {
    throw std::runtime_error(std::string("seenby: expected a name that ICU folds, got ") + u_errorName(failure));
  }
  std::string bytes;
  folded.toUTF8String(bytes);
  return bytes;
}

std::string NameNormaliser::name() {
  UVersionInfo version;
  u_getUnicodeVersion(version);
  return "nfkc_casefold/" + std::to_string(version[0]) + "." + std::to_string(version[1]);
}

}  // namespace seenby
