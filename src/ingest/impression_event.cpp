// SPDX-License-Identifier: MIT
#include "seenby/ingest/impression_event.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "seenby/histories/keyed_history.hpp"

namespace seenby {

namespace {

using Json = nlohmann::json;

constexpr std::size_t max_event_bytes = 64 * 1024;

Error expected(std::string_view what, std::string_view got) {
  return {ErrorCode::invalid_argument,
          std::string("seenby::ingest: expected ").append(what).append(", got ").append(got.substr(0, 100))};
}

/// Reads the fields of one object, keeping the first error.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  void name(const char* field, std::string& into, bool required) {
    const Json* value = find(field, required);
    if (value == nullptr) return;
    if (value->is_string()) {
      into = value->get<std::string>();
    } else if (value->is_number_integer()) {
      into = value->dump();
    } else {
      fail(field, "a text or an integer", *value);
    }
  }
  void text(const char* field, std::string& into) {
    const Json* value = find(field, false);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(field, "a text", *value);
    into = value->get<std::string>();
  }
  void flag(const char* field, bool& into) {
    const Json* value = find(field, false);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(field, "true or false", *value);
    into = value->get<bool>();
  }
  void number(const char* field, std::int64_t& into, std::int64_t least, std::int64_t most, bool required) {
    const Json* value = find(field, required);
    if (value == nullptr) return;
    const bool fits = value->is_number_integer() &&
                      !(value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(most));
    if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
      return fail(field, "an integer from " + std::to_string(least) + " to " + std::to_string(most), *value);
    }
    into = value->get<std::int64_t>();
  }
  /// The first error; one too for an unknown field.
  [[nodiscard]] Result<void> finish() {
    if (!error_ && read_ != object_.size()) {
      for (const auto& [key, value] : object_.items()) {
        static constexpr std::array known{
            "v", "id", "user", "item", "at", "visible", "surface", "visible_ms", "visible_percent", "anonymous"};
        if (std::find(known.begin(), known.end(), key) == known.end()) {
          return expected("only fields of the contract", "\"" + key + "\"");
        }
      }
    }
    if (error_) return *error_;
    return {};
  }

 private:
  const Json* find(const char* field, bool required) {
    const auto at = object_.find(field);
    if (at == object_.end()) {
      if (required && !error_) error_ = expected(std::string("a field \"") + field + "\"", "none");
      return nullptr;
    }
    ++read_;
    return &*at;
  }
  void fail(const char* field, const std::string& type, const Json& value) {
    if (!error_) error_ = expected(std::string("\"") + field + "\" to be " + type, value.dump());
  }

  const Json& object_;
  std::size_t read_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<ImpressionEvent> parse_impression(std::string_view json) {
  if (json.size() > max_event_bytes) {
    return Error{ErrorCode::too_large,
                 "seenby::ingest: expected an event of at most 65536 bytes, got " + std::to_string(json.size())};
  }
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) {
    return Error{ErrorCode::corrupt,
                 "seenby::ingest: expected an event as a JSON object in UTF-8, got " +
                     Json(std::string(json.substr(0, 100))).dump(-1, ' ', true, Json::error_handler_t::replace)};
  }
  Fields fields(object);
  std::int64_t version = 1;
  fields.number("v", version, 1, std::numeric_limits<std::int32_t>::max(), false);
  if (version > impression_version) {
    return Error{ErrorCode::unsupported_version,
                 "seenby::ingest: expected an event of version 1 at most, got " + std::to_string(version)};
  }
  ImpressionEvent event;
  std::int64_t at = 0;
  std::int64_t visible_ms = 0;
  std::int64_t visible_percent = 0;
  fields.text("id", event.id);
  fields.name("user", event.user, true);
  fields.name("item", event.item, true);
  fields.number("at", at, 0, std::numeric_limits<std::int64_t>::max(), true);
  fields.flag("anonymous", event.anonymous);
  fields.flag("visible", event.visible);
  fields.number("visible_ms", visible_ms, 0, std::numeric_limits<std::uint32_t>::max(), false);
  fields.number("visible_percent", visible_percent, 0, 100, false);
  fields.text("surface", event.surface);
  if (auto good = fields.finish(); !good) return std::move(good).error();
  event.at = Time{std::chrono::seconds{at}};
  event.visible_ms = static_cast<std::uint32_t>(visible_ms);
  event.visible_percent = static_cast<std::uint32_t>(visible_percent);
  return event;
}

Result<std::string> format_impression(const ImpressionEvent& event) {
  nlohmann::ordered_json object;
  object["v"] = impression_version;
  if (!event.id.empty()) object["id"] = event.id;
  object["user"] = event.user;
  object["item"] = event.item;
  object["at"] = event.at.time_since_epoch().count();
  if (event.anonymous) object["anonymous"] = true;
  if (!event.visible) object["visible"] = false;
  if (event.visible_ms != 0) object["visible_ms"] = event.visible_ms;
  if (event.visible_percent != 0) object["visible_percent"] = event.visible_percent;
  if (!event.surface.empty()) object["surface"] = event.surface;
  try {
    return object.dump();
  } catch (const Json::exception& bad) { return expected("names in UTF-8", bad.what()); }
}

Result<void> validate(const ImpressionEvent& event, const ImpressionRules& rules, Time now) {
  const auto name = [](std::string_view what, const std::string& value, bool required) -> Result<void> {
    if ((value.empty() && required) || value.size() > max_key_bytes) {
      return expected(std::string(what) + " of 1 to 1024 bytes", std::to_string(value.size()) + " bytes");
    }
    return {};
  };
  if (auto good = name(event.anonymous ? "a session" : "a user", event.user, true); !good) return good;
  if (auto good = name("an item", event.item, true); !good) return good;
  if (auto good = name("an id", event.id, false); !good) return good;
  if (event.at <= saturating_add(now, rules.max_ahead)) return {};
  return expected("\"at\" in seconds, at most " + std::to_string(rules.max_ahead.count()) + " s ahead of now (" +
                      std::to_string(now.time_since_epoch().count()) + ")",
                  std::to_string(event.at.time_since_epoch().count()));
}

}  // namespace seenby
