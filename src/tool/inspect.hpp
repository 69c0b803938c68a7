#pragma once
// SPDX-License-Identifier: MIT
// What `seenby inspect` is told, and who answers over each kind of store.

#include <string>

#include "store_url.hpp"

namespace seenby::tool {

struct InspectOptions {
  StoreOptions store;
  std::string user;
  bool json = false;
};

// With the component of the name alone.
void inspect_lmdb(const InspectOptions& options);
void inspect_redis(const InspectOptions& options);

}  // namespace seenby::tool
