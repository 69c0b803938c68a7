// SPDX-License-Identifier: MIT
#include "seenby/redis/stream_queue.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "redis/protocol/replies.hpp"
#include "redis/transport/script.hpp"
#include "seenby/detail/random_generation.hpp"

namespace seenby::redis {
namespace {

std::string default_consumer() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return std::string(host.data())
      .append(":")
      .append(std::to_string(::getpid()))
      .append(":")
      .append(std::to_string(detail::random_generation()));
}

/// The two numbers of an entry's id, to compare ids by.
std::pair<std::uint64_t, std::uint64_t> parts_of(std::string_view id) {
  std::pair<std::uint64_t, std::uint64_t> parts{};
  const char* const last = id.data() + id.size();
  const auto [end, bad] = std::from_chars(id.data(), last, parts.first);
  if (bad == std::errc{} && end != last) std::from_chars(end + 1, last, parts.second);
  return parts;
}

/// When an entry entered: its id begins with the server's milliseconds.
Time time_of(std::string_view id) {
  return Time{std::chrono::seconds{static_cast<std::int64_t>(parts_of(id).first / 1000)}};
}

/// The value behind a name in a flat list of names and values; null when there is none.
const Reply* field_of(const Reply& reply, std::string_view name) {
  const Reply::Array* list = reply.array();
  for (std::size_t i = 0; list != nullptr && i + 1 < list->size(); i += 2) {
    if ((*list)[i].is_status(name)) return &(*list)[i + 1];
  }
  return nullptr;
}
std::string_view text_of(const Reply* reply) {
  return reply != nullptr && reply->string() != nullptr ? std::string_view(*reply->string()) : std::string_view{};
}
std::optional<std::uint64_t> number_of(const Reply* reply) {
  if (reply == nullptr || reply->integer() == nullptr || *reply->integer() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*reply->integer());
}

/// The id of a list's first entry; empty where there is none.
std::string_view first_id(const Reply& entries) {
  const Reply::Array* list = entries.array();
  if (list == nullptr || list->empty()) return {};
  const Reply::Array* entry = list->front().array();
  return entry == nullptr || entry->empty() ? std::string_view{} : text_of(entry->data());
}

/// Moves an event to the dead letters once, and only with its acknowledgement.
const Script& bury_script() {
  // KEYS: stream, dead letters. ARGV: group, id, longest list of dead letters or "0", then fields and values.
  static const Script script(R"lua(
local held = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
if held.err and not string.find(held.err, 'NOGROUP') then return held end
if not held.err and #held == 0 then return 0 end
local add = {'XADD', KEYS[2]}
if ARGV[3] ~= '0' then add = {'XADD', KEYS[2], 'MAXLEN', '~', ARGV[3]} end
add[#add + 1] = '*'
for i = 4, #ARGV do add[#add + 1] = ARGV[i] end
redis.call(unpack(add))
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
)lua");
  return script;
}

}  // namespace

class StreamQueue::State {
 public:
  State(std::shared_ptr<Executor> client, std::string stream, StreamQueueOptions stream_options)
      : executor(std::move(client)), key(std::move(stream)), options(std::move(stream_options)) {
    if (!executor) throw std::invalid_argument("seenby::redis: expected an executor, got none");
    if (key.empty() || options.group.empty() || options.field.empty()) {
      throw std::invalid_argument(
          "seenby::redis: expected a stream, a group and a field with a name, got an empty one");
    }
    timeout = options.timeout.value_or(executor->default_timeout());
    if (timeout.count() <= 0 || options.claim_after.count() < 0) {
      throw std::invalid_argument("seenby::redis: expected a timeout above zero and no negative claim_after");
    }
    timeout = std::min<std::chrono::milliseconds>(timeout, longest_wait);
    named_by_caller_ = !options.consumer.empty();
    if (!named_by_caller_) options.consumer = default_consumer();
    // On the same node of a cluster as the stream, whose own hash tag stays its tag.
    if (options.dead_letters.empty()) {
      const bool tagged = key.find('{') != std::string::npos;
      options.dead_letters = (tagged ? key : "{" + key + "}") + ":dead";
    }
  }

  Result<void> push(std::span<const std::string> messages) const {
    std::vector<Command> batch;
    batch.reserve(messages.size());
    const std::string most = std::to_string(options.max_length);
    for (const std::string& message : messages) {
      Command& command = batch.emplace_back().add("XADD").add_key(key);
      if (options.max_length != 0) command.add("MAXLEN").add("~").add(most);
      command.add("*").add(options.field).add(message);
    }
    auto replies = ask(batch, timeout);
    if (!replies) return std::move(replies).error();
    return {};
  }

