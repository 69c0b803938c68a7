#pragma once
// SPDX-License-Identifier: MIT
// NameNormaliser: one spelling for names that people take for the same, by Unicode's rules.

#include <string>
#include <string_view>

namespace seenby {

/// Unicode's NFKC_Casefold (UAX #31, "identifier" matching): case, width and composed or decomposed accents do not
/// matter, and invisible characters are dropped. For a gate of usernames, on add and on check alike:
///
///     seenby::ExistenceGateOptions<std::string> options;
///     options.normalise = seenby::NameNormaliser{};
///     options.normaliser_name = seenby::NameNormaliser{}.name();   // part of a saved gate's identity
///
/// Names are UTF-8; invalid bytes become U+FFFD, so that every byte string is a name. Copyable; any thread may call it.
class NameNormaliser {
 public:
  /// Throws std::runtime_error where ICU has no data for it.
  NameNormaliser();
  [[nodiscard]] std::string operator()(std::string_view name) const;  ///< the folded name. Thread-safe. O(size).
  /// The rule and the version of Unicode it follows, e.g. "nfkc_casefold/15.0": another version may fold names that
  /// this one keeps apart, so a gate saved under one is not opened under the other.
  [[nodiscard]] static std::string name();

 private:
  const void* rules_;  // ICU's, which live as long as the process
};

}  // namespace seenby
