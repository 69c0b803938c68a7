// SPDX-License-Identifier: MIT
#include "seenby/lmdb/environment.hpp"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "seenby/hash.hpp"

namespace seenby::lmdb {
namespace {

Error failed(int code, std::string_view what, const std::string& path) {
  std::string message = "seenby: expected to ";
  message.append(what).append(" ").append(path).append(", got ").append(mdb_strerror(code));
  switch (code) {
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH: return {ErrorCode::wrong_type, message.append(": it is no LMDB file of this version")};
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PANIC: return {ErrorCode::corrupt, message};
    case MDB_READERS_FULL: return {ErrorCode::unavailable, message.append(": raise Options::max_readers")};
    case MDB_MAP_FULL: return {ErrorCode::too_large, message.append(": raise Options::max_map_bytes")};
    default: return {ErrorCode::io, message};
  }
}

MDB_val value_of(const void* data, std::size_t size) noexcept { return {size, const_cast<void*>(data)}; }

constexpr std::size_t longest_plain_key = 400;  // LMDB's limit is 511
constexpr char plain_key = 'k';                 // LMDB takes no empty key, so every key has a first byte of ours
constexpr char hashed_key = 'h';

std::string stored_key(std::string_view key) {
  if (key.size() <= longest_plain_key) return std::string(1, plain_key).append(key);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  std::string stored(1, hashed_key);
  for (const std::uint64_t word : {hash.low64, hash.high64}) {
    for (int byte = 0; byte < 8; ++byte) stored.push_back(static_cast<char>(word >> (8 * byte)));
  }
  return stored;
}

Result<std::optional<Blob>> get(MDB_txn* transaction, MDB_dbi table, std::string_view key) {
  const std::string stored = stored_key(key);
  MDB_val name = value_of(stored.data(), stored.size());
  MDB_val value{};
  const int code = mdb_get(transaction, table, &name, &value);
  if (code == MDB_NOTFOUND) return std::optional<Blob>{};
  if (code != 0) return failed(code, "read a value of", "the environment");
  const auto* const bytes = static_cast<const std::byte*>(value.mv_data);
  return std::optional<Blob>(std::in_place, bytes, bytes + value.mv_size);
}

/// Thrown through the caller's callback when the map is full: the transaction is run again with a larger one.
struct MapFull {};

}  // namespace

struct EnvironmentState {
  MDB_env* env = nullptr;
  MDB_dbi table = 0;
  std::string path;
  Options options;
  pid_t process = ::getpid();
  /// Held shared by every transaction and alone by a change of the map's size, which LMDB allows between them only.
  mutable std::shared_mutex map_mutex;
  mutable std::mutex readers_mutex;
  mutable std::vector<MDB_txn*> idle_readers;  ///< reset: they hold a reader's slot and no state

  EnvironmentState(std::string file, const Options& wanted) : path(std::move(file)), options(wanted) {}
  EnvironmentState(const EnvironmentState&) = delete;
  EnvironmentState& operator=(const EnvironmentState&) = delete;
  ~EnvironmentState() {
    if (env == nullptr) return;
    if (process == ::getpid()) {
      for (MDB_txn* reader : idle_readers) mdb_txn_abort(reader);
    }
    mdb_env_close(env);
  }

  Result<void> open() {
    if (const int code = mdb_env_create(&env); code != 0) return failed(code, "open", path);
    mdb_env_set_mapsize(env, options.map_bytes);
    mdb_env_set_maxreaders(env, options.max_readers);
    const unsigned flags = MDB_NOSUBDIR | MDB_NOTLS | (options.durable ? 0U : unsigned{MDB_NOSYNC});
    if (const int code = mdb_env_open(env, path.c_str(), flags, 0600); code != 0) return failed(code, "open", path);
    int dead_readers = 0;
    mdb_reader_check(env, &dead_readers);
    return write([&](MDB_txn* transaction) { return mdb_dbi_open(transaction, nullptr, 0, &table); });
  }

