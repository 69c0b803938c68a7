// SPDX-License-Identifier: MIT
// The cluster executor: redirections, retries, one pipeline a node.

#include "redis/transport/cluster.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "redis/transport/cluster_state.hpp"
#include "seenby/detail/backoff.hpp"

namespace seenby::redis {
namespace {

/// Whether the same command may be answered a moment later, here or elsewhere.
bool is_passing(std::string_view message) noexcept {
  for (const std::string_view word : {"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"}) {
    if (message.starts_with(word)) return true;
  }
  return false;
}

/// The address in "MOVED 3999 127.0.0.1:6381". An empty host means the host that answered.
std::optional<Endpoint> redirection_of(std::string_view message, const Endpoint& from) {
  const auto space = message.rfind(' ');
  const auto colon = message.rfind(':');
  if (space == std::string_view::npos || colon == std::string_view::npos || colon < space) return std::nullopt;
  Endpoint endpoint{.host = std::string(message.substr(space + 1, colon - space - 1)), .port = 0};
  const std::string_view port = message.substr(colon + 1);
  const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (failure != std::errc{} || end != port.data() + port.size() || endpoint.port == 0) return std::nullopt;
  if (endpoint.host.empty()) endpoint.host = from.host;
  return endpoint;
}

}  // namespace

/// What one node is sent in one attempt, over one borrowed connection.
class ClusterExecutor::NodeBatch {
 public:
  /// A command of the whole batch, and the index of its reply among this node's.
  struct Entry {
    std::size_t index;
    std::size_t position;
  };

  void add(std::size_t index, const Command& command, Call& call) {
    // READONLY goes before every batch, so that no connection has a mode to remember.
    if (call.to_replica && !std::exchange(reads_replica_, true)) wire_.emplace_back().add("READONLY");
    if (std::exchange(call.asking, false)) wire_.emplace_back().add("ASKING");
    commands_.push_back({index, wire_.size()});
    wire_.push_back(command);
  }
  void borrow(ConnectionPool& pool, Deadline deadline) {
    auto lease = pool.borrow(deadline);
    if (lease) {
      lease_.emplace(std::move(*lease));
    } else {
      error_ = std::move(lease).error();
    }
  }
  void send(Deadline deadline) {
    if (!lease_) return;
    if (auto sent = (*lease_)->send(wire_, deadline); !sent) error_ = std::move(sent).error();
  }
  /// Reads the answers, tells the breaker, and gives the connection back.
  Result<std::vector<Reply>> receive(ConnectionPool& pool, Deadline deadline) {
    if (!lease_) return *error_;
    Result<std::vector<Reply>> outcome = std::vector<Reply>{};
    if (error_) {
      outcome = *error_;
    } else {
      outcome = (*lease_)->receive(deadline);
    }
    stale_ = !outcome && lease_->reused() && outcome.error().code == ErrorCode::unreachable &&
             (*lease_)->failed_before_answer();
    if (!stale_) pool.report(outcome);
    lease_.reset();
    return outcome;
  }
  /// The pooled connection was dead: nothing is known about the node yet.
  [[nodiscard]] bool went_stale() const noexcept { return stale_; }
  [[nodiscard]] std::span<const Entry> commands() const noexcept { return commands_; }

