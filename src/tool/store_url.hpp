#pragma once
// SPDX-License-Identifier: MIT
// Stores by URL: the options that name one, and the one place that opens it.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "input_error.hpp"
#include "seenby/stores/policy.hpp"
#ifdef SEENBY_TOOL_WITH_LMDB
#include "seenby/lmdb/store.hpp"
#endif
#ifdef SEENBY_TOOL_WITH_REDIS
#include "seenby/redis/store.hpp"
#endif

namespace seenby::tool {

/// Where a store is and how its keys were made. What differs from the writer's settings finds other keys, or is
/// refused by their headers.
struct StoreOptions {
  std::string url;
  std::string prefix = "seenby:";
  std::string window;
  std::string slices = "1";
  std::uint64_t seed = 0;
  std::string fpr = "0.01";
  std::string users_per_request = "1";
};

/// What a command does where a file is not there yet.
enum class IfMissing : std::uint8_t { create, refuse };

/// Adds the options to a command; `name` is the option or positional that takes the URL, which is returned.
CLI::Option* add_store_options(CLI::App& command, const std::string& name, StoreOptions& options);
/// Adds the options of those who write filters: --fpr and --users-per-request.
void add_policy_options(CLI::App& command, StoreOptions& options);

/// The policy that the options say. Throws InputError.
[[nodiscard]] StorePolicy policy_of(const StoreOptions& options);

enum class StoreKind : std::uint8_t { lmdb, redis };

/// What a URL says, by its scheme. Throws InputError for one that is no store's, and for a component that this build
/// lacks.
[[nodiscard]] StoreKind kind_of_store(const std::string& url);

/// What items are in a store, as --items says; empty where the items themselves may tell. A store knows what it holds
/// and refuses the other kind. Items of an LMDB file are text, as `seenby ingest` takes them, unless --items says
/// integer.
[[nodiscard]] std::string items_in(const StoreOptions& store, const std::string& items);

/// The path behind "lmdb:" or "sqlite:". Throws InputError when the file is not there and must be.
[[nodiscard]] std::string path_of(const std::string& url, IfMissing if_missing);

#ifdef SEENBY_TOOL_WITH_REDIS
using RedisTextStore = redis::RedisStore<std::string>;
/// Connects on first use.
[[nodiscard]] RedisTextStore open_redis(const StoreOptions& options, StorePolicy policy,
                                        redis::RedisStoreOptions store_options = {});
#endif
#ifdef SEENBY_TOOL_WITH_LMDB
[[nodiscard]] LmdbStore<std::string> open_lmdb(const StoreOptions& options, StorePolicy policy, IfMissing if_missing);
#endif

/// Calls `run` with the store that the options name. Throws InputError for a URL or a policy that cannot be used.
template <class Run>
void with_store([[maybe_unused]] const StoreOptions& options, [[maybe_unused]] StorePolicy policy,
                [[maybe_unused]] IfMissing if_missing, [[maybe_unused]] const Run& run) {
  switch (kind_of_store(options.url)) {
    case StoreKind::lmdb: {
#ifdef SEENBY_TOOL_WITH_LMDB
      auto store = open_lmdb(options, std::move(policy), if_missing);
      run(store);
#endif
      return;
    }
    case StoreKind::redis: {
#ifdef SEENBY_TOOL_WITH_REDIS
      auto store = open_redis(options, std::move(policy));
      run(store);
#endif
      return;
    }
  }
}

}  // namespace seenby::tool