  [[nodiscard]] Result<void> usable() const {
    if (process == ::getpid()) return {};
    std::string message = "seenby: expected an environment opened in this process, got one from before fork(): open ";
    return Error{ErrorCode::unavailable, message.append(path).append(" again in the child")};
  }

  /// Doubles the map, unless another thread did since it had `seen` bytes. 0: takes the size another process gave it.
  Result<void> grow(std::uint64_t seen) {
    const std::unique_lock lock(map_mutex);
    MDB_envinfo info{};
    mdb_env_info(env, &info);
    if (seen != 0 && info.me_mapsize > seen) return {};
    const std::uint64_t wanted = seen == 0 ? 0 : seen * 2;
    if (options.max_map_bytes != 0 && wanted > options.max_map_bytes) return failed(MDB_MAP_FULL, "write to", path);
    if (const int code = mdb_env_set_mapsize(env, wanted); code != 0) return failed(code, "grow the map of", path);
    return {};
  }

  /// One attempt at a write transaction; `change` gives 0 or LMDB's code.
  template <class Change>
  int attempt(const Change& change, std::uint64_t& map_bytes) {
    const std::shared_lock lock(map_mutex);
    MDB_envinfo info{};
    mdb_env_info(env, &info);
    map_bytes = info.me_mapsize;
    MDB_txn* transaction = nullptr;
    if (const int code = mdb_txn_begin(env, nullptr, 0, &transaction); code != 0) return code;
    int code = 0;
    try {
      code = change(transaction);
    } catch (...) {
      mdb_txn_abort(transaction);
      throw;
    }
    if (code == 0) return mdb_txn_commit(transaction);
    mdb_txn_abort(transaction);
    return code;
  }

  /// Runs `change` in a write transaction, again with a larger map where it was full.
  template <class Change>
  Result<void> write(const Change& change) {
    if (auto here = usable(); !here) return here;
    for (;;) {
      std::uint64_t map_bytes = 0;
      const int code = attempt(change, map_bytes);
      if (code == 0) return {};
      if (code != MDB_MAP_FULL && code != MDB_MAP_RESIZED) return failed(code, "write to", path);
      if (auto grown = grow(code == MDB_MAP_FULL ? map_bytes : 0); !grown) return grown;
    }
  }

  /// Runs `look` in a read transaction.
  template <class Look>
  auto read(const Look& look) -> decltype(look(std::declval<MDB_txn*>())) {
    if (auto here = usable(); !here) return std::move(here).error();
    for (;;) {
      {
        const std::shared_lock lock(map_mutex);
        MDB_txn* transaction = nullptr;
        const int code = begin_read(transaction);
        if (code == 0) {
          const Reader open{*this, transaction};
          return look(transaction);
        }
        if (code != MDB_MAP_RESIZED) return failed(code, "read", path);
      }
      if (auto grown = grow(0); !grown) return std::move(grown).error();
    }
  }

  Result<void> transact(const std::function<Result<void>(Transaction&)>& change) {
    Result<void> outcome;
    auto written = write([&](MDB_txn* raw) {
      Transaction transaction(raw, table);
      try {
        outcome = change(transaction);
      } catch (const MapFull&) { return MDB_MAP_FULL; }
      return outcome ? 0 : MDB_BAD_TXN;  // any code that aborts: the change's own error is what is returned
    });
    return outcome ? std::move(written) : std::move(outcome);
  }

 private:
  struct Reader {
    EnvironmentState& state;
    MDB_txn* transaction;
    Reader(EnvironmentState& environment, MDB_txn* open) : state(environment), transaction(open) {}
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() {
      mdb_txn_reset(transaction);
      const std::lock_guard lock(state.readers_mutex);
      state.idle_readers.push_back(transaction);
    }
  };

