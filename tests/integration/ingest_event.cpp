// SPDX-License-Identifier: MIT
// ImpressionEvent: one contract for web and mobile; what breaks it says how.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "seenby/ingest/impression_event.hpp"

namespace {

using namespace seenby;

Time at(std::int64_t seconds) { return Time{std::chrono::seconds{seconds}}; }
Error refused(const std::string& json) {
  auto event = parse_impression(json);
  INFO(json);
  REQUIRE_FALSE(event);
  return std::move(event).error();
}

TEST_CASE("The shortest event names a user, an item and a time", "[ingest]") {
  const auto event = parse_impression(R"({"user":"u","item":"i","at":1700000000})").or_throw();
  CHECK(event.user == "u");
  CHECK(event.item == "i");
  CHECK(event.at == at(1'700'000'000));
  CHECK(event.id.empty());
  CHECK_FALSE(event.anonymous);
  CHECK(ImpressionRules{.min_visible_ms = 1'000, .min_visible_percent = 50}.is_sight(event));
}

TEST_CASE("Web visibility and mobile viewability are told in the same fields", "[ingest][002-03]") {
  const auto web =
      parse_impression(R"({"v":1,"id":"e1","user":7,"item":18446744073709551615,"at":5,"surface":"web.feed",)"
                       R"("visible_ms":1200,"visible_percent":60})")
          .or_throw();
  CHECK(web.user == "7");
  CHECK(web.item == "18446744073709551615");
  CHECK(web.surface == "web.feed");
  const auto mobile =
      parse_impression(
          R"({"id":"e2","user":"s1","anonymous":true,"item":"i","at":5,"surface":"ios","visible_percent":40})")
          .or_throw();
  CHECK(mobile.anonymous);
  const ImpressionRules rules{.min_visible_ms = 1'000, .min_visible_percent = 50};
  CHECK(rules.is_sight(web));
  CHECK_FALSE(rules.is_sight(mobile));
  // What one client writes, another reads.
  for (const ImpressionEvent& event : {web, mobile}) {
    const auto again = parse_impression(format_impression(event).or_throw()).or_throw();
    CHECK(again.id == event.id);
    CHECK(again.user == event.user);
    CHECK(again.item == event.item);
    CHECK(again.at == event.at);
    CHECK(again.anonymous == event.anonymous);
    CHECK(again.visible_ms == event.visible_ms);
    CHECK(again.visible_percent == event.visible_percent);
    CHECK(again.surface == event.surface);
  }
}

TEST_CASE("Returned or loaded is not seen", "[ingest][002-01]") {
  CHECK_FALSE(
      ImpressionRules{}.is_sight(parse_impression(R"({"user":"u","item":"i","at":5,"visible":false})").or_throw()));
}

TEST_CASE("An event that breaks the contract says what was expected and what came", "[ingest]") {
  CHECK(refused("").code == ErrorCode::corrupt);
  CHECK(refused("[1]").code == ErrorCode::corrupt);
  CHECK(refused(R"({"user":"u","item":"i","at":5)").code == ErrorCode::corrupt);
  CHECK(refused("{\"user\":\"\xff\",\"item\":\"i\",\"at\":5}").code == ErrorCode::corrupt);
  CHECK(refused(std::string(100'000, ' ')).code == ErrorCode::too_large);
  CHECK(refused(R"({"v":2,"user":"u","item":"i","at":5,"dwell":3})").code == ErrorCode::unsupported_version);
  const auto field = [](const std::string& json, const std::string& message) {
    const Error error = refused(json);
    CHECK(error.code == ErrorCode::invalid_argument);
    CHECK(error.message == "seenby::ingest: expected " + message);
  };
  field(R"({"item":"i","at":5})", "a field \"user\", got none");
  field(R"({"user":"u","at":5})", "a field \"item\", got none");
  field(R"({"user":"u","item":"i"})", "a field \"at\", got none");
  field(R"({"user":"u","item":1.5,"at":5})", "\"item\" to be a text or an integer, got 1.5");
  field(R"({"user":null,"item":"i","at":5})", "\"user\" to be a text or an integer, got null");
  field(R"({"user":"u","item":"i","at":"5"})", "\"at\" to be an integer from 0 to 9223372036854775807, got \"5\"");
  field(R"({"user":"u","item":"i","at":-1})", "\"at\" to be an integer from 0 to 9223372036854775807, got -1");
  field(R"({"user":"u","item":"i","at":18446744073709551615})",
        "\"at\" to be an integer from 0 to 9223372036854775807, got 18446744073709551615");
  field(R"({"user":"u","item":"i","at":5,"visible_percent":101})",
        "\"visible_percent\" to be an integer from 0 to 100, got 101");
  field(R"({"user":"u","item":"i","at":5,"visible":"no"})", "\"visible\" to be true or false, got \"no\"");
  field(R"({"user":"u","item":"i","at":5,"vissible":false})", "only fields of the contract, got \"vissible\"");
}

TEST_CASE("Names of a size and clocks of today are valid; others say what is wrong", "[ingest][002-04]") {
  const ImpressionRules rules{.max_ahead = std::chrono::seconds{60}};
  const auto code = [&](const ImpressionEvent& event) {
    const auto valid = validate(event, rules, at(1'000));
    return valid ? std::nullopt : std::optional(valid.error().code);  // ErrorCode{} is invalid_argument
  };
  CHECK(code({.user = "u", .item = "i", .at = at(1'060)}) == std::nullopt);
  CHECK(code({.user = "u", .item = "i", .at = at(1'061)}) == ErrorCode::invalid_argument);
  CHECK(code({.user = "u", .item = "i", .at = Time::max()}) == ErrorCode::invalid_argument);
  CHECK(code({.user = "u", .item = "i", .at = at(-5)}) == std::nullopt);
  CHECK(code({.user = "", .item = "i", .at = at(1)}) == ErrorCode::invalid_argument);
  CHECK(code({.user = "u", .item = "", .at = at(1)}) == ErrorCode::invalid_argument);
  CHECK(code({.user = "u", .item = std::string(1'024, 'x'), .at = at(1)}) == std::nullopt);
  CHECK(code({.user = "u", .item = std::string(1'025, 'x'), .at = at(1)}) == ErrorCode::invalid_argument);
  CHECK(code({.user = std::string(1'000'000, 'x'), .item = "i", .at = at(1)}) == ErrorCode::invalid_argument);
}

}  // namespace
