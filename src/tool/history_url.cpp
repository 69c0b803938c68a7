// SPDX-License-Identifier: MIT
// Opens histories by their URLs.

#include "history_url.hpp"

#include "components.hpp"

namespace seenby::tool {
namespace {

/// The value of a result, with what to do about a history of the other kind of items.
template <class T>
T value_or_hint(Result<T> result, ItemKind items) {
  if (!result && result.error().code == ErrorCode::parameter_mismatch) {
    throw InputError(std::string(without_prefix(result.error().message))
                         .append(items == ItemKind::text ? "; --items integer reads one of integers"
                                                         : "; without --items integer it is read as text"));
  }
  return value_of(std::move(result));
}

}  // namespace

AnyLog open_log(const std::string& url, ItemKind items, IfMissing if_missing) {
  const std::string_view scheme = scheme_of(url);
  if (scheme == "sqlite") {
#ifdef SEENBY_TOOL_WITH_SQLITE
    return AnyLog(value_or_hint(sqlite::Log::open(path_of(url, if_missing), ItemKind::text, items), items));
#else
    refuse_component("sqlite", "libsqlite3-dev");
#endif
  }
  if (scheme == "postgres" || scheme == "postgresql") {
#ifdef SEENBY_TOOL_WITH_POSTGRES
    return AnyLog(value_or_hint(postgres::Log::open(url, ItemKind::text, items), items));
#else
    refuse_component("postgres", "libpq-dev");
#endif
  }
  if (scheme.starts_with("redis") || scheme == "unix") {
#ifdef SEENBY_TOOL_WITH_REDIS
    return AnyLog(
        value_or_hint(redis::HistoryLog::open(value_of(redis::make_executor(url)), ItemKind::text, items), items));
#else
    refuse_component("redis", "libhiredis-dev");
#endif
  }
  static_cast<void>(if_missing);
  static_cast<void>(items);
  refuse_scheme("a history", "sqlite:PATH, postgres://HOST/DATABASE or redis://HOST", url);
}

void add_history_options(CLI::App& command, std::string& url, std::string& items) {
  command.add_option("--history", url, "Who saw what: sqlite:PATH, postgres://HOST/DB or redis://HOST")
      ->type_name("URL")
      ->required();
  command.add_option("--items", items, "What items are: text, or integer (uint64_t)")
      ->type_name("KIND")
      ->check(CLI::IsMember({"integer", "text"}).description(""))
      ->capture_default_str();
}

}  // namespace seenby::tool