  Result<std::vector<StreamDelivery>> read(std::size_t most, std::chrono::milliseconds wait) {
    std::vector<StreamDelivery> batch = std::exchange(claimed_, {});
    auto done = read_into(batch, most, wait);
    if (!done && stream_is_gone(done.error())) {
      begun_ = false;
      done = read_into(batch, most, wait);
    }
    // The next read hands out what was claimed: a short batch without what is new would say that there is no more.
    const auto kept = batch.begin() + static_cast<std::ptrdiff_t>(done ? std::min(most, batch.size()) : 0);
    claimed_.assign(std::make_move_iterator(kept), std::make_move_iterator(batch.end()));
    batch.erase(kept, batch.end());
    if (!done) return std::move(done).error();
    return batch;
  }

  Result<void> acknowledge(std::span<const std::string> receipts) const {
    if (receipts.empty()) return {};
    Command command;
    command.add("XACK").add_key(key).add(options.group);
    for (const std::string& receipt : receipts) command.add(receipt);
    auto replies = ask({&command, 1}, timeout);
    if (!replies) return std::move(replies).error();
    return {};
  }

  Result<void> bury(const StreamDelivery& delivery, const Error& why) const {
    const std::string most = std::to_string(options.max_length);
    const std::string deliveries = std::to_string(delivery.deliveries);
    const std::array<std::string_view, 2> keys{key, options.dead_letters};
    const std::array<std::string_view, 11> arguments{
        options.group, delivery.receipt, most,         options.field, delivery.message, "why", why.message,
        "id",          delivery.receipt, "deliveries", deliveries};
    auto done = execute_script(*executor, bury_script(), keys, arguments, Deadline::after(timeout));
    if (!done) return named(std::move(done).error(), key);
    return {};
  }

  Result<StreamBacklog> backlog() const {
    std::vector<Command> batch(3);
    batch[0].add("XINFO").add("GROUPS").add_key(key);
    batch[1].add("XLEN").add_key(key);
    batch[2].add("XLEN").add_key(options.dead_letters);
    auto replies = ask(batch, timeout, true);
    if (!replies) return std::move(replies).error();
    StreamBacklog backlog;
    backlog.length = number_of(&(*replies)[1]).value_or(0);
    backlog.dead_letters = number_of(&(*replies)[2]).value_or(0);
    const Reply* group = group_in((*replies)[0]);
    const std::string last(group == nullptr ? "0-0" : text_of(field_of(*group, "last-delivered-id")));
    backlog.unread = group == nullptr ? backlog.length : number_of(field_of(*group, "lag"));
    std::vector<Command> more(group == nullptr ? 1 : 2);
    more[0].add("XRANGE").add_key(key).add("(" + last).add("+").add("COUNT").add("1");
    if (group != nullptr) more[1].add("XPENDING").add_key(key).add(options.group);
    auto oldest = ask(more, timeout, true);
    if (!oldest) return std::move(oldest).error();
    const auto older = [&](std::string_view id) {
      if (!id.empty()) backlog.oldest = std::min(backlog.oldest.value_or(Time::max()), time_of(id));
    };
    older(first_id((*oldest)[0]));
    if (group == nullptr) return backlog;
    if (const Reply::Array* pending = (*oldest)[1].array(); pending != nullptr && pending->size() >= 2) {
      backlog.held = number_of(pending->data()).value_or(0);
      older(text_of(&(*pending)[1]));
    }
    return backlog;
  }

  std::shared_ptr<Executor> executor;
  std::string key;
  StreamQueueOptions options;
  std::chrono::milliseconds timeout{};
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> overruns{0};

 private:
  /// One reply a command, none of them an error; `missing_is_none`: a stream that is not there is an empty answer.
  Result<std::vector<Reply>> ask(std::span<const Command> batch, std::chrono::milliseconds patience,
                                 bool missing_is_none = false) const {
    auto replies = execute_batch(*executor, batch, Deadline::after(patience));
    if (!replies) return named(std::move(replies).error(), key);
    for (Reply& reply : *replies) {
      const Error* error = reply.error();
      if (error == nullptr) continue;
      if (!missing_is_none || !stream_is_gone(*error)) return named(*error, key);
      reply = Reply();
    }
    return replies;
  }

