// SPDX-License-Identifier: MIT
// Opens stores by their URLs.

#include "store_url.hpp"

#include <filesystem>
#include <string_view>

#include "components.hpp"
#include "units.hpp"

namespace seenby::tool {

CLI::Option* add_store_options(CLI::App& command, const std::string& name, StoreOptions& options) {
  CLI::Option* url =
      command.add_option(name, options.url, "lmdb:PATH, redis://, unix://, redis-cluster:// or redis+sentinel://")
          ->type_name("URL");
  command.add_option("--prefix", options.prefix, "What the keys of a Redis store begin with")
      ->type_name("TEXT")
      ->capture_default_str();
  CLI::Option* window =
      command.add_option("--window", options.window, "The store's window: 30d, 12h (default: none)")->type_name("TIME");
  command.add_option("--slices", options.slices, "The window's slices")
      ->type_name("N")
      ->capture_default_str()
      ->needs(window);
  command.add_option("--store-seed", options.seed, "The seed of the store's digests")
      ->type_name("N")
      ->capture_default_str();
  return url;
}

void add_policy_options(CLI::App& command, StoreOptions& options) {
  command.add_option("--fpr", options.fpr, "Rate at which a fresh candidate may be hidden")
      ->type_name("RATE")
      ->capture_default_str();
  command.add_option("--users-per-request", options.users_per_request, "Users a candidate must be new to")
      ->type_name("N")
      ->capture_default_str();
}

StorePolicy policy_of(const StoreOptions& options) {
  StorePolicy policy;
  policy.wrong_hide_rate = parse_rate("--fpr", options.fpr);
  policy.users_per_request =
      static_cast<std::uint32_t>(parse_between("--users-per-request", options.users_per_request, 255));
  policy.seed = options.seed;
  if (options.window.empty()) return policy;
  policy.window = parse_duration("--window", options.window);
  policy.slices = static_cast<std::uint32_t>(parse_between("--slices", options.slices, 366));
  return policy;
}

StoreKind kind_of_store(const std::string& url) {
  const std::string_view scheme = scheme_of(url);
  if (scheme == "lmdb") {
    if (!with_lmdb) refuse_component("lmdb", "liblmdb-dev");
    return StoreKind::lmdb;
  }
  for (const std::string_view known :
       {"redis", "rediss", "unix", "redis-cluster", "rediss-cluster", "redis+sentinel", "rediss+sentinel"}) {
    if (scheme != known) continue;
    if (!with_redis) refuse_component("redis", "libhiredis-dev");
    return StoreKind::redis;
  }
  refuse_scheme(
      "a store",
      "lmdb:PATH, redis://HOST, rediss://HOST, unix://SOCKET, redis-cluster://HOST or redis+sentinel://HOST/MASTER",
      url);
}

std::string items_in(const StoreOptions& store, const std::string& items) {
  return items.empty() && kind_of_store(store.url) == StoreKind::lmdb ? "text" : items;
}

std::string path_of(const std::string& url, IfMissing if_missing) {
  std::string path = url.substr(url.find(':') + 1);
  const std::string scheme(scheme_of(url));
  if (path.empty()) throw InputError("expected a path behind '" + scheme + ":', got none");
  std::error_code ignored;
  if (if_missing == IfMissing::refuse && !std::filesystem::exists(path, ignored)) {
    throw InputError(in_quotes(url) + ": expected a file, got none there; seenby ingest makes one");
  }
  return path;
}

#ifdef SEENBY_TOOL_WITH_REDIS
RedisTextStore open_redis(const StoreOptions& options, StorePolicy policy, redis::RedisStoreOptions store_options) {
  store_options.prefix = options.prefix;
  return RedisTextStore(value_of(redis::make_executor(options.url)), std::move(policy), std::move(store_options));
}
#endif

#ifdef SEENBY_TOOL_WITH_LMDB
LmdbStore<std::string> open_lmdb(const StoreOptions& options, StorePolicy policy, IfMissing if_missing) {
  return value_of(LmdbStore<std::string>::open(path_of(options.url, if_missing), std::move(policy)));
}
#endif

}  // namespace seenby::tool