 private:
  std::vector<Command> wire_;
  std::vector<Entry> commands_;
  std::optional<ConnectionPool::Lease> lease_;
  std::optional<Error> error_;
  bool reads_replica_ = false;
  bool stale_ = false;
};

ClusterExecutor::ClusterExecutor(std::vector<Endpoint> seeds, ConnectionOptions connection, ClusterOptions options)
    : seeds_(std::move(seeds)), connection_(std::move(connection)), options_(options) {
  if (seeds_.empty()) throw std::invalid_argument("seenby::redis: expected at least one node of the cluster, got none");
}

ClusterExecutor::ClusterExecutor(const Url& url)
    : ClusterExecutor(url.endpoints, url.connection,
                      {.pool = {.size = url.pool_size, .breaker = {}}, .read_from_replicas = url.read_from_replicas}) {}

ClusterExecutor::~ClusterExecutor() = default;

std::string ClusterExecutor::name() const {
  std::string text = "redis-cluster://";
  for (std::size_t i = 0; i < seeds_.size(); ++i) text.append(i == 0 ? "" : ",").append(seeds_[i].text());
  return text;
}

bool ClusterExecutor::is_local() const {
  return std::all_of(seeds_.begin(), seeds_.end(), [](const Endpoint& seed) { return seed.is_local(); });
}

// Executing

Result<std::vector<Reply>> ClusterExecutor::execute(std::span<const Command> batch, Deadline deadline) {
  Round round(batch);
  detail::Backoff backoff(std::chrono::milliseconds{1}, std::chrono::milliseconds{32});
  std::optional<Error> no_map;
  while (!round.pending.empty()) {
    auto map = topology_or_refresh(deadline);
    if (!map) {
      no_map = std::move(map).error();
      break;
    }
    round.wait = round.refresh = false;
    ask_nodes(round, **map, deadline);
    round.pending = std::exchange(round.again, {});
    if (round.pending.empty()) break;
    std::sort(round.pending.begin(), round.pending.end());
    // A map that cannot be read now is no reason to give up: the old one may still be right.
    if (round.refresh) static_cast<void>(refresh((*map)->version, deadline));
    if (!options_.wait_for_failover) give_up_on_dead_nodes(round);
    if (round.wait && !round.pending.empty()) std::this_thread::sleep_for(std::min(backoff.next(), deadline.left()));
    if (deadline.passed()) break;
  }
  for (const std::size_t index : round.pending) {
    const auto& last = round.calls[index].last;
    round.fail(index, last ? *last : no_map ? *no_map : cluster_error(ErrorCode::timed_out, "timed out"));
  }
  if (!round.answered && !batch.empty()) return *round.replies.front().error();
  return std::move(round.replies);
}

/// Sends what is pending, one pipeline a node, then reads every answer.
void ClusterExecutor::ask_nodes(Round& round, Topology& map, Deadline deadline) {
  // Borrowed in the order of the pools' addresses: threads that need several nodes do not wait for each other in a
  // ring.
  std::map<Pool, NodeBatch> nodes;
  for (const std::size_t index : round.pending) {
    Call& call = round.calls[index];
    const Pool target = target_of(round.batch[index], call, map);
    if (!target) {
      call.last = cluster_error(ErrorCode::unreachable, "no node serves slot ");
      call.last->message.append(std::to_string(call.slot));
      round.try_again(index, {.wait = true, .refresh = true});
      continue;
    }
    nodes[target].add(index, round.batch[index], call);
  }
  const Deadline attempt = deadline.earlier(Deadline::after(connection_.command_timeout));
  for (auto& [pool, node] : nodes) node.borrow(*pool, attempt);
  for (auto& [pool, node] : nodes) node.send(attempt);
  for (auto& [pool, node] : nodes) {
    auto replies = node.receive(*pool, attempt);
    for (const auto& [index, position] : node.commands()) {
      if (replies) {
        take_reply(round, index, std::move((*replies)[position]), pool, map);
      } else if (node.went_stale()) {
        round.try_again(index, {.wait = false, .refresh = false});
      } else {
        take_failure(round, index, replies.error(), pool);
      }
    }
  }
}

ClusterExecutor::Pool ClusterExecutor::replica_in_turn(std::span<const Pool> replicas) {
  const auto turn = turn_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const Pool& replica = replicas[(turn + i) % replicas.size()];
    if (!replica->is_failing()) return replica;
  }
  return nullptr;
}

