#pragma once
// SPDX-License-Identifier: MIT
// The errors the command reports in one line: where, what was expected, what came.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "seenby/result.hpp"

namespace seenby::tool {

/// Input or an option that cannot be used. The command prints it behind "seenby: " and ends with exit code 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One line of a file that cannot be used; --skip-bad counts it and goes on.
class BadLine : public InputError {
 public:
  BadLine(std::string_view file, std::uint64_t line, std::string_view problem)
      : InputError(std::string(file).append(":").append(std::to_string(line)).append(": ").append(problem)) {}
};

/// A library message without the name it begins with ("seenby: ", "seenby::redis: "), to be put behind our own.
[[nodiscard]] std::string_view without_prefix(std::string_view message);

/// The value of a result. Throws InputError for an argument that cannot be used, and a std::runtime_error with the
/// result's message for everything else: a server that does not answer, a disk that is full.
template <class T>
T value_of(Result<T> result) {
  if (result) {
    if constexpr (std::is_void_v<T>)
      return;
    else
      return std::move(*result);
  }
  if (result.error().code == ErrorCode::invalid_argument) throw InputError(result.error().message);
  throw std::runtime_error(result.error().message);
}

/// Text from outside, fit for one line of a terminal: control characters become '?', and it is cut after 60 bytes.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace seenby::tool
