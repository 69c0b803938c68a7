// SPDX-License-Identifier: MIT
// What is sent to RedisBloom, and how its answers are read.

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include "redis/protocol/bloom_state.hpp"
#include "redis/protocol/expiry.hpp"
#include "redis/transport/cluster.hpp"
#include "redis/transport/script.hpp"
#include "seenby/detail/sizing_math.hpp"

namespace seenby::redis {
namespace {

/// One script call carries at most this many items, history included: Redis takes 2^20 arguments.
constexpr std::size_t most_items = 1'000'000;
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

Error named(const std::string& key, const Error& error) {
  std::string message = "seenby::redis: key \"";
  return {kind_of(error), std::move(message.append(key).append("\": ").append(error.message))};
}

Error unexpected(const std::string& key, std::string_view wanted, const Reply& reply) {
  std::string message = "expected ";
  message.append(wanted).append(", got ").append(reply.type_name());
  return named(key, {ErrorCode::corrupt, std::move(message)});
}

Error too_many(const std::string& key, std::size_t items) {
  std::string message = "expected at most 1000000 items in one record, history included, got ";
  return named(key, {ErrorCode::too_large, message.append(std::to_string(items))});
}

/// RedisBloom's type name, and that of Valkey's module of the same commands.
bool is_bloom_type(std::string_view type) { return type == "MBbloom--" || type == "bloomfltr"; }

std::int64_t now_nanoseconds() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
}

}  // namespace

const Script& bloom_add_script() {
  static const Script script(R"lua(
local key, made = KEYS[1], 0
if ARGV[1] == '1' then
  if ARGV[4] == '0' then
    made = redis.pcall('BF.RESERVE', key, ARGV[2], ARGV[3], 'NONSCALING')
  else
    made = redis.pcall('BF.RESERVE', key, ARGV[2], ARGV[3], 'EXPANSION', ARGV[4])
  end
  if made.err and not string.find(made.err, 'item exists', 1, true) then return {made} end
elseif redis.call('EXISTS', key) == 0 then
  return {'missing'}
end
local out, last = {made}, #ARGV
for at = 7, last, 1000 do
  local to = math.min(at + 999, last)
  local added = redis.pcall('BF.MADD', key, unpack(ARGV, at, to))
  if added.err then
    out[#out + 1] = added
    break
  end
  local short = #added < to - at + 1
  for i = 1, #added do
    out[#out + 1] = added[i]
    if type(added[i]) == 'table' then short = true end
  end
  if short then break end
end
if ARGV[5] ~= '' and (ARGV[6] == '1' or (made ~= 0 and made.ok)) then redis.call('PEXPIRE', key, ARGV[5]) end
return out
)lua");
  return script;
}

std::string rate_text(double rate) {
  std::array<char, 32> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), rate);
  return {buffer.data(), end};
}

/// What one script call did.
struct BloomProtocol::State::Added {
  bool missing = false;
  bool created = false;
  std::vector<std::uint8_t> changed;  ///< of the acknowledged items, in order: newly added or not
  std::optional<Error> error{};
};

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

// Adding

Command BloomProtocol::State::add_command(const Write& write, bool create) const {
  const std::uint64_t capacity = std::max(options_.capacity, write.known_items);
  const bool expires = options_.time_to_live != TimeToLive::none;
  const std::string rate = rate_text(options_.error_rate);
  const std::string size = std::to_string(capacity);
  const std::string expansion = std::to_string(options_.expansion);
  const std::string ttl = expires ? std::to_string(px(options_.ttl)) : std::string();
  std::vector<std::string_view> arguments{
      create ? "1" : "0", rate, size, expansion, ttl, options_.time_to_live == TimeToLive::refreshed ? "1" : "0"};
  arguments.insert(arguments.end(), write.items.begin(), write.items.end());
  const std::string_view keys[] = {write.key};
  Command call = bloom_add_script().call(keys, arguments);
  // A number or an error an item.
  call.expects_at_most(4'096 + 256 * write.items.size());
  return call;
}

BloomProtocol::State::Added BloomProtocol::State::read_added(const std::string& key, std::size_t items,
                                                             const Reply& reply) {
  Added added;
  const auto fail = [&](const Error& error) {
    added.error = error;
    note(error);
    return added;
  };
  if (reply.is_error()) return fail(named(key, *reply.error()));
  const auto* parts = reply.array();
  if (parts == nullptr || parts->empty()) return fail(unexpected(key, "an array from the add script", reply));
  const Reply& made = parts->front();
  if (made.is_status("missing")) {
    added.missing = true;
    return added;
  }
  added.created = made.is_status("OK");
  if (made.is_error() && !contains(made.error()->message, "item exists")) return fail(named(key, *made.error()));
  if (!made.is_error() && !added.created && made.integer() == nullptr) return fail(unexpected(key, "OK", made));
  for (std::size_t i = 1; i < parts->size(); ++i) {
    const Reply& part = (*parts)[i];
    if (part.is_error()) {
      fail(named(key, *part.error()));
      break;
    }
    if (part.integer() == nullptr) {
      fail(unexpected(key, "0 or 1 from BF.MADD", part));
      break;
    }
    added.changed.push_back(*part.integer() != 0 ? 1 : 0);
  }
  if (added.changed.size() > items) return fail(unexpected(key, "no more answers than items", reply));
  // Some versions cut the reply short without saying why: only a full NONSCALING filter does that.
  if (!added.error && added.changed.size() < items) {
    added.error = named(key, {ErrorCode::too_large, "BF.MADD stopped early: the filter is full"});
  }
  if (added.error && added.error->code == ErrorCode::too_large) full_filters_.fetch_add(1, std::memory_order_relaxed);
  if (!added.error || !added.changed.empty()) module_.store(ModuleState::present, std::memory_order_relaxed);
  return added;
}

std::vector<BloomProtocol::State::Added> BloomProtocol::State::run(std::span<const Write* const> writes, bool create) {
  std::vector<Command> batch;
  batch.reserve(writes.size());
  for (const Write* write : writes) batch.push_back(add_command(*write, create));
  const std::vector<const Script*> scripts(batch.size(), &bloom_add_script());
  std::vector<Added> all;
  all.reserve(writes.size());
  const auto replies = execute_scripts(*executor_, batch, scripts, deadline());
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (replies) {
      all.push_back(read_added(writes[i]->key, writes[i]->items.size(), (*replies)[i]));
    } else {
      all.push_back({.changed = {}, .error = named(writes[i]->key, replies.error())});
    }
  }
  return all;
}

