// SPDX-License-Identifier: MIT
// Result<T>: a value or a typed error, never both.

#include "seenby/result.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace {

using seenby::BadResult;
using seenby::Error;
using seenby::ErrorCode;
using seenby::Result;

TEST_CASE("a result holds a value or an error", "[result]") {
  const Result<int> good = 7;
  REQUIRE(good.has_value());
  CHECK(*good == 7);
  CHECK(good.value() == 7);
  CHECK(good.value_or(1) == 7);

  const Result<int> bad = Error{ErrorCode::truncated, "expected 32 bytes, got 3"};
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == ErrorCode::truncated);
  CHECK(bad.value_or(1) == 1);
}

TEST_CASE("asking an error for its value throws what went wrong", "[result]") {
  const Result<std::string> bad = Error{ErrorCode::timed_out, "no answer in 50 ms"};
  CHECK_THROWS_AS(bad.value(), BadResult);
  CHECK_THROWS_WITH(bad.value(), "timed_out: no answer in 50 ms");
  try {
    (void)bad.value();
  } catch (const BadResult& thrown) { CHECK(thrown.code() == ErrorCode::timed_out); }
}

TEST_CASE("a result of nothing is success until it is given an error", "[result]") {
  const Result<void> good{};
  CHECK(good.has_value());
  CHECK_NOTHROW(good.value());
  const Result<void> bad = Error{ErrorCode::io, "disk full"};
  CHECK_FALSE(bad.has_value());
  CHECK_THROWS_AS(bad.value(), BadResult);
}

TEST_CASE("or_throw is a statement: the value, or what went wrong", "[result]") {
  Result<int> good = 7;
  CHECK(good.or_throw() == 7);
  good.or_throw();
  CHECK(Result<std::unique_ptr<int>>(std::make_unique<int>(5)).or_throw() != nullptr);
  Result<void>{}.or_throw();
  const Error refused{ErrorCode::refused, "read-only"};
  CHECK_THROWS_WITH(Result<int>(refused).or_throw(), "refused: read-only");
  CHECK_THROWS_WITH(Result<void>(refused).or_throw(), "refused: read-only");
}

TEST_CASE("a result moves what cannot be copied", "[result]") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 5);
}

TEST_CASE("every error code has a name of its own", "[result]") {
  for (int code = 0; code <= static_cast<int>(ErrorCode::forged); ++code) {
    const auto name = to_string(static_cast<ErrorCode>(code));
    CHECK(name != "unnamed");
    for (int other = 0; other < code; ++other) CHECK(to_string(static_cast<ErrorCode>(other)) != name);
  }
}

}  // namespace
