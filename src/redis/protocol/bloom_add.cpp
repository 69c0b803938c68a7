// SPDX-License-Identifier: MIT
// What is added through RedisBloom: one script call a user, and what it acknowledged.

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "redis/protocol/bloom_state.hpp"
#include "redis/protocol/expiry.hpp"
#include "redis/transport/script.hpp"

namespace seenby::redis {
namespace {

/// One script call carries at most this many items, history included: Redis takes 2^20 arguments.
constexpr std::size_t most_items = 1'000'000;

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

Error BloomProtocol::State::too_many(const std::string& key, std::size_t items) {
  std::string message = "expected at most 1000000 items in one record, history included, got ";
  return named(key, {ErrorCode::too_large, message.append(std::to_string(items))});
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
  if (made.is_error() && made.error()->message.find("item exists") == std::string::npos)
    return fail(named(key, *made.error()));
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

}  // namespace seenby::redis
