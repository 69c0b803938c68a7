#pragma once
// SPDX-License-Identifier: MIT
// Result<T>: a value or a typed error, for everything that reads bytes or does I/O.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "seenby/config.hpp"

namespace seenby {

/// What went wrong, for a program to branch on. The message beside it is for a person.
enum class ErrorCode : std::uint8_t {
  invalid_argument,     ///< a value outside its range; the message names the range and what came
  parameter_mismatch,   ///< two filters, or a filter and a pool, of different shape, hash or seed
  truncated,            ///< fewer bytes than the header promises
  bad_magic,            ///< not written by seenby
  unsupported_version,  ///< written by a newer seenby
  corrupt,              ///< a checksum or a field contradicts the bytes
  too_large,            ///< over a limit the caller or the format sets
  unknown_user,         ///< no filter to ask, and the caller asked to fail on that
  conflict,             ///< a compare-and-swap lost more often than the policy retries
  wrong_type,           ///< the key holds something that is no filter
  unreachable,          ///< no connection to the store
  timed_out,            ///< the store did not answer within the deadline
  refused,              ///< the store answered with an error (authentication, read-only, out of memory)
  unavailable,          ///< a feature is absent (a module, a build option)
  io,                   ///< the operating system refused a read or a write
  expired,              ///< a token or key is past its time
  forged,               ///< a signature does not verify
};

/// The name of a code, as in the enumeration.
[[nodiscard]] constexpr std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::parameter_mismatch: return "parameter_mismatch";
    case ErrorCode::truncated: return "truncated";
    case ErrorCode::bad_magic: return "bad_magic";
    case ErrorCode::unsupported_version: return "unsupported_version";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::too_large: return "too_large";
    case ErrorCode::unknown_user: return "unknown_user";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::wrong_type: return "wrong_type";
    case ErrorCode::unreachable: return "unreachable";
    case ErrorCode::timed_out: return "timed_out";
    case ErrorCode::refused: return "refused";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::io: return "io";
    case ErrorCode::expired: return "expired";
    case ErrorCode::forged: return "forged";
  }
  return "unnamed";
}

/// Whether the other side could not be asked at all: asking for something else now is as vain.
[[nodiscard]] constexpr bool is_down(ErrorCode code) noexcept {
  return code == ErrorCode::unreachable || code == ErrorCode::timed_out;
}
/// Whether the same call may succeed later: the store or the disk was not there, was busy, or refused for now.
[[nodiscard]] constexpr bool may_pass(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::unreachable:
    case ErrorCode::timed_out:
    case ErrorCode::refused:
    case ErrorCode::conflict:
    case ErrorCode::unavailable:
    case ErrorCode::io: return true;
    default: return false;
  }
}

/// A typed error: the code to branch on, and a message that says what was expected, what arrived and for which key.
struct Error {
  ErrorCode code = ErrorCode::io;  ///< what to branch on
  std::string message;             ///< for people; its words may change
};

/// Thrown by Result::value() and Result::or_throw() when there is none.
class BadResult : public std::runtime_error {
 public:
  /// Its what() is the code and the message.
  explicit BadResult(const Error& error)
      : std::runtime_error(std::string(to_string(error.code)).append(": ").append(error.message)), code_(error.code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }  ///< the error's code

 private:
  ErrorCode code_;
};

/// A value or an Error, with std::expected's member names. As thread-safe as the value.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;      ///< what a success holds
  using error_type = Error;  ///< what a failure holds

  /// A success.
  Result(T value) : value_(std::in_place, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// A failure.
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return value_.has_value(); }  ///< whether there is a value
  explicit operator bool() const noexcept { return has_value(); }               ///< whether there is a value

  /// The value. Throws BadResult when there is none.
  T& value() & { return require(), *value_; }
  const T& value() const& { return require(), *value_; }    ///< the same, to read
  T&& value() && { return require(), std::move(*value_); }  ///< the same, to move from
  /// The same as a statement says it: `store.create(user).or_throw();`. The value may be dropped.
  T or_throw() && { return require(), std::move(*value_); }
  const T& or_throw() const& { return require(), *value_; }  ///< the same of a result that stays
  /// The value, or `fallback` where there is none.
  template <class U>
  [[nodiscard]] T value_or(U&& fallback) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(fallback));
  }

  /// The value, unchecked: has_value() must hold.
  [[nodiscard]] T& operator*() & noexcept { return *value_; }
  [[nodiscard]] const T& operator*() const& noexcept { return *value_; }    ///< the value, unchecked
  [[nodiscard]] T&& operator*() && noexcept { return std::move(*value_); }  ///< the value, unchecked
  [[nodiscard]] T* operator->() noexcept { return &*value_; }               ///< the value's members, unchecked
  [[nodiscard]] const T* operator->() const noexcept { return &*value_; }   ///< the value's members, unchecked

  /// The error, unchecked: has_value() must not hold.
  [[nodiscard]] const Error& error() const& noexcept { return error_; }
  [[nodiscard]] Error&& error() && noexcept { return std::move(error_); }  ///< the error to move from, unchecked

 private:
  void require() const {
    if (!has_value()) throw BadResult(error());
  }
  // Not a variant: an empty error costs less than a variant's visitors do, in every program that includes this.
  std::optional<T> value_;
  Error error_;
};

/// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;   ///< a success holds nothing
  using error_type = Error;  ///< what a failure holds

  Result() noexcept = default;
  /// A failure.
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return !error_; }  ///< whether there is a value
  explicit operator bool() const noexcept { return has_value(); }    ///< whether there is a value

  /// Throws BadResult on an error.
  void value() const {
    if (error_) throw BadResult(*error_);
  }
  /// The same as a statement says it: `store.create(user).or_throw();`.
  void or_throw() const { value(); }
  /// The error, unchecked: has_value() must not hold.
  [[nodiscard]] const Error& error() const& noexcept { return *error_; }
  [[nodiscard]] Error&& error() && noexcept { return std::move(*error_); }  ///< the error to move from, unchecked

 private:
  std::optional<Error> error_;
};

}  // namespace seenby
