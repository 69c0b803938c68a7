#pragma once
// SPDX-License-Identifier: MIT
// Parameters: a statement's values in PostgreSQL's binary format.

#include <cstdint>
#include <string>
#include <vector>

#include "seenby/histories/keyed_history.hpp"

namespace seenby::postgres {

/// Values for $1, $2, ... Numbers are bigint, text and bytes bytea; arrays of either.
class Parameters {
 public:
  Parameters& add(std::int64_t number) {
    append_number(value(bigint_oid), static_cast<std::uint64_t>(number), 8);
    return *this;
  }
  Parameters& add(const KeyView& key) {
    if (key.kind == ItemKind::integer) return add(key.number);
    value(bytea_oid).append(key.bytes);
    return *this;
  }
  /// An array of `count` values; `key_of(i)` gives the i-th, all of one kind.
  template <class KeyOf>
  Parameters& add_array(ItemKind kind, std::size_t count, const KeyOf& key_of) {
    const bool numbers = kind == ItemKind::integer;
    std::string& out = value(numbers ? bigint_array_oid : bytea_array_oid);
    // Dimensions, whether there are NULLs, the elements' type; then the one dimension's length and first index.
    for (const std::uint64_t field :
         {std::uint64_t{1}, std::uint64_t{0}, std::uint64_t{numbers ? bigint_oid : bytea_oid}, std::uint64_t{count},
          std::uint64_t{1}}) {
      append_number(out, field, 4);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const KeyView key = key_of(i);
      append_number(out, numbers ? 8 : key.bytes.size(), 4);
      if (numbers) {
        append_number(out, static_cast<std::uint64_t>(key.number), 8);
      } else {
        out.append(key.bytes);
      }
    }
    return *this;
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(values_.size()); }
  [[nodiscard]] const unsigned* types() const noexcept { return types_.data(); }
  [[nodiscard]] std::vector<const char*> data() const {
    std::vector<const char*> pointers;
    for (const std::string& value : values_) pointers.push_back(value.data());
    return pointers;
  }
  [[nodiscard]] std::vector<int> lengths() const {
    std::vector<int> sizes;
    for (const std::string& value : values_) sizes.push_back(static_cast<int>(value.size()));
    return sizes;
  }

 private:
  // pg_type.dat: what no version of PostgreSQL has changed.
  static constexpr unsigned bytea_oid = 17;
  static constexpr unsigned bigint_oid = 20;
  static constexpr unsigned bytea_array_oid = 1001;
  static constexpr unsigned bigint_array_oid = 1016;

  std::string& value(unsigned type) {
    types_.push_back(type);
    return values_.emplace_back();
  }
  static void append_number(std::string& out, std::uint64_t number, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift & 0xff));
  }

  std::vector<unsigned> types_;
  std::vector<std::string> values_;
};

}  // namespace seenby::postgres
