// SPDX-License-Identifier: MIT
// What is sent to RedisBloom, and how its answers are read.

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "redis/protocol/bloom_state.hpp"
#include "redis/protocol/expiry.hpp"
#include "redis/transport/cluster.hpp"
#include "redis/transport/script.hpp"
#include "seenby/detail/sizing_math.hpp"

namespace seenby::redis {
namespace {

constexpr std::chrono::seconds probe_pause{5};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// The module's errors all begin with ERR; the scripting engine has its own words for an unknown command.
ErrorCode kind_of(const Error& error) {
  if (contains(error.message, "filter is full")) return ErrorCode::too_large;
  if (error.code == ErrorCode::refused && contains(error.message, "nknown") && contains(error.message, "command")) {
    return ErrorCode::unavailable;
  }
  return error.code;
}

/// RedisBloom's type name, and that of Valkey's module of the same commands.
bool is_bloom_type(std::string_view type) { return type == "MBbloom--" || type == "bloomfltr"; }

std::int64_t now_nanoseconds() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
}

}  // namespace

Error BloomProtocol::State::named(const std::string& key, const Error& error) {
  std::string message = "seenby::redis: key \"";
  return {kind_of(error), std::move(message.append(key).append("\": ").append(error.message))};
}

Error BloomProtocol::State::unexpected(const std::string& key, std::string_view wanted, const Reply& reply) {
  std::string message = "expected ";
  message.append(wanted).append(", got ").append(reply.type_name());
  return named(key, {ErrorCode::corrupt, std::move(message)});
}

BloomProtocol::State::State(std::shared_ptr<Executor> executor, RedisBloomOptions options)
    : executor_(std::move(executor)), options_(std::move(options)) {
  detail::require_rate(options_.error_rate, "error_rate");
  detail::require_items(options_.capacity);
  if (options_.time_to_live != TimeToLive::none && options_.ttl.count() < 1) {
    throw std::invalid_argument("seenby::redis: expected a ttl of at least a second");
  }
  if (options_.expansion > 32'768) {
    throw std::invalid_argument("seenby::redis: expected an expansion from 0 to 32768 (the module's own limit)");
  }
  probe();
}

// The module

ModuleState BloomProtocol::State::probe() {
  probed_at_.store(now_nanoseconds(), std::memory_order_relaxed);
  Command ask;
  ask.add("COMMAND").add("INFO").add("BF.RESERVE").add("BF.MADD").add("BF.MEXISTS");
  const auto reply = execute_one(*executor_, ask, deadline());
  // A user whose ACL forbids COMMAND finds out by using it.
  if (!reply || reply->array() == nullptr || reply->array()->size() != 3) return module_;
  const bool all = std::none_of(reply->array()->begin(), reply->array()->end(),
                                [](const Reply& entry) { return entry.array() == nullptr || entry.array()->empty(); });
  module_.store(all ? ModuleState::present : ModuleState::absent, std::memory_order_relaxed);
  return module_;
}