/// Counts what an attempt acknowledged of a write's own items, which come first.
Result<RecordOutcome> BloomProtocol::State::settle(std::size_t items, Added added) {
  const std::size_t acknowledged = std::min(items, added.changed.size());
  records_.fetch_add(acknowledged, std::memory_order_relaxed);
  write_failures_.fetch_add(items - acknowledged, std::memory_order_relaxed);
  if (!added.error) {
    const auto own = std::span(added.changed).first(acknowledged);
    return RecordOutcome{static_cast<std::size_t>(std::count(own.begin(), own.end(), 1)), false};
  }
  if (added.changed.empty()) return std::move(*added.error);
  added.error->message.append("; acknowledged ").append(std::to_string(acknowledged));
  added.error->message.append(" of ").append(std::to_string(items)).append(" items");
  return std::move(*added.error);
}

std::vector<Result<RecordOutcome>> BloomProtocol::State::record(std::span<const Write> writes) {
  std::vector<Result<RecordOutcome>> outcomes(writes.size(), RecordOutcome{});
  const bool absent = module_is_absent();
  std::vector<const Write*> first;
  std::vector<std::size_t> first_of;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const std::size_t items = writes[i].items.size();
    if (absent || items > most_items) {
      outcomes[i] = settle(items, {.changed = {}, .error = absent ? absent_error() : too_many(writes[i].key, items)});
      continue;
    }
    first.push_back(&writes[i]);
    first_of.push_back(i);
  }
  std::vector<Write> missing;
  std::vector<std::size_t> missing_of;
  std::vector<Added> added = run(first, false);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (added[i].missing) {
      auto whole = with_history(*first[i]);
      if (whole) {
        missing.push_back(std::move(*whole));
        missing_of.push_back(first_of[i]);
        continue;
      }
      added[i].error = std::move(whole).error();
    }
    outcomes[first_of[i]] = settle(first[i]->items.size(), std::move(added[i]));
  }
  if (!missing.empty()) make_missing(writes, missing, missing_of, outcomes);
  return outcomes;
}

/// Makes the filters that were not there, each with its whole history in one go.
void BloomProtocol::State::make_missing(std::span<const Write> writes, std::span<const Write> whole,
                                        std::span<const std::size_t> index_of,
                                        std::vector<Result<RecordOutcome>>& outcomes) {
  std::vector<const Write*> batch;
  for (const Write& write : whole) batch.push_back(&write);
  std::vector<Added> added = run(batch, true);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const Write& write = writes[index_of[i]];
    const bool rebuilt = write.history && added[i].created;
    if (rebuilt && !added[i].error) rebuilds_.fetch_add(1, std::memory_order_relaxed);
    Result<RecordOutcome>& outcome = outcomes[index_of[i]];
    outcome = settle(write.items.size(), std::move(added[i]));
    // Items that the history already held are not new, and which those are is unknown.
    if (rebuilt && outcome) outcome->newly_added = 0;
  }
}

/// The write's own items, then the user's history if there is one.
Result<BloomProtocol::Write> BloomProtocol::State::with_history(const Write& write) {
  Write whole{.key = write.key, .items = write.items};
  if (write.history) {
    auto seen = write.history();
    if (!seen) return named(write.key, seen.error());
    whole.items.insert(whole.items.end(), std::make_move_iterator(seen->begin()), std::make_move_iterator(seen->end()));
    whole.known_items = whole.items.size();
  }
  if (whole.items.size() > most_items) return too_many(write.key, whole.items.size());
  return whole;
}

Result<void> BloomProtocol::State::create(const std::string& key) {
  if (module_is_absent()) return absent_error();
  const Write write{.key = key, .items = {}};
  const Write* const writes[] = {&write};
  Added added = std::move(run(writes, true).front());
  if (added.error) return std::move(*added.error);
  return {};
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