/// The node for a command: where it was redirected, a replica if that may be, else the master. Null when the map names
/// no node.
ClusterExecutor::Pool ClusterExecutor::target_of(const Command& command, Call& call, const Topology& map) {
  call.to_replica = false;
  if (call.redirected) return std::exchange(call.redirected, nullptr);
  if (!command.has_key()) {
    const auto turn = turn_.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < map.shards.size(); ++i) {
      const Pool& master = map.shards[(turn + i) % map.shards.size()].master;
      if (!master->is_failing() || i + 1 == map.shards.size()) return master;
    }
    return nullptr;
  }
  const Topology::Shard* shard = map.shard_of(call.slot);
  if (shard == nullptr) return nullptr;
  if (options_.read_from_replicas && command.is_read_only() && !call.master_only) {
    if (Pool replica = replica_in_turn(shard->replicas)) {
      call.to_replica = true;
      return replica;
    }
  }
  return shard->master;
}

/// Whether an error is a redirection that may be followed; notes where to.
bool ClusterExecutor::follow(Call& call, const Error& error, const Pool& from, Topology& map, Round& round) {
  const bool moved = error.message.starts_with("MOVED ");
  if (!moved && !error.message.starts_with("ASK ")) return false;
  const auto to = redirection_of(error.message, from->endpoint());
  if (!to || ++call.redirections > options_.max_redirections) return false;
  call.redirected = pool_of(*to);
  call.asking = !moved;
  (moved ? moved_ : asked_).fetch_add(1, std::memory_order_relaxed);
  if (moved && !map.note_move(call.slot, call.redirected)) round.refresh = true;
  // Two nodes that send us back and forth have not agreed yet.
  if (call.redirections > 3) round.wait = true;
  return true;
}

void ClusterExecutor::take_reply(Round& round, std::size_t index, Reply reply, const Pool& from, Topology& map) {
  Call& call = round.calls[index];
  if (const Error* error = reply.error()) {
    if (follow(call, *error, from, map, round)) return round.try_again(index, {.wait = false, .refresh = false});
    if (is_passing(error->message)) {
      call.last = *error;
      call.redirections = 0;  // a slot that moves says ASK before each TRYAGAIN: no circle, and the deadline ends it
      call.master_only = call.master_only || call.to_replica;
      retried_.fetch_add(1, std::memory_order_relaxed);
      return round.try_again(index, {.wait = true, .refresh = !error->message.starts_with("TRYAGAIN")});
    }
  }
  if (call.to_replica) replica_reads_.fetch_add(1, std::memory_order_relaxed);
  round.replies[index] = std::move(reply);
  round.answered = true;
}

void ClusterExecutor::take_failure(Round& round, std::size_t index, const Error& error, const Pool& from) {
  Call& call = round.calls[index];
  call.last = error;
  call.failed_at = from;
  if (error.code != ErrorCode::unreachable && error.code != ErrorCode::timed_out) return round.fail(index, error);
  call.master_only = call.master_only || call.to_replica;
  retried_.fetch_add(1, std::memory_order_relaxed);
  round.try_again(index, {.wait = true, .refresh = true});
}

/// Fails the commands whose only node is known to be dead, so that they cost no time-out.
void ClusterExecutor::give_up_on_dead_nodes(Round& round) {
  const auto map = topology();
  std::erase_if(round.pending, [&](std::size_t index) {
    Call& call = round.calls[index];
    if (!call.failed_at || call.redirected || !call.failed_at->is_failing()) return false;
    bool dead = false;
    if (round.batch[index].has_key()) {
      const auto* shard = map->shard_of(call.slot);
      dead = shard != nullptr && shard->master->is_failing();
    } else {
      dead = std::all_of(map->shards.begin(), map->shards.end(),
                         [](const auto& shard) { return shard.master->is_failing(); });
    }
    if (dead) round.fail(index, *call.last);
    return dead;
  });
}

ClusterCounters ClusterExecutor::counters() const {
  const auto read = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  ClusterCounters counters{.moved = read(moved_),
                           .asked = read(asked_),
                           .retried = read(retried_),
                           .replica_reads = read(replica_reads_),
                           .topology_refreshes = read(refreshes_)};
  const std::lock_guard lock(mutex_);
  for (const auto& [text, pool] : pools_) counters.connections += pool->counters();
  return counters;
}

}  // namespace seenby::redis
