// SPDX-License-Identifier: MIT
// ArticleStore on a cluster.

#include "redis/transport/cluster.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <memory>

#include "seenby/redis_article/article_store.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

TEST_CASE("The article's single bits are read from replicas: they refuse BITFIELD and take BITFIELD_RO",
          "[redis][cluster]") {
  RedisCluster cluster;
  cluster.wait_until_replicas_are_offered();
  auto executor = std::make_shared<ClusterExecutor>(parse_url(cluster.url() + "?replicas=1").value());
  ArticleStore<> article(executor);
  const auto users = sequence(0, 20);
  for (const std::uint64_t user : users) REQUIRE(record(article, user, {user}));
  cluster.wait_for_replicas();
  const std::uint64_t before = executor->counters().replica_reads;
  CHECK(ask(article, users, sequence(0, 20)).seen() == 20);
  CHECK(executor->counters().replica_reads >= before + 60);
}
