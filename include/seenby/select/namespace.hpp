#pragma once
// SPDX-License-Identifier: MIT
// Namespace: one user's quiz history must not hide feed items, and one tenant's user is not another's.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "seenby/hash.hpp"

namespace seenby {

/// A surface, a tenant, a resource type: everything recorded under one is invisible to the others.
///
///     const seenby::Namespace quiz{"quiz"}, feed{"feed"};
///     filter.record(quiz(user), 7);              // a store of std::string users
///     filter.ask(feed(user), 7);                 // unseen (or unknown): another history
///     const auto tenant = seenby::Namespace{"tenant"}.inside("42");
///
/// A scoped user is a readable key, `quiz:alice`; colons and backslashes in the parts are escaped, so that no two
/// different pairs give one key. To forget a person, forget each of their scoped users. Immutable: any thread may use
/// it.
class Namespace {
 public:
  /// Names of different namespaces never make the same user.
  explicit Namespace(std::string_view name) : prefix_(escaped(name).append(":")) {}

  /// A namespace within this one.
  [[nodiscard]] Namespace inside(std::string_view name) const {
    Namespace inner{name};
    inner.prefix_.insert(0, prefix_);
    return inner;
  }

  /// The user within this namespace.
  template <HashableItem User>
  [[nodiscard]] std::string operator()(const User& user) const {
    if constexpr (StringItem<User>) {
      return std::string(prefix_).append(escaped(user));
    } else if constexpr (BytesItem<User>) {
      const std::span<const std::byte> bytes = user;
      return std::string(prefix_).append(escaped({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    } else if constexpr (std::is_enum_v<User>) {
      return (*this)(static_cast<std::underlying_type_t<User>>(user));
    } else {
      return std::string(prefix_).append(std::to_string(user));
    }
  }

 private:
  [[nodiscard]] static std::string escaped(std::string_view part) {
    std::string text;
    text.reserve(part.size() + 1);
    for (const char c : part) {
      if (c == ':' || c == '\\') text.push_back('\\');
      text.push_back(c);
    }
    return text;
  }
  std::string prefix_;
};

}  // namespace seenby
