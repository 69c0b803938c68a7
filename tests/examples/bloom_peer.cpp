// SPDX-License-Identifier: MIT
// Plays RedisBloom on a loopback port of its own: prints its address, and ends when its input does.
#include "support/bloom_peer.hpp"

#include <cstdio>

int main() {
  const seenby::test::BloomPeer peer;
  std::puts(peer.url().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {}
}
