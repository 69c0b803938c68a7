#pragma once
// SPDX-License-Identifier: MIT
// Environment: one LMDB file as a key-value store with load, compare-and-swap and erase, durable and crash-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"

namespace seenby::lmdb {

/// How an Environment is opened.
struct Options {
  /// The memory map's first size. It doubles whenever it is full; the file itself is as large as what is in it.
  std::uint64_t map_bytes = std::uint64_t{64} << 20;
  /// The largest size it grows to; a write that needs more is refused with `too_large`. 0: no limit.
  std::uint64_t max_map_bytes = 0;
  /// How many read transactions may be open at once, over all processes.
  std::uint32_t max_readers = 512;
  /// Every acknowledged write is on the disk (fdatasync). Without, a crash of the machine (not of the process) may take
  /// the last writes along; the file stays consistent either way.
  bool durable = true;
};

struct EnvironmentState;

/// What a write transaction sees and changes. Valid inside the callback of `transact` only, on its thread.
class Transaction {
 public:
  /// The value, or nothing; what this transaction wrote included.
  Result<std::optional<Blob>> load(std::string_view key);
  /// Writes `desired` where the value is `expected` (nothing: there is none); false, and nothing is written, else.
  Result<bool> compare_and_swap(std::string_view key, const std::optional<Blob>& expected, const Blob& desired);
  Result<bool> erase(std::string_view key);  ///< removes the key; true when it was there
  Result<bool> swap(const BlobSwap& swap);   ///< writes or erases; false where the value is not the expected one

 private:
  friend struct EnvironmentState;
  Transaction(void* transaction, unsigned table) noexcept : transaction_(transaction), table_(table) {}
  void* transaction_;
  unsigned table_;
};

/// A file that LMDB keeps, and a lock file beside it ("PATH-lock"): a BlobBackend. Keys are any bytes; those over 400
/// bytes are known by XXH3's 128 bits.
///
/// Thread-safe, and safe between processes: readers see the last committed state and wait for nothing but, for an
/// instant, a map that is growing; writers wait for each other. A kill -9 at any moment loses no acknowledged write,
/// and the next `open` needs no repair. Copies share one environment, and so do all `open`s of one file in a process.
/// After fork() the child opens its own; the parent's refuses there with `unavailable`.
class Environment {
 public:
  /// A load reads a memory map.
  static constexpr bool is_remote = false;

  /// Opens the file, or creates it (mode 0600). Errors: io, wrong_type (no LMDB file), corrupt, unavailable.
  [[nodiscard]] static Result<Environment> open(const std::string& path, const Options& options = {});

  /// The committed value, or nothing. A read transaction; waits for no writer.
  [[nodiscard]] Result<std::optional<Blob>> load(std::string_view key) const;
  /// Writes `desired` where the value is `expected` (nothing: there is none); false, and nothing is written, else.
  Result<bool> compare_and_swap(std::string_view key, const std::optional<Blob>& expected, const Blob& desired);
  Result<bool> erase(std::string_view key);  ///< removes the key; true when it was there

  /// As BatchLoadingBackend: one read transaction.
  [[nodiscard]] Result<std::vector<std::optional<Blob>>> load_many(std::span<const std::string> keys) const;
  /// As BatchSwappingBackend: one write transaction, one sync.
  Result<std::vector<bool>> swap_many(std::span<const BlobSwap> swaps);
  /// As AtomicBackend.
  Result<bool> swap_all(std::span<const BlobSwap> swaps);

  /// Runs `change` in one write transaction: what it wrote is committed together, with one sync, when it returns no
  /// error, and none of it otherwise. Where the map must grow, `change` runs again from the start. It must use its
  /// argument only, not the environment. Errors: change's, io (a full disk: nothing was written), too_large.
  Result<void> transact(const std::function<Result<void>(Transaction&)>& change);

  /// Every key that begins with `prefix`, in the order of their bytes, `at_most` of them from `after` on (exclusive).
  /// Keys over 400 bytes are not listed.
  [[nodiscard]] Result<std::vector<std::string>> keys(std::string_view prefix, std::string_view after,
                                                      std::size_t at_most) const;

  /// A consistent, compacted copy of the last committed state, while readers and writers go on. `path` must not exist.
  /// Errors: io; then no file is left behind.
  Result<void> backup(const std::string& path) const;

  /// Bytes of the file that are in use, free pages included.
  [[nodiscard]] Result<std::uint64_t> used_bytes() const;

 private:
  explicit Environment(std::shared_ptr<EnvironmentState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<EnvironmentState> state_;
};

static_assert(BlobBackend<Environment> && BatchLoadingBackend<Environment>);
static_assert(BatchSwappingBackend<Environment> && AtomicBackend<Environment>);

}  // namespace seenby::lmdb
