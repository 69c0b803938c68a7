// SPDX-License-Identifier: MIT
// Looking up and adding in the article's layout.

#include "seenby/redis_article/article_protocol.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "redis/protocol/expiry.hpp"
#include "redis_article/article_scripts.hpp"
#include "seenby/detail/backoff.hpp"
#include "seenby/detail/sizing_math.hpp"

namespace seenby::redis {
namespace {

constexpr std::uint32_t header_bits = 5;
constexpr std::uint32_t smallest_exponent = 5;  ///< m = 32: the first that leaves room beside the header
constexpr std::size_t placeholder_bytes = 9;
/// How much shorter than m / 8 a value of another size than the default may be: that all k positions of eight items lie
/// in the first eighth has a probability of 8^-32.
constexpr std::uint64_t shortest = 8;
/// Redis takes 2^20 arguments, and a position needs three.
constexpr std::size_t most_positions = 300'000;

Error named(const std::string& key, ErrorCode code, std::string_view what) {
  std::string message = "seenby::redis: key \"";
  return {code, std::move(message.append(key).append("\": ").append(what))};
}
Error named(const std::string& key, const Error& error) { return named(key, error.code, error.message); }

Error unexpected(const std::string& key, std::string_view wanted, const Reply& reply) {
  if (reply.is_error()) return named(key, *reply.error());
  std::string message = "expected ";
  return named(key, ErrorCode::corrupt, message.append(wanted).append(", got ").append(reply.type_name()));
}

std::uint64_t position_of(std::uint64_t probe, std::uint32_t exponent) noexcept {
  return probe & ((std::uint64_t{1} << exponent) - 1);
}

/// Redis counts bits from the highest of the first byte.
bool bit_at(std::string_view value, std::uint64_t position) noexcept {
  const std::uint64_t byte = position / 8;
  return byte < value.size() && (static_cast<unsigned char>(value[byte]) >> (7 - position % 8) & 1U) != 0;
}
void set_bit_at(std::string& value, std::uint64_t position) noexcept {
  value[position / 8] = static_cast<char>(static_cast<unsigned char>(value[position / 8]) | 0x80U >> position % 8);
}

std::string random_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 8; ++i) token.push_back(static_cast<char>(random() & 0xffU));
  return token;
}

/// Between tries while another client holds a key.
detail::Backoff make_backoff() noexcept { return {std::chrono::milliseconds{1}, std::chrono::milliseconds{20}}; }

}  // namespace

std::uint32_t inferred_exponent(std::string_view value) noexcept {
  if (value.empty()) return 0;
  const std::uint32_t stored = exponent_of(static_cast<unsigned char>(value.front()));
  const auto length = static_cast<std::uint64_t>(value.size());
  if ((std::uint64_t{1} << stored) / 8 <= shortest * length) return stored;
  for (std::uint32_t exponent = smallest_exponent; exponent < stored; ++exponent) {
    if ((exponent & stored) == exponent && (std::uint64_t{1} << exponent) / 8 >= length) return exponent;
  }
  return stored;
}

/// What a lookup found of one user.
struct ArticleProtocol::Look {
  std::uint32_t exponent = 0;  ///< 0: missing
  std::span<const Reply> bits{};
};