  /// Makes the group, before the first read and after the server lost it.
  Result<void> begin() {
    if (begun_) return {};
    Command create;
    create.add("XGROUP").add("CREATE").add_key(key).add(options.group).add("0").add("MKSTREAM");
    auto reply = execute_one(*executor, create, Deadline::after(timeout));
    if (!reply && !reply.error().message.starts_with("BUSYGROUP")) return named(std::move(reply).error(), key);
    begun_ = true;
    return {};
  }
  /// Whether the server has lost the stream, or its group.
  [[nodiscard]] static bool stream_is_gone(const Error& error) {
    return error.message.find("NOGROUP") != std::string::npos || error.message.find("no such key") != std::string::npos;
  }
  Result<void> read_into(std::vector<StreamDelivery>& batch, std::size_t most, std::chrono::milliseconds wait) {
    if (auto done = begin(); !done) return done;
    if (batch.empty()) {  // else an earlier read has done so, and failed then
      if (auto done = resume(most, batch); !done) return done;
      if (auto done = claim(most - batch.size(), batch); !done) return done;
    }
    if (batch.size() >= most) return {};
    return read_new(most - batch.size(),
                    batch.empty() ? std::min<std::chrono::milliseconds>(wait, longest_wait) : wait.zero(), batch);
  }

  /// What this consumer's name held when its last process died.
  Result<void> resume(std::size_t most, std::vector<StreamDelivery>& batch) {
    if (!named_by_caller_ || resumed_) return {};
    Command command = group_read();
    command.add("COUNT").add(static_cast<std::int64_t>(most)).add("STREAMS").add_key(key).add(resume_after_);
    auto replies = ask({&command, 1}, timeout);
    if (!replies) return std::move(replies).error();
    const Reply::Array* entries = entries_of((*replies)[0]);
    resumed_ = entries == nullptr || entries->size() < most;
    return entries == nullptr ? Result<void>{} : take_again(*entries, &resume_after_, batch);
  }

  /// What workers have held for too long: a scan of what is held, a part of it each time.
  Result<void> claim(std::size_t most, std::vector<StreamDelivery>& batch) {
    const auto now = std::chrono::steady_clock::now();
    if (most == 0 || now < next_claim_) return {};
    Command command;
    command.add("XAUTOCLAIM").add_key(key).add(options.group).add(options.consumer);
    command.add(options.claim_after.count()).add(claim_from_).add("COUNT").add(static_cast<std::int64_t>(most));
    auto replies = ask({&command, 1}, timeout);
    if (!replies) return std::move(replies).error();
    const Reply::Array* answer = (*replies)[0].array();
    if (answer == nullptr || answer->size() < 2 || (*answer)[1].array() == nullptr) return unexpected("XAUTOCLAIM");
    claim_from_ = text_of(answer->data());
    if (claim_from_ == "0-0") next_claim_ = saturating_add(now, options.claim_after / 4);
    if (answer->size() > 2 && (*answer)[2].array() != nullptr) lost += (*answer)[2].array()->size();
    return take_again(*(*answer)[1].array(), nullptr, batch);
  }

  Result<void> read_new(std::size_t most, std::chrono::milliseconds wait, std::vector<StreamDelivery>& batch) {
    std::vector<Command> commands(2);
    commands[0].add("XINFO").add("GROUPS").add_key(key);
    commands[1].add("XRANGE").add_key(key).add("-").add("+").add("COUNT").add("1");
    Command& command = commands.emplace_back(group_read());
    command.add("COUNT").add(static_cast<std::int64_t>(most));
    if (wait.count() > 0) command.add("BLOCK").add(wait.count());  // BLOCK 0 is for ever
    command.add("STREAMS").add_key(key).add(">");
    auto replies = ask(commands, timeout + wait);
    if (!replies) return std::move(replies).error();
    note_overrun((*replies)[0], first_id((*replies)[1]));
    const Reply::Array* entries = entries_of((*replies)[2]);
    if (entries == nullptr) return {};
    for (const Reply& entry : *entries) take(entry, 1, batch);
    return {};
  }

  /// The oldest entry is younger than the last that the group read, and that one is gone: so may be others between.
  void note_overrun(const Reply& groups, std::string_view oldest) {
    const Reply* group = group_in(groups);
    if (group == nullptr || oldest.empty()) return;
    const auto last = parts_of(text_of(field_of(*group, "last-delivered-id")));
    if (last != std::pair<std::uint64_t, std::uint64_t>{} && parts_of(oldest) > last) ++overruns;
  }

