// SPDX-License-Identifier: MIT
// Finding the master that Sentinels name, and finding it again.

#include "redis/transport/sentinel.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <thread>
#include <utility>

namespace seenby::redis {
namespace {

/// Between two questions while the Sentinels still name a master that cannot be asked.
constexpr std::chrono::milliseconds pause{50};

/// Whether another server is to be asked: this one is away, or a replica by now.
bool is_no_master(const Result<std::vector<Reply>>& outcome) {
  if (!outcome) return is_down(outcome.error().code);
  return std::any_of(outcome->begin(), outcome->end(), [](const Reply& reply) {
    // Redis 6.2 wraps it in what it says of a script.
    return reply.error() != nullptr && reply.error()->message.find("READONLY") != std::string::npos;
  });
}

}  // namespace

SentinelExecutor::SentinelExecutor(Url url) : url_(std::move(url)), sentinels_(url_.endpoints) {}

Result<std::vector<Reply>> SentinelExecutor::execute(std::span<const Command> batch, Deadline deadline) {
  if (batch.empty()) return std::vector<Reply>{};
  auto pool = master(deadline);
  while (pool) {
    auto outcome = (*pool)->execute(batch, deadline);
    if (!is_no_master(outcome)) return outcome;
    suspect(*pool);
    if (deadline.passed()) return outcome;
    auto next = master(deadline);
    // The same one is asked again by the next call, or refused at once by its breaker.
    if (!next || *next == *pool) return outcome;
    pool = std::move(next);
  }
  return std::move(pool).error();
}

void SentinelExecutor::suspect(const Pool& failed) {
  const std::lock_guard lock(mutex_);
  if (pool_ == failed) suspect_ = true;
}

Result<SentinelExecutor::Pool> SentinelExecutor::master(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (asking_) {
    if (answered_.wait_until(lock, deadline.at) == std::cv_status::timeout && asking_) {
      std::string message = "seenby::redis: timed out while the Sentinels were asked for ";
      return Error{ErrorCode::timed_out, message.append(url_.sentinel_master)};
    }
  }
  const bool just_asked = Deadline::clock::now() < asked_at_ + pause;
  if (pool_ && (!suspect_ || just_asked)) return pool_;
  asking_ = true;
  lock.unlock();
  auto endpoint = ask_sentinels(deadline);
  lock.lock();
  asking_ = false;
  asked_at_ = Deadline::clock::now();
  answered_.notify_all();
  if (!endpoint) {
    if (pool_) return pool_;  // the Sentinels are away; the master may be there
    return std::move(endpoint).error();
  }
  suspect_ = false;
  if (pool_ && pool_->endpoint() == *endpoint) return pool_;
  if (pool_) retired_ += pool_->counters();
  pool_ = std::make_shared<ConnectionPool>(*std::move(endpoint), url_.connection,
                                           PoolOptions{.size = url_.pool_size, .masters_only = true, .breaker = {}});
  return pool_;
}

Result<Endpoint> SentinelExecutor::ask_sentinels(Deadline deadline) {
  std::vector<Endpoint> sentinels;
  {
    const std::lock_guard lock(mutex_);
    sentinels = sentinels_;
  }
  Error last{ErrorCode::unreachable, {}};
  for (std::size_t i = 0; i < sentinels.size(); ++i) {
    // A dead one does not use up the others' time.
    const auto share = deadline.left() / static_cast<int>(sentinels.size() - i);
    auto master = ask_sentinel(sentinels[i], deadline.earlier(Deadline::after(share)));
    if (!master) {
      last = std::move(master).error();
      continue;
    }
    const std::lock_guard lock(mutex_);
    const auto answered = std::find(sentinels_.begin(), sentinels_.end(), sentinels[i]);
    if (answered != sentinels_.end()) std::rotate(sentinels_.begin(), answered, answered + 1);
    return master;
  }
  std::string message = "seenby::redis: no Sentinel names the master ";
  message.append(url_.sentinel_master).append("; the last one asked: ").append(last.message);
  return Error{last.code, std::move(message)};
}

Result<Endpoint> SentinelExecutor::ask_sentinel(const Endpoint& sentinel, Deadline deadline) const {
  ConnectionOptions options = url_.connection;
  options.username.clear();
  options.password = url_.sentinel_password;
  options.database = 0;
  auto connection =
      Connection::open(sentinel, options, deadline.earlier(Deadline::after(url_.connection.connect_timeout)));
  if (!connection) return std::move(connection).error();
  const auto question = Command::with_key(Command::no_key, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", url_.sentinel_master);
  auto replies = connection->execute({&question, 1}, deadline);
  if (!replies) return std::move(replies).error();
  const Reply& reply = replies->front();
  if (const Error* error = reply.error()) return *error;
  const Reply::Array* address = reply.array();
  const bool named = address != nullptr && address->size() == 2 && (*address)[0].string() != nullptr &&
                     (*address)[1].string() != nullptr;
  std::uint16_t port = 0;
  if (named) {
    const std::string& text = *(*address)[1].string();
    (void)std::from_chars(text.data(), text.data() + text.size(), port);
  }
  if (port != 0) return Endpoint{.host = *(*address)[0].string(), .port = port, .socket_path = {}};
  std::string message = "seenby::redis: expected ";
  message.append(sentinel.text()).append(" to name a master ").append(url_.sentinel_master);
  return Error{ErrorCode::unreachable, message.append(", got ").append(named ? "no port" : reply.type_name())};
}

std::string SentinelExecutor::name() const {
  std::string text = "redis+sentinel://";
  for (const Endpoint& each : url_.endpoints) {
    if (&each != &url_.endpoints.front()) text.push_back(',');
    text.append(each.text());
  }
  return text.append("/").append(url_.sentinel_master);
}

bool SentinelExecutor::is_local() const {
  return std::all_of(url_.endpoints.begin(), url_.endpoints.end(),
                     [](const Endpoint& each) { return each.is_local(); });
}

PoolCounters SentinelExecutor::connections() const {
  const std::lock_guard lock(mutex_);
  PoolCounters sum = retired_;
  if (pool_) sum += pool_->counters();
  return sum;
}

}  // namespace seenby::redis
