// SPDX-License-Identifier: MIT
// From a URL to the executor it asks for.

#include <utility>

#include "redis/transport/cluster.hpp"
#include "redis/transport/pool.hpp"
#include "redis/transport/sentinel.hpp"

namespace seenby::redis {

Result<std::shared_ptr<Executor>> make_executor(std::string_view text) {
  auto url = parse_url(text);
  if (!url) return std::move(url).error();
  if (url->cluster) return std::shared_ptr<Executor>(std::make_shared<ClusterExecutor>(*url));
  if (!url->sentinel_master.empty()) return std::shared_ptr<Executor>(std::make_shared<SentinelExecutor>(*url));
  return std::shared_ptr<Executor>(std::make_shared<PooledExecutor>(*url));
}

}  // namespace seenby::redis