  int begin_read(MDB_txn*& transaction) {
    {
      const std::lock_guard lock(readers_mutex);
      idle_readers.reserve(idle_readers.size() + 1);
      if (!idle_readers.empty()) {
        transaction = idle_readers.back();
        idle_readers.pop_back();
      }
    }
    if (transaction == nullptr) return mdb_txn_begin(env, nullptr, MDB_RDONLY, &transaction);
    const int code = mdb_txn_renew(transaction);
    if (code != 0) mdb_txn_abort(std::exchange(transaction, nullptr));
    return code;
  }
};

namespace {

using FileId = std::pair<dev_t, ino_t>;

/// LMDB must not open a file twice in one process (closing either would drop the other's locks), so opens share.
struct OpenFiles {
  std::mutex mutex;
  std::map<FileId, std::weak_ptr<EnvironmentState>> states;
};
OpenFiles& open_files() {
  static OpenFiles files;
  return files;
}

std::optional<FileId> file_id(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

}  // namespace

Result<Environment> Environment::open(const std::string& path, const Options& options) {
  OpenFiles& files = open_files();
  const std::lock_guard lock(files.mutex);
  if (const auto id = file_id(path)) {
    const auto found = files.states.find(*id);
    auto shared = found == files.states.end() ? nullptr : found->second.lock();
    if (shared && shared->usable()) return Environment(std::move(shared));
  }
  auto state = std::make_shared<EnvironmentState>(path, options);
  if (auto opened = state->open(); !opened) return std::move(opened).error();
  if (const auto id = file_id(path)) files.states[*id] = state;
  return Environment(std::move(state));
}

Result<std::optional<Blob>> Transaction::load(std::string_view key) {
  return get(static_cast<MDB_txn*>(transaction_), table_, key);
}

Result<bool> Transaction::compare_and_swap(std::string_view key, const std::optional<Blob>& expected,
                                           const Blob& desired) {
  auto current = load(key);
  if (!current) return std::move(current).error();
  if (*current != expected) return false;
  const std::string stored = stored_key(key);
  MDB_val name = value_of(stored.data(), stored.size());
  MDB_val value = value_of(desired.data(), desired.size());
  const int code = mdb_put(static_cast<MDB_txn*>(transaction_), table_, &name, &value, 0);
  if (code == MDB_MAP_FULL) throw MapFull{};
  if (code != 0) return failed(code, "write a value of", "the environment");
  return true;
}

Result<bool> Transaction::erase(std::string_view key) {
  const std::string stored = stored_key(key);
  MDB_val name = value_of(stored.data(), stored.size());
  const int code = mdb_del(static_cast<MDB_txn*>(transaction_), table_, &name, nullptr);
  if (code == MDB_NOTFOUND) return false;
  if (code == MDB_MAP_FULL) throw MapFull{};
  if (code != 0) return failed(code, "erase a value of", "the environment");
  return true;
}

Result<bool> Transaction::swap(const BlobSwap& swap) {
  if (swap.desired) return compare_and_swap(swap.key, swap.expected, *swap.desired);
  auto current = load(swap.key);
  if (!current) return std::move(current).error();
  if (*current != swap.expected) return false;
  if (!swap.expected) return true;
  return erase(swap.key);
}

Result<std::optional<Blob>> Environment::load(std::string_view key) const {
  return state_->read([&](MDB_txn* transaction) { return get(transaction, state_->table, key); });
}

Result<bool> Environment::compare_and_swap(std::string_view key, const std::optional<Blob>& expected,
                                           const Blob& desired) {
  bool swapped = false;
  auto done = transact([&](Transaction& transaction) -> Result<void> {
    auto outcome = transaction.compare_and_swap(key, expected, desired);
    if (!outcome) return std::move(outcome).error();
    swapped = *outcome;
    return {};
  });
  if (!done) return std::move(done).error();
  return swapped;
}

Result<bool> Environment::erase(std::string_view key) {
  bool erased = false;
  auto done = transact([&](Transaction& transaction) -> Result<void> {
    auto outcome = transaction.erase(key);
    if (!outcome) return std::move(outcome).error();
    erased = *outcome;
    return {};
  });
  if (!done) return std::move(done).error();
  return erased;
}

Result<std::vector<std::optional<Blob>>> Environment::load_many(std::span<const std::string> keys) const {
  return state_->read([&](MDB_txn* transaction) -> Result<std::vector<std::optional<Blob>>> {
    std::vector<std::optional<Blob>> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) {
      auto value = get(transaction, state_->table, key);
      if (!value) return std::move(value).error();
      values.push_back(*std::move(value));
    }
    return values;
  });
}

Result<std::vector<bool>> Environment::swap_many(std::span<const BlobSwap> swaps) {
  std::vector<bool> swapped;
  auto done = transact([&](Transaction& transaction) -> Result<void> {
    swapped.clear();
    for (const BlobSwap& swap : swaps) {
      auto won = transaction.swap(swap);
      if (!won) return std::move(won).error();
      swapped.push_back(*won);
    }
    return {};
  });
  if (!done) return std::move(done).error();
  return swapped;
}

Result<bool> Environment::swap_all(std::span<const BlobSwap> swaps) {
  bool all = false;
  const Error lost{ErrorCode::conflict, "seenby: expected values as they were read"};
  auto done = transact([&](Transaction& transaction) -> Result<void> {
    all = true;
    for (const BlobSwap& swap : swaps) {
      auto won = transaction.swap(swap);
      if (!won) return std::move(won).error();
      all = all && *won;
    }
    return all ? Result<void>{} : Result<void>{lost};
  });
  if (!done && all) return std::move(done).error();
  return all;
}

Result<void> Environment::transact(const std::function<Result<void>(Transaction&)>& change) {
  return state_->transact(change);
}

Result<std::vector<std::string>> Environment::keys(std::string_view prefix, std::string_view after,
                                                   std::size_t at_most) const {
  return state_->read([&](MDB_txn* transaction) -> Result<std::vector<std::string>> {
    std::vector<std::string> found;
    MDB_cursor* cursor = nullptr;
    if (const int code = mdb_cursor_open(transaction, state_->table, &cursor); code != 0) {
      return failed(code, "list the keys of", state_->path);
    }
    const std::string from = stored_key(std::max(prefix, after));
    MDB_val name = value_of(from.data(), from.size());
    int code = mdb_cursor_get(cursor, &name, nullptr, MDB_SET_RANGE);
    for (; code == 0 && found.size() < at_most; code = mdb_cursor_get(cursor, &name, nullptr, MDB_NEXT)) {
      const std::string_view stored(static_cast<const char*>(name.mv_data), name.mv_size);
      if (stored.front() != plain_key || !stored.substr(1).starts_with(prefix)) break;
      if (after.empty() || stored.substr(1) > after) found.emplace_back(stored.substr(1));
    }
    mdb_cursor_close(cursor);
    if (code != 0 && code != MDB_NOTFOUND) return failed(code, "list the keys of", state_->path);
    return found;
  });
}

Result<void> Environment::backup(const std::string& path) const {
  if (auto here = state_->usable(); !here) return here;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return failed(errno, "write a backup to", path);
  int code = 0;
  {
    const std::shared_lock lock(state_->map_mutex);
    code = mdb_env_copyfd2(state_->env, file, MDB_CP_COMPACT);
  }
  if (code == 0 && ::fsync(file) != 0) code = errno;
  ::close(file);
  if (code == 0) return {};
  ::unlink(path.c_str());
  return failed(code, "write a backup to", path);
}

Result<std::uint64_t> Environment::used_bytes() const {
  return state_->read([&](MDB_txn* transaction) -> Result<std::uint64_t> {
    MDB_stat stat{};
    MDB_envinfo info{};
    mdb_stat(transaction, state_->table, &stat);
    mdb_env_info(state_->env, &info);
    return (std::uint64_t{info.me_last_pgno} + 1) * stat.ms_psize;
  });
}

}  // namespace seenby::lmdb
