// SPDX-License-Identifier: MIT
// Names that other libraries define as macros: Qt's keywords, what X11 and POSIX headers define, and Windows' min and
// max. No seenby header uses them as names of its own.

// What others include first. Their own use of these words is their own affair.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cmath>
#include <compare>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numbers>
#include <numeric>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
#include <version>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

// NOLINTBEGIN: as others write them
#define slots
#define signals public
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)
#define None 0L
#define Status int
#define Bool int
#define Success 0
#define True 1
#define False 0
#define Always 2
#define Above 0
#define Below 1
#define Complex 0
#define Unsorted 0
#define CurrentTime 0L
#define major(dev) gnu_dev_major(dev)
#define minor(dev) gnu_dev_minor(dev)
#define makedev(maj, min) gnu_dev_makedev(maj, min)
#define unix 1
#define linux 1
#define small char
#define near
#define far
#define interface struct
#define IN
#define OUT
#define ERROR 0
#define DELETE 0x00010000L
#define CONST const
#define VOID void
#define I _Complex_I
#define B0 0000000
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
// NOLINTEND

#include "seenby/seenby.hpp"

// The components' headers after all but Windows' macros: they are built for POSIX.
#undef min
#undef max
#include "seenby/ingest/async_recorder.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "seenby/ingest/repair_job.hpp"
#include "seenby/lmdb/store.hpp"
#include "seenby/postgres/history.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/redis/shared_gate.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/redis_article/article_store.hpp"
#include "seenby/sqlite/history.hpp"
#include "seenby/token/seen_token.hpp"

TEST_CASE("seenby.hpp compiles after the macros of others") {
  seenby::BloomFilter<std::string> filter{{.expected_items = 10}};
  filter.insert("a");
  CHECK(filter.may_contain("a"));
  seenby::SeenFilter seen{seenby::MemoryStore<std::uint64_t>{seenby::StorePolicy{}}};
  CHECK(seen.record(std::uint64_t{1}, std::uint64_t{2}).has_value());
}