bool BloomProtocol::State::module_is_absent() {
  if (module_.load(std::memory_order_relaxed) != ModuleState::absent) return false;
  std::int64_t probed = probed_at_.load(std::memory_order_relaxed);
  const std::int64_t now = now_nanoseconds();
  // One caller asks again, the others go on refusing.
  if (now - probed > probe_pause / std::chrono::nanoseconds{1} &&
      probed_at_.compare_exchange_strong(probed, now, std::memory_order_relaxed) && probe() != ModuleState::absent) {
    return false;
  }
  unavailable_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Error BloomProtocol::State::absent_error() const {
  std::string message = "seenby::redis: ";
  return {ErrorCode::unavailable,
          std::move(
              message.append(executor_->name()).append(": expected a server with RedisBloom, it has no BF. commands"))};
}

void BloomProtocol::State::note(const Error& error) {
  if (error.code != ErrorCode::unavailable) return;
  probed_at_.store(now_nanoseconds(), std::memory_order_relaxed);
  if (module_.exchange(ModuleState::absent, std::memory_order_relaxed) != ModuleState::absent) {
    unavailable_.fetch_add(1, std::memory_order_relaxed);
  }
}

// Looking up

void BloomProtocol::State::check(std::span<const Job> jobs) {
  const auto all_unreachable = [&](const Error& error) {
    const auto shared = std::make_shared<const Error>(error);
    for (const Job& job : jobs) {
      std::fill(job.seen_by.begin(), job.seen_by.end(), std::uint8_t{0});
      std::fill(job.status.begin(), job.status.end(), UserStatus{UserState::unreachable, shared});
    }
  };
  if (module_is_absent()) return all_unreachable(absent_error());
  std::vector<Command> batch;
  for (const Job& job : jobs) {
    for (const std::string& key : job.keys) {
      const Command type = Command::with_key(1, "TYPE", key).reads_only();
      batch.emplace_back().add("GET").add_key(exact_key(key)).reads_only();
      batch.push_back(type);
      if (!job.items.empty()) {
        Command& ask = batch.emplace_back();
        ask.add("BF.MEXISTS").add_key(key);
        for (const std::string& item : job.items) ask.add(item);
        ask.reads_only();
        batch.push_back(type);
      }
    }
  }
  const auto replies = execute_batch(*executor_, batch, deadline());
  if (!replies) return all_unreachable(replies.error());
  std::span<const Reply> rest = *replies;
  for (const Job& job : jobs) {
    const std::size_t mine = job.keys.size() * (job.items.empty() ? 2 : 4);
    answer(job, rest.first(mine));
    rest = rest.subspan(mine);
  }
}

void BloomProtocol::State::answer(const Job& job, std::span<const Reply> replies) {
  std::fill(job.seen_by.begin(), job.seen_by.end(), std::uint8_t{0});
  const std::size_t each = job.items.empty() ? 2 : 4;
  for (std::size_t i = 0; i < job.keys.size(); ++i) {
    answer_user(job.keys[i], replies.subspan(i * each, each), job.seen_by, job.status[i]);
  }
}

void BloomProtocol::State::answer_user(const std::string& key, std::span<const Reply> replies,
                                       std::span<std::uint8_t> seen_by, UserStatus& status) {
  // Where the exact items cannot be read nothing is known of the user, since an item may be hidden.
  const auto exact = exact_in(replies.front(), exact_key(key));
  const auto known = exact ? count_seen(key, replies.subspan(1), seen_by) : Result<bool>(exact.error());
  if (known) {
    status = {*known ? UserState::known : UserState::missing, nullptr, exact->list()};
  } else {
    note(known.error());
    status = {UserState::unreachable, std::make_shared<const Error>(known.error())};
  }
}

/// Whether there is a filter; counts its answers.
Result<bool> BloomProtocol::State::count_seen(const std::string& key, std::span<const Reply> replies,
                                              std::span<std::uint8_t> seen_by) {
  for (const Reply& reply : replies) {
    if (reply.is_error()) return named(key, *reply.error());
  }
  for (const Reply* type : {&replies.front(), &replies.back()}) {
    if (type->string() == nullptr) return unexpected(key, "a type's name", *type);
    if (*type->string() == "none") return false;
    if (is_bloom_type(*type->string())) continue;
    std::string message = "WRONGTYPE expected a Bloom filter, got a ";
    return named(key, {ErrorCode::wrong_type, message.append(*type->string())});
  }
  if (replies.size() == 1) return true;
  const auto* answers = replies[1].array();
  if (answers == nullptr || answers->size() != seen_by.size()) {
    return unexpected(key, "an answer for each item from BF.MEXISTS", replies[1]);
  }
  for (const Reply& answer : *answers) {
    if (answer.is_error()) return named(key, *answer.error());
    if (answer.integer() == nullptr) return unexpected(key, "0 or 1", answer);
  }
  for (std::size_t i = 0; i < seen_by.size(); ++i) {
    seen_by[i] = static_cast<std::uint8_t>(seen_by[i] + (*(*answers)[i].integer() != 0 ? 1 : 0));
  }
  return true;
}

// The rest

Result<bool> BloomProtocol::State::forget(const std::string& key) {
  const std::string beside = exact_key(key);
  const bool together = key_slot(key) == key_slot(beside);
  std::vector<Command> batch{Command::with_key(1, "DEL", key)};
  together ? batch.front().add(beside) : batch.emplace_back(Command::with_key(1, "DEL", beside));
  const auto replies = execute_batch(*executor_, batch, deadline());
  if (!replies) return named(key, replies.error());
  bool any = false;
  for (const Reply& reply : *replies) {
    if (reply.is_error()) return named(key, *reply.error());
    if (reply.integer() == nullptr) return unexpected(key, "a count from DEL", reply);
    any = any || *reply.integer() != 0;
  }
  return any;
}

Result<BloomInfo> BloomProtocol::State::info(const std::string& key) {
  if (module_is_absent()) return absent_error();
  const auto reply = execute_one(*executor_, Command::with_key(1, "BF.INFO", key).reads_only(), deadline());
  if (!reply) {
    Error error = named(key, reply.error());
    note(error);
    if (contains(error.message, "not found")) error.code = ErrorCode::unknown_user;
    return error;
  }
  const auto* parts = reply->array();
  if (parts == nullptr || parts->size() % 2 != 0) return unexpected(key, "names and values from BF.INFO", *reply);
  BloomInfo info;
  const std::pair<std::string_view, std::uint64_t*> fields[] = {{"Capacity", &info.capacity},
                                                                {"Size", &info.size_bytes},
                                                                {"Number of filters", &info.filters},
                                                                {"Number of items inserted", &info.items},
                                                                {"Expansion rate", &info.expansion}};
  for (std::size_t i = 0; i < parts->size(); i += 2) {
    for (const auto& [name, into] : fields) {
      const std::int64_t* value = (*parts)[i + 1].integer();
      if ((*parts)[i].is_status(name) && value != nullptr) *into = static_cast<std::uint64_t>(*value);
    }
  }
  return info;
}

StoreCounters BloomProtocol::State::counters() const noexcept {
  return {.records = records_.load(std::memory_order_relaxed),
          .write_failures = write_failures_.load(std::memory_order_relaxed),
          .rebuilds = rebuilds_.load(std::memory_order_relaxed)};
}

BloomCounters BloomProtocol::State::bloom_counters() const noexcept {
  return {.module = module_.load(std::memory_order_relaxed),
          .unavailable = unavailable_.load(std::memory_order_relaxed),
          .full_filters = full_filters_.load(std::memory_order_relaxed),
          .rebuilds = rebuilds_.load(std::memory_order_relaxed)};
}

BloomProtocol::BloomProtocol(std::shared_ptr<Executor> executor, RedisBloomOptions options)
    : state_(std::make_unique<State>(std::move(executor), std::move(options))) {}
BloomProtocol::~BloomProtocol() = default;

void BloomProtocol::check(std::span<const Job> jobs) { state_->check(jobs); }
std::vector<Result<RecordOutcome>> BloomProtocol::record(std::span<const Write> writes) {
  return state_->record(writes);
}
Result<void> BloomProtocol::create(const std::string& key) { return state_->create(key); }
Result<bool> BloomProtocol::forget(const std::string& key) { return state_->forget(key); }
Result<BloomInfo> BloomProtocol::info(const std::string& key) { return state_->info(key); }
std::string BloomProtocol::exact_key(const std::string& key) {
  const std::string_view tag = hash_tag(key);
  std::string out("{");
  out.append(tag).append("}:hides");
  if (tag.size() != key.size()) out.append(":").append(key);
  return out;
}
Result<detail::ExactItems> BloomProtocol::exact(const std::string& key) const { return state_->exact(key); }
Result<std::size_t> BloomProtocol::change_exact(const std::string& key, const EditExact& edit) {
  return state_->change_exact(key, edit);
}
ModuleState BloomProtocol::probe() { return state_->probe(); }
const RedisBloomOptions& BloomProtocol::options() const noexcept { return state_->options(); }
StoreCounters BloomProtocol::counters() const noexcept { return state_->counters(); }
BloomCounters BloomProtocol::bloom_counters() const noexcept { return state_->bloom_counters(); }
PoolCounters BloomProtocol::connections() const { return state_->connections(); }

}  // namespace seenby::redis
