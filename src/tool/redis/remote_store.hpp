#pragma once
// SPDX-License-Identifier: MIT
// The options that name a store in Redis, and the store behind them.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "seenby/redis/store.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::tool {

using RemoteStore = redis::RedisStore<std::string>;

/// Where a store is and how its keys were made. What differs from the writer's settings finds other keys, or is
/// refused by their headers.
struct RemoteStoreOptions {
  std::string url;
  std::string prefix = "seenby:";
  std::string window;
  std::string slices = "1";
  std::uint64_t seed = 0;
};

/// Adds the options to a command; `name` is the option or positional that takes the URL, which is returned.
CLI::Option* add_store_options(CLI::App& command, const std::string& name, RemoteStoreOptions& options);

/// The policy with the options' window and seed. Throws InputError.
[[nodiscard]] StorePolicy policy_of(const RemoteStoreOptions& options, StorePolicy policy);
/// Throws InputError for a URL or a policy that cannot be used. Connects on first use.
[[nodiscard]] RemoteStore open_store(const RemoteStoreOptions& options, StorePolicy policy,
                                     redis::RedisStoreOptions store_options = {});

}  // namespace seenby::tool
