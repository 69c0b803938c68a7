// SPDX-License-Identifier: MIT
// Opens a store in Redis from command-line options.

#include "redis/remote_store.hpp"

#include <utility>

#include "input_error.hpp"
#include "units.hpp"

namespace seenby::tool {

CLI::Option* add_store_options(CLI::App& command, const std::string& name, RemoteStoreOptions& options) {
  CLI::Option* url =
      command.add_option(name, options.url, "Filters in Redis: redis://, rediss://, unix:// or redis-cluster://")
          ->type_name("URL");
  command.add_option("--prefix", options.prefix, "What the store's keys begin with")
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

StorePolicy policy_of(const RemoteStoreOptions& options, StorePolicy policy) {
  policy.seed = options.seed;
  if (options.window.empty()) return policy;
  policy.window = parse_duration("--window", options.window);
  policy.slices = static_cast<std::uint32_t>(parse_between("--slices", options.slices, 366));
  return policy;
}

RemoteStore open_store(const RemoteStoreOptions& options, StorePolicy policy, redis::RedisStoreOptions store_options) {
  store_options.prefix = options.prefix;
  return RemoteStore(value_of(redis::make_executor(options.url)), policy_of(options, std::move(policy)),
                     std::move(store_options));
}

}  // namespace seenby::tool