  /// Entries that were handed out before, with how often; `last` becomes the last one's id.
  Result<void> take_again(const Reply::Array& entries, std::string* last, std::vector<StreamDelivery>& batch) {
    const std::size_t begin = batch.size();
    std::vector<std::string> gone;
    for (const Reply& entry : entries) {
      const Reply::Array* fields = entry.array();
      if (fields == nullptr || fields->size() != 2) continue;
      if (last != nullptr) *last = text_of(fields->data());
      if ((*fields)[1].is_nil()) gone.emplace_back(text_of(fields->data()));
      take(entry, 2, batch);
    }
    lost += gone.size();
    if (auto done = acknowledge(gone); !done) return done;
    if (batch.size() == begin) return {};
    Command command;
    command.add("XPENDING").add_key(key).add(options.group).add(batch[begin].receipt).add(batch.back().receipt);
    command.add(static_cast<std::int64_t>(batch.size() - begin)).add(options.consumer);
    auto replies = ask({&command, 1}, timeout);
    if (!replies) return std::move(replies).error();
    if ((*replies)[0].array() == nullptr) return unexpected("XPENDING");
    std::map<std::string_view, std::uint64_t> counts;
    for (const Reply& row : *(*replies)[0].array()) {
      const Reply::Array* fields = row.array();
      if (fields == nullptr || fields->size() < 4) continue;
      counts[text_of(fields->data())] = number_of(&(*fields)[3]).value_or(0);
    }
    for (std::size_t i = begin; i < batch.size(); ++i) {
      const auto known = counts.find(batch[i].receipt);
      if (known != counts.end()) batch[i].deliveries = static_cast<std::uint32_t>(known->second);
    }
    return {};
  }

  void take(const Reply& entry, std::uint32_t deliveries, std::vector<StreamDelivery>& batch) const {
    const Reply::Array* parts = entry.array();
    if (parts == nullptr || parts->size() != 2 || (*parts)[1].array() == nullptr) return;
    const std::string_view id = text_of(parts->data());
    StreamDelivery& delivery = batch.emplace_back(StreamDelivery{std::string(id), {}, time_of(id), deliveries});
    if (const Reply* event = field_of((*parts)[1], options.field)) {
      delivery.message = text_of(event);
      return;
    }
    for (const Reply& each : *(*parts)[1].array()) delivery.message.append(text_of(&each)).append("\n");
  }

  [[nodiscard]] Command group_read() const {
    Command command;
    command.add("XREADGROUP").add("GROUP").add(options.group).add(options.consumer);
    return command;
  }
  /// The entries of the one stream that was read; null where there are none.
  [[nodiscard]] static const Reply::Array* entries_of(const Reply& reply) {
    const Reply::Array* streams = reply.array();
    if (streams == nullptr || streams->empty()) return nullptr;
    const Reply::Array* stream = streams->front().array();
    return stream == nullptr || stream->size() != 2 ? nullptr : (*stream)[1].array();
  }
  /// This group's row of XINFO GROUPS.
  [[nodiscard]] const Reply* group_in(const Reply& groups) const {
    const Reply::Array* list = groups.array();
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      if (text_of(field_of((*list)[i], "name")) == options.group) return &(*list)[i];
    }
    return nullptr;
  }
  [[nodiscard]] Error unexpected(std::string_view command) const {
    std::string message = "seenby::redis: expected the answer of ";
    return named({ErrorCode::corrupt, message.append(command).append(", got another")}, key);
  }

  /// Keeps the sum of a wait and a timeout in range.
  static constexpr std::chrono::hours longest_wait{24};

  std::vector<StreamDelivery> claimed_;  ///< by a read that failed then
  bool named_by_caller_ = false;
  bool begun_ = false;
  bool resumed_ = false;
  std::string resume_after_ = "0";
  std::string claim_from_ = "0-0";
  std::chrono::steady_clock::time_point next_claim_{};
};

StreamQueue::StreamQueue(std::shared_ptr<Executor> executor, std::string key, StreamQueueOptions options)
    : state_(std::make_unique<State>(std::move(executor), std::move(key), std::move(options))) {}
StreamQueue::StreamQueue(StreamQueue&&) noexcept = default;
StreamQueue::~StreamQueue() = default;

Result<void> StreamQueue::push(std::span<const std::string> messages) { return state_->push(messages); }
Result<std::vector<StreamDelivery>> StreamQueue::read(std::size_t most, std::chrono::milliseconds wait) {
  return state_->read(most, wait);
}
Result<void> StreamQueue::acknowledge(std::span<const std::string> receipts) { return state_->acknowledge(receipts); }
Result<void> StreamQueue::bury(const StreamDelivery& delivery, const Error& why) { return state_->bury(delivery, why); }
Result<StreamBacklog> StreamQueue::backlog() const { return state_->backlog(); }
std::uint64_t StreamQueue::lost() const noexcept { return state_->lost; }
std::uint64_t StreamQueue::overruns() const noexcept { return state_->overruns; }
const std::string& StreamQueue::key() const noexcept { return state_->key; }
const std::string& StreamQueue::dead_letters_key() const noexcept { return state_->options.dead_letters; }

}  // namespace seenby::redis
