// SPDX-License-Identifier: MIT
// Feeds bytes to the reader of replies, and the replies to the readers of every command of every store: a hostile
// server gets a typed error or an answer out of them, and never a crash, an endless loop or a gigabyte.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/transport/reply_reader.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/redis/store.hpp"

namespace {

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;

void require(bool condition) {
  if (!condition) std::abort();
}

/// All replies that the bytes hold, read byte by byte; and the same in one piece.
std::vector<Reply> replies_in(const std::string_view bytes) {
  constexpr std::size_t limit = 4'096;
  std::vector<Reply> all;
  std::size_t used = 0;
  ReplyReader reader;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t limits[] = {limit};
    reader.start(limits);
    bool good = true;
    while (good && !reader.done() && at < bytes.size()) good = reader.feed(bytes.substr(at++, 1)).has_value();
    if (!good || !reader.done()) break;
    used = at;
    all.push_back(std::move(reader.take().front()));
  }
  const std::vector<std::size_t> limits(all.size(), limit);
  reader.start(limits);
  require(reader.feed(bytes.substr(0, used)).has_value() && reader.done());
  const auto again = reader.take();
  for (std::size_t i = 0; i < all.size(); ++i) require(again[i].type_name() == all[i].type_name());
  return all;
}

/// Answers every command with the next of the given replies, over and over; after so many it is gone.
class Scripted final : public Executor {
 public:
  explicit Scripted(std::vector<Reply> replies) : replies_(std::move(replies)) {}
  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline) override {
    constexpr std::size_t enough = 2'000;
    if (replies_.empty() || asked_ > enough) return Error{ErrorCode::unreachable, "gone"};
    std::vector<Reply> answers;
    for (std::size_t i = 0; i < batch.size(); ++i) answers.push_back(replies_[asked_++ % replies_.size()]);
    return answers;
  }
  [[nodiscard]] std::string name() const override { return "scripted"; }

 private:
  std::vector<Reply> replies_;
  std::size_t asked_ = 0;
};

constexpr std::uint64_t items[] = {1, 2, 3};
constexpr std::uint64_t users[] = {1, 2};

template <class Store>
void use(Store& store) {
  const auto hash = store.hasher();
  const Digest digests[] = {hash(items[0]), hash(items[1]), hash(items[2])};
  const ItemBatch<std::uint64_t> batch{items, digests};
  std::uint8_t seen_by[3] = {};
  UserStatus status[2] = {};
  store.check(users, batch, seen_by, status);
  for (const UserStatus& each : status) require((each.state == UserState::unreachable) == (each.error != nullptr));
  for (const std::uint8_t count : seen_by) require(count <= 2);
  (void)store.record(1, batch);
  (void)store.create(2);
  (void)store.forget(1);
  store.check(users, batch, seen_by, status);
}

void use_stores(const std::vector<Reply>& replies, bool with_history) {
  constexpr Time now{1'700'000'000s};
  for (const bool windowed : {false, true}) {
    StorePolicy policy{.clock = [=] { return now; }};
    if (windowed) policy.window = 1h, policy.slices = 3;
    RedisStore<> store(std::make_shared<Scripted>(replies), policy, {.timeout = 5ms, .rebuild_timeout = 5ms});
    if (with_history) {
      store.set_replay([&](const std::uint64_t&, Time) -> Result<std::vector<SeenDigest>> {
        return std::vector<SeenDigest>{{store.hasher()(items[0]), now}};
      });
    }
    use(store);
    std::uint8_t ages[3] = {};
    const Digest digests[] = {store.hasher()(items[0]), store.hasher()(items[1]), store.hasher()(items[2])};
    store.age(1, ItemBatch<std::uint64_t>{items, digests}, ages);
    (void)store.rebuild(1);
  }
  RedisBloomStore<> bloom(std::make_shared<Scripted>(replies));
  if (with_history) {
    bloom.set_item_replay([](const std::uint64_t&, Time) -> Result<std::vector<std::uint64_t>> {
      return std::vector<std::uint64_t>{1, 9};
    });
  }
  use(bloom);
  (void)bloom.info(1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::vector<Reply> replies = replies_in(bytes);
  for (const bool with_history : {false, true}) use_stores(replies, with_history);
  return 0;
}