/// What one call of the add script did.
struct ArticleProtocol::Attempt {
  std::int64_t state = 0;  ///< the exponent, or why nothing was done
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

ArticleProtocol::ArticleProtocol(std::shared_ptr<Executor> executor, ArticleOptions options)
    : executor_(std::move(executor)), options_(std::move(options)) {
  detail::require_rate(options_.target_fpr, "target_fpr");
  detail::require_hash_count(options_.hash_count);
  if (options_.default_exponent < smallest_exponent || options_.max_exponent > 31 ||
      options_.default_exponent > options_.max_exponent) {
    throw std::invalid_argument("seenby::redis: expected exponents 5 <= default_exponent <= max_exponent <= 31");
  }
  if (options_.time_to_live != TimeToLive::none && options_.ttl.count() < 1) {
    throw std::invalid_argument("seenby::redis: expected a ttl of at least a second");
  }
}

// Looking up

Command ArticleProtocol::look_command(const std::string& key, std::span<const std::uint64_t> probes,
                                      std::uint32_t exponent) const {
  Command command = Command::with_key(1, "BITFIELD_RO", key, "GET", "u5", "0");
  for (const std::uint64_t probe : probes) {
    const std::uint64_t position = position_of(probe, exponent);
    if (position < header_bits) continue;
    command.add("GET").add("u1").add(static_cast<std::int64_t>(position));
  }
  command.reads_only();
  return command;
}

/// Whether a filter of this exponent can have this length.
Result<void> ArticleProtocol::check_size(const std::string& key, std::uint32_t exponent, std::uint64_t bytes) const {
  std::string what = "expected an exponent from 5 to ";
  what.append(std::to_string(options_.max_exponent)).append(" in the first 5 bits, got ");
  what.append(std::to_string(exponent));
  if (exponent < smallest_exponent || exponent > options_.max_exponent) { return named(key, ErrorCode::corrupt, what); }
  const std::uint64_t full = (std::uint64_t{1} << exponent) / 8;
  if (exponent == options_.default_exponent || full <= shortest * bytes) return {};
  what.append(" with a value of ").append(std::to_string(bytes)).append(" bytes, where that size has up to ");
  what.append(std::to_string(full)).append(": items overwrote the exponent, or a refill was cut short");
  return named(key, ErrorCode::corrupt, what);
}

Result<ArticleProtocol::Look> ArticleProtocol::read_look(const std::string& key, std::span<const Reply> replies) const {
  for (const Reply* length : {&replies[0], &replies[2]}) {
    if (length->integer() == nullptr) return unexpected(key, "a length from STRLEN", *length);
  }
  const auto* fields = replies[1].array();
  if (fields == nullptr || fields->empty()) return unexpected(key, "an array from BITFIELD_RO", replies[1]);
  for (const Reply& field : *fields) {
    if (field.integer() == nullptr) return unexpected(key, "bits", field);
  }
  const auto exponent = static_cast<std::uint32_t>(*fields->front().integer());
  const auto before = static_cast<std::uint64_t>(*replies[0].integer());
  const auto after = static_cast<std::uint64_t>(*replies[2].integer());
  // The key may come or go between the three: only what stayed the same all along is called damaged.
  const bool steady = before == after && before != 0 && before != placeholder_bytes;
  if (exponent == 0 && !steady) return Look{};
  if (auto sane = check_size(key, exponent, std::max(before, after)); !sane) return std::move(sane).error();
  return Look{exponent, std::span(*fields).subspan(1)};
}

void ArticleProtocol::add_up(const Look& look, const Job& job, std::uint32_t exponent) const {
  auto bit = look.bits.begin();
  for (std::size_t item = 0; item < job.seen_by.size(); ++item) {
    bool seen = true;
    for (const std::uint64_t probe : job.probes.subspan(item * options_.hash_count, options_.hash_count)) {
      if (position_of(probe, exponent) >= header_bits) seen = (*bit++).integer()[0] != 0 && seen;
    }
    job.seen_by[item] = static_cast<std::uint8_t>(job.seen_by[item] + (seen ? 1 : 0));
  }
}

/// One pipeline over the users without an answer yet; those whose size differs stay.
void ArticleProtocol::look(const Job& job, std::vector<std::size_t>& users,
                           std::vector<std::uint32_t>& exponents) const {
  std::vector<Command> batch;
  for (const std::size_t user : users) {
    const Command length = Command::with_key(1, "STRLEN", job.keys[user]).reads_only();
    batch.push_back(length);
    batch.push_back(look_command(job.keys[user], job.probes, exponents[user]));
    batch.push_back(length);
  }
  const auto replies = execute_batch(*executor_, batch, deadline());
  std::vector<std::size_t> again;
  for (std::size_t i = 0; i < users.size(); ++i) {
    const std::size_t user = users[i];
    auto found = replies ? read_look(job.keys[user], std::span(*replies).subspan(3 * i, 3))
                         : Result<Look>(named(job.keys[user], replies.error()));
    if (!found) {
      job.status[user] = {UserState::unreachable, std::make_shared<const Error>(std::move(found).error())};
    } else if (found->exponent == 0) {
      job.status[user] = {UserState::missing, nullptr};
    } else if (found->exponent == exponents[user]) {
      job.status[user] = {UserState::known, nullptr};
      add_up(*found, job, exponents[user]);
    } else {
      exponents[user] = found->exponent;
      again.push_back(user);
    }
  }
  users = std::move(again);
}

void ArticleProtocol::check(const Job& job) const {
  std::fill(job.seen_by.begin(), job.seen_by.end(), std::uint8_t{0});
  std::vector<std::size_t> users(job.keys.size());
  for (std::size_t i = 0; i < users.size(); ++i) users[i] = i;
  std::vector<std::uint32_t> exponents(job.keys.size(), options_.default_exponent);
  const auto give_up = [&](ErrorCode code, std::string_view what) {
    for (const std::size_t user : users) {
      job.status[user] = {UserState::unreachable, std::make_shared<const Error>(named(job.keys[user], code, what))};
    }
  };
  if (job.probes.size() > most_positions) {
    return give_up(ErrorCode::too_large, "expected at most 300000 positions in one lookup");
  }
  // The second round knows every size; more only when a filter grows right then.
  constexpr int rounds = 8;
  for (int round = 0; round < rounds && !users.empty(); ++round) look(job, users, exponents);
  give_up(ErrorCode::conflict, "its size changed in each of 8 lookups");
}

void ArticleProtocol::test(std::string_view value, std::uint32_t exponent, std::span<const std::uint64_t> probes,
                           std::span<std::uint8_t> out) const noexcept {
  for (std::size_t item = 0; item < out.size(); ++item) {
    const auto own = probes.subspan(item * options_.hash_count, options_.hash_count);
    out[item] = std::all_of(own.begin(), own.end(), [&](std::uint64_t probe) {
      const std::uint64_t position = position_of(probe, exponent);
      return position < header_bits || bit_at(value, position);
    });
  }
}

// Adding

bool ArticleProtocol::is_full(std::uint64_t ones, std::uint32_t exponent) const noexcept {
  const double limit = std::pow(options_.target_fpr, 1.0 / options_.hash_count);
  const auto header = static_cast<std::uint64_t>(std::popcount(exponent));
  return static_cast<double>(ones - std::min(ones, header)) > limit * std::ldexp(1.0, static_cast<int>(exponent));
}

std::string ArticleProtocol::time_to_live() const {
  if (options_.time_to_live == TimeToLive::none) return {};
  return std::to_string(px(options_.ttl));
}

/// A whole value that holds these items with some room left, of 2^at_least bits at the least.
std::string ArticleProtocol::value_of(std::span<const std::uint64_t> probes, std::uint32_t at_least) const {
  const double limit = std::pow(options_.target_fpr, 1.0 / options_.hash_count);
  const auto fill_at = [&](std::uint32_t exponent) {
    return -std::expm1(-static_cast<double>(probes.size()) / std::ldexp(1.0, static_cast<int>(exponent)));
  };
  std::uint32_t exponent = std::min(at_least, options_.max_exponent);
  while (exponent < options_.max_exponent && fill_at(exponent) > 0.8 * limit) ++exponent;
  std::string value((std::size_t{1} << exponent) / 8, '\0');
  value.front() = static_cast<char>(exponent << 3U);
  for (const std::uint64_t probe : probes) {
    const std::uint64_t position = position_of(probe, exponent);
    if (position >= header_bits) set_bit_at(value, position);
  }
  return value;
}

Result<ArticleProtocol::Attempt> ArticleProtocol::add(const std::string& key, std::span<const std::uint64_t> probes,
                                                      std::uint32_t exponent) {
  std::string positions;
  positions.reserve(probes.size() * 4);
  for (const std::uint64_t probe : probes) {
    const std::uint64_t position = position_of(probe, exponent);
    for (int shift = 0; shift < 32; shift += 8) positions.push_back(static_cast<char>(position >> shift & 0xffU));
  }
  const std::string size = std::to_string(exponent);
  const std::string k = std::to_string(options_.hash_count);
  const std::string ttl = options_.time_to_live == TimeToLive::refreshed ? time_to_live() : std::string();
  const std::string_view keys[] = {key};
  const std::string_view arguments[] = {size, k, positions, ttl};
  const auto reply = execute_script(*executor_, article_scripts::add(), keys, arguments, deadline());
  if (!reply) return named(key, reply.error());
  const auto* parts = reply->array();
  if (parts == nullptr || parts->empty()) return unexpected(key, "an array from the add script", *reply);
  Attempt attempt;
  for (const Reply& part : *parts) {
    if (part.integer() == nullptr) return unexpected(key, "numbers from the add script", part);
  }
  attempt.state = *parts->front().integer();
  if (parts->size() > 1) attempt.first = static_cast<std::uint64_t>(*(*parts)[1].integer());
  if (parts->size() > 2) attempt.second = static_cast<std::uint64_t>(*(*parts)[2].integer());
  return attempt;
}

Result<RecordOutcome> ArticleProtocol::add_until_done(const std::string& key, std::span<const std::uint64_t> probes,
                                                      const ReadProbes& history) {
  // The lease on the key ends after rebuild_timeout.
  const Deadline patience = this->patience();
  std::uint32_t exponent = options_.default_exponent;
  detail::Backoff backoff = make_backoff();
  while (true) {
    auto attempt = add(key, probes, exponent);
    if (!attempt) return std::move(attempt).error();
    if (attempt->state == article_scripts::missing) {
      if (auto made = make_missing(key, history); !made) return std::move(made).error();
    } else if (attempt->state == article_scripts::other_size) {
      exponent = static_cast<std::uint32_t>(attempt->first);
      if (auto sane = check_size(key, exponent, attempt->second); !sane) return std::move(sane).error();
    } else if (attempt->state == article_scripts::held) {
      if (patience.passed()) return named(key, ErrorCode::timed_out, "others held the key all the time");
      std::this_thread::sleep_for(std::min(backoff.next(), patience.left()));
    } else {
      RecordOutcome outcome{static_cast<std::size_t>(attempt->first), false};
      if (!is_full(attempt->second, exponent)) return outcome;
      // The items are in: a growth that fails now is tried again by the next record.
      auto grown = history && exponent < options_.max_exponent ? grow(key, exponent, history) : Result<bool>(false);
      outcome.grew = grown && *grown;
      if (!history || exponent >= options_.max_exponent || !grown) over_budget_.fetch_add(1, std::memory_order_relaxed);
      return outcome;
    }
  }
}

Result<RecordOutcome> ArticleProtocol::record(const std::string& key, std::span<const std::uint64_t> probes,
                                              const ReadProbes& history) {
  auto outcome = add_until_done(key, probes, history);
  auto& counter = outcome ? records_ : write_failures_;
  counter.fetch_add(probes.size() / options_.hash_count, std::memory_order_relaxed);
  return outcome;
}

// Making, growing, removing

Result<bool> ArticleProtocol::swap(const std::string& key, std::string_view old, std::string_view value,
                                   std::string_view ttl) {
  const std::string_view keys[] = {key};
  const std::string_view arguments[] = {old, value, ttl};
  const auto reply = execute_script(*executor_, article_scripts::swap(), keys, arguments, deadline());
  if (!reply) return named(key, reply.error());
  if (reply->integer() == nullptr) return unexpected(key, "0 or 1 from the swap script", *reply);
  return *reply->integer() == 1;
}

/// Makes a missing filter, unless another client already builds it.
Result<void> ArticleProtocol::make_missing(const std::string& key, const ReadProbes& history) {
  std::string placeholder(1, '\0');
  placeholder.append(random_token());
  const std::string ttl = history ? std::to_string(px(options_.rebuild_timeout)) : time_to_live();
  Command put = Command::with_key(1, "SET", key, history ? placeholder : value_of({}, options_.default_exponent), "NX");
  if (!ttl.empty()) put.add("PX").add(ttl);
  const auto placed = execute_one(*executor_, put, deadline());
  if (!placed) return named(key, placed.error());
  if (placed->is_nil() || !history) return {};
  // From here on adds are acknowledged only in the filter that replaces this placeholder: the history that is read
  // now has everything else.
  auto known = history();
  if (!known) {
    static_cast<void>(swap(key, placeholder, {}, {}));
    return named(key, known.error());
  }
  auto swapped = swap(key, placeholder, value_of(*known, options_.default_exponent), time_to_live());
  if (!swapped) return std::move(swapped).error();
  if (*swapped) rebuilds_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<ArticleProtocol::Grip> ArticleProtocol::try_hold(const std::string& key) {
  const std::string token = random_token();
  const std::string span = std::to_string(px(options_.rebuild_timeout));
  const std::string usual = std::to_string(options_.default_exponent);
  const std::string_view keys[] = {key};
  const std::string_view arguments[] = {token, span, usual};
  auto reply = execute_script(*executor_, article_scripts::hold(), keys, arguments, deadline());
  if (!reply) return named(key, reply.error());
  if (reply->is_nil()) return Grip{Held::missing, {}};
  if (reply->integer() != nullptr) return Grip{Held::by_another, {}};
  if (reply->string() == nullptr || reply->string()->empty()) {
    return unexpected(key, "a value from the hold script", *reply);
  }
  return Grip{Held::here, std::move(*reply->string())};
}

Result<bool> ArticleProtocol::grow(const std::string& key, std::uint32_t exponent, const ReadProbes& history) {
  auto grip = try_hold(key);
  if (!grip) return std::move(grip).error();
  if (grip->held != Held::here) return false;
  const std::string& old = grip->value;
  if (exponent_of(static_cast<unsigned char>(old.front())) != exponent) {
    release(key, old);
    return false;
  }
  // Adds are held up: everything acknowledged so far is in the history by now.
  auto known = history();
  const double size = std::ldexp(1.0, static_cast<int>(exponent));
  std::uint64_t ones = 0;
  for (std::size_t i = 0; i < std::min(old.size(), (std::size_t{1} << exponent) / 8); ++i) {
    ones += static_cast<std::uint64_t>(std::popcount(static_cast<unsigned char>(old[i])));
  }
  const double held_items = -size / options_.hash_count * std::log1p(-static_cast<double>(ones) / (size + 1));
  const bool knows_less = known && static_cast<double>(known->size()) < 0.8 * held_items * options_.hash_count;
  if (!known || knows_less) {
    release(key, old);
    if (!known) return named(key, known.error());
    return named(key, ErrorCode::corrupt, "expected a history that knows at least what the filter holds");
  }
  auto swapped = swap(key, old, value_of(*known, exponent + 1), "keep");
  if (swapped && *swapped) growths_.fetch_add(1, std::memory_order_relaxed);
  return swapped;
}

Result<void> ArticleProtocol::create(const std::string& key) { return make_missing(key, {}); }

Result<bool> ArticleProtocol::forget(const std::string& key) {
  const auto reply = execute_one(*executor_, Command::with_key(1, "DEL", key), deadline());
  if (!reply) return named(key, reply.error());
  return reply->integer() != nullptr && *reply->integer() != 0;
}

Result<std::string> ArticleProtocol::hold(const std::string& key) {
  const Deadline patience = this->patience();
  detail::Backoff backoff = make_backoff();
  while (true) {
    auto grip = try_hold(key);
    if (!grip) return std::move(grip).error();
    if (grip->held == Held::here) return std::move(grip->value);
    if (grip->held == Held::missing) return named(key, ErrorCode::unknown_user, "expected a filter, there is none");
    if (patience.passed()) return named(key, ErrorCode::timed_out, "others held the key all the time");
    std::this_thread::sleep_for(std::min(backoff.next(), patience.left()));
  }
}

void ArticleProtocol::release(const std::string& key, const std::string& value) {
  const std::uint32_t exponent = exponent_of(static_cast<unsigned char>(value.front()));
  const std::uint64_t bytes = (std::uint64_t{1} << exponent) / 8;
  if (exponent < smallest_exponent || value.size() <= bytes) return;
  // If this fails the mark runs out by itself.
  static_cast<void>(swap(key, value, std::string_view(value).substr(0, bytes), "keep"));
}

Result<bool> ArticleProtocol::remove(const std::string& key, const std::string& value) {
  return swap(key, value, {}, {});
}

StoreCounters ArticleProtocol::counters() const noexcept {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  return {.records = read(records_),
          .write_failures = read(write_failures_),
          .growths = read(growths_),
          .rebuilds = read(rebuilds_),
          .over_budget = read(over_budget_)};
}

}  // namespace seenby::redis
